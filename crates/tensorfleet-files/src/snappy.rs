//! Decoding Snappy blocks (the raw format, without frames), which tables of other writers may hold.

use tensorfleet_core::{Result, Status, bail, ensure};

use crate::varint;

/// The most bytes one byte of input can stand for: a three-byte copy makes 64 bytes.
const MAX_EXPANSION: usize = 22;

/// The bytes that `input` stands for.
pub(crate) fn decode(mut input: &[u8]) -> Result<Vec<u8>> {
    let Some(len) = varint::take_len(&mut input) else { return Err(corrupt("length")) };
    ensure!(
        len <= input.len().saturating_mul(MAX_EXPANSION),
        DataLoss,
        "a Snappy block of {} bytes cannot stand for {len} bytes",
        input.len()
    );
    let mut out = Vec::with_capacity(len);
    while let Some((&tag, rest)) = input.split_first() {
        input = rest;
        if tag & 3 == 0 {
            let literal = take_literal(tag, &mut input)?;
            out.extend_from_slice(literal);
        } else {
            let (offset, count) = take_copy(tag, &mut input)?;
            ensure!(offset >= 1 && offset <= out.len(), DataLoss, "a Snappy copy starts before the block");
            // Source and target may overlap: the copy then repeats itself.
            for index in out.len() - offset..out.len() - offset + count {
                let byte = out[index];
                out.push(byte);
            }
        }
        if out.len() > len {
            bail!(DataLoss, "a Snappy block is longer than it says");
        }
    }
    ensure!(out.len() == len, DataLoss, "a Snappy block is shorter than it says");
    Ok(out)
}

fn take_literal<'a>(tag: u8, input: &mut &'a [u8]) -> Result<&'a [u8]> {
    let short = (tag >> 2) as usize;
    // Above 59 the tag says how many bytes hold the length.
    let len = if short < 60 { short + 1 } else { little_endian(take(input, short - 59)?) + 1 };
    take(input, len)
}

fn take_copy(tag: u8, input: &mut &[u8]) -> Result<(usize, usize)> {
    Ok(match tag & 3 {
        1 => {
            let low = take(input, 1)?[0] as usize;
            (((tag >> 5) as usize) << 8 | low, ((tag >> 2) & 7) as usize + 4)
        }
        kind => {
            let offset = little_endian(take(input, if kind == 2 { 2 } else { 4 })?);
            (offset, (tag >> 2) as usize + 1)
        }
    })
}

fn take<'a>(input: &mut &'a [u8], len: usize) -> Result<&'a [u8]> {
    let (taken, rest) = input.split_at_checked(len).ok_or_else(|| corrupt("element"))?;
    *input = rest;
    Ok(taken)
}

fn little_endian(bytes: &[u8]) -> usize {
    bytes.iter().rev().fold(0, |value, &byte| value << 8 | byte as usize)
}

#[cold]
fn corrupt(what: &str) -> Status {
    Status::data_loss(format!("a Snappy block's {what} is cut short"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn literals_and_copies_are_expanded() {
        assert_eq!(decode(&[0]).unwrap(), b"");
        assert_eq!(decode(b"\x03\x08abc").unwrap(), b"abc");
        // "ab", then a copy of 8 bytes from 2 back, which repeats itself.
        assert_eq!(decode(b"\x0a\x04ab\x11\x02").unwrap(), b"ababababab");
        assert_eq!(decode(b"\x06\x04ab\x0e\x02\x00").unwrap(), b"ababab");
    }

    #[test]
    fn lies_about_lengths_and_offsets_are_data_loss() {
        for bad in
            [&b""[..], b"\xff\xff\xff\xff\x0f\x00a", b"\x03\x08ab", b"\x04\x04ab\x01\x03", b"\x02\x08abc"]
        {
            assert_eq!(decode(bad).unwrap_err().code(), tensorfleet_core::Code::DataLoss, "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes: Vec<u8>) {
            let _ = decode(&bytes);
        }
    }
}
