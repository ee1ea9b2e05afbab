//! MNIST, the handwritten digits, and whatever comes in files of the same names and format, e.g. Fashion-MNIST.
//!
//! A part of MNIST is compiled in (`data/mnist`), so that a program can train where there are no files and no network.

use std::path::{Path, PathBuf};

use tensorfleet_core::{Result, bail, ensure};

use crate::data_set::{DataSet, DataSets, PIXELS};
use crate::idx::{self, Kind};

/// TensorFlow's `input_data` sets aside this many of the 60 000 training images.
const MAX_VALIDATION: usize = 5000;

/// The names of a set's files, without `.gz`.
struct Names {
    images: &'static str,
    labels: &'static str,
}

const TRAIN: Names = Names { images: "train-images-idx3-ubyte", labels: "train-labels-idx1-ubyte" };
const TEST: Names = Names { images: "t10k-images-idx3-ubyte", labels: "t10k-labels-idx1-ubyte" };

/// The digits that are compiled into the program: the first 15 000 of MNIST's training digits, of which 1250 are set aside
/// for validation, and every fifth of its test digits.
///
/// ```
/// let digits = tensorfleet_datasets::mnist::embedded()?;
/// assert_eq!((digits.train.len(), digits.validation.len(), digits.test.len()), (13_750, 1_250, 2_000));
/// # Ok::<(), tensorfleet_core::Status>(())
/// ```
pub fn embedded() -> Result<DataSets> {
    macro_rules! data {
        ($name:literal) => {
            (include_bytes!(concat!("../../../data/mnist/", $name)).as_slice(), $name)
        };
    }
    let read = |(bytes, name): (&[u8], &str), kind| idx::read(bytes, kind, name);
    let train = DataSet::new(
        read(data!("train-images-idx3-ubyte.gz"), Kind::Images)?,
        read(data!("train-labels-idx1-ubyte.gz"), Kind::Labels)?,
    )?;
    let test = DataSet::new(
        read(data!("t10k-images-idx3-ubyte.gz"), Kind::Images)?,
        read(data!("t10k-labels-idx1-ubyte.gz"), Kind::Labels)?,
    )?;
    Ok(split(train, test))
}

/// The four files of MNIST's names in a directory, each gzipped or not.
///
/// The first images of the training file become the validation set: 5000 of MNIST's 60 000, as in TensorFlow's `input_data`,
/// and a twelfth of smaller files.
///
/// ```no_run
/// let clothes = tensorfleet_datasets::mnist::read_data_sets("/usr/share/dataset-fashion-mnist".as_ref())?;
/// assert_eq!(clothes.validation.len(), 5000);
/// # Ok::<(), tensorfleet_core::Status>(())
/// ```
pub fn read_data_sets(dir: &Path) -> Result<DataSets> {
    ensure!(
        !dir.is_file(),
        FailedPrecondition,
        "{} is a file, but the four files of MNIST are looked for in a directory: give the directory they are in",
        dir.display()
    );
    let train = read_pair(dir, &TRAIN)?;
    let test = read_pair(dir, &TEST)?;
    Ok(split(train, test))
}

/// The files in `dir`, or without it the embedded digits: the meaning of `--data_dir`.
///
/// ```
/// let digits = tensorfleet_datasets::mnist::open(None)?;
/// assert_eq!(digits.test.len(), 2_000);
/// # Ok::<(), tensorfleet_core::Status>(())
/// ```
pub fn open(dir: Option<&Path>) -> Result<DataSets> {
    match dir {
        Some(dir) => read_data_sets(dir),
        None => embedded(),
    }
}

fn read_pair(dir: &Path, names: &Names) -> Result<DataSet> {
    let (images, labels) = (find(dir, names.images)?, find(dir, names.labels)?);
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
    if zipped.exists() {
        return Ok(zipped);
    }
    if plain.exists() {
        return Ok(plain);
    }
    let next_step =
        "--download_only fetches MNIST's files, and without --data_dir the embedded digits are used";
    ensure!(dir.exists(), NotFound, "the directory {} does not exist: {next_step}", dir.display());
    bail!(NotFound, "neither {} nor {name} is there: {next_step}", zipped.display())
}

fn split(train: DataSet, test: DataSet) -> DataSets {
    let validation = MAX_VALIDATION.min(train.len() / 12);
    let (validation, train) = train.split_at(validation);
    DataSets { train, validation, test }
}

/// Fetches the four files of MNIST into `dir`, except those that are there.
pub fn download(_dir: &Path) -> Result<()> {
    bail!(Unimplemented, "the download is not there yet: copy the four files of MNIST into the directory")
}
