//! MNIST, the handwritten digits, and whatever comes in files of the same names and format, e.g. Fashion-MNIST.
//!
//! A part of MNIST is compiled in (`data/mnist`), so that a program can train where there are no files and no network.

use std::path::{Path, PathBuf};

use tensorfleet_core::{Result, bail, ensure};

use crate::data_set::{DataSet, DataSets, PIXELS};
use crate::download::{self, Part};
use crate::idx::{self, Kind};

/// TensorFlow's `input_data` sets aside this many of the 60 000 training images.
const MAX_VALIDATION: usize = 5000;

/// The files of MNIST, without `.gz`.
const TRAIN_IMAGES: &str = "train-images-idx3-ubyte";
const TRAIN_LABELS: &str = "train-labels-idx1-ubyte";
const TEST_IMAGES: &str = "t10k-images-idx3-ubyte";
const TEST_LABELS: &str = "t10k-labels-idx1-ubyte";

/// A file that is compiled in.
pub(crate) struct EmbeddedFile {
    pub(crate) name: &'static str,
    pub(crate) bytes: &'static [u8],
}

macro_rules! embedded_files {
    ($($name:literal),*) => {
        [$(EmbeddedFile { name: $name, bytes: include_bytes!(concat!("../../../data/mnist/", $name)) }),*]
    };
}

pub(crate) static EMBEDDED: [EmbeddedFile; 4] = embedded_files![
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz"
];

/// The digits that are compiled into the program: the first 15 000 of MNIST's training digits, of which 1250 are set aside
/// for validation, and every fourth of its test digits.
///
/// ```
/// let digits = tensorfleet_datasets::mnist::embedded()?;
/// assert_eq!((digits.train.len(), digits.validation.len(), digits.test.len()), (13_750, 1_250, 2_500));
/// # Ok::<(), tensorfleet_core::Status>(())
/// ```
pub fn embedded() -> Result<DataSets> {
    let [train_images, train_labels, test_images, test_labels] = &EMBEDDED;
    let read = |images: &EmbeddedFile, labels: &EmbeddedFile| {
        let pixels = idx::read(images.bytes, Kind::Images, images.name)?;
        DataSet::new(pixels, idx::read(labels.bytes, Kind::Labels, labels.name)?)
    };
    Ok(split(read(train_images, train_labels)?, read(test_images, test_labels)?))
}

/// The four files of MNIST's names in a directory, each gzipped or not.
///
/// The first images of the training file become the validation set: 5000 of MNIST's 60 000, as in TensorFlow's `input_data`,
/// and a twelfth of smaller files.
///
/// ```no_run
/// let clothes = tensorfleet_datasets::mnist::read_data_sets("/usr/share/datasets/fashion-mnist".as_ref())?;
/// assert_eq!(clothes.validation.len(), 5000);
/// # Ok::<(), tensorfleet_core::Status>(())
/// ```
pub fn read_data_sets(dir: &Path) -> Result<DataSets> {
    ensure!(
        !dir.is_file(),
        FailedPrecondition,
        "{} is a file, but the four files of MNIST are looked for in a directory: give the one they are in",
        dir.display()
    );
    let train = read_pair(dir, TRAIN_IMAGES, TRAIN_LABELS)?;
    let test = read_pair(dir, TEST_IMAGES, TEST_LABELS)?;
    Ok(split(train, test))
}

/// The files in `dir`, or without it the embedded digits: the meaning of `--data_dir`.
///
/// ```
/// let digits = tensorfleet_datasets::mnist::open(None)?;
/// assert_eq!(digits.test.len(), 2_500);
/// # Ok::<(), tensorfleet_core::Status>(())
/// ```
pub fn open(dir: Option<&Path>) -> Result<DataSets> {
    match dir {
        Some(dir) => read_data_sets(dir),
        None => embedded(),
    }
}

/// Fetches the four files of MNIST into `dir` from where TensorFlow's `input_data` fetches them, by `curl` or `wget`.
///
/// Files that are there and whole are kept; the directory is made if there is none. Each file appears complete or not at
/// all. Says on the error output what it does.
///
/// ```no_run
/// # use std::path::Path;
/// # use tensorfleet_datasets::mnist;
/// let dir = Path::new("mnist-data");
/// mnist::download(dir)?;
/// let digits = mnist::read_data_sets(dir)?;
/// assert_eq!(digits.train.len(), 55_000);
/// # Ok::<(), tensorfleet_core::Status>(())
/// ```
pub fn download(dir: &Path) -> Result<()> {
    download::fetch(download::BASE, &parts(60_000, 10_000), download::PROGRAMS, dir)
}

/// The four files, with so many examples to train and to test with.
pub(crate) fn parts(train: usize, test: usize) -> [Part; 4] {
    [
        Part { name: TRAIN_IMAGES, kind: Kind::Images, count: train },
        Part { name: TRAIN_LABELS, kind: Kind::Labels, count: train },
        Part { name: TEST_IMAGES, kind: Kind::Images, count: test },
        Part { name: TEST_LABELS, kind: Kind::Labels, count: test },
    ]
}

fn read_pair(dir: &Path, images: &str, labels: &str) -> Result<DataSet> {
    let (images, labels) = (find(dir, images)?, find(dir, labels)?);
    let pixels = idx::read_file(&images, Kind::Images)?;
    let classes = idx::read_file(&labels, Kind::Labels)?;
    let (image_count, label_count) = (pixels.len() / PIXELS, classes.len());
    ensure!(
        image_count == label_count,
        InvalidArgument,
        "{} has {image_count} images, but {} has {label_count} labels: take both files from the same data set",
        images.display(),
        labels.display()
    );
    ensure!(
        image_count > 0,
        InvalidArgument,
        "{} has no images: put a file with some there",
        images.display()
    );
    DataSet::new(pixels, classes)
}

/// The gzipped file if there is one, or else the plain one.
fn find(dir: &Path, name: &str) -> Result<PathBuf> {
    let zipped = dir.join(format!("{name}.gz"));
    let plain = dir.join(name);
    if let Some(path) = [&zipped, &plain].into_iter().find(|path| is_there(path)) {
        return Ok(path.clone());
    }
    let next_step =
        "--download_only fetches MNIST's files, and without --data_dir the embedded digits are used";
    ensure!(is_there(dir), NotFound, "the directory {} does not exist: {next_step}", dir.display());
    bail!(NotFound, "{} is missing, and so is the unpacked {name}: {next_step}", zipped.display())
}

/// Whether there is anything of that name. What may not be looked at is there: whoever opens it learns the reason.
fn is_there(path: &Path) -> bool {
    path.try_exists().unwrap_or(true)
}

fn split(train: DataSet, test: DataSet) -> DataSets {
    let validation = MAX_VALIDATION.min(train.len() / 12);
    let (validation, train) = train.split_at(validation);
    DataSets { train, validation, test }
}

#[cfg(test)]
#[path = "mnist_tests.rs"]
mod tests;
