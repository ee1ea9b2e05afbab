//! Keys of partitioned tensors: name and slice in an encoding whose byte order is the order of the values.
//!
//! TensorFlow calls it OrderedCode; bundles use it for nothing else.

use crate::tensor_slice::TensorSlice;

/// The key under which one slice of a tensor is stored.
pub(crate) fn slice_key(name: &str, slice: &TensorSlice) -> Vec<u8> {
    let mut key = Vec::with_capacity(name.len() + 8 + slice.rank() * 4);
    put_unsigned(&mut key, 0);
    put_string(&mut key, name.as_bytes());
    put_unsigned(&mut key, slice.rank() as u64);
    for extent in slice.extents() {
        let (start, len) = extent.map_or((0, -1), |extent| (extent.start as i64, extent.len as i64));
        put_signed(&mut key, start);
        put_signed(&mut key, len);
    }
    key
}

/// The number of significant bytes, then these bytes, high first.
fn put_unsigned(out: &mut Vec<u8>, value: u64) {
    let bytes = value.to_be_bytes();
    let skipped = value.leading_zeros() as usize / 8;
    out.push((bytes.len() - skipped) as u8);
    out.extend_from_slice(&bytes[skipped..]);
}

/// The bytes with 00 and ff escaped, then a terminator that sorts before every continuation.
fn put_string(out: &mut Vec<u8>, text: &[u8]) {
    for &byte in text {
        match byte {
            0x00 => out.extend_from_slice(&[0x00, 0xff]),
            0xff => out.extend_from_slice(&[0xff, 0x00]),
            _ => out.push(byte),
        }
    }
    out.extend_from_slice(&[0x00, 0x01]);
}

/// Two's complement in as few bytes as fit, with the length in the leading bits: more ones for longer positive
/// numbers, more zeros for longer negative ones.
fn put_signed(out: &mut Vec<u8>, value: i64) {
    const HEADERS: [[u8; 2]; 10] = [
        [0x80, 0],
        [0xc0, 0],
        [0xe0, 0],
        [0xf0, 0],
        [0xf8, 0],
        [0xfc, 0],
        [0xfe, 0],
        [0xff, 0],
        [0xff, 0x80],
        [0xff, 0xc0],
    ];
    let magnitude = if value < 0 { !value } else { value } as u64;
    // A byte carries seven bits of the number, of which one is its sign.
    let len = (64 - magnitude.leading_zeros() as usize + 1).div_ceil(7).max(1);
    let wide = (value as i128).to_be_bytes();
    let start = out.len();
    out.extend_from_slice(&wide[wide.len() - len..]);
    for (byte, header) in out[start..].iter_mut().zip(HEADERS[len - 1]) {
        *byte ^= header;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signed(value: i64) -> Vec<u8> {
        let mut out = Vec::new();
        put_signed(&mut out, value);
        out
    }

    #[test]
    fn signed_numbers_are_encoded_as_tensorflow_does() {
        let cases: &[(i64, &[u8])] = &[
            (0, &[0x80]),
            (1, &[0x81]),
            (-1, &[0x7f]),
            (63, &[0xbf]),
            (64, &[0xc0, 0x40]),
            (-64, &[0x40]),
            (-65, &[0x3f, 0xbf]),
            (100, &[0xc0, 0x64]),
            (8191, &[0xdf, 0xff]),
            (8192, &[0xe0, 0x20, 0x00]),
            (-8193, &[0x1f, 0xdf, 0xff]),
            (1 << 20, &[0xf0, 0x10, 0, 0]),
            ((1 << 55) - 1, &[0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
            (1 << 55, &[0xff, 0x80, 0x80, 0, 0, 0, 0, 0, 0]),
            (i64::MAX, &[0xff, 0xc0, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        ];
        for (value, bytes) in cases {
            assert_eq!(signed(*value), *bytes, "{value}");
        }
    }

    #[test]
    fn byte_order_is_number_order() {
        let mut values = vec![i64::MIN, i64::MAX, 0, -1, 1];
        for shift in 0..63 {
            values.extend([1 << shift, (1 << shift) - 1, -(1 << shift), -(1 << shift) - 1]);
        }
        values.sort();
        assert!(values.windows(2).all(|pair| signed(pair[0]) <= signed(pair[1])));
    }

    #[test]
    fn other_parts_are_encoded_as_tensorflow_does() {
        let mut out = Vec::new();
        put_unsigned(&mut out, 300);
        put_string(&mut out, b"a\0\xff");
        assert_eq!(out, [2, 1, 0x2c, b'a', 0, 0xff, 0xff, 0, 0, 1]);
        let slice = TensorSlice::parse("2,1:0,2").unwrap();
        assert_eq!(slice_key("p", &slice), [0, b'p', 0, 1, 1, 2, 0x82, 0x81, 0x80, 0x82]);
    }
}
