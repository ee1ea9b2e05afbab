//! Damaged and hostile files.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;

use super::*;

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn images(count: u32) -> Vec<u8> {
    [words(&[0x803, count, 28, 28]), vec![7; count as usize * 784]].concat()
}

fn labels(labels: &[u8]) -> Vec<u8> {
    [words(&[0x801, labels.len() as u32]), labels.to_vec()].concat()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// The bytes are refused with this code and one sentence that names the file and has these words.
#[track_caller]
fn assert_refused(bytes: &[u8], kind: Kind, code: Code, words: &str) {
    let status = read(bytes, kind, "digits.gz").unwrap_err();
    assert_eq!(status.code(), code, "{status}");
    assert!(status.text().starts_with("digits.gz ") && status.text().contains(words), "{status}");
    assert!(!status.text().contains('\n'), "{status}");
}

#[test]
fn plain_and_gzipped_files_are_told_apart_by_their_content() {
    for bytes in [images(3), gzip(&images(3)), [gzip(&images(3)[..100]), gzip(&images(3)[100..])].concat()] {
        assert_eq!(read(&bytes[..], Kind::Images, "x").unwrap(), vec![7; 3 * 784]);
    }
    for bytes in [labels(&[0, 9, 5]), gzip(&labels(&[0, 9, 5]))] {
        assert_eq!(read(&bytes[..], Kind::Labels, "x").unwrap(), vec![0, 9, 5]);
    }
    assert!(read(&labels(&[])[..], Kind::Labels, "x").unwrap().is_empty());
}

#[test]
fn what_is_not_idx_is_refused() {
    let web_page = b"<!DOCTYPE html><title>Not found</title>";
    assert_refused(
        web_page,
        Kind::Images,
        Code::InvalidArgument,
        "begins with 0x3c21444f instead of 0x00000803",
    );
    assert_refused(
        &labels(&[1; 30]),
        Kind::Images,
        Code::InvalidArgument,
        "0x00000801 instead of 0x00000803",
    );
    assert_refused(&gzip(&images(1)), Kind::Labels, Code::InvalidArgument, "not an idx file of labels");
    // The type is that of 32-bit floats.
    assert_refused(&words(&[0xd03, 1, 28, 28]), Kind::Images, Code::InvalidArgument, "0x00000d03");
}

#[test]
fn truncated_files_are_data_loss() {
    assert_refused(&[], Kind::Images, Code::DataLoss, "has 16 bytes and there are 0");
    assert_refused(&images(2)[..9], Kind::Images, Code::DataLoss, "has 16 bytes and there are 9");
    assert_refused(&labels(&[1])[..6], Kind::Labels, Code::DataLoss, "has 8 bytes and there are 6");
    let whole = images(2);
    let cut = &whole[..whole.len() - 1];
    assert_refused(
        cut,
        Kind::Images,
        Code::DataLoss,
        "2 images need 1568 bytes after the header and there are 1567",
    );
    assert_refused(&gzip(cut), Kind::Images, Code::DataLoss, "there are 1567");
    let zipped = gzip(&whole);
    for len in 2..zipped.len() {
        assert_refused(&zipped[..len], Kind::Images, Code::DataLoss, "truncated");
    }
}

#[test]
fn bytes_after_the_end_are_data_loss() {
    assert_refused(
        &[images(1), vec![0]].concat(),
        Kind::Images,
        Code::DataLoss,
        "goes on after the 784 bytes",
    );
    assert_refused(&gzip(&[labels(&[1]), vec![0]].concat()), Kind::Labels, Code::DataLoss, "goes on after");
    assert_refused(
        &[gzip(&labels(&[1])), b"rubbish that is no gzip header".to_vec()].concat(),
        Kind::Labels,
        Code::DataLoss,
        "corrupt",
    );
}

#[test]
fn damaged_gzip_data_are_found_by_their_check_sum() {
    // Noise does not compress, so that a changed byte is a changed byte of the content and only the sum shows it.
    let mut noise = 1u32;
    let mut next = || {
        noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (noise >> 24) as u8
    };
    let file = [words(&[0x803, 2, 28, 28]), (0..2 * 784).map(|_| next()).collect()].concat();
    let mut zipped = gzip(&file);
    let middle = zipped.len() / 2;
    zipped[middle] ^= 1;
    assert_refused(&zipped, Kind::Images, Code::DataLoss, "is corrupt: ");
    assert_refused(&zipped, Kind::Images, Code::DataLoss, "fetch the file anew");
}

#[test]
fn other_sizes_and_labels_are_refused() {
    let small = [words(&[0x803, 1, 20, 20]), vec![0; 400]].concat();
    assert_refused(&small, Kind::Images, Code::InvalidArgument, "images of 20 × 20 pixels");
    assert_refused(&labels(&[3, 9, 10]), Kind::Labels, Code::InvalidArgument, "the label 10 at index 2");
}

#[test]
fn a_header_cannot_ask_for_memory() {
    let hostile = words(&[0x803, u32::MAX, u32::MAX, u32::MAX]);
    assert_refused(&hostile, Kind::Images, Code::InvalidArgument, "4294967295 × 4294967295");
    assert_refused(
        &words(&[0x803, u32::MAX, 28, 28]),
        Kind::Images,
        Code::InvalidArgument,
        "claims to hold 4294967295",
    );
    assert_refused(&words(&[0x801, u32::MAX]), Kind::Labels, Code::InvalidArgument, "the header is damaged");
    // The largest that is believed allocates what is there: nothing.
    assert_refused(&words(&[0x803, MAX_EXAMPLES, 28, 28]), Kind::Images, Code::DataLoss, "there are 0");
}

/// Bytes near those of a real file: cut, changed in places, extended, zipped or not.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let files = prop_oneof![
        (0..3u32).prop_map(images),
        prop::collection::vec(0..11u8, 0..9).prop_map(|l| labels(&l))
    ];
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    let tail = prop::collection::vec(any::<u8>(), 0..3);
    (files, any::<bool>(), changes, any::<prop::sample::Index>(), any::<bool>(), tail).prop_map(
        |(mut bytes, zipped, changes, end, cut, tail)| {
            if zipped {
                bytes = gzip(&bytes);
            }
            for (index, byte) in changes {
                let index = index.index(bytes.len());
                bytes[index] = byte;
            }
            if cut {
                bytes.truncate(end.index(bytes.len()));
            }
            bytes.extend(tail);
            bytes
        },
    )
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(bytes in prop_oneof![mutated(), prop::collection::vec(any::<u8>(), 0..64)]) {
        for kind in [Kind::Images, Kind::Labels] {
            match read(&bytes[..], kind, "digits.gz") {
                Ok(content) => prop_assert_eq!(content.len() % kind.example_bytes(), 0),
                Err(status) => prop_assert!(status.text().starts_with("digits.gz "), "{}", status),
            }
        }
    }
}
