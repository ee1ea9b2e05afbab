//! Merging the bundles of a sharded save into one: the data files are renamed, only the index is written anew.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use tensorfleet_core::{Code, Result, ensure};
use tensorfleet_proto::tensorflow::BundleEntryProto;

use super::writer::{create_directory_of, remove_index, write_index};
use super::{BundleReader, data_path, index_path};
use crate::file_access::FileAccess;

/// Merges the bundles with these prefixes into one at `destination`; the sources are gone afterwards. Sources that
/// do not exist are an error unless `allow_missing`.
pub fn merge(access: &FileAccess, sources: &[&str], destination: &str, allow_missing: bool) -> Result<()> {
    let mut merged = Merged::default();
    let mut found = Vec::new();
    for &source in sources {
        match BundleReader::open(access, source) {
            Err(status) if status.code() == Code::NotFound && allow_missing => {}
            Err(status) => return Err(status),
            Ok(reader) => {
                merged.add(source, &reader)?;
                found.push(source);
            }
        }
    }
    ensure!(!found.is_empty(), InvalidArgument, "there is no checkpoint to merge into {destination}");
    create_directory_of(access, destination)?;
    let index = write_index(access, destination, merged.num_shards, &merged.entries)?;
    remove_index(access, destination)?;
    for (shard, (source, from)) in merged.shards.iter().enumerate() {
        let from = access.entry(data_path(source, from.id, from.of))?;
        from.rename(&access.entry(data_path(destination, shard, merged.num_shards as usize))?)?;
    }
    access.entry(index_path(destination))?.sync_directory()?;
    index.commit_durably()?;
    for source in found.into_iter().filter(|&source| source != destination) {
        // The destination is complete; an index left over does no harm.
        let _ = access.entry(index_path(source)).and_then(|index| index.remove_file());
    }
    Ok(())
}

#[derive(Default)]
struct Merged {
    entries: BTreeMap<Vec<u8>, BundleEntryProto>,
    num_shards: i32,
    /// Data files in order of first use.
    shards: Vec<(String, ShardOf)>,
}

#[derive(Clone, Copy, PartialEq)]
struct ShardOf {
    id: usize,
    of: usize,
}

impl Merged {
    fn add(&mut self, source: &str, reader: &BundleReader) -> Result<()> {
        let num_shards = reader.header().num_shards;
        self.num_shards = self.num_shards.saturating_add(num_shards);
        // New number of each of the source's data files.
        let mut numbers: BTreeMap<i32, i32> = BTreeMap::new();
        for (key, entry) in reader.entries() {
            let mut entry = entry?;
            if !entry.slices.is_empty() {
                self.add_description(key, entry)?;
                continue;
            }
            let id = entry.shard_id;
            ensure!((0..num_shards).contains(&id), DataLoss, "checkpoint {source} has no data file {id}");
            entry.shard_id = *numbers.entry(id).or_insert_with(|| {
                self.shards.push((source.to_string(), ShardOf { id: id as usize, of: num_shards as usize }));
                self.shards.len() as i32 - 1
            });
            ensure!(
                self.entries.insert(key.to_vec(), entry).is_none(),
                InvalidArgument,
                "Duplicate tensor keyed by {} encountered, when merging prefix: {source}",
                String::from_utf8_lossy(key)
            );
        }
        Ok(())
    }

    /// The entry of a partitioned tensor: its slices may come from several bundles.
    fn add_description(&mut self, key: &[u8], entry: BundleEntryProto) -> Result<()> {
        match self.entries.entry(key.to_vec()) {
            Entry::Vacant(vacant) => {
                vacant.insert(entry);
            }
            Entry::Occupied(mut occupied) => {
                let known = occupied.get_mut();
                ensure!(
                    !known.slices.is_empty() && (known.dtype, &known.shape) == (entry.dtype, &entry.shape),
                    InvalidArgument,
                    "Tensor {} is partitioned differently in the checkpoints to merge",
                    String::from_utf8_lossy(key)
                );
                known.slices.extend(entry.slices);
            }
        }
        Ok(())
    }
}
