//! Sorted tables: the format of a checkpoint's `.index` file, that of LevelDB.
//!
//! A table is small beside the tensors it lists, so it is read whole: [`read`] checks everything once and gives
//! the entries in order. [`TableWriter`] makes the bytes TensorFlow makes.

use bytes::Bytes;
use tensorfleet_core::{Result, Status, ensure};

use crate::checksum;
use crate::snappy;
use crate::varint;

const MAGIC: u64 = 0xdb47_7524_8b80_fb57;
const FOOTER_BYTES: usize = 48;
/// After a block's contents: one byte of compression type, four of checksum.
const TRAILER_BYTES: usize = 5;
/// A block is closed once it has reached this size.
const BLOCK_BYTES: usize = 256 << 10;
/// A value of this size gets a block of its own.
const LARGE_VALUE_BYTES: usize = 512 << 10;
/// Data blocks write a key in full after so many entries.
const RESTART_INTERVAL: usize = 16;
/// The keys of a block take at most so many times its size. Writers that spell a key out after every sixteenth entry, as all known
/// ones do, stay far below; without a bound a block could stand for as many bytes as the square of its size.
const MAX_KEY_EXPANSION: usize = 64;

/// An entry of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key; keys ascend bytewise.
    pub key: Vec<u8>,
    /// The value.
    pub value: Bytes,
}

/// All entries of the table in `file`, in order of their keys.
pub fn read(file: &Bytes) -> Result<Vec<Entry>> {
    ensure!(
        file.len() >= FOOTER_BYTES,
        DataLoss,
        "file is too short to be an sstable: perhaps your file is in a different file format"
    );
    let (blocks, mut footer) = file.split_at(file.len() - FOOTER_BYTES);
    ensure!(
        footer[FOOTER_BYTES - 8..] == MAGIC.to_le_bytes(),
        DataLoss,
        "not an sstable (bad magic number): perhaps your file is in a different file format"
    );
    let metaindex_handle = Handle::take(&mut footer)?;
    let index_handle = Handle::take(&mut footer)?;
    // Every writer fills the rest with zeros, and no checksum covers it.
    let padding = footer.len().saturating_sub(8);
    ensure!(
        footer[..padding].iter().all(|&byte| byte == 0),
        DataLoss,
        "the footer of an sstable is damaged: its padding is not zero"
    );
    let blocks = file.slice(..blocks.len());
    // It holds filters in other databases; in bundles it is empty. Reading it finds damage.
    read_block(&blocks, metaindex_handle)?;
    let mut entries: Vec<Entry> = Vec::new();
    for index in parse_block(&read_block(&blocks, index_handle)?)? {
        let handle = Handle::take(&mut &index.value[..])?;
        let block = parse_block(&read_block(&blocks, handle)?)?;
        for entry in block {
            let ascends = entries.last().is_none_or(|last| last.key < entry.key);
            ensure!(ascends, DataLoss, "the keys of an sstable are out of order");
            entries.push(entry);
        }
    }
    Ok(entries)
}

/// Where a block lies.
#[derive(Clone, Copy)]
struct Handle {
    offset: usize,
    size: usize,
}

impl Handle {
    fn take(bytes: &mut &[u8]) -> Result<Handle> {
        let mut number = || varint::take_len(bytes).ok_or_else(|| Status::data_loss("bad block handle"));
        Ok(Handle { offset: number()?, size: number()? })
    }

    fn encode(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(20);
        varint::put(&mut bytes, self.offset as u64);
        varint::put(&mut bytes, self.size as u64);
        bytes
    }
}

fn read_block(file: &Bytes, handle: Handle) -> Result<Bytes> {
    let Handle { offset, size } = handle;
    let end = offset.checked_add(size).and_then(|end| end.checked_add(TRAILER_BYTES));
    ensure!(
        end.is_some_and(|end| end <= file.len()),
        DataLoss,
        "truncated block read: {size} bytes at {offset} of {}",
        file.len()
    );
    let (checked, stored) = file[offset..offset + size + TRAILER_BYTES].split_at(size + 1);
    ensure!(checksum::masked_crc(checked).to_le_bytes() == stored, DataLoss, "block checksum mismatch");
    match checked[size] {
        0 => Ok(file.slice(offset..offset + size)),
        1 => Ok(snappy::decode(&checked[..size])?.into()),
        _ => Err(Status::data_loss("bad block type")),
    }
}

fn parse_block(block: &Bytes) -> Result<Vec<Entry>> {
    let corrupt = || Status::data_loss("bad entry in block");
    let count = block.last_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes) as usize);
    // The restart points serve searching; reading in order needs to know only where they begin.
    let restart_bytes = count.and_then(|count| count.checked_mul(4)?.checked_add(4));
    let len = restart_bytes.and_then(|bytes| block.len().checked_sub(bytes)).ok_or_else(corrupt)?;
    let mut rest = &block[..len];
    let mut room = block.len().saturating_mul(MAX_KEY_EXPANSION);
    let mut entries: Vec<Entry> = Vec::new();
    while !rest.is_empty() {
        let mut number = || varint::take_len(&mut rest).ok_or_else(corrupt);
        let (shared, unshared, value_len) = (number()?, number()?, number()?);
        let previous = entries.last().map_or(&[][..], |entry| &entry.key);
        let prefix = previous.get(..shared).ok_or_else(corrupt)?;
        let (suffix, after) = rest.split_at_checked(unshared).ok_or_else(corrupt)?;
        let (value, after) = after.split_at_checked(value_len).ok_or_else(corrupt)?;
        room = room.checked_sub(prefix.len() + suffix.len()).ok_or_else(|| {
            let size = block.len();
            Status::data_loss(format!(
                "the keys of a block of {size} bytes take over {MAX_KEY_EXPANSION} times as many"
            ))
        })?;
        entries.push(Entry { key: [prefix, suffix].concat(), value: block.slice_ref(value) });
        rest = after;
    }
    Ok(entries)
}

/// Makes a table from entries added in order of their keys.
pub struct TableWriter {
    file: Vec<u8>,
    block: BlockBuilder,
    index: BlockBuilder,
    last_key: Vec<u8>,
    /// A block that has been written; its index entry waits for the next key, which allows a shorter one.
    pending: Option<Handle>,
}

impl Default for TableWriter {
    fn default() -> TableWriter {
        TableWriter {
            file: Vec::new(),
            block: BlockBuilder::new(RESTART_INTERVAL),
            index: BlockBuilder::new(1),
            last_key: Vec::new(),
            pending: None,
        }
    }
}

impl TableWriter {
    /// Adds an entry whose key is greater than all before it.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let is_first = self.block.is_empty() && self.pending.is_none();
        ensure!(
            is_first || self.last_key.as_slice() < key,
            Internal,
            "keys of a table must ascend, got {:?} after {:?}",
            String::from_utf8_lossy(key),
            String::from_utf8_lossy(&self.last_key)
        );
        if value.len() >= LARGE_VALUE_BYTES {
            self.close_block();
        }
        if let Some(handle) = self.pending.take() {
            self.index.add(&separator(&self.last_key, key), &handle.encode());
        }
        self.block.add(key, value);
        self.last_key = key.to_vec();
        if self.block.size() >= BLOCK_BYTES {
            self.close_block();
        }
        Ok(())
    }

    /// The bytes of the table.
    pub fn finish(mut self) -> Vec<u8> {
        self.close_block();
        let metaindex = self.write_block(BlockBuilder::new(1));
        if let Some(handle) = self.pending.take() {
            self.index.add(&successor(&self.last_key), &handle.encode());
        }
        let index = std::mem::replace(&mut self.index, BlockBuilder::new(1));
        let index = self.write_block(index);
        let mut footer = [metaindex.encode(), index.encode()].concat();
        footer.resize(FOOTER_BYTES - 8, 0);
        self.file.extend_from_slice(&footer);
        self.file.extend_from_slice(&MAGIC.to_le_bytes());
        self.file
    }

    fn close_block(&mut self) {
        if !self.block.is_empty() {
            let block = std::mem::replace(&mut self.block, BlockBuilder::new(RESTART_INTERVAL));
            self.pending = Some(self.write_block(block));
        }
    }

    fn write_block(&mut self, block: BlockBuilder) -> Handle {
        let offset = self.file.len();
        let mut contents = block.finish();
        let size = contents.len();
        // Not compressed.
        contents.push(0);
        self.file.extend_from_slice(&contents);
        self.file.extend_from_slice(&checksum::masked_crc(&contents).to_le_bytes());
        Handle { offset, size }
    }
}

/// A short key that is not less than `last` and less than `next`.
fn separator(last: &[u8], next: &[u8]) -> Vec<u8> {
    let differs = last.iter().zip(next).position(|(a, b)| a != b);
    match differs {
        Some(at) if last[at] < 0xff && last[at] + 1 < next[at] => {
            let mut key = last[..=at].to_vec();
            key[at] += 1;
            key
        }
        _ => last.to_vec(),
    }
}

/// A short key that is not less than `last`.
fn successor(last: &[u8]) -> Vec<u8> {
    match last.iter().position(|&byte| byte != 0xff) {
        Some(at) => {
            let mut key = last[..=at].to_vec();
            key[at] += 1;
            key
        }
        None => last.to_vec(),
    }
}

/// Entries that leave out what their key shares with the one before.
struct BlockBuilder {
    contents: Vec<u8>,
    restarts: Vec<u32>,
    interval: usize,
    since_restart: usize,
    last_key: Vec<u8>,
}

impl BlockBuilder {
    fn new(interval: usize) -> BlockBuilder {
        BlockBuilder {
            contents: Vec::new(),
            restarts: vec![0],
            interval,
            since_restart: 0,
            last_key: Vec::new(),
        }
    }

    fn is_empty(&self) -> bool {
        self.contents.is_empty()
    }

    fn size(&self) -> usize {
        self.contents.len() + self.restarts.len() * 4 + 4
    }

    fn add(&mut self, key: &[u8], value: &[u8]) {
        let mut shared = 0;
        if self.since_restart == self.interval {
            self.restarts.push(self.contents.len() as u32);
            self.since_restart = 0;
        } else {
            shared = self.last_key.iter().zip(key).take_while(|(a, b)| a == b).count();
        }
        for number in [shared, key.len() - shared, value.len()] {
            varint::put(&mut self.contents, number as u64);
        }
        self.contents.extend_from_slice(&key[shared..]);
        self.contents.extend_from_slice(value);
        self.last_key = key.to_vec();
        self.since_restart += 1;
    }

    fn finish(mut self) -> Vec<u8> {
        for restart in &self.restarts {
            self.contents.extend_from_slice(&restart.to_le_bytes());
        }
        self.contents.extend_from_slice(&(self.restarts.len() as u32).to_le_bytes());
        self.contents
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn write(entries: &BTreeMap<Vec<u8>, Vec<u8>>) -> Bytes {
        let mut writer = TableWriter::default();
        entries.iter().for_each(|(key, value)| writer.add(key, value).unwrap());
        writer.finish().into()
    }

    fn assert_reads_back(entries: &BTreeMap<Vec<u8>, Vec<u8>>) {
        let read = read(&write(entries)).unwrap();
        assert!(
            read.iter()
                .map(|entry| (&entry.key[..], &entry.value[..]))
                .eq(entries.iter().map(|(key, value)| (&key[..], &value[..])))
        );
    }

    #[test]
    fn tables_of_several_blocks_read_back() {
        assert_reads_back(&BTreeMap::new());
        let key = |i: usize| format!("layer_{i:05}/weights").into_bytes();
        assert_reads_back(&(0..9000).map(|i| (key(i), vec![i as u8; i % 200])).collect());
        assert_reads_back(&(0..5).map(|i| (key(i), vec![i as u8; 600_000])).collect());
    }

    #[test]
    fn keys_between_blocks_are_shortened() {
        assert_eq!(separator(b"abcd", b"abzz"), b"abd");
        assert_eq!(separator(b"abc", b"abd"), b"abc");
        assert_eq!(separator(b"ab", b"abc"), b"ab");
        assert_eq!(successor(b"\xff\xffb"), b"\xff\xffc");
        assert_eq!(successor(b"\xff"), b"\xff");
    }

    #[test]
    fn keys_that_share_everything_do_not_take_all_memory() {
        // Each of these entries takes four bytes, and its key ten thousand.
        let mut block = BlockBuilder::new(usize::MAX);
        let mut key = vec![b'k'; 10_000];
        for last in 0..=u8::MAX {
            key.push(last);
            block.add(&key, b"");
            key.pop();
        }
        let status = parse_block(&block.finish().into()).unwrap_err();
        assert!(status.text().contains("times as many"), "{status}");
    }

    #[test]
    fn snappy_blocks_are_read() {
        // A table with one data block, compressed as a single literal.
        let mut block = BlockBuilder::new(16);
        block.add(b"k", b"v");
        let raw = block.finish();
        let mut compressed = vec![raw.len() as u8, ((raw.len() - 1) << 2) as u8];
        compressed.extend_from_slice(&raw);
        let mut writer = TableWriter::default();
        let (offset, size) = (0, compressed.len());
        compressed.push(1);
        writer.file.extend_from_slice(&compressed);
        writer.file.extend_from_slice(&checksum::masked_crc(&compressed).to_le_bytes());
        writer.pending = Some(Handle { offset, size });
        writer.last_key = b"k".to_vec();
        let entries = read(&writer.finish().into()).unwrap();
        assert_eq!(entries, [Entry { key: b"k".to_vec(), value: Bytes::from_static(b"v") }]);
    }

    #[test]
    fn every_cut_and_every_flipped_byte_is_data_loss() {
        let table = write(&(0..40).map(|i| (format!("var_{i:02}").into_bytes(), vec![i; 9])).collect());
        for len in 0..table.len() {
            assert_eq!(read(&table.slice(..len)).unwrap_err().code(), tensorfleet_core::Code::DataLoss);
        }
        for at in 0..table.len() {
            let mut bad = table.to_vec();
            bad[at] ^= 0x10;
            let status = read(&bad.into()).unwrap_err();
            assert_eq!(status.code(), tensorfleet_core::Code::DataLoss, "byte {at}: {status}");
        }
    }

    proptest! {
        #[test]
        fn any_table_reads_back(entries: BTreeMap<Vec<u8>, Vec<u8>>) {
            assert_reads_back(&entries);
        }

        #[test]
        fn random_bytes_never_panic(mut bytes: Vec<u8>, handles in any::<[u8; 40]>()) {
            let _ = read(&bytes.clone().into());
            bytes.extend_from_slice(&handles);
            bytes.extend_from_slice(&MAGIC.to_le_bytes());
            let _ = read(&bytes.into());
        }
    }
}
