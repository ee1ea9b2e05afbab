//! Looking into checkpoints without a graph: [`CheckpointReader`], which has an example.
//!
//! Checkpoints of TensorFlow are read as well as those of this library: they are the same. To save and restore, use
//! [`Saver`](crate::train::Saver); to find the newest one of a directory,
//! [`latest_checkpoint`](crate::train::latest_checkpoint).

use std::fmt;

use tensorfleet_core::{DType, Result, Shape, Status, Tensor};
use tensorfleet_files::FileAccess;
use tensorfleet_files::bundle::BundleReader;
use tensorfleet_files::tensor_slice::TensorSlice;

use crate::listing::listed_in_quotes;

/// An open checkpoint: which tensors it has, and their values. Values are read when they are asked for, from any thread.
///
/// ```
/// use tensorfleet::{DType, Graph, Session, checkpoint::CheckpointReader, train::Saver};
///
/// let g = Graph::new();
/// let v = g.variable("v", [1.0f32, 2.0]);
/// let saver = Saver::new(&g)?;
/// let session = Session::new(&g);
/// session.run(v.initializer())?;
/// let directory = tempfile::tempdir().unwrap();
/// let prefix = saver.save(&session, directory.path().join("model").to_str().unwrap(), Some(3))?;
///
/// let reader = CheckpointReader::open(&prefix)?;
/// assert_eq!(reader.names(), ["v"]);
/// assert_eq!(reader.dtype("v")?, DType::Float);
/// assert_eq!(reader.tensor("v")?.as_slice::<f32>()?, [1.0, 2.0]);
/// reader.verify()?;
/// # Ok::<(), tensorfleet::Status>(())
/// ```
pub struct CheckpointReader {
    prefix: String,
    bundle: BundleReader,
    tensors: Vec<TensorInfo>,
}

/// What an index says about a tensor; see [`CheckpointReader::iter`].
#[derive(Clone, Debug, PartialEq)]
pub struct TensorInfo {
    /// The name it was saved under.
    pub name: String,
    /// Its dtype.
    pub dtype: DType,
    /// Its shape; of a partitioned tensor that of the whole.
    pub shape: Shape,
}

impl CheckpointReader {
    /// Opens the checkpoint with this prefix, e.g. `logs/model.ckpt-700`: reads its index.
    pub fn open(prefix: &str) -> Result<CheckpointReader> {
        let bundle = BundleReader::open(&FileAccess::EVERYWHERE, prefix)
            .map_err(|status| in_checkpoint(prefix, status))?;
        let tensors = bundle.tensors().map_err(|status| in_checkpoint(prefix, status))?;
        let tensors = tensors.into_iter().map(|(name, dtype, shape)| TensorInfo { name, dtype, shape });
        Ok(CheckpointReader { prefix: prefix.to_string(), tensors: tensors.collect(), bundle })
    }

    /// The prefix it was opened with.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The names of all tensors, in ascending order.
    pub fn names(&self) -> Vec<&str> {
        self.tensors.iter().map(|tensor| tensor.name.as_str()).collect()
    }

    /// What the index says about each tensor, in order of their names.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session, checkpoint::CheckpointReader, train::Saver};
    /// # let g = Graph::new();
    /// # let (b, w) = (g.variable("b", 0.0f32), g.variable("w", [1.0f32, 2.0]));
    /// # let saver = Saver::new(&g)?;
    /// # let session = Session::new(&g);
    /// # session.run(g.global_variables_initializer()?)?;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let prefix = saver.save(&session, directory.path().join("model").to_str().unwrap(), None)?;
    /// let reader = CheckpointReader::open(&prefix)?;
    /// let sizes: Vec<_> = reader.iter().map(|tensor| (tensor.name.as_str(), tensor.shape.num_elements())).collect();
    /// assert_eq!(sizes, [("b", 1), ("w", 2)]);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &TensorInfo> {
        self.tensors.iter()
    }

    /// What the index says about a tensor, if it is there.
    pub fn find(&self, name: &str) -> Option<&TensorInfo> {
        let at = self.tensors.binary_search_by(|tensor| tensor.name.as_str().cmp(name)).ok()?;
        self.tensors.get(at)
    }

    fn info(&self, name: &str) -> Result<&TensorInfo> {
        self.find(name).ok_or_else(|| {
            Status::not_found(format!(
                "Key {name} not found in checkpoint {}{}",
                self.prefix,
                near_names(name, &self.names())
            ))
        })
    }

    /// The dtype of a tensor.
    pub fn dtype(&self, name: &str) -> Result<DType> {
        Ok(self.info(name)?.dtype)
    }

    /// The shape of a tensor.
    pub fn shape(&self, name: &str) -> Result<&Shape> {
        Ok(&self.info(name)?.shape)
    }

    /// The value of a tensor; a partitioned one is put together.
    pub fn tensor(&self, name: &str) -> Result<Tensor> {
        self.info(name)?;
        self.bundle.read(name).map_err(|status| in_checkpoint(&self.prefix, status))
    }

    /// The parts that a partitioned tensor was saved in, in the form `start,length:start,length`; none if it was saved
    /// whole.
    pub fn slices(&self, name: &str) -> Result<Vec<String>> {
        self.info(name)?;
        let slices = self.bundle.slices(name).map_err(|status| in_checkpoint(&self.prefix, status))?;
        Ok(slices.iter().map(TensorSlice::to_string).collect())
    }

    /// A part of a tensor, be it one of [`CheckpointReader::slices`] or another, e.g. `2,3:-` for three rows from the
    /// third.
    pub fn tensor_slice(&self, name: &str, slice: &str) -> Result<Tensor> {
        self.info(name)?;
        let slice = TensorSlice::parse(slice)?;
        self.bundle.read_slice(name, &slice).map_err(|status| in_checkpoint(&self.prefix, status))
    }

    /// Checks that all data files exist and are as long as the index says, without reading them.
    pub fn check_files(&self) -> Result<()> {
        self.bundle.check_files().map_err(|status| in_checkpoint(&self.prefix, status))
    }

    /// Reads everything and compares the checksums, one tensor at a time.
    pub fn verify(&self) -> Result<()> {
        self.check_files()?;
        self.tensors.iter().try_for_each(|tensor| self.tensor(&tensor.name).map(|_| ()))
    }
}

impl fmt::Debug for CheckpointReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CheckpointReader({}, {} tensors)", self.prefix, self.tensors.len())
    }
}

fn in_checkpoint(prefix: &str, status: Status) -> Status {
    match status.text().contains(prefix) {
        true => status,
        false => status.context(format!("Checkpoint {prefix}")),
    }
}

/// The end of a sentence about a name that is missing: which of `known` are near to it.
pub(crate) fn near_names(missing: &str, known: &[&str]) -> String {
    let mut near: Vec<(usize, &str)> =
        known.iter().filter_map(|&name| Some((nearness(missing, name)?, name))).collect();
    near.sort();
    let near: Vec<&str> = near.into_iter().take(3).map(|(_, name)| name).collect();
    match (near.is_empty(), known.is_empty()) {
        (false, _) => format!("; it has {}, which are near to that name", listed_in_quotes(&near)),
        (true, false) => format!("; it has {}", listed_in_quotes(known)),
        (true, true) => "; it has no tensors at all".to_string(),
    }
}

/// How far a name is from the wanted one; `None` if they have little in common. The same last part in another scope
/// counts as near, and so does a name with a few other letters.
fn nearness(wanted: &str, name: &str) -> Option<usize> {
    let last = |name: &str| name.rsplit('/').next().unwrap_or_default().to_string();
    let distance = edit_distance(wanted, name);
    let is_moved = wanted.ends_with(&format!("/{name}"))
        || name.ends_with(&format!("/{wanted}"))
        || (wanted.contains('/') && last(wanted) == last(name));
    let is_alike = distance <= (wanted.len() / 3).max(1);
    (is_moved || is_alike).then_some(distance)
}

/// Insertions, deletions and replacements that make one of the other. Long names are compared by their first bytes, so
/// that an error about thousands of variables is not slow.
fn edit_distance(a: &str, b: &str) -> usize {
    const LONGEST: usize = 200;
    let (a, b) = (&a.as_bytes()[..a.len().min(LONGEST)], &b.as_bytes()[..b.len().min(LONGEST)]);
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let above = row[j + 1];
            row[j + 1] = (diagonal + usize::from(x != y)).min(above + 1).min(row[j] + 1);
            diagonal = above;
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_near_are_told() {
        let known = ["dense/kernel", "dense/bias", "global_step"];
        let text = near_names("dense_1/kernel", &known);
        assert!(text.contains("'dense/kernel'") && !text.contains("global_step"), "{text}");
        assert!(near_names("globel_step", &known).contains("'global_step'"));
        assert!(near_names("model/dense/bias", &known).contains("'dense/bias'"));
        assert!(near_names("nothing", &known).starts_with("; it has 'dense/kernel', 'dense/bias'"));
        assert!(near_names("x", &[]).contains("no tensors"));
    }
}
