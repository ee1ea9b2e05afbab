//! Tables whose checksums are right and whose contents are anything: a fuzzer cannot guess checksums, and what lies behind them
//! must not be trusted either.

use tensorfleet_files::checksum;
use tensorfleet_files::table::TableWriter;

use super::pieces::Pieces;

const MAGIC: u64 = 0xdb47_7524_8b80_fb57;
const FOOTER_BYTES: usize = 48;

/// A table of these blocks, the last of which is the index: the contents are as they are, the trailers right. The first byte of
/// a block is its compression.
pub(super) fn table_of_blocks(pieces: &mut Pieces<'_>) -> Vec<u8> {
    let (mut file, mut last) = (Vec::new(), (0, 0));
    while let Some(block) = pieces.piece() {
        let (compression, contents) = block.split_first().unwrap_or((&0, &[]));
        let checked = [contents, &[*compression]].concat();
        last = (file.len(), contents.len());
        file.extend_from_slice(&checked);
        file.extend_from_slice(&checksum::masked_crc(&checked).to_le_bytes());
    }
    let mut footer = vec![0, 0];
    put_varint(&mut footer, last.0);
    put_varint(&mut footer, last.1);
    footer.resize(FOOTER_BYTES - 8, 0);
    file.extend_from_slice(&footer);
    file.extend_from_slice(&MAGIC.to_le_bytes());
    file
}

/// A well-formed table of these entries.
pub(super) fn table_of_entries<'a>(entries: impl IntoIterator<Item = (&'a [u8], Vec<u8>)>) -> Vec<u8> {
    let mut writer = TableWriter::default();
    let mut sorted: Vec<(&[u8], Vec<u8>)> = entries.into_iter().collect();
    sorted.sort();
    sorted.dedup_by(|one, other| one.0 == other.0);
    sorted.iter().for_each(|(key, value)| writer.add(key, value).unwrap());
    writer.finish()
}

pub(super) fn put_varint(bytes: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}
