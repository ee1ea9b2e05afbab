//! Directories with four files, three, and files that do not belong together.

use std::fs;
use std::io::Read;

use flate2::read::GzDecoder;
use tempfile::TempDir;
use tensorfleet_core::Code;

use super::*;

/// A directory with the embedded files, some of them unpacked.
fn directory(unpacked: impl Fn(&str) -> bool) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for EmbeddedFile { name, bytes } in &EMBEDDED {
        if unpacked(name) {
            let mut plain = Vec::new();
            GzDecoder::new(*bytes).read_to_end(&mut plain).unwrap();
            fs::write(directory.path().join(name.trim_end_matches(".gz")), plain).unwrap();
        } else {
            fs::write(directory.path().join(name), bytes).unwrap();
        }
    }
    directory
}

/// The directory is refused with this code and one sentence with these words.
#[track_caller]
fn assert_refused(dir: &Path, code: Code, words: &str) {
    let status = read_data_sets(dir).unwrap_err();
    assert_eq!(status.code(), code, "{status}");
    assert!(status.text().contains(words), "{status}");
    assert!(!status.text().contains('\n'), "{status}");
}

#[test]
fn the_embedded_digits_are_small_and_of_all_classes() {
    let bytes: usize = EMBEDDED.iter().map(|file| file.bytes.len()).sum();
    assert!(bytes <= 3_000_000, "{bytes} bytes");
    let digits = embedded().unwrap();
    for set in [&digits.train, &digits.validation, &digits.test] {
        for class in 0..10 {
            let count = set.classes().iter().filter(|&&digit| digit == class).count();
            // A tenth, more or less.
            assert!((set.len() / 15..set.len() / 7).contains(&count), "{count} of {} are {class}", set.len());
        }
    }
    // MNIST's first digits are known: 5 0 4 1 9 to train with, 7 to test with.
    assert_eq!(digits.validation.classes()[..5], [5, 0, 4, 1, 9]);
    assert_eq!(digits.test.classes()[0], 7);
}

#[test]
fn files_are_read_zipped_and_plain_and_mixed() {
    let expected = embedded().unwrap();
    let unpacked: [fn(&str) -> bool; 3] = [|_| false, |_| true, |name| name.contains("labels")];
    for unpacked in unpacked {
        let directory = directory(unpacked);
        let sets = open(Some(directory.path())).unwrap();
        assert_eq!((sets.train.len(), sets.validation.len(), sets.test.len()), (13_750, 1_250, 2_500));
        assert_eq!(sets.train.classes(), expected.train.classes());
        assert_eq!(sets.test.images().unwrap(), expected.test.images().unwrap());
    }
}

#[test]
fn a_zipped_file_may_have_the_plain_name_and_the_other_way_round() {
    let directory = directory(|name| name == "train-labels-idx1-ubyte.gz");
    let file = |name: &str| directory.path().join(name);
    fs::rename(file("train-labels-idx1-ubyte"), file("train-labels-idx1-ubyte.gz")).unwrap();
    fs::rename(file("train-images-idx3-ubyte.gz"), file("train-images-idx3-ubyte")).unwrap();
    assert_eq!(read_data_sets(directory.path()).unwrap().train.len(), 13_750);
}

#[test]
fn what_is_missing_is_named_and_a_download_offered() {
    let directory = directory(|_| false);
    let nowhere = directory.path().join("nowhere");
    assert_refused(&nowhere, Code::NotFound, "nowhere does not exist: --download_only fetches");
    fs::remove_file(directory.path().join("t10k-labels-idx1-ubyte.gz")).unwrap();
    assert_refused(directory.path(), Code::NotFound, "t10k-labels-idx1-ubyte.gz is missing");
    assert_refused(directory.path(), Code::NotFound, "without --data_dir the embedded digits are used");
    let file = directory.path().join("train-images-idx3-ubyte.gz");
    assert_refused(&file, Code::FailedPrecondition, "is a file");
}

#[test]
fn a_damaged_file_is_named() {
    let directory = directory(|_| false);
    let labels = directory.path().join("train-labels-idx1-ubyte.gz");
    let bytes = fs::read(&labels).unwrap();
    fs::write(&labels, &bytes[..bytes.len() / 2]).unwrap();
    assert_refused(directory.path(), Code::DataLoss, "train-labels-idx1-ubyte.gz is truncated");
    fs::write(&labels, b"").unwrap();
    assert_refused(directory.path(), Code::DataLoss, "train-labels-idx1-ubyte.gz is truncated");
    fs::copy(directory.path().join("t10k-labels-idx1-ubyte.gz"), &labels).unwrap();
    assert_refused(directory.path(), Code::InvalidArgument, "has 15000 images, but ");
    assert_refused(directory.path(), Code::InvalidArgument, "train-labels-idx1-ubyte.gz has 2500 labels");
    fs::remove_file(&labels).unwrap();
    fs::create_dir(&labels).unwrap();
    assert_refused(directory.path(), Code::FailedPrecondition, "train-labels-idx1-ubyte.gz is a directory");
}

#[test]
fn files_without_images_are_refused() {
    let directory = directory(|_| false);
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
    fs::write(directory.path().join("t10k-images-idx3-ubyte.gz"), words(&[0x803, 0, 28, 28])).unwrap();
    fs::write(directory.path().join("t10k-labels-idx1-ubyte.gz"), words(&[0x801, 0])).unwrap();
    assert_refused(directory.path(), Code::InvalidArgument, "t10k-images-idx3-ubyte.gz has no images");
}

/// Permissions mean nothing to the superuser, who runs the tests of containers.
#[cfg(unix)]
#[test]
fn a_file_that_may_not_be_read_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let directory = directory(|_| false);
    let images = directory.path().join("train-images-idx3-ubyte.gz");
    fs::set_permissions(&images, fs::Permissions::from_mode(0o000)).unwrap();
    if fs::File::open(&images).is_ok() {
        read_data_sets(directory.path()).unwrap();
        return;
    }
    assert_refused(directory.path(), Code::PermissionDenied, "train-images-idx3-ubyte.gz may not be read");
}
