//! [`check_decoded_size`]: whether a message will fit into memory once it is decoded.
//!
//! Two bytes of a message can be a node of a graph, or a string of a list, which take a hundred times as much when they are
//! decoded; and what decodes cannot be told to stop. So the fields of a message are counted first. Nothing is known here of what
//! a message means: what reads as a message inside another counts as one, which is right for all that matters and for some
//! strings too much.

use tensorfleet_core::{Result, memory};

/// Smaller messages are decoded without a look.
const LOOK_FROM: usize = 64 << 10;
/// Messages are nested at most so deeply; the decoder refuses others.
const MAX_DEPTH: usize = 100;
/// What a field takes that has hardly any bytes: an empty node of a graph, with the room its list keeps free.
const TINY_FIELD: usize = 384;
const TINY_BYTES: usize = 8;
/// What another field takes besides its bytes.
const FIELD: usize = 96;
/// What a number takes.
const NUMBER: usize = 16;

/// Refuses a message that would take more than there is.
pub(crate) fn check_decoded_size(message: &[u8]) -> Result<()> {
    if message.len() < LOOK_FROM {
        return Ok(());
    }
    memory::check_fits(decoded_bytes(message)).map_err(|status| status.context("decoding a message"))
}

fn decoded_bytes(message: &[u8]) -> usize {
    let mut bytes = 0usize;
    // What is left of each message that the scan is inside of.
    let mut inside = vec![message];
    while let Some(rest) = inside.last_mut() {
        let Some(field) = next_field(rest) else {
            inside.pop();
            continue;
        };
        bytes = bytes.saturating_add(match field {
            Field::Number => NUMBER,
            Field::Bytes(content) if content.len() < TINY_BYTES => TINY_FIELD,
            Field::Bytes(_) => FIELD,
        });
        if let Field::Bytes(content) = field
            && content.len() > 1
            && inside.len() < MAX_DEPTH
            && is_message(content)
        {
            inside.push(content);
        }
    }
    bytes
}

enum Field<'a> {
    Number,
    Bytes(&'a [u8]),
}

/// Whether all of it reads as fields.
fn is_message(mut content: &[u8]) -> bool {
    while !content.is_empty() {
        if next_field(&mut content).is_none() {
            return false;
        }
    }
    true
}

/// Takes the next field off; `None` at the end, or where there is none.
fn next_field<'a>(rest: &mut &'a [u8]) -> Option<Field<'a>> {
    let tag = varint(rest)?;
    if tag >> 3 == 0 {
        return None;
    }
    match tag & 7 {
        0 => varint(rest).map(|_| Field::Number),
        1 => take(rest, 8).map(|_| Field::Number),
        2 => {
            let len = usize::try_from(varint(rest)?).ok()?;
            take(rest, len).map(Field::Bytes)
        }
        5 => take(rest, 4).map(|_| Field::Number),
        _ => None,
    }
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(len)?;
    *rest = left;
    Some(taken)
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for (place, &byte) in rest.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * place);
        if byte < 0x80 {
            *rest = &rest[place + 1..];
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensorfleet_proto::Message;
    use tensorfleet_proto::tensorflow::{GraphDef, NodeDef, TensorProto};

    #[test]
    fn empty_nodes_count_for_what_they_become() {
        let graph = GraphDef { node: vec![NodeDef::default(); 100_000], ..Default::default() };
        let message = graph.encode_to_vec();
        assert!(message.len() <= 200_010);
        assert!(decoded_bytes(&message) >= 100_000 * size_of::<NodeDef>());
        assert!(check_decoded_size(&message).is_ok(), "a hundred thousand are not too many");
    }

    #[test]
    fn content_of_tensors_counts_once() {
        for byte in [0u8, 7, 0x41, 0xff] {
            let tensor = TensorProto { tensor_content: vec![byte; 1 << 20].into(), ..Default::default() };
            assert!(decoded_bytes(&tensor.encode_to_vec()) < 4 << 20, "{byte}");
        }
    }

    #[test]
    fn anything_can_be_looked_at() {
        let mut nested = Vec::new();
        for _ in 0..5000 {
            let mut outer = vec![0x0a];
            let mut len = nested.len();
            while len >= 0x80 {
                outer.push(len as u8 | 0x80);
                len >>= 7;
            }
            outer.push(len as u8);
            outer.extend_from_slice(&nested);
            nested = outer;
        }
        assert!(decoded_bytes(&nested) > 0);
        for byte in 0..=255u8 {
            decoded_bytes(&[byte; 100]);
        }
    }
}
