//! PNG files.

use ::png::{BitDepth, ColorType, Compression, DecodingError, Limits, Transformations};
use tensorfleet_core::{DType, Result, Status, memory};

use super::{Contents, Image, Samples, Wish, buffer, check_size};

/// What the decoder may allocate for itself: a row or two, and what stands in chunks beside the pixels.
const MAX_OVERHEAD_BYTES: usize = 64 << 20;

pub(super) fn decode(contents: Contents<'_>, wish: Wish) -> Result<Image> {
    let file_bytes = contents.bytes().len();
    let damaged = |error: DecodingError| {
        Status::invalid_argument(format!("Invalid PNG data, size {file_bytes}: {error}"))
    };
    let limits = Limits { bytes: MAX_OVERHEAD_BYTES };
    let mut decoder = ::png::Decoder::new_with_limits(contents, limits);
    decoder.set_transformations(Transformations::EXPAND);
    let mut reader = decoder.read_info().map_err(damaged)?;
    let info = reader.info();
    let (width, height) = (info.width as usize, info.height as usize);
    let (file_depth, is_palette) = (info.bit_depth, info.color_type == ColorType::Indexed);
    let has_transparency = info.trns.is_some();
    let file_channels = info.color_type.samples();
    check_size("PNG", width, height)?;
    let too_large = || Status::invalid_argument(format!("PNG size too large: {width} by {height}"));
    let mut pixels = buffer(reader.output_buffer_size().ok_or_else(too_large)?)?;
    let frame = reader.next_frame(&mut pixels).map_err(damaged)?;
    pixels.truncate(frame.buffer_size());
    let found = frame.color_type.samples();
    let channels = match wish.channels {
        0 if is_palette => 3 + has_transparency as usize,
        0 => file_channels,
        wanted => wanted,
    };
    let wants_words = wish.dtype != DType::UInt8;
    let samples = if frame.bit_depth == BitDepth::Sixteen {
        let words = memory::collect(pixels.as_chunks::<2>().0.iter().map(|&pair| u16::from_be_bytes(pair)))?;
        let words = rearranged(words, found, channels, u16::MAX, grey_word)?;
        match wants_words {
            true => Samples::Words(words),
            false => Samples::Bytes(memory::collect(words.iter().map(|word| (word >> 8) as u8))?),
        }
    } else {
        // TensorFlow widens small samples after it has added what makes a pixel opaque, which therefore stays small.
        let opaque = ((1u16 << (file_depth as u8).min(8)) - 1) as u8;
        let bytes = rearranged(pixels, found, channels, opaque, grey_byte)?;
        match wants_words {
            true => Samples::Words(memory::collect(bytes.iter().map(|&byte| byte as u16 * 257))?),
            false => Samples::Bytes(bytes),
        }
    };
    Ok(Image { height, width, channels, samples })
}

/// Pixels of `from` channels with `to` channels: 1 and 2 are grey, 2 and 4 have an opacity.
fn rearranged<T: Copy>(
    pixels: Vec<T>,
    from: usize,
    to: usize,
    opaque: T,
    grey: fn(T, T, T) -> T,
) -> Result<Vec<T>> {
    if from == to {
        return Ok(pixels);
    }
    let mut out = memory::vec_with_room(pixels.len() / from.max(1) * to)?;
    for pixel in pixels.chunks_exact(from.max(1)) {
        let (color, opacity) = match *pixel {
            [y] => ([y; 3], opaque),
            [y, a] => ([y; 3], a),
            [r, g, b] => ([r, g, b], opaque),
            [r, g, b, a] => ([r, g, b], a),
            _ => continue,
        };
        match to {
            1 | 2 => out.push(if from <= 2 { color[0] } else { grey(color[0], color[1], color[2]) }),
            _ => out.extend_from_slice(&color),
        }
        if to.is_multiple_of(2) {
            out.push(opacity);
        }
    }
    Ok(out)
}

/// The weights of red, green and blue in 32768ths, as libpng rounds 0.299 and 0.587.
const WEIGHTS: [u32; 3] = [9797, 19234, 3737];

fn grey_byte(r: u8, g: u8, b: u8) -> u8 {
    let [red, green, blue] = WEIGHTS;
    ((red * r as u32 + green * g as u32 + blue * b as u32) >> 15) as u8
}

fn grey_word(r: u16, g: u16, b: u16) -> u16 {
    let [red, green, blue] = WEIGHTS;
    ((red * r as u32 + green * g as u32 + blue * b as u32 + (1 << 14)) >> 15) as u16
}

/// A file of pixels as they are stored: big-endian, if they are deep.
pub(super) fn encode(
    pixels: &[u8],
    width: usize,
    height: usize,
    channels: usize,
    is_deep: bool,
    compression: i64,
) -> Result<Vec<u8>> {
    let failed = |error: ::png::EncodingError| Status::internal(format!("PNG encoding failed: {error}"));
    let mut file = Vec::new();
    let mut encoder = ::png::Encoder::new(&mut file, width as u32, height as u32);
    encoder.set_color(match channels {
        1 => ColorType::Grayscale,
        2 => ColorType::GrayscaleAlpha,
        3 => ColorType::Rgb,
        _ => ColorType::Rgba,
    });
    encoder.set_depth(if is_deep { BitDepth::Sixteen } else { BitDepth::Eight });
    encoder.set_compression(match compression {
        0..=2 => Compression::Fast,
        7..=9 => Compression::High,
        _ => Compression::Balanced,
    });
    let mut writer = encoder.write_header().map_err(failed)?;
    writer.write_image_data(pixels).map_err(failed)?;
    writer.finish().map_err(failed)?;
    Ok(file)
}
