//! Finds, in the first bytes of a message, where its big payload will begin.
//!
//! A received message is stored in one piece, and a tensor is to be used where it lies, so its contents must be aligned
//! in memory. Where they begin depends on the fields before them, and is known before the bulk of the message has
//! arrived: fields carry their length in front. The scan follows a path of field numbers (`RecvTensorResponse`: tensor,
//! content) and reads nothing else.

use crate::proto_reader::{ProtoReader, Value};

/// What the first bytes tell.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Scan {
    /// The payload begins at this offset of the message.
    Begins(usize),
    /// There is no payload to align.
    Nothing,
    /// More bytes are needed to tell.
    MoreBytes,
}

/// Looks for the field at `path` in a message of `message_len` bytes of which `head` has arrived.
///
/// If the field occurs several times, the largest of those seen counts, and the search ends at the first one that
/// reaches past the head: what follows it cannot be seen.
pub(crate) fn find_payload(head: &[u8], message_len: usize, path: &[u32]) -> Scan {
    if path.is_empty() || message_len == 0 {
        return Scan::Nothing;
    }
    let mut largest: Option<(usize, usize)> = None;
    let mut reader = ProtoReader::new(head);
    let mut depth = 0;
    // Ends of the messages entered, outermost first; the path bounds their number.
    let mut ends = vec![message_len];
    loop {
        while depth > 0 && ends.last().is_some_and(|&end| reader.position() >= end) {
            ends.pop();
            depth -= 1;
        }
        if reader.position() >= message_len {
            return largest.map_or(Scan::Nothing, |(offset, _)| Scan::Begins(offset));
        }
        let Some(field) = reader.field() else {
            // Either cut short or malformed; the decoder will tell. A field head takes at most 20 bytes.
            let is_cut = head.len() < message_len && head.len() - reader.position().min(head.len()) < 20;
            return if is_cut { Scan::MoreBytes } else { Scan::Nothing };
        };
        let Value::Delimited(len) = field.value else { continue };
        let begin = reader.position();
        let Some(end) = begin.checked_add(len).filter(|end| ends.last().is_none_or(|last| end <= last))
        else {
            return Scan::Nothing;
        };
        if path.get(depth) == Some(&field.number) {
            if depth + 1 < path.len() {
                ends.push(end);
                depth += 1;
                continue;
            }
            if largest.is_none_or(|(_, largest)| len > largest) {
                largest = Some((begin, len));
            }
            if end > head.len() {
                return largest.map_or(Scan::Nothing, |(offset, _)| Scan::Begins(offset));
            }
        }
        if !reader.skip(len) {
            return if head.len() < message_len { Scan::MoreBytes } else { Scan::Nothing };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensors;
    use tensorfleet_core::Tensor;
    use tensorfleet_proto::tensorflow::RunStepRequest;

    #[test]
    fn the_payload_is_found_as_soon_as_its_length_is_there() {
        let tensor = Tensor::from_slice(&vec![9u8; 5000], &[5000]).unwrap();
        let bytes = tensors::recv_tensor_response(&Some(tensor), 12345).to_bytes();
        let begin = bytes.len() - 5000;
        for head in 0..bytes.len() {
            let expected = if head < begin { Scan::MoreBytes } else { Scan::Begins(begin) };
            assert_eq!(find_payload(&bytes[..head], bytes.len(), &[1, 4]), expected, "{head}");
        }
        assert_eq!(find_payload(&bytes, bytes.len(), &[1, 7]), Scan::Nothing);
        assert_eq!(find_payload(&bytes, bytes.len(), &[]), Scan::Nothing);
    }

    #[test]
    fn of_several_payloads_the_largest_counts() {
        let small = Tensor::from_slice(&[1u8; 10], &[10]).unwrap();
        let big = Tensor::from_slice(&vec![9u8; 5000], &[5000]).unwrap();
        let rest = RunStepRequest { session_handle: "abc".into(), ..Default::default() };
        let feeds = [("a", &small), ("b", &big), ("c", &small)];
        let bytes = tensors::with_named_tensors(2, &feeds, &rest).to_bytes();
        let begin = bytes.windows(4).position(|window| window == [9, 9, 9, 9]).unwrap();
        for head in [begin, begin + 100, bytes.len() - 5, bytes.len()] {
            assert_eq!(find_payload(&bytes[..head], bytes.len(), &[2, 2, 4]), Scan::Begins(begin));
        }
    }

    #[test]
    fn malformed_bytes_have_nothing_to_align() {
        assert_eq!(find_payload(&[0xff; 30], 30, &[1, 4]), Scan::Nothing);
        assert_eq!(find_payload(&[0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f], 6, &[1, 4]), Scan::Nothing);
        assert_eq!(find_payload(&[0x0a, 50, 0x22, 60], 100, &[1, 4]), Scan::Nothing);
    }
}
