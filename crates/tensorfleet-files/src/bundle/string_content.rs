//! The bytes of a string tensor in a data file: lengths, a checksum of the lengths, then all strings.
//!
//! The checksum of the lengths runs over them as fixed-width numbers, not as the varints in the file; the entry's
//! own checksum continues from there.

use bytes::Bytes;
use tensorfleet_core::{Result, Status, ensure};

use crate::checksum;
use crate::varint;

/// Lengths and their checksum as they stand in the file, and the running checksum after them.
pub(super) fn encode_lengths(strings: &[Bytes]) -> (Vec<u8>, u32) {
    let mut bytes = Vec::with_capacity(strings.len() * 2 + 4);
    let mut crc = 0;
    for string in strings {
        varint::put(&mut bytes, string.len() as u64);
        crc = extend_by_length(crc, string.len() as u64);
    }
    let stored = checksum::mask(crc).to_le_bytes();
    bytes.extend_from_slice(&stored);
    (bytes, checksum::extend(crc, &stored))
}

/// TensorFlow widens a length only if it must.
fn extend_by_length(crc: u32, length: u64) -> u32 {
    match u32::try_from(length) {
        Ok(length) => checksum::extend(crc, &length.to_le_bytes()),
        Err(_) => checksum::extend(crc, &length.to_le_bytes()),
    }
}

/// The `count` strings in `content`, which share its memory, and the entry's checksum.
pub(super) fn decode(content: Bytes, count: usize) -> Result<(Vec<Bytes>, u32)> {
    // Every string takes at least the byte of its length, which bounds what is allocated.
    ensure!(count <= content.len(), DataLoss, "{count} strings cannot stand in {} bytes", content.len());
    let cut = || Status::data_loss("the lengths of a string tensor are cut short");
    let mut rest = &content[..];
    let mut lengths = Vec::with_capacity(count);
    let mut crc = 0;
    for _ in 0..count {
        let length = varint::take(&mut rest).ok_or_else(cut)?;
        crc = extend_by_length(crc, length);
        lengths.push(length);
    }
    let (stored, rest) = rest.split_at_checked(4).ok_or_else(cut)?;
    ensure!(
        checksum::mask(crc).to_le_bytes() == stored,
        DataLoss,
        "The length checksum does not match: the lengths of a string tensor are corrupt"
    );
    crc = checksum::extend(checksum::extend(crc, stored), rest);
    let mut start = content.len() - rest.len();
    let mut strings = Vec::with_capacity(count);
    for length in lengths {
        let end = usize::try_from(length).ok().and_then(|length| start.checked_add(length));
        let end = end.filter(|&end| end <= content.len());
        let end = end.ok_or_else(|| Status::data_loss("a string reaches past its tensor"))?;
        strings.push(content.slice(start..end));
        start = end;
    }
    ensure!(start == content.len(), DataLoss, "bytes are left over after the strings of a tensor");
    Ok((strings, crc))
}
