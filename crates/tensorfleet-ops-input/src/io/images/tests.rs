//! Tests of the image ops; values are those of TensorFlow 2.21 for the same files.

use tensorfleet_core::{Code, DType, Result, Tensor};

use crate::testing::test_op;

fn chunk(file: &mut Vec<u8>, kind: &[u8], content: &[u8]) {
    file.extend_from_slice(&(content.len() as u32).to_be_bytes());
    let mut crc = flate2::Crc::new();
    crc.update(kind);
    crc.update(content);
    file.extend_from_slice(kind);
    file.extend_from_slice(content);
    file.extend_from_slice(&crc.sum().to_be_bytes());
}

/// A PNG file of one row.
fn png(width: u32, depth: u8, color: u8, row: &[u8], extra: &[(&[u8], &[u8])]) -> Vec<u8> {
    png_of(width, 1, depth, color, row, extra)
}

fn png_of(width: u32, height: u32, depth: u8, color: u8, row: &[u8], extra: &[(&[u8], &[u8])]) -> Vec<u8> {
    use std::io::Write;
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut header = [width.to_be_bytes(), height.to_be_bytes()].concat();
    header.extend_from_slice(&[depth, color, 0, 0, 0]);
    chunk(&mut file, b"IHDR", &header);
    for (kind, content) in extra {
        chunk(&mut file, kind, content);
    }
    let mut stream = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    stream.write_all(&[0]).unwrap();
    stream.write_all(row).unwrap();
    chunk(&mut file, b"IDAT", &stream.finish().unwrap());
    chunk(&mut file, b"IEND", &[]);
    file
}

fn decode(op: &str, file: &[u8], channels: i64, dtype: DType) -> Result<Tensor> {
    let run = test_op(op).with_shape_check().attr("channels", channels);
    let run = if op == "DecodePng" || op == "DecodeImage" { run.attr("dtype", dtype) } else { run };
    run.input(Tensor::string(file.to_vec())).run_one()
}

fn bytes(file: &[u8], channels: i64) -> Vec<u8> {
    decode("DecodePng", file, channels, DType::UInt8).unwrap().as_slice::<u8>().unwrap().to_vec()
}

fn words(file: &[u8], channels: i64) -> Vec<u16> {
    decode("DecodePng", file, channels, DType::UInt16).unwrap().as_slice::<u16>().unwrap().to_vec()
}

const PALETTE: &[u8] = &[1, 2, 3, 40, 50, 60, 7, 8, 9];

#[test]
fn every_kind_of_png_becomes_the_channels_that_are_wanted() {
    let grey = png(3, 8, 0, &[0, 100, 255], &[]);
    assert_eq!(bytes(&grey, 0), [0, 100, 255]);
    assert_eq!(bytes(&grey, 3), [0, 0, 0, 100, 100, 100, 255, 255, 255]);
    assert_eq!(bytes(&grey, 4), [0, 0, 0, 255, 100, 100, 100, 255, 255, 255, 255, 255]);
    assert_eq!(words(&grey, 0), [0, 25700, 65535]);
    let see_through = png(3, 8, 0, &[0, 100, 255], &[(b"tRNS", &[0, 100])]);
    assert_eq!(bytes(&see_through, 0), [0, 100, 255]);
    assert_eq!(bytes(&see_through, 4), [0, 0, 0, 255, 100, 100, 100, 0, 255, 255, 255, 255]);
    let color = png(2, 8, 2, &[10, 200, 30, 255, 0, 7], &[]);
    assert_eq!(bytes(&color, 1), [123, 77]);
    assert_eq!(words(&color, 1), [31611, 19789]);
    assert_eq!(bytes(&color, 4), [10, 200, 30, 255, 255, 0, 7, 255]);
    let palette = png(3, 8, 3, &[0, 1, 2], &[(b"PLTE", PALETTE)]);
    assert_eq!(bytes(&palette, 0), PALETTE);
    assert_eq!(bytes(&palette, 1), [1, 48, 7]);
    let faint = png(3, 8, 3, &[0, 1, 2], &[(b"PLTE", PALETTE), (b"tRNS", &[5, 128])]);
    assert_eq!(bytes(&faint, 0), [1, 2, 3, 5, 40, 50, 60, 128, 7, 8, 9, 255]);
    assert_eq!(bytes(&faint, 3), PALETTE);
    let grey_alpha = png(2, 8, 4, &[9, 200, 77, 10], &[]);
    assert_eq!(bytes(&grey_alpha, 0), [9, 200, 77, 10]);
    assert_eq!(bytes(&grey_alpha, 1), [9, 77]);
    assert_eq!(bytes(&grey_alpha, 4), [9, 9, 9, 200, 77, 77, 77, 10]);
    assert_eq!(bytes(&png(1, 8, 6, &[1, 20, 30, 4], &[]), 1), [15]);
}

#[test]
fn samples_of_one_to_sixteen_bits_become_bytes_or_words() {
    assert_eq!(bytes(&png(4, 1, 0, b"\xa0", &[]), 0), [255, 0, 255, 0]);
    assert_eq!(bytes(&png(4, 2, 0, b"\x1b", &[]), 0), [0, 85, 170, 255]);
    assert_eq!(bytes(&png(4, 2, 0, b"\x1b", &[]), 4)[..8], [0, 0, 0, 3, 85, 85, 85, 3]);
    assert_eq!(words(&png(2, 4, 0, b"\x3c", &[]), 3)[..3], [13107; 3]);
    assert_eq!(bytes(&png(3, 2, 3, b"\x18", &[(b"PLTE", PALETTE)]), 4)[..8], [1, 2, 3, 3, 40, 50, 60, 3]);
    let deep = png(1, 16, 2, &[0x12, 0x34, 0xfe, 0xdc, 0x80, 0x7f], &[]);
    assert_eq!((bytes(&deep, 0), words(&deep, 0)), (vec![18, 254, 128], vec![4660, 65244, 32895]));
    assert_eq!((bytes(&deep, 1), words(&deep, 1)), (vec![169], vec![43441]));
    assert_eq!(words(&deep, 4), [4660, 65244, 32895, 65535]);
    let image = decode("DecodeImage", &deep, 0, DType::Float).unwrap();
    let expected = [0.071_107_045f32, 0.995_559_63, 0.501_945_5];
    assert!(image.as_slice::<f32>().unwrap().iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-7));
}

fn bmp(width: i32, height: i32, bits: u16, data: &[u8]) -> Vec<u8> {
    let mut file = b"BM".to_vec();
    file.extend_from_slice(&[0; 8]);
    file.extend_from_slice(&54u32.to_le_bytes());
    file.extend_from_slice(&40u32.to_le_bytes());
    file.extend_from_slice(&width.to_le_bytes());
    file.extend_from_slice(&height.to_le_bytes());
    file.extend_from_slice(&1u16.to_le_bytes());
    file.extend_from_slice(&bits.to_le_bytes());
    file.extend_from_slice(&[0; 24]);
    file.extend_from_slice(data);
    file
}

#[test]
fn bmp_rows_go_from_the_bottom_up_and_blue_comes_first() {
    let read = |file: &[u8], channels| {
        decode("DecodeBmp", file, channels, DType::UInt8)
            .map(|image| image.as_slice::<u8>().unwrap().to_vec())
    };
    let data = [1, 2, 3, 4, 5, 6, 0, 0, 7, 8, 9, 10, 11, 12, 0, 0];
    assert_eq!(read(&bmp(2, 2, 24, &data), 0).unwrap(), [9, 8, 7, 12, 11, 10, 3, 2, 1, 6, 5, 4]);
    assert_eq!(read(&bmp(2, -2, 24, &data), 0).unwrap()[..3], [3, 2, 1]);
    assert_eq!(read(&bmp(1, 2, 32, &[0, 1, 2, 3, 4, 5, 6, 7]), 0).unwrap(), [6, 5, 4, 7, 2, 1, 0, 3]);
    assert_eq!(read(&bmp(2, 1, 8, &[4, 5, 0, 0]), 4).unwrap(), [4, 4, 4, 255, 5, 5, 5, 255]);
    for (file, text) in [
        (bmp(2, 2, 24, &data[..10]), "differ by -6"),
        (bmp(2, 2, 16, &data), "must be 1, 3 or 4, was 2"),
        (bmp(-2, 2, 24, &data), "Width must be positive"),
        (bmp(1 << 30, 1 << 30, 24, &data), "pixels or more"),
        (bmp(2, i32::MIN, 24, &data), "Height must not be"),
        (b"BM123".to_vec(), "got 5 bytes"),
    ] {
        let status = read(&file, 0).unwrap_err();
        assert!(status.code() == Code::InvalidArgument && status.text().contains(text), "{}", status.text());
    }
    assert!(
        decode("DecodePng", &bmp(2, 2, 24, &data), 0, DType::UInt8).unwrap_err().text().contains("wrong op")
    );
    assert!(read(&png(1, 8, 0, &[1], &[]), 0).is_err());
}

#[test]
fn what_is_encoded_is_decoded_again() {
    for channels in 1..=4usize {
        let pixels: Vec<u8> = (0..3 * 5 * channels).map(|i| (i * 37 % 251) as u8).collect();
        let image = Tensor::from_slice(&pixels, &[3, 5, channels]).unwrap();
        let file = test_op("EncodePng").attr("T", DType::UInt8).input(image).run_one().unwrap();
        assert_eq!(bytes(file.to_string_scalar().unwrap(), 0), pixels);
        let deep: Vec<u16> = pixels.iter().map(|&byte| byte as u16 * 259).collect();
        let image = Tensor::from_slice(&deep, &[3, 5, channels]).unwrap();
        let file = test_op("EncodePng").attr("T", DType::UInt16).input(image).run_one().unwrap();
        assert_eq!(words(file.to_string_scalar().unwrap(), 0), deep);
    }
    let flat = Tensor::from_slice(&[1u8; 4], &[2, 2]).unwrap();
    assert!(test_op("EncodePng").attr("T", DType::UInt8).input(flat).run_one().is_err());
    let many = Tensor::from_slice(&[1u8; 20], &[2, 2, 5]).unwrap();
    assert!(test_op("EncodePng").attr("T", DType::UInt8).input(many).run_one().is_err());
}

/// A grey image of 8 by 8 pixels, as TensorFlow's `encode_jpeg` writes it.
const JPEG: &[u8] = include_bytes!("grey_8x8.jpg");

#[test]
fn cut_and_damaged_images_are_errors() {
    let whole = png(2, 8, 2, &[10, 200, 30, 255, 0, 7], &[]);
    // What is cut is the last chunk, which holds nothing, and its checksum.
    for len in 0..whole.len() - 12 {
        assert!(decode("DecodePng", &whole[..len], 0, DType::UInt8).is_err(), "{len} bytes of a PNG file");
    }
    for at in 0..whole.len() - 12 {
        let mut file = whole.clone();
        file[at] ^= 0x55;
        assert!(decode("DecodePng", &file, 0, DType::UInt8).is_err(), "byte {at} of a PNG file");
    }
    for len in 0..JPEG.len() - 2 {
        assert!(decode("DecodeJpeg", &JPEG[..len], 0, DType::UInt8).is_err(), "{len} bytes of a JPEG file");
    }
    for at in 0..JPEG.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut file = JPEG.to_vec();
            file[at] ^= flip;
            // Any image or an error, but no panic.
            let _ = decode("DecodeJpeg", &file, 0, DType::UInt8);
        }
    }
    let huge = png_of(1 << 20, 1 << 20, 8, 2, &[1, 2, 3], &[]);
    assert!(decode("DecodePng", &huge, 0, DType::UInt8).unwrap_err().text().contains("pixels or more"));
    for (file, code) in [
        (&b""[..], Code::InvalidArgument),
        (b"hello world", Code::InvalidArgument),
        (b"GIF89a\x01\x00\x01\x00", Code::Unimplemented),
        (b"RIFF\0\0\0\0WEBPVP8 ", Code::Unimplemented),
    ] {
        assert_eq!(decode("DecodePng", file, 0, DType::UInt8).unwrap_err().code(), code, "{file:?}");
    }
    assert!(decode("DecodePng", &whole, 2, DType::UInt8).is_err());
    assert!(decode("DecodeJpeg", JPEG, 4, DType::UInt8).unwrap_err().text().contains("does not support 4"));
}

#[test]
fn jpeg_is_within_rounding_of_what_was_encoded() {
    let image = decode("DecodeJpeg", JPEG, 0, DType::UInt8).unwrap();
    assert_eq!(image.shape().dims(), [8, 8, 1]);
    let expected = |index: usize| (index % 8 * 20 + index / 8 * 8) as i32;
    for (index, &found) in image.as_slice::<u8>().unwrap().iter().enumerate() {
        assert!((found as i32 - expected(index)).abs() <= 4, "pixel {index} is {found}");
    }
    assert_eq!(decode("DecodeJpeg", JPEG, 3, DType::UInt8).unwrap().shape().dims(), [8, 8, 3]);
    let wide = decode("DecodePng", JPEG, 0, DType::UInt16).unwrap();
    assert_eq!(wide.as_slice::<u16>().unwrap()[0], (image.as_slice::<u8>().unwrap()[0] as u16) << 8);
    let scaled = test_op("DecodeJpeg").attr("ratio", 2i64).input(Tensor::string(JPEG.to_vec())).run_one();
    assert_eq!(scaled.unwrap_err().code(), Code::Unimplemented);
}
