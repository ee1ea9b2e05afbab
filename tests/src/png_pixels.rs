//! The pixels of a PNG picture, for comparing pictures that were compressed differently.
//!
//! Only what image summaries contain: 8 bits per channel, not interlaced, no palette.

use std::io::Read;

use flate2::read::ZlibDecoder;

const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";
/// Larger pictures do not occur in cases.
const MAX_BYTES: usize = 64 << 20;

/// Rows of channel values, top to bottom, or why the bytes are no such picture.
pub fn png_pixels(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let mut rest = bytes.strip_prefix(SIGNATURE).ok_or("no PNG signature")?;
    let (mut header, mut compressed) = (None, Vec::new());
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        let (kind, after) = after.split_first_chunk::<4>().ok_or("a chunk is cut short")?;
        let (content, after) = after.split_at_checked(length).ok_or("a chunk is cut short")?;
        match kind {
            b"IHDR" => header = Some(Header::parse(content)?),
            b"IDAT" => compressed.extend_from_slice(content),
            _ => {}
        }
        // Four bytes of checksum follow; a damaged picture shows in its pixels.
        rest = after.get(4..).ok_or("a chunk is cut short")?;
    }
    let header = header.ok_or("no header")?;
    let mut filtered = Vec::new();
    let inflated = ZlibDecoder::new(&compressed[..]).take(MAX_BYTES as u64).read_to_end(&mut filtered);
    inflated.map_err(|error| format!("cannot inflate: {error}"))?;
    unfilter(&filtered, &header)
}

struct Header {
    row_bytes: usize,
    rows: usize,
    pixel_bytes: usize,
}

impl Header {
    fn parse(content: &[u8]) -> Result<Header, String> {
        let &[w0, w1, w2, w3, h0, h1, h2, h3, depth, colour, _, _, interlace] = content else {
            return Err("the header has the wrong length".into());
        };
        let channels = match colour {
            0 => 1,
            2 => 3,
            4 => 2,
            6 => 4,
            other => return Err(format!("colour type {other}")),
        };
        if depth != 8 || interlace != 0 {
            return Err(format!("{depth} bits, interlace {interlace}"));
        }
        let width = u32::from_be_bytes([w0, w1, w2, w3]) as usize;
        let rows = u32::from_be_bytes([h0, h1, h2, h3]) as usize;
        let row_bytes = width.checked_mul(channels).filter(|&bytes| bytes <= MAX_BYTES).ok_or("too wide")?;
        Ok(Header { row_bytes, rows, pixel_bytes: channels })
    }
}

/// Every row begins with the number of the filter that was applied to it.
fn unfilter(filtered: &[u8], header: &Header) -> Result<Vec<u8>, String> {
    let mut pixels: Vec<u8> = Vec::with_capacity(filtered.len());
    let mut above = vec![0u8; header.row_bytes];
    for (row_index, row) in filtered.chunks(header.row_bytes + 1).enumerate() {
        let (&filter, coded) = row.split_first().ok_or("an empty row")?;
        if coded.len() != header.row_bytes || row_index >= header.rows {
            return Err("the rows do not fit the header".into());
        }
        let mut current = vec![0u8; header.row_bytes];
        for index in 0..coded.len() {
            let left = index.checked_sub(header.pixel_bytes);
            let (a, b, c) = (left.map_or(0, |at| current[at]), above[index], left.map_or(0, |at| above[at]));
            let predicted = match filter {
                0 => 0,
                1 => a,
                2 => b,
                3 => ((u16::from(a) + u16::from(b)) / 2) as u8,
                4 => paeth(a, b, c),
                other => return Err(format!("filter {other}")),
            };
            current[index] = coded[index].wrapping_add(predicted);
        }
        pixels.extend_from_slice(&current);
        above = current;
    }
    if pixels.len() == header.rows * header.row_bytes { Ok(pixels) } else { Err("rows are missing".into()) }
}

/// Of left, above and above-left, the one nearest to `left + above - above-left`.
fn paeth(a: u8, b: u8, c: u8) -> u8 {
    let estimate = i16::from(a) + i16::from(b) - i16::from(c);
    let distance = |value: u8| (estimate - i16::from(value)).abs();
    if distance(a) <= distance(b) && distance(a) <= distance(c) {
        a
    } else if distance(b) <= distance(c) {
        b
    } else {
        c
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::ZlibEncoder;
    use std::io::Write;

    fn picture(rows: &[&[u8]], level: u32) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::new(level));
        rows.iter().for_each(|row| encoder.write_all(row).unwrap());
        let mut header = vec![0, 0, 0, 3, 0, 0, 0, rows.len() as u8];
        header.extend([8, 0, 0, 0, 0]);
        let mut bytes = SIGNATURE.to_vec();
        for (kind, content) in
            [(b"IHDR", header), (b"IDAT", encoder.finish().unwrap()), (b"IEND", Vec::new())]
        {
            bytes.extend((content.len() as u32).to_be_bytes());
            bytes.extend(kind);
            bytes.extend(content);
            bytes.extend([0; 4]);
        }
        bytes
    }

    #[test]
    fn all_filters_lead_to_the_same_pixels() {
        let pixels = vec![10, 20, 30, 11, 21, 31];
        let first: &[u8] = &[0, 10, 20, 30];
        for second in [&[0, 11, 21, 31][..], &[1, 11, 10, 10], &[2, 1, 1, 1], &[3, 6, 6, 6], &[4, 1, 1, 1]] {
            assert_eq!(png_pixels(&picture(&[first, second], 6)).unwrap(), pixels, "{second:?}");
            assert_eq!(png_pixels(&picture(&[first, second], 0)).unwrap(), pixels, "{second:?}");
        }
    }

    #[test]
    fn damaged_pictures_are_errors() {
        let whole = picture(&[&[0, 1, 2, 3]], 6);
        for length in 0..whole.len() - 20 {
            assert!(png_pixels(&whole[..length]).is_err(), "{length}");
        }
        assert!(png_pixels(&picture(&[&[9, 1, 2, 3]], 6)).is_err());
        assert!(png_pixels(&picture(&[&[0, 1, 2]], 6)).is_err());
    }
}
