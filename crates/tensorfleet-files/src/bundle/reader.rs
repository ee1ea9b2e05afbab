//! [`BundleReader`]: looking tensors up in a checkpoint.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tensorfleet_core::{Buffer, DType, Result, Shape, Status, Tensor, bail, ensure};
use tensorfleet_proto::tensorflow::bundle_header_proto::Endianness;
use tensorfleet_proto::tensorflow::{BundleEntryProto, BundleHeaderProto};
use tensorfleet_threads::{Loops, Threads};

use super::{HEADER_KEY, VERSION, data_path, decode, index_path, string_content};
use crate::checksum;
use crate::file_access::FileAccess;
use crate::io_status::io_status;
use crate::ordered_code::slice_key;
use crate::table;
use crate::tensor_slice::{Assembly, TensorSlice};

/// Values are read in pieces of this size, which fit the cache of a processor.
const PIECE_BYTES: usize = 512 << 10;
/// Values from this size on are worth several threads.
const PARALLEL_BYTES: usize = 4 << 20;

/// An open checkpoint. Tensors are read when they are asked for, from any thread.
pub struct BundleReader {
    access: FileAccess,
    prefix: String,
    header: BundleHeaderProto,
    entries: BTreeMap<Vec<u8>, Bytes>,
    /// Data files, opened on first use.
    shards: Mutex<BTreeMap<i32, Arc<Shard>>>,
    loops: Loops,
}

struct Shard {
    file: File,
    len: u64,
    name: String,
}

impl BundleReader {
    /// Opens the checkpoint with this prefix: reads its index.
    pub fn open(access: &FileAccess, prefix: &str) -> Result<BundleReader> {
        let path = index_path(prefix);
        let entries = table::read(&access.read(&path)?.into())
            .map_err(|status| status.context(format!("Unable to open table file {}", path.display())))?;
        let mut entries: BTreeMap<_, _> = entries.into_iter().map(|entry| (entry.key, entry.value)).collect();
        let header = entries.remove(HEADER_KEY);
        let header = header.ok_or_else(|| Status::data_loss(format!("{} has no header", path.display())))?;
        let header: BundleHeaderProto = decode(&header, "")?;
        let version = header.version.clone().unwrap_or_default();
        ensure!(
            version.min_consumer <= VERSION,
            InvalidArgument,
            "Checkpoint {prefix} was made for readers of version {} or newer; this one has version {VERSION}",
            version.min_consumer
        );
        let loops = Threads::of_process().loops().clone();
        Ok(BundleReader {
            access: access.clone(),
            prefix: prefix.to_string(),
            header,
            entries,
            shards: Mutex::default(),
            loops,
        })
    }

    /// Has large tensors read with the help of these threads instead of the process's.
    pub fn with_loops(self, loops: &Loops) -> BundleReader {
        BundleReader { loops: loops.clone(), ..self }
    }

    /// The names and shapes of all tensors, a partitioned one once with its full shape.
    pub fn tensors(&self) -> Result<Vec<(String, DType, Shape)>> {
        // Keys of slices start with the byte 0, which no tensor's name does.
        let names = self.entries.keys().filter(|key| key.first() != Some(&0));
        let names = names.map(|key| String::from_utf8_lossy(key).into_owned());
        names.map(|name| self.dtype_and_shape(&name).map(|(dtype, shape)| (name, dtype, shape))).collect()
    }

    /// Whether there is a tensor of this name.
    pub fn contains(&self, name: &str) -> bool {
        !name.is_empty() && self.entries.contains_key(name.as_bytes())
    }

    /// The dtype and full shape of a tensor.
    pub fn dtype_and_shape(&self, name: &str) -> Result<(DType, Shape)> {
        dtype_and_shape(&self.entry(name)?)
    }

    /// The value of a tensor; a partitioned one is put together.
    pub fn read(&self, name: &str) -> Result<Tensor> {
        let entry = self.entry(name)?;
        if entry.slices.is_empty() {
            return self.read_entry(name, &entry);
        }
        let (_, shape) = dtype_and_shape(&entry)?;
        self.read_slice(name, &TensorSlice::full(shape.rank()))
    }

    /// A part of a tensor, whether it was saved whole or in other parts.
    pub fn read_slice(&self, name: &str, slice: &TensorSlice) -> Result<Tensor> {
        let entry = self.entry(name)?;
        let (dtype, full) = dtype_and_shape(&entry)?;
        let wanted = slice.within(&full)?;
        if entry.slices.is_empty() {
            let whole = self.read_entry(name, &entry)?;
            if wanted.is_all_of(&full) {
                return Ok(whole);
            }
            let mut assembly = Assembly::new(dtype, wanted)?;
            assembly.add(&whole, &TensorSlice::full(full.rank()).within(&full)?)?;
            return assembly.finish()?.ok_or_else(|| Status::internal("a whole tensor has gaps"));
        }
        let mut assembly = Assembly::new(dtype, wanted.clone())?;
        for proto in &entry.slices {
            let stored = TensorSlice::from_proto(proto)?;
            let from = stored.within(&full)?;
            if from.intersect(&wanted).is_none() {
                continue;
            }
            let key = slice_key(name, &stored);
            let part = self.entries.get(&key).ok_or_else(|| {
                Status::data_loss(format!(
                    "Slice {stored} of tensor {name} is listed in the checkpoint, but not there"
                ))
            })?;
            let part: BundleEntryProto = decode(part, name)?;
            assembly.add(&self.read_entry(name, &part)?, &from)?;
        }
        let tensor = assembly.finish()?;
        tensor.ok_or_else(|| {
            Status::invalid_argument(format!(
                "Does not have sufficient slices for partitioned tensor {name} to restore in slice_spec: {slice}"
            ))
        })
    }

    /// The parts that a partitioned tensor was saved in; none for a whole one.
    pub fn slices(&self, name: &str) -> Result<Vec<TensorSlice>> {
        self.entry(name)?.slices.iter().map(TensorSlice::from_proto).collect()
    }

    /// Checks, without reading values, that the checkpoint is all there: every data file exists and is as long as the
    /// index says.
    pub fn check_files(&self) -> Result<()> {
        for (key, entry) in self.entries() {
            let entry = entry?;
            if entry.slices.is_empty() {
                self.shard(entry.shard_id)?.check_range(&entry)?;
                continue;
            }
            let name = String::from_utf8_lossy(key);
            for slice in &entry.slices {
                let key = slice_key(&name, &TensorSlice::from_proto(slice)?);
                ensure!(self.entries.contains_key(&key), DataLoss, "a slice of tensor {name} is missing");
            }
        }
        Ok(())
    }

    fn entry(&self, name: &str) -> Result<BundleEntryProto> {
        let entry = self.entries.get(name.as_bytes()).filter(|_| !name.is_empty());
        decode(entry.ok_or_else(|| Status::not_found(format!("Key {name} not found in checkpoint")))?, name)
    }

    pub(super) fn header(&self) -> &BundleHeaderProto {
        &self.header
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = (&[u8], Result<BundleEntryProto>)> {
        let entry = |(key, value): (&'_ Vec<u8>, &Bytes)| decode(value, &String::from_utf8_lossy(key));
        self.entries.iter().map(move |(key, value)| (&key[..], entry((key, value))))
    }

    fn read_entry(&self, name: &str, entry: &BundleEntryProto) -> Result<Tensor> {
        let (dtype, shape) = dtype_and_shape(entry)?;
        let shard = self.shard(entry.shard_id)?;
        match dtype {
            DType::String => self.read_strings(name, entry, &shard, shape),
            DType::Resource | DType::Variant => {
                bail!(Unimplemented, "Tensor {name} of dtype {dtype} cannot be restored")
            }
            _ => self.read_plain(name, entry, &shard, dtype, shape),
        }
    }

    fn read_plain(
        &self,
        name: &str,
        entry: &BundleEntryProto,
        shard: &Shard,
        dtype: DType,
        shape: Shape,
    ) -> Result<Tensor> {
        let size = dtype.size().unwrap_or(0);
        let expected = shape.num_elements().checked_mul(size);
        ensure!(
            expected.is_some_and(|expected| expected as i64 == entry.size),
            DataLoss,
            "Invalid size in bundle entry: key {name}; stored size {}; dtype {dtype}, shape {shape}",
            entry.size
        );
        let len = shard.check_range(entry)?;
        let mut buffer = Buffer::new(len)?;
        if let Some(bytes) = buffer.as_bytes_mut() {
            let crc = shard.read_checked(&self.loops, entry.offset as u64, bytes)?;
            self.check_crc(name, entry, crc)?;
            if self.header.endianness() == Endianness::Big {
                let part = if dtype.is_complex() { size / 2 } else { size };
                bytes.chunks_exact_mut(part).for_each(<[u8]>::reverse);
            }
        }
        Tensor::from_buffer(dtype, shape, buffer)
    }

    fn read_strings(
        &self,
        name: &str,
        entry: &BundleEntryProto,
        shard: &Shard,
        shape: Shape,
    ) -> Result<Tensor> {
        let mut content = vec![0; shard.check_range(entry)?];
        shard.read(entry.offset as u64, &mut content)?;
        let (strings, crc) = string_content::decode(content.into(), shape.num_elements())
            .map_err(|status| status.context(format!("Tensor {name}")))?;
        self.check_crc(name, entry, crc)?;
        Tensor::from_strings(strings, shape.dims())
    }

    fn check_crc(&self, name: &str, entry: &BundleEntryProto, crc: u32) -> Result<()> {
        let stored = checksum::unmask(entry.crc32c);
        ensure!(
            stored == crc,
            DataLoss,
            "TensorBundle at {} shard {} ({} bytes): Checksum does not match: stored {stored} vs. calculated on the \
             restored bytes {crc} (tensor {name})",
            self.prefix,
            entry.shard_id,
            entry.size
        );
        Ok(())
    }

    fn shard(&self, id: i32) -> Result<Arc<Shard>> {
        let num_shards = self.header.num_shards;
        ensure!(
            (0..num_shards).contains(&id),
            DataLoss,
            "Checkpoint {} has {num_shards} data files, but a tensor in file {id}",
            self.prefix
        );
        // A thread that panicked here left the map whole: its only change is one insertion.
        let mut shards = self.shards.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shard) = shards.get(&id) {
            return Ok(shard.clone());
        }
        let path = data_path(&self.prefix, id as usize, num_shards as usize);
        let file = self.access.open(&path)?;
        let len = file.metadata().map_err(|error| io_status(&path, &error))?.len();
        let shard = Arc::new(Shard { file, len, name: path.display().to_string() });
        shards.insert(id, shard.clone());
        Ok(shard)
    }
}

impl Shard {
    /// The entry's size, known to lie inside the file: nothing is allocated for bytes that are not there.
    fn check_range(&self, entry: &BundleEntryProto) -> Result<usize> {
        let range = || {
            let (offset, size) = (u64::try_from(entry.offset).ok()?, u64::try_from(entry.size).ok()?);
            (offset.checked_add(size)? <= self.len).then_some(size as usize)
        };
        range().ok_or_else(|| {
            Status::out_of_range(format!(
                "Read fewer bytes than requested: {} bytes at {} of {}, which has {}",
                entry.size, entry.offset, self.name, self.len
            ))
        })
    }

    /// Fills `bytes` and gives their checksum. Each piece is checked while it is still in the processor's cache, and
    /// large values are read by several threads.
    fn read_checked(&self, loops: &Loops, offset: u64, bytes: &mut [u8]) -> Result<u32> {
        let piece = |(number, piece): (usize, &mut [u8])| {
            self.read(offset + (number * PIECE_BYTES) as u64, piece)?;
            Ok((checksum::crc(piece), piece.len()))
        };
        let join = |(first, first_len), (second, second_len)| {
            (checksum::join(first, second, second_len), first_len + second_len)
        };
        if bytes.len() < PARALLEL_BYTES {
            let pieces = bytes.chunks_mut(PIECE_BYTES).enumerate().map(piece);
            let whole = pieces.reduce(|a: Result<_>, b| Ok(join(a?, b?)));
            return Ok(whole.unwrap_or(Ok((0, 0)))?.0);
        }
        let mut sums = vec![Ok((0, 0)); bytes.len().div_ceil(PIECE_BYTES)];
        loops.each(bytes.chunks_mut(PIECE_BYTES).enumerate().zip(&mut sums), |(bytes, sum)| {
            *sum = piece(bytes)
        });
        let whole = sums.into_iter().reduce(|a, b| Ok(join(a?, b?)));
        Ok(whole.unwrap_or(Ok((0, 0)))?.0)
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(bytes, offset).map_err(|error| io_status(self.name.as_ref(), &error))
    }
}

fn dtype_and_shape(entry: &BundleEntryProto) -> Result<(DType, Shape)> {
    let corrupt = |status: Status| Status::data_loss(format!("bad bundle entry: {}", status.text()));
    let dtype = DType::from_number(entry.dtype).map_err(corrupt)?;
    let shape = entry.shape.as_ref().map_or(Ok(Shape::scalar()), Shape::from_proto).map_err(corrupt)?;
    Ok((dtype, shape))
}
