//! JPEG files.

use tensorfleet_core::{Result, Status, ensure};
use zune_jpeg::JpegDecoder;
use zune_jpeg::errors::DecodeErrors;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use super::{Contents, Image, Samples, Wish, buffer, check_size};

/// The greatest side the format can express.
const MAX_SIDE: usize = u16::MAX as usize;

pub(super) fn decode(contents: Contents<'_>, wish: Wish) -> Result<Image> {
    let file_bytes = contents.bytes().len();
    ensure!(wish.channels != 4, InvalidArgument, "JPEG does not support 4 channels");
    let damaged = |error: DecodeErrors| {
        Status::invalid_argument(format!(
            "Invalid JPEG data or crop window. Data size {file_bytes}: {error:?}"
        ))
    };
    ensure!(
        wish.recovers || is_closed(contents.bytes()),
        InvalidArgument,
        "Invalid JPEG data or crop window. Data size {file_bytes}: the image has no end"
    );
    let options = DecoderOptions::default()
        .set_max_width(MAX_SIDE)
        .set_max_height(MAX_SIDE)
        .set_strict_mode(!wish.recovers);
    let mut decoder = JpegDecoder::new_with_options(contents, options);
    decoder.decode_headers().map_err(damaged)?;
    let info = decoder.info().ok_or_else(|| Status::internal("a JPEG header was read and is not there"))?;
    let (width, height) = (info.width as usize, info.height as usize);
    let channels = match (wish.channels, info.components) {
        (0, 1) | (1, _) => 1,
        _ => 3,
    };
    let pixels = check_size("JPEG", width, height)?;
    let colors = if channels == 1 { ColorSpace::Luma } else { ColorSpace::RGB };
    decoder.set_options(options.jpeg_set_out_colorspace(colors));
    let mut samples = buffer(pixels * channels)?;
    decoder.decode_into(&mut samples).map_err(damaged)?;
    Ok(Image { height, width, channels, samples: Samples::Bytes(samples) })
}

/// Whether the mark of the end stands behind the last scan. (The decoder does not miss it, if all blocks are there by
/// chance; and a small image inside the header has marks of its own.)
fn is_closed(contents: &[u8]) -> bool {
    let last = |mark: [u8; 2]| contents.windows(2).rposition(|pair| pair == mark);
    last([0xff, 0xd9]) > last([0xff, 0xda])
}
