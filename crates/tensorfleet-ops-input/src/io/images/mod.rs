//! Decoding images, and encoding them as PNG.
//!
//! As in TensorFlow, the file says what it is: `DecodePng` and `DecodeJpeg` read either kind. PNG and BMP give
//! TensorFlow's values exactly. JPEG does not, since decoders are free to round: values differ from TensorFlow's with
//! `dct_method='INTEGER_ACCURATE'` by 4 at most, and from those of its faster default by about twice that.
//!
//! How large a image is stands in its header, which anyone may have written: it is checked before anything is
//! allocated.

mod bmp;
mod contents;
mod jpeg;
mod png;
#[cfg(test)]
mod tests;

use bytes::Bytes;
use tensorfleet_core::{DType, PartialShape, Result, Shape, Status, Tensor, bail, ensure, memory};

use tensorfleet_kernel::kernel::{Context, KernelBox};
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::{Cost, Op};
use tensorfleet_kernel::shape_context::{ShapeContext, scalars};

use contents::Contents;

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("DecodePng", "contents: string -> image: dtype")
        .attrs("channels: int = 0; dtype: {uint8, uint16} = uint8")
        .not_differentiable()
        .cost(Cost::Heavy)
        .shape(image_shape)
        .kernel(|node| decode(node, node.attr("dtype")?)),
    Op::new("DecodeJpeg", "contents: string -> image: uint8")
        .attrs(
            "channels: int = 0; ratio: int = 1; fancy_upscaling: bool = true; try_recover_truncated: bool = false; \
             acceptable_fraction: float = 1.0; dct_method: string = ''",
        )
        .not_differentiable()
        .cost(Cost::Heavy)
        .shape(image_shape)
        .kernel(|node| decode(node, DType::UInt8)),
    Op::new("DecodeBmp", "contents: string -> image: uint8")
        .attrs("channels: int = 0")
        .not_differentiable()
        .cost(Cost::Heavy)
        .shape(image_shape)
        .kernel(|node| decode(node, DType::UInt8)),
    Op::new("DecodeImage", "contents: string -> image: dtype")
        .attrs("channels: int = 0; dtype: {uint8, uint16, float} = uint8; expand_animations: bool = true")
        .not_differentiable()
        .cost(Cost::Heavy)
        .shape(image_shape)
        .kernel(|node| decode(node, node.attr("dtype")?)),
    Op::new("EncodePng", "image: T -> contents: string")
        .attrs("compression: int = -1; T: {uint8, uint16} = uint8")
        .not_differentiable()
        .cost(Cost::Heavy)
        .shape(scalars)
        .kernel(encode_kernel),
];

/// What `EncodePng` takes if nobody says.
const DEFAULT_COMPRESSION: i64 = -1;

/// More pixels than this are refused, as in TensorFlow.
const MAX_PIXELS: usize = 1 << 29;

/// A decoded image: rows from top to bottom, the channels of a pixel side by side.
struct Image {
    height: usize,
    width: usize,
    channels: usize,
    samples: Samples,
}

enum Samples {
    Bytes(Vec<u8>),
    /// Only of PNG files, if more than a byte was asked for.
    Words(Vec<u16>),
}

/// How a image is wanted.
#[derive(Clone, Copy)]
struct Wish {
    /// As many as the file has, if 0.
    channels: usize,
    dtype: DType,
    /// Whether the part that is there of a file that ends too early is enough.
    recovers: bool,
}

fn image_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    ctx.input_with_rank(0, 0)?;
    let channels: i64 = ctx.attr("channels")?;
    let channels = usize::try_from(channels).ok().filter(|&channels| channels > 0);
    Ok(vec![PartialShape::new([None, None, channels])])
}

fn decode(node: &NodeSpec<'_>, dtype: DType) -> Result<KernelBox> {
    let op = node.op().name;
    let channels: i64 = node.attr("channels")?;
    ensure!(
        matches!(channels, 0 | 1 | 3 | 4),
        InvalidArgument,
        "`channels` must be 0, 1, 3 or 4 but got {channels}"
    );
    let mut wish = Wish { channels: channels as usize, dtype, recovers: false };
    if op == "DecodeJpeg" {
        let ratio: i64 = node.attr("ratio")?;
        ensure!(matches!(ratio, 1 | 2 | 4 | 8), InvalidArgument, "ratio must be 1, 2, 4, or 8, got {ratio}");
        ensure!(
            ratio == 1,
            Unimplemented,
            "DecodeJpeg does not make images smaller (ratio {ratio}): decode with ratio 1 and use tf.image.resize"
        );
        wish.recovers = node.attr("try_recover_truncated")?;
    }
    Ok(KernelBox::from_fn(move |ctx| {
        let contents = Contents::new(contents(ctx)?, &ctx.step.cancellation);
        let image = decode_any(op, contents, wish);
        // A decoder that was given up has an error of its own.
        ctx.check_cancelled()?;
        let image = image?;
        ctx.set_output(0, to_tensor(image, wish.dtype)?);
        Ok(())
    }))
}

fn contents<'a>(ctx: &'a Context<'_>) -> Result<&'a Bytes> {
    let contents = ctx.input(0)?;
    ensure!(
        contents.is_scalar(),
        InvalidArgument,
        "`contents` must be scalar but got shape{}",
        contents.shape()
    );
    let contents = contents.to_string_scalar()?;
    ensure!(!contents.is_empty(), InvalidArgument, "Input is empty.");
    Ok(contents)
}

fn decode_any(op: &str, contents: Contents<'_>, wish: Wish) -> Result<Image> {
    let bytes = contents.bytes();
    let is_bmp = bytes.starts_with(b"BM");
    if op == "DecodeBmp" && !is_bmp {
        bail!(
            InvalidArgument,
            "DecodeBmp reads BMP files only, and this is none: use `decode_image` for files of several kinds"
        );
    }
    if bytes.starts_with(b"\xff\xd8\xff") {
        return jpeg::decode(contents, wish);
    }
    if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
        return png::decode(contents, wish);
    }
    if is_bmp {
        ensure!(
            matches!(op, "DecodeBmp" | "DecodeImage"),
            InvalidArgument,
            "Trying to decode BMP format using a wrong op. Use `decode_bmp` or `decode_image` instead. Op used: {op}"
        );
        return bmp::decode(contents, wish.channels);
    }
    let is_web_p = bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP");
    if bytes.starts_with(b"GIF8") || is_web_p {
        bail!(
            Unimplemented,
            "Tensorfleet decodes JPEG, PNG and BMP, not GIF or WebP: convert the image before"
        )
    }
    bail!(InvalidArgument, "Unknown image file format. One of JPEG, PNG, BMP required.")
}

/// Checks sizes that a header claims; gives the number of pixels.
fn check_size(kind: &str, width: usize, height: usize) -> Result<usize> {
    let pixels = width.checked_mul(height).filter(|&pixels| (1..MAX_PIXELS).contains(&pixels));
    pixels.ok_or_else(|| {
        Status::invalid_argument(format!(
            "{kind} size {width} by {height} is empty or has {MAX_PIXELS} pixels or more"
        ))
    })
}

/// Zeros to decode into, if they fit into memory.
fn buffer(len: usize) -> Result<Vec<u8>> {
    memory::check_fits(len)?;
    Ok(vec![0; len])
}

fn to_tensor(image: Image, dtype: DType) -> Result<Tensor> {
    let shape = Shape::new(&[image.height, image.width, image.channels])?;
    fn convert<S: Copy, T: tensorfleet_core::Element>(
        shape: Shape,
        samples: &[S],
        convert: impl Fn(S) -> T,
    ) -> Result<Tensor> {
        Tensor::build::<T>(shape, |out| {
            ensure!(out.len() == samples.len(), Internal, "a image has other samples than its size says");
            out.iter_mut().zip(samples).for_each(|(out, &sample)| *out = convert(sample));
            Ok(())
        })
    }
    match (&image.samples, dtype) {
        (Samples::Bytes(bytes), DType::UInt8) => convert(shape, bytes, |byte| byte),
        // So TensorFlow does it for files other than PNG.
        (Samples::Bytes(bytes), DType::UInt16) => convert(shape, bytes, |byte| (byte as u16) << 8),
        (Samples::Bytes(bytes), _) => convert(shape, bytes, |byte| byte as f32 * (1.0 / 255.0)),
        (Samples::Words(words), DType::UInt8) => convert(shape, words, |word| (word >> 8) as u8),
        (Samples::Words(words), DType::UInt16) => convert(shape, words, |word| word),
        (Samples::Words(words), _) => convert(shape, words, |word| word as f32 * (1.0 / 65535.0)),
    }
}

/// A PNG file of bytes: rows from top to bottom, with 1 (grey), 2 (grey and opacity), 3 (RGB) or 4 (RGBA) bytes for each pixel.
pub(super) fn encode_png(pixels: &[u8], [height, width, channels]: [usize; 3]) -> Result<Vec<u8>> {
    check_size("PNG", width, height)?;
    png::encode(pixels, width, height, channels, false, DEFAULT_COMPRESSION)
}

fn encode_kernel(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let compression: i64 = node.attr("compression")?;
    ensure!(
        (-1..=9).contains(&compression),
        InvalidArgument,
        "compression should be in [-1,9], got {compression}"
    );
    Ok(KernelBox::from_fn(move |ctx| {
        let image = ctx.input(0)?;
        ensure!(
            image.shape().rank() >= 3,
            InvalidArgument,
            "images must be at least rank 3, got shape {}",
            image.shape()
        );
        let (batch, dims) = image.shape().split_at(image.shape().rank() - 3);
        let &[height, width, channels] = dims else {
            return Err(Status::internal("a image has three dimensions"));
        };
        ensure!(
            (1..=4).contains(&channels),
            InvalidArgument,
            "image must have 1, 2, 3, or 4 channels, got shape {}",
            image.shape()
        );
        check_size("PNG", width, height)?;
        let words;
        let bytes: &[u8] = match image.dtype() {
            DType::UInt16 => {
                words = memory::collect(image.as_slice::<u16>()?.iter().map(|word| word.to_be_bytes()))?;
                words.as_flattened()
            }
            _ => image.as_slice::<u8>()?,
        };
        let is_deep = image.dtype() == DType::UInt16;
        let len = height * width * channels * if is_deep { 2 } else { 1 };
        let images = ctx.step.cancellation.unless_cancelled(bytes.chunks_exact(len));
        let files = images.map(|pixels| {
            png::encode(pixels?, width, height, channels, is_deep, compression).map(Bytes::from)
        });
        let files = Tensor::from_strings(files.collect::<Result<_>>()?, batch)?;
        ctx.set_output(0, files);
        Ok(())
    }))
}
