//! [`BundleWriter`]: writing a checkpoint of one data file.
//!
//! Values go to the file straight from the memory of the tensor. What a save costs is the copy into the system's page
//! cache and the wait for the disk; so the checksum of a large tensor is computed by another thread meanwhile.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::Path;

use prost::Message;
use tensorfleet_core::{Code, DType, Result, Shape, Tensor, bail, ensure};
use tensorfleet_proto::tensorflow::BundleEntryProto;
use tensorfleet_threads::{Loops, Threads};

use super::{HEADER_KEY, data_path, header, index_path, string_content};
use crate::atomic_file::AtomicFile;
use crate::checksum;
use crate::file_access::FileAccess;
use crate::ordered_code::slice_key;
use crate::table::TableWriter;
use crate::tensor_slice::TensorSlice;

/// Tensors from this size on get their checksum from another thread.
const LARGE_BYTES: usize = 1 << 20;

/// A checkpoint being written. Nothing is there under its name before [`BundleWriter::finish`].
pub struct BundleWriter {
    access: FileAccess,
    prefix: String,
    data: AtomicFile,
    offset: u64,
    entries: BTreeMap<Vec<u8>, BundleEntryProto>,
    loops: Loops,
}

impl BundleWriter {
    /// Starts a checkpoint. Like TensorFlow it makes the last directory of the prefix if that is missing, but no
    /// directory above it.
    pub fn create(access: &FileAccess, prefix: &str) -> Result<BundleWriter> {
        create_directory_of(access, prefix)?;
        let data = AtomicFile::create(access, data_path(prefix, 0, 1))?;
        let loops = Threads::of_process().loops().clone();
        Ok(BundleWriter {
            access: access.clone(),
            prefix: prefix.to_string(),
            data,
            offset: 0,
            entries: BTreeMap::new(),
            loops,
        })
    }

    /// Has large tensors written with the help of these threads instead of the process's.
    pub fn with_loops(self, loops: &Loops) -> BundleWriter {
        BundleWriter { loops: loops.clone(), ..self }
    }

    /// Adds a whole tensor.
    pub fn add(&mut self, name: &str, tensor: &Tensor) -> Result<()> {
        ensure!(!name.is_empty(), InvalidArgument, "a tensor in a checkpoint needs a name");
        self.add_value(name.as_bytes().to_vec(), name, tensor)
    }

    /// Adds a part of a tensor whose full shape is `full`. A part that is all of it is stored as a whole tensor.
    pub fn add_slice(
        &mut self,
        name: &str,
        full: &Shape,
        slice: &TensorSlice,
        tensor: &Tensor,
    ) -> Result<()> {
        let region = slice.within(full)?;
        ensure!(
            region.shape()? == *tensor.shape(),
            InvalidArgument,
            "Slice in shape_and_slice specification does not match the shape of the tensor to save: {slice} of {full}, \
             tensor: {}",
            tensor.shape()
        );
        if region.is_all_of(full) {
            return self.add(name, tensor);
        }
        let mut described = BundleEntryProto {
            dtype: tensor.dtype().number(),
            shape: Some(full.to_proto()),
            ..Default::default()
        };
        match self.entries.entry(name.as_bytes().to_vec()) {
            Entry::Vacant(vacant) => {
                described.slices.push(slice.to_proto());
                vacant.insert(described);
            }
            Entry::Occupied(mut occupied) => {
                let known = occupied.get_mut();
                ensure!(
                    !known.slices.is_empty()
                        && (known.dtype, &known.shape) == (described.dtype, &described.shape),
                    InvalidArgument,
                    "Tensor {name} is saved in slices and as a whole, or in slices of different tensors"
                );
                known.slices.push(slice.to_proto());
            }
        }
        self.add_value(slice_key(name, slice), name, tensor)
    }

    fn add_value(&mut self, key: Vec<u8>, name: &str, tensor: &Tensor) -> Result<()> {
        ensure!(!self.entries.contains_key(&key), InvalidArgument, "Adding duplicate key: {name}");
        let start = self.offset;
        let crc = match tensor.dtype() {
            DType::String => {
                let strings = tensor.as_strings()?;
                let (lengths, mut crc) = string_content::encode_lengths(strings);
                self.write(&lengths)?;
                for string in strings {
                    crc = checksum::extend(crc, string);
                    self.write(string)?;
                }
                crc
            }
            DType::Resource | DType::Variant => {
                bail!(InvalidArgument, "Tensor {name} of dtype {} cannot be saved", tensor.dtype())
            }
            _ => {
                let bytes = tensor.as_bytes()?;
                let (written, crc) = match bytes.len() >= LARGE_BYTES {
                    true => self.loops.clone().join(|| self.write(bytes), || checksum::crc(bytes)),
                    false => (self.write(bytes), checksum::crc(bytes)),
                };
                written?;
                crc
            }
        };
        let entry = BundleEntryProto {
            dtype: tensor.dtype().number(),
            shape: Some(tensor.shape().to_proto()),
            shard_id: 0,
            offset: start as i64,
            size: (self.offset - start) as i64,
            crc32c: checksum::mask(crc),
            slices: Vec::new(),
        };
        self.entries.insert(key, entry);
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.offset += bytes.len() as u64;
        self.data.write(bytes)
    }

    /// Makes the checkpoint appear: the data first, the index last. A reader that comes in between finds no
    /// checkpoint rather than a mixed one.
    pub fn finish(mut self) -> Result<()> {
        let index = write_index(&self.access, &self.prefix, 1, &self.entries)?;
        self.data.seal()?;
        remove_index(&self.access, &self.prefix)?;
        // The name of the data reaches the disk before that of the index: an index that is there has its data.
        self.data.commit_durably()?;
        index.commit_durably()
    }
}

/// Removes an index that is about to be replaced along with its data.
pub(super) fn remove_index(access: &FileAccess, prefix: &str) -> Result<()> {
    match access.entry(index_path(prefix)).and_then(|index| index.remove_file()) {
        Err(status) if status.code() != Code::NotFound => Err(status),
        _ => Ok(()),
    }
}

/// Writes an index and seals it; it still has to be committed.
pub(super) fn write_index(
    access: &FileAccess,
    prefix: &str,
    num_shards: i32,
    entries: &BTreeMap<Vec<u8>, BundleEntryProto>,
) -> Result<AtomicFile> {
    let mut table = TableWriter::default();
    table.add(HEADER_KEY, &header(num_shards).encode_to_vec())?;
    for (key, entry) in entries {
        table.add(key, &entry.encode_to_vec())?;
    }
    let mut index = AtomicFile::create(access, index_path(prefix))?;
    index.write(&table.finish())?;
    index.seal()?;
    Ok(index)
}

/// Makes the directory a prefix lies in, if it is missing.
pub(super) fn create_directory_of(access: &FileAccess, prefix: &str) -> Result<()> {
    let Some(directory) = Path::new(prefix).parent().filter(|path| !path.as_os_str().is_empty()) else {
        return Ok(());
    };
    if access.exists(directory) {
        return Ok(());
    }
    let directory = access.entry(directory)?;
    match directory.create_dir() {
        // A new directory has to outlive a crash as much as what is in it.
        Ok(()) => directory.sync_directory(),
        // Another part of the same checkpoint was quicker.
        Err(status) if status.code() == Code::AlreadyExists => Ok(()),
        Err(status) => Err(status),
    }
}
