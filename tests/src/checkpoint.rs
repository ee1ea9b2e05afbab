//! Reading a checkpoint from disk, to see what a `Saver` really wrote.

use tensorfleet_core::{Result, Tensor};
use tensorfleet_files::FileAccess;
use tensorfleet_files::bundle::BundleReader;

/// The tensors called `names` in the checkpoint at `prefix`.
pub fn read_checkpoint(prefix: &str, names: &[String]) -> Result<Vec<Tensor>> {
    let reader = BundleReader::open(&FileAccess::EVERYWHERE, prefix)?;
    names.iter().map(|name| reader.read(name)).collect()
}
