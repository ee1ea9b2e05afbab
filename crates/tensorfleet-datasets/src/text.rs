//! Text to learn from: four novels embedded in the program, and files of one's own.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use tensorfleet_core::{Code, Result, Status, ensure};

/// `Emma`, `Persuasion`, `Pride and Prejudice`, and `Sense and Sensibility`; see `data/README.md`.
static NOVELS: &[u8] = include_bytes!("../../../data/novels/austen.txt.gz");

/// More than any text that these programs learn from in a reasonable time; bounds what a damaged or hostile file can unpack to.
const MAX_BYTES: u64 = 1 << 30;

/// The embedded novels: about half a million words.
///
/// ```
/// let novels = tensorfleet_datasets::text::novels()?;
/// assert!(novels.contains("It is a truth universally acknowledged"));
/// # Ok::<(), tensorfleet_core::Status>(())
/// ```
pub fn novels() -> Result<String> {
    read_from(NOVELS, "the embedded novels", MAX_BYTES)
}

/// The text of a file, plain or compressed with gzip. Bytes that are not UTF-8 become replacement characters.
pub fn read(path: &Path) -> Result<String> {
    let name = path.display().to_string();
    let file = File::open(path).map_err(|error| unreadable(&error, &name))?;
    read_from(BufReader::new(file), &name, MAX_BYTES)
}

fn read_from(mut source: impl BufRead, name: &str, max_bytes: u64) -> Result<String> {
    let is_gzip = source.fill_buf().map_err(|error| unreadable(&error, name))?.starts_with(&[0x1f, 0x8b]);
    let bytes = if is_gzip {
        read_all(MultiGzDecoder::new(source), name, max_bytes)?
    } else {
        read_all(source, name, max_bytes)?
    };
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

fn read_all(source: impl Read, name: &str, max_bytes: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(max_bytes + 1).read_to_end(&mut bytes).map_err(|error| unreadable(&error, name))?;
    ensure!(
        bytes.len() as u64 <= max_bytes,
        InvalidArgument,
        "{name} holds more than {max_bytes} bytes of text: give a part of it"
    );
    Ok(bytes)
}

fn unreadable(error: &std::io::Error, name: &str) -> Status {
    let code = match error.kind() {
        std::io::ErrorKind::NotFound => Code::NotFound,
        std::io::ErrorKind::PermissionDenied => Code::PermissionDenied,
        _ => Code::DataLoss,
    };
    Status::new(code, format!("{name} cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn all_four_novels_are_there() {
        let novels = novels().unwrap();
        for words in ["EMMA", "Persuasion", "PRIDE AND PREJUDICE", "SENSE AND SENSIBILITY"] {
            assert!(novels.contains(words), "{words}");
        }
        let words = novels.split_whitespace().count();
        assert!((450_000..550_000).contains(&words), "{words}");
    }

    #[test]
    fn files_are_plain_or_compressed_and_may_hold_any_bytes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("text");
        for bytes in [b"two words".to_vec(), gzip(b"two words")] {
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(read(&path).unwrap(), "two words");
        }
        std::fs::write(&path, b"two \xff words").unwrap();
        assert_eq!(read(&path).unwrap(), "two \u{fffd} words");
        std::fs::write(&path, b"").unwrap();
        assert_eq!(read(&path).unwrap(), "");
    }

    #[test]
    fn damaged_missing_and_boundless_files_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("text");
        assert_eq!(read(&path).unwrap_err().code(), Code::NotFound);
        let whole = gzip(b"two words");
        std::fs::write(&path, &whole[..whole.len() - 6]).unwrap();
        assert_eq!(read(&path).unwrap_err().code(), Code::DataLoss);
        let status = read_from(&gzip(&[b'x'; 1001])[..], "a bomb", 1000).unwrap_err();
        assert!(status.text().contains("more than 1000 bytes"), "{}", status.text());
    }
}
