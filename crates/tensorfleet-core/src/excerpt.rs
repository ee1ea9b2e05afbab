//! [`excerpt`]: what an error repeats of its input.
//!
//! Inputs come from strangers and may have megabytes; the sentence about what is wrong with them must not.

/// Characters of an input that an error repeats. The beginning of a path, name, pattern or number tells which one is meant.
const MAX_CHARS: usize = 200;

/// The text for an error, or its beginning and how long it is. What is not UTF-8 is replaced.
///
/// ```
/// use tensorfleet_core::excerpt;
/// assert_eq!(excerpt("a+"), "a+");
/// assert!(excerpt("x".repeat(5000)).ends_with("xxx… (5000 bytes)"));
/// ```
#[cold]
pub fn excerpt(text: impl AsRef<[u8]>) -> String {
    /// No character has more than four bytes, so the rest need not be decoded; one more tells that there is a rest.
    const MAX_BYTES: usize = (MAX_CHARS + 1) * 4;
    let bytes = text.as_ref();
    let beginning = String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_BYTES)]);
    match beginning.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}… ({} bytes)", &beginning[..end], bytes.len()),
        None => beginning.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_texts_stay_and_long_ones_are_cut_between_characters() {
        assert_eq!(excerpt(""), "");
        assert_eq!(excerpt("é".repeat(MAX_CHARS)), "é".repeat(MAX_CHARS));
        let cut = excerpt("é".repeat(MAX_CHARS + 1));
        assert_eq!(cut, format!("{}… (402 bytes)", "é".repeat(MAX_CHARS)));
        assert_eq!(excerpt(b"a\xff"), "a\u{fffd}");
        for byte in [b'x', 0xff, 0xe2] {
            assert!(excerpt(vec![byte; 1 << 20]).len() < 1000);
        }
        assert!(excerpt("😀".repeat(1000)).ends_with("😀… (4000 bytes)"));
    }
}
