//! Steps through the fields of an encoded protobuf message without building anything.

/// A position in an encoded message.
pub(crate) struct ProtoReader<'a> {
    bytes: &'a [u8],
    position: usize,
}

/// A field: its number, and what it carries.
pub(crate) struct Field {
    pub(crate) number: u32,
    pub(crate) value: Value,
}

/// What a field carries. A reader that wants one kind must not take another for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Varint(u64),
    /// Four or eight bytes, which are skipped: no field that is read here has them.
    Fixed,
    /// The length of what follows at the reader's position.
    Delimited(usize),
}

impl<'a> ProtoReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> ProtoReader<'a> {
        ProtoReader { bytes, position: 0 }
    }

    /// The offset of what comes next.
    pub(crate) fn position(&self) -> usize {
        self.position
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.position >= self.bytes.len()
    }

    /// The next field, or `None` if the bytes end before it does or are no field; then the position stays.
    pub(crate) fn field(&mut self) -> Option<Field> {
        let mut at = self.position;
        let key = u32::try_from(varint(self.bytes, &mut at)?).ok()?;
        let (number, wire_type) = (key >> 3, key & 7);
        if number == 0 {
            return None;
        }
        let value = match wire_type {
            0 => Value::Varint(varint(self.bytes, &mut at)?),
            2 => Value::Delimited(usize::try_from(varint(self.bytes, &mut at)?).ok()?),
            1 | 5 => {
                let size = if wire_type == 1 { 8 } else { 4 };
                at = at.checked_add(size).filter(|&end| end <= self.bytes.len())?;
                Value::Fixed
            }
            // Groups are not used by any message here.
            _ => return None,
        };
        self.position = at;
        Some(Field { number, value })
    }

    /// Passes over `len` bytes; whether they are there.
    pub(crate) fn skip(&mut self, len: usize) -> bool {
        match self.position.checked_add(len) {
            Some(end) if end <= self.bytes.len() => {
                self.position = end;
                true
            }
            _ => false,
        }
    }

    /// The next `len` bytes.
    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let begin = self.position;
        self.skip(len).then(|| &self.bytes[begin..begin + len])
    }
}

fn varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0u64;
    for index in 0..10 {
        let byte = *bytes.get(*at + index)?;
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            // The tenth byte has room for one bit.
            if index == 9 && byte > 1 {
                return None;
            }
            *at += index + 1;
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_every_wire_type_are_passed() {
        let bytes = [0x08, 0x96, 1, 0x11, 1, 2, 3, 4, 5, 6, 7, 8, 0x1a, 2, 9, 9, 0x25, 1, 2, 3, 4];
        let mut reader = ProtoReader::new(&bytes);
        let mut next = || reader.field().map(|field| (field.number, field.value));
        assert_eq!(next(), Some((1, Value::Varint(150))));
        assert_eq!(next(), Some((2, Value::Fixed)));
        assert_eq!(next(), Some((3, Value::Delimited(2))));
        assert_eq!(reader.take(2), Some(&[9u8, 9][..]));
        assert_eq!(reader.field().unwrap().number, 4);
        assert!(reader.is_at_end() && reader.field().is_none());
    }

    #[test]
    fn overlong_numbers_are_refused() {
        assert!(ProtoReader::new(&[0xff; 20]).field().is_none());
        let too_big = [0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2];
        assert!(ProtoReader::new(&too_big).field().is_none());
    }
}
