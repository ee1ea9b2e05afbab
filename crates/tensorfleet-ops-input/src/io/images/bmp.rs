//! BMP files, as far as TensorFlow reads them: 8 bits of grey, 24 or 32 bits of color, not compressed.

use tensorfleet_core::{Result, Status, bail, ensure, memory};

use super::{Contents, Image, Samples, check_size};

/// Up to where the fields stand that are read here.
const HEADER_BYTES: usize = 32;

pub(super) fn decode(contents: Contents<'_>, wanted: usize) -> Result<Image> {
    let (contents, cancellation) = (contents.bytes(), contents.cancellation());
    ensure!(wanted != 1, InvalidArgument, "`channels` must be 0, 3 or 4 for BMP, but got 1");
    ensure!(
        contents.len() >= HEADER_BYTES,
        InvalidArgument,
        "Incomplete bmp content, requires at least {HEADER_BYTES} bytes to find the header size, width, height, and \
         bpp, got {} bytes",
        contents.len()
    );
    let number = |at: usize| -> Result<i32> {
        let bytes = contents.get(at..at + 4).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
        bytes
            .map(i32::from_le_bytes)
            .ok_or_else(|| Status::internal("a BMP header is shorter than was checked"))
    };
    let (start, width, height) = (number(10)?, number(18)?, number(22)?);
    let bits = (number(28)? & 0xffff) as usize;
    ensure!(start >= 0, InvalidArgument, "header_size must be positive, got {start}");
    ensure!(width > 0, InvalidArgument, "Width must be positive");
    ensure!(height != i32::MIN && height != 0, InvalidArgument, "Height must not be {height}");
    // Rows go from the bottom up, unless the height is negative.
    let is_top_down = height < 0;
    let (width, height) = (width as usize, height.unsigned_abs() as usize);
    check_size("BMP", width, height)?;
    let found = bits / 8;
    ensure!(
        matches!(found, 1 | 3 | 4),
        InvalidArgument,
        "Number of channels inherent in the image must be 1, 3 or 4, was {found}"
    );
    // Rows are padded to four bytes.
    let row_len = (width * found).next_multiple_of(4);
    let expected = (start as usize).saturating_add(row_len.saturating_mul(height));
    if expected != contents.len() {
        bail!(
            InvalidArgument,
            "Input size should match (header_size + row_size * abs_height) but they differ by {}",
            contents.len() as i128 - expected as i128
        );
    }
    let channels = if wanted == 0 { found } else { wanted };
    let mut samples = memory::vec_with_room((width * height).saturating_mul(channels))?;
    for row in cancellation.unless_cancelled(0..height) {
        let row = row?;
        let row = if is_top_down { row } else { height - 1 - row };
        let pixels =
            contents.get(start as usize + row * row_len..).and_then(|rest| rest.get(..width * found));
        let pixels = pixels.ok_or_else(|| Status::internal("a BMP row lies outside its file"))?;
        for pixel in pixels.chunks_exact(found) {
            let (color, opacity) = match *pixel {
                [b, g, r, a] => ([r, g, b], a),
                [b, g, r] => ([r, g, b], u8::MAX),
                [grey, ..] => ([grey; 3], u8::MAX),
                [] => continue,
            };
            match channels {
                1 => samples.push(color[0]),
                3 => samples.extend_from_slice(&color),
                _ => samples.extend_from_slice(&[color[0], color[1], color[2], opacity]),
            }
        }
    }
    Ok(Image { height, width, channels, samples: Samples::Bytes(samples) })
}
