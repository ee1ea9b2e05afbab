//! Base64 with the alphabet that is safe in addresses and file names.

use tensorfleet_core::{Result, Status, ensure, memory};

use tensorfleet_kernel::Work;
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::same_as_input;

use super::each_kernel;

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("EncodeBase64", "input: string -> output: string")
        .work(Work::Inputs)
        .not_differentiable()
        .attrs("pad: bool = false")
        .shape(same_as_input)
        .kernel(encode_base64),
    Op::new("DecodeBase64", "input: string -> output: string")
        .work(Work::Inputs)
        .not_differentiable()
        .shape(same_as_input)
        .kernel(decode_base64),
];

fn encode_base64(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let pad: bool = node.attr("pad")?;
    each_kernel(move |text| {
        memory::check_fits(text.len().saturating_mul(2))?;
        Ok(encode(text, pad).into())
    })
}

fn decode_base64(_: &NodeSpec<'_>) -> Result<KernelBox> {
    each_kernel(|text| {
        memory::check_fits(text.len())?;
        Ok(decode(text)?.into())
    })
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Encodes, with `=` up to a multiple of four if `pad`.
pub(super) fn encode(bytes: &[u8], pad: bool) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits =
            group.iter().enumerate().fold(0u32, |bits, (i, &byte)| bits | (byte as u32) << (16 - 8 * i));
        let digit = |place: usize| ALPHABET[(bits >> (18 - 6 * place)) as usize & 63];
        text.extend((0..=group.len()).map(digit));
        if pad {
            text.resize(text.len().next_multiple_of(4), b'=');
        }
    }
    text
}

/// Decodes text with or without padding.
pub(super) fn decode(text: &[u8]) -> Result<Vec<u8>> {
    let padding = text.iter().rev().take(2).take_while(|&&byte| byte == b'=').count();
    let digits = &text[..text.len() - if text.len().is_multiple_of(4) { padding } else { 0 }];
    ensure!(digits.len() % 4 != 1, InvalidArgument, "Base64 string length cannot be 1 modulo 4.");
    let mut bytes = Vec::with_capacity(digits.len() / 4 * 3 + 2);
    for group in digits.chunks(4) {
        let mut bits = 0u32;
        for (place, &byte) in group.iter().enumerate() {
            bits |= digit_value(byte)? << (18 - 6 * place);
        }
        bytes.extend_from_slice(&bits.to_be_bytes()[1..group.len()]);
    }
    Ok(bytes)
}

fn digit_value(byte: u8) -> Result<u32> {
    Ok(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'-' => 62,
        b'_' => 63,
        _ => return Err(Status::invalid_argument("Invalid character found in base64.")),
    } as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_alphabet_is_the_one_for_addresses() {
        assert_eq!(encode(b"\xff\xfe\xfd", false), b"__79");
        assert_eq!(encode(b"a", false), b"YQ");
        assert_eq!(encode(b"a", true), b"YQ==");
        assert_eq!(decode(b"YWI=").unwrap(), b"ab");
        assert_eq!(decode(b"YR").unwrap(), b"a");
        for bad in [&b"Y"[..], b"YQ=a", b"+//9", b"YQ=", b"===="] {
            assert!(decode(bad).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn bytes_come_back(bytes: Vec<u8>, pad: bool) {
            prop_assert_eq!(decode(&encode(&bytes, pad)).unwrap(), bytes);
        }

        #[test]
        fn random_text_never_panics(text: Vec<u8>) {
            let _ = decode(&text);
        }
    }
}
