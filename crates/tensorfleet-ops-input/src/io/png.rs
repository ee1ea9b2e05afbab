//! Pictures as PNG files of 8 bits per channel.

use std::io::Write;

use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};
use tensorfleet_core::{Result, Status};

const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";

/// A PNG file of `pixels`: rows from top to bottom, with 1 (grey), 3 (RGB) or 4 (RGBA) bytes for each pixel.
pub(super) fn encode(pixels: &[u8], width: usize, height: usize, channels: usize) -> Result<Vec<u8>> {
    let color_type = match channels {
        1 => 0,
        3 => 2,
        4 => 6,
        _ => return Err(Status::invalid_argument(format!("a PNG picture with {channels} channels"))),
    };
    let side = |pixels: usize| {
        u32::try_from(pixels).ok().filter(|&side| side > 0 && side <= i32::MAX as u32).ok_or_else(|| {
            Status::invalid_argument(format!("a picture of {width} by {height} pixels does not fit into PNG"))
        })
    };
    let mut header = Vec::with_capacity(13);
    header.extend_from_slice(&side(width)?.to_be_bytes());
    header.extend_from_slice(&side(height)?.to_be_bytes());
    // 8 bits per channel, the only compression, the only set of filters, not interlaced.
    header.extend_from_slice(&[8, color_type, 0, 0, 0]);
    let compressed = compress(pixels, width * channels, channels)
        .map_err(|error| Status::internal(format!("a picture could not be compressed: {error}")))?;

    let mut file = Vec::with_capacity(compressed.len() + 64);
    file.extend_from_slice(SIGNATURE);
    for (kind, content) in [(b"IHDR", &header[..]), (b"IDAT", &compressed), (b"IEND", &[])] {
        chunk(&mut file, kind, content)?;
    }
    Ok(file)
}

fn chunk(file: &mut Vec<u8>, kind: &[u8; 4], content: &[u8]) -> Result<()> {
    let length = u32::try_from(content.len()).ok().filter(|&length| length <= i32::MAX as u32);
    let length = length.ok_or_else(|| Status::invalid_argument("the picture is too large for a PNG file"))?;
    file.extend_from_slice(&length.to_be_bytes());
    let mut crc = Crc::new();
    for part in [&kind[..], content] {
        crc.update(part);
        file.extend_from_slice(part);
    }
    file.extend_from_slice(&crc.sum().to_be_bytes());
    Ok(())
}

/// Every row, with the filter that makes its bytes smallest, in one zlib stream.
fn compress(pixels: &[u8], row_bytes: usize, pixel_bytes: usize) -> std::io::Result<Vec<u8>> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    let zeros = vec![0; row_bytes];
    let mut above = &zeros[..];
    for row in pixels.chunks_exact(row_bytes.max(1)) {
        let left = std::iter::repeat_n(&0, pixel_bytes).chain(row);
        let sub: Vec<u8> = row.iter().zip(left).map(|(byte, left)| byte.wrapping_sub(*left)).collect();
        let up: Vec<u8> = row.iter().zip(above).map(|(byte, above)| byte.wrapping_sub(*above)).collect();
        let candidates = [(0u8, row), (1, &sub), (2, &up)];
        let best = candidates.into_iter().min_by_key(|(_, bytes)| weight(bytes)).unwrap_or((0, row));
        encoder.write_all(&[best.0])?;
        encoder.write_all(best.1)?;
        above = row;
    }
    encoder.finish()
}

/// How far bytes are from zero: the usual estimate of how badly they will compress.
fn weight(bytes: &[u8]) -> u64 {
    bytes.iter().map(|&byte| u64::from((byte as i8).unsigned_abs())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grey_pixel_is_the_file_everyone_knows() {
        let file = encode(&[0], 1, 1, 1).unwrap();
        assert_eq!(&file[..8], SIGNATURE);
        // The checksum of this header stands in every picture of one grey pixel.
        assert_eq!(file[8..33], *b"\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\0\0\0\0\x3a\x7e\x9b\x55");
        assert_eq!(file[file.len() - 12..], *b"\0\0\0\0IEND\xae\x42\x60\x82");
    }

    #[test]
    fn odd_pictures_are_refused() {
        assert!(encode(&[0, 0], 1, 1, 2).is_err());
        assert!(encode(&[], 0, 1, 1).is_err());
    }
}
