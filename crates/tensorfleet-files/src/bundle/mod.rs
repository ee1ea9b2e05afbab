//! Tensor bundles, the format of checkpoints since TensorFlow 1.0: `PREFIX.index` says which tensors there are and
//! where their bytes lie in `PREFIX.data-SSSSS-of-NNNNN`.

mod merge;
mod reader;
mod string_content;
mod writer;

use std::path::PathBuf;

use prost::Message;
use tensorfleet_core::{Result, Status};
use tensorfleet_proto::tensorflow::{BundleHeaderProto, VersionDef};

pub use merge::merge;
pub use reader::BundleReader;
pub use writer::BundleWriter;

/// The version of the format that this crate reads and writes.
const VERSION: i32 = 1;
/// The header stands under the empty key, before all tensors.
const HEADER_KEY: &[u8] = b"";

/// The path of a bundle's index.
pub fn index_path(prefix: &str) -> PathBuf {
    PathBuf::from(format!("{prefix}.index"))
}

/// The path of one of a bundle's data files.
pub fn data_path(prefix: &str, shard: usize, num_shards: usize) -> PathBuf {
    PathBuf::from(format!("{prefix}.data-{shard:05}-of-{num_shards:05}"))
}

fn header(num_shards: i32) -> BundleHeaderProto {
    let version = Some(VersionDef { producer: VERSION, ..Default::default() });
    BundleHeaderProto { num_shards, version, ..Default::default() }
}

fn decode<M: Message + Default>(bytes: &[u8], key: &str) -> Result<M> {
    M::decode(bytes)
        .map_err(|error| Status::data_loss(format!("the index entry of key '{key}' is corrupt: {error}")))
}
