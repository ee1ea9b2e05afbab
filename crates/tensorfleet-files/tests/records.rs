//! Record and event files made by TensorFlow are read, and the same content written gives the same bytes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Cursor;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use prost::Message;
use tensorfleet_core::{Code, memory};
use tensorfleet_files::FileAccess;
use tensorfleet_files::event_file::EventFile;
use tensorfleet_files::record::{Compression, RecordReader, RecordWriter, read_all};
use tensorfleet_proto::tensorflow::Event;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn records_in(bytes: Vec<u8>, compression: Compression) -> Result<Vec<Vec<u8>>, Code> {
    let mut reader = RecordReader::new(PathBuf::new(), Box::new(Cursor::new(bytes)), compression);
    let mut records = Vec::new();
    while let Some(record) = reader.next_record().map_err(|status| status.code())? {
        records.push(record);
    }
    Ok(records)
}

fn written(records: &[Vec<u8>], compression: Compression) -> Vec<u8> {
    let mut writer = RecordWriter::new(Vec::new(), compression);
    records.iter().for_each(|record| writer.write(record).unwrap());
    writer.finish().unwrap()
}

const ALL: [Compression; 3] = [Compression::None, Compression::Zlib, Compression::Gzip];

#[test]
fn the_same_records_stand_in_all_three_files() {
    let plain =
        read_all(&FileAccess::EVERYWHERE, &fixture("tfrecord/plain.tfrecord"), Compression::None).unwrap();
    assert_eq!(plain[..2], [b"".to_vec(), b"hello".to_vec()]);
    assert_eq!(plain.len(), 4);
    assert_eq!(
        read_all(&FileAccess::EVERYWHERE, &fixture("tfrecord/zlib.tfrecord"), Compression::Zlib).unwrap(),
        plain
    );
    assert_eq!(
        read_all(&FileAccess::EVERYWHERE, &fixture("tfrecord/gzip.tfrecord"), Compression::Gzip).unwrap(),
        plain
    );
    assert_eq!(
        written(&plain, Compression::None),
        std::fs::read(fixture("tfrecord/plain.tfrecord")).unwrap()
    );
    for compression in ALL {
        assert_eq!(records_in(written(&plain, compression), compression).unwrap(), plain);
    }
}

#[test]
fn cut_and_flipped_records_are_lost() {
    let bytes = written(&[b"hello".to_vec()], Compression::None);
    for len in 1..bytes.len() {
        assert_eq!(records_in(bytes[..len].to_vec(), Compression::None), Err(Code::DataLoss), "{len}");
    }
    for at in 0..bytes.len() {
        let mut bad = bytes.clone();
        bad[at] ^= 4;
        assert_eq!(records_in(bad, Compression::None), Err(Code::DataLoss), "{at}");
    }
    let zipped = std::fs::read(fixture("tfrecord/gzip.tfrecord")).unwrap();
    assert_eq!(records_in(zipped[..60].to_vec(), Compression::Gzip), Err(Code::DataLoss));
    assert_eq!(records_in(b"no gzip at all".to_vec(), Compression::Gzip), Err(Code::DataLoss));
    let missing = read_all(&FileAccess::EVERYWHERE, &fixture("none"), Compression::None).unwrap_err();
    assert_eq!(missing.code(), Code::NotFound);
    // A length of 2^60 with a right checksum asks for no memory.
    let length = (1u64 << 60).to_le_bytes();
    let crc = tensorfleet_files::checksum::masked_crc(&length).to_le_bytes();
    assert_eq!(records_in([&length[..], &crc].concat(), Compression::None), Err(Code::DataLoss));
}

#[test]
fn an_event_file_is_tensorflows() {
    for name in ["events_tiny", "events"] {
        let path = fixture(name).join("events.out.tfevents.1500000000.host");
        let records = read_all(&FileAccess::EVERYWHERE, &path, Compression::None).unwrap();
        let events: Vec<Event> = records.iter().map(|bytes| Event::decode(&bytes[..]).unwrap()).collect();
        let directory = tempfile::tempdir().unwrap();
        let logs = directory.path().join("logs/run");
        let mut file =
            EventFile::create(&FileAccess::EVERYWHERE, &logs, "host", ".x", events[0].wall_time).unwrap();
        let name = format!("events.out.tfevents.{}.host.x", events[0].wall_time as i64);
        assert_eq!(file.path(), logs.join(name));
        assert_eq!(read_all(&FileAccess::EVERYWHERE, file.path(), Compression::None).unwrap().len(), 1);
        events[1..].iter().for_each(|event| file.write(event).unwrap());
        file.flush().unwrap();
        assert_eq!(std::fs::read(file.path()).unwrap(), std::fs::read(&path).unwrap());
    }
}

proptest! {
    #[test]
    fn any_records_come_back(records: Vec<Vec<u8>>) {
        for compression in ALL {
            prop_assert_eq!(&records_in(written(&records, compression), compression).unwrap(), &records);
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes: Vec<u8>) {
        for compression in ALL {
            let _ = records_in(bytes.clone(), compression);
        }
    }
}

#[test]
fn a_small_file_that_holds_a_huge_record_is_refused_before_memory_is_full() {
    // More than any other test here reads.
    const LIMIT: usize = 16 << 20;
    memory::set_limit_bytes(LIMIT);
    let file = written(&[vec![0; LIMIT + 1]], Compression::Zlib);
    assert!(file.len() < LIMIT / 100);
    assert_eq!(records_in(file, Compression::Zlib), Err(Code::ResourceExhausted));
    let cut = written(&[vec![7; LIMIT + 1]], Compression::None)[..LIMIT / 2].to_vec();
    assert_eq!(records_in(cut, Compression::None), Err(Code::DataLoss));
}
