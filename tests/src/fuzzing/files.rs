//! Files: records, tables, checkpoints of both formats and what stands beside them.

use std::io::Cursor;
use std::path::{Path, PathBuf};

use tensorfleet::train::{get_checkpoint_state, import_meta_graph, latest_checkpoint};
use tensorfleet_core::Result;
use tensorfleet_files::bundle::{BundleReader, data_path, index_path};
use tensorfleet_files::event_file::EventReader;
use tensorfleet_files::record::{Compression, RecordReader, RecordWriter};
use tensorfleet_files::slice_file::SliceFiles;
use tensorfleet_files::tensor_slice::TensorSlice;
use tensorfleet_files::{FileAccess, checksum, table as tables};
use tensorfleet_proto::Message;
use tensorfleet_proto::tensorflow::{BundleEntryProto, SavedTensorSlices};

use super::forged::{table_of_blocks, table_of_entries};
use super::pieces::Pieces;
use super::sandbox;

const COMPRESSIONS: [Compression; 3] = [Compression::None, Compression::Zlib, Compression::Gzip];
/// Records that are read of one file: a compressed one may hold millions of empty ones.
const MAX_RECORDS: usize = 1000;

/// A file of records, or of events. The first byte says how it is compressed, and whether the rest is the file itself or the
/// records to be written into one.
pub fn record(data: &[u8]) {
    let mut pieces = Pieces::of(data);
    let kind = pieces.byte();
    let compression = COMPRESSIONS[usize::from(kind) % 3];
    if kind & 0x40 != 0 {
        return sandbox::with_directory(|directory| {
            let path = directory.join("events");
            write(&path, &records_of(&mut pieces, Compression::None).0);
            EventReader::open(&FileAccess::EVERYWHERE, &path).unwrap().take(MAX_RECORDS).for_each(drop);
        });
    }
    if kind & 0x80 == 0 {
        return drop(read_records(pieces.rest().to_vec(), compression));
    }
    let (file, records) = records_of(&mut pieces, compression);
    assert_eq!(read_records(file, compression).unwrap(), records);
}

/// A file with each piece as a record.
fn records_of(pieces: &mut Pieces<'_>, compression: Compression) -> (Vec<u8>, Vec<Vec<u8>>) {
    let mut writer = RecordWriter::new(Vec::new(), compression);
    let mut records = Vec::new();
    while let Some(record) = pieces.piece() {
        writer.write(record).unwrap();
        records.push(record.to_vec());
    }
    (writer.finish().unwrap(), records)
}

fn read_records(file: Vec<u8>, compression: Compression) -> Result<Vec<Vec<u8>>> {
    let mut reader = RecordReader::new(PathBuf::new(), Box::new(Cursor::new(file)), compression);
    let mut records = Vec::new();
    while let Some(record) = reader.next_record()? {
        records.push(record);
        if records.len() >= MAX_RECORDS {
            break;
        }
    }
    Ok(records)
}

/// A table, as it is or with checksums put right. What can be read can be written and read again.
pub fn table(data: &[u8]) {
    let mut pieces = Pieces::of(data);
    let file = match pieces.byte() % 2 {
        0 => pieces.rest().to_vec(),
        _ => table_of_blocks(&mut pieces),
    };
    let Ok(entries) = tables::read(&file.into()) else { return };
    let copy = table_of_entries(entries.iter().map(|entry| (&entry.key[..], entry.value.to_vec())));
    assert_eq!(tables::read(&copy.into()).unwrap(), entries);
}

/// A checkpoint: keys and values of its index, then, after an empty key that is not the first, its data. The first byte says
/// whether checksums of values are put right.
pub fn checkpoint(data: &[u8]) {
    sandbox::bound_memory();
    let mut pieces = Pieces::of(data);
    let is_righted = pieces.byte().is_multiple_of(2);
    let entries = entries_of(&mut pieces);
    let values = pieces.rest();
    let righted = entries.into_iter().map(|(key, value)| match BundleEntryProto::decode(value) {
        Ok(entry) if is_righted && !key.is_empty() => (key, with_checksum(entry, values).encode_to_vec()),
        _ => (key, value.to_vec()),
    });
    let index = table_of_entries(righted);
    sandbox::with_directory(|directory| {
        let prefix = directory.join("model").to_string_lossy().into_owned();
        write(&index_path(&prefix), &index);
        write(&data_path(&prefix, 0, 1), values);
        let Ok(reader) = BundleReader::open(&FileAccess::EVERYWHERE, &prefix) else { return };
        let _ = reader.check_files();
        for (name, dtype, shape) in reader.tensors().into_iter().flatten().take(8) {
            if let Ok(tensor) = reader.read(&name) {
                assert_eq!((tensor.dtype(), tensor.shape()), (dtype, &shape), "{name}");
            }
            let slices = reader.slices(&name).into_iter().flatten().take(4);
            slices.for_each(|slice| drop(reader.read_slice(&name, &slice)));
            let _ = reader.read_slice(&name, &TensorSlice::full(shape.rank()));
        }
    });
}

/// The pieces in pairs, up to the first key that is empty but is not the first.
fn entries_of<'a>(pieces: &mut Pieces<'a>) -> Vec<(&'a [u8], &'a [u8])> {
    let mut entries = Vec::new();
    while let Some(key) = pieces.piece() {
        if key.is_empty() && !entries.is_empty() {
            break;
        }
        entries.push((key, pieces.piece().unwrap_or_default()));
    }
    entries
}

fn with_checksum(entry: BundleEntryProto, values: &[u8]) -> BundleEntryProto {
    let (begin, size) = (usize::try_from(entry.offset), usize::try_from(entry.size));
    let value = begin.ok().zip(size.ok()).and_then(|(begin, size)| values.get(begin..)?.get(..size));
    let crc32c = value.map_or(entry.crc32c, checksum::masked_crc);
    BundleEntryProto { crc32c, ..entry }
}

/// A checkpoint of the first format: keys and values of its table.
pub fn old_checkpoint(data: &[u8]) {
    sandbox::bound_memory();
    let entries = entries_of(&mut Pieces::of(data));
    let names: Vec<String> = match entries.first().map(|(_, value)| SavedTensorSlices::decode(*value)) {
        Some(Ok(first)) => {
            first.meta.into_iter().flat_map(|meta| meta.tensor).map(|tensor| tensor.name).take(8).collect()
        }
        _ => return,
    };
    let table = table_of_entries(entries.iter().map(|(key, value)| (*key, value.to_vec())));
    sandbox::with_directory(|directory| {
        let path = directory.join("old");
        write(&path, &table);
        let Ok(files) = SliceFiles::open(&FileAccess::EVERYWHERE, &[&path]) else { return };
        for name in names {
            let (Ok((dtype, shape)), Ok(tensor)) = (files.dtype_and_shape(&name), files.read(&name)) else {
                continue;
            };
            assert_eq!((tensor.dtype(), tensor.shape()), (dtype, &shape), "{name}");
        }
    });
}

/// The text that names the checkpoints of a directory.
pub fn checkpoint_state(data: &[u8]) {
    sandbox::with_directory(|directory| {
        write(&directory.join("checkpoint"), data);
        let directory = directory.to_string_lossy();
        let _ = get_checkpoint_state(&directory);
        let _ = latest_checkpoint(&directory);
    });
}

/// A meta graph, from its file to a graph that could be built further.
pub fn meta_graph(data: &[u8]) {
    sandbox::bound_memory();
    sandbox::with_directory(|directory| {
        let path = directory.join("model.meta");
        write(&path, data);
        let _ = import_meta_graph(&path.to_string_lossy());
    });
}

fn write(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).unwrap();
}
