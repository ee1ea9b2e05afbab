//! CRC-32C in the masked form that TensorFlow stores.
//!
//! Masking keeps a checksum of bytes that hold checksums themselves from becoming trivial.

const MASK_DELTA: u32 = 0xa282_ead8;

/// The stored form of a checksum.
pub fn mask(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(MASK_DELTA)
}

/// The checksum behind a stored form.
pub fn unmask(masked: u32) -> u32 {
    masked.wrapping_sub(MASK_DELTA).rotate_left(15)
}

/// The checksum of `bytes`.
pub fn crc(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// The checksum of what `crc` covers, followed by `bytes`.
pub fn extend(crc: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc, bytes)
}

/// The checksum of two pieces of known checksums, the second of `second_len` bytes.
pub fn join(first: u32, second: u32, second_len: usize) -> u32 {
    crc32c::crc32c_combine(first, second, second_len)
}

/// The stored form of the checksum of `bytes`.
pub fn masked_crc(bytes: &[u8]) -> u32 {
    mask(crc(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_of_the_polynomial_and_its_masked_form() {
        assert_eq!(crc(b"123456789"), 0xe306_9283);
        assert_eq!(masked_crc(b"123456789"), 0xc78a_b0e5);
        assert_eq!(mask(0), MASK_DELTA);
        assert_eq!(extend(crc(b"12345"), b"6789"), crc(b"123456789"));
        assert_eq!(join(crc(b"12345"), crc(b"6789"), 4), crc(b"123456789"));
        for crc in [0, 1, 0xe306_9283, u32::MAX] {
            assert_eq!(unmask(mask(crc)), crc);
        }
    }
}
