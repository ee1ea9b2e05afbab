//! numpy's file format for one array, version 1.0: a line of Python that tells dtype and shape, then the elements.

use half::bf16;
use tensorfleet_core::{DType, Result, Shape, Status, Tensor};

const MAGIC: &[u8] = b"\x93NUMPY\x01\x00";
/// The elements begin at a multiple of this.
const ALIGNMENT: usize = 64;
/// Strings of very different lengths take much room when all are as long as the longest; more than this is refused.
const MAX_STRING_BYTES: usize = 1 << 30;

/// How a tensor can be written.
pub(super) enum Array {
    /// The dtype's code in numpy; the elements are the tensor's bytes.
    Plain(&'static str),
    /// Converted to float32.
    BFloat16,
    /// Byte strings as long as the longest.
    Strings { width: usize },
    /// Not at all, for this reason.
    Refused(String),
}

impl Array {
    pub(super) fn of(tensor: &Tensor) -> Result<Array> {
        Ok(match tensor.dtype().storage() {
            DType::Half => Array::Plain("<f2"),
            DType::Float => Array::Plain("<f4"),
            DType::Double => Array::Plain("<f8"),
            DType::Int8 => Array::Plain("|i1"),
            DType::Int16 => Array::Plain("<i2"),
            DType::Int32 => Array::Plain("<i4"),
            DType::Int64 => Array::Plain("<i8"),
            DType::UInt8 => Array::Plain("|u1"),
            DType::UInt16 => Array::Plain("<u2"),
            DType::UInt32 => Array::Plain("<u4"),
            DType::UInt64 => Array::Plain("<u8"),
            DType::Bool => Array::Plain("|b1"),
            DType::Complex64 => Array::Plain("<c8"),
            DType::Complex128 => Array::Plain("<c16"),
            DType::BFloat16 => Array::BFloat16,
            DType::String => strings(tensor)?,
            other => Array::Refused(format!("numpy has nothing like {other}")),
        })
    }

    /// The header for an array of this shape.
    pub(super) fn header(&self, shape: &Shape) -> Result<Vec<u8>> {
        let code = match self {
            Array::Plain(code) => (*code).to_string(),
            Array::BFloat16 => "<f4".to_string(),
            Array::Strings { width } => format!("|S{width}"),
            Array::Refused(reason) => return Err(Status::unimplemented(reason.clone())),
        };
        header(&code, shape)
    }

    /// Hands the elements to `write`, a piece at a time.
    pub(super) fn elements(&self, tensor: &Tensor, mut write: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        match self {
            Array::Plain(_) => write(tensor.as_bytes()?),
            Array::BFloat16 => {
                const PIECE: usize = 1 << 16;
                for piece in tensor.as_slice::<bf16>()?.chunks(PIECE) {
                    let bytes: Vec<u8> =
                        piece.iter().flat_map(|number| number.to_f32().to_le_bytes()).collect();
                    write(&bytes)?;
                }
                Ok(())
            }
            Array::Strings { width } => {
                let mut cell = vec![0; *width];
                for string in tensor.as_strings()? {
                    cell.fill(0);
                    if let Some(front) = cell.get_mut(..string.len()) {
                        front.copy_from_slice(string);
                    }
                    write(&cell)?;
                }
                Ok(())
            }
            Array::Refused(_) => Ok(()),
        }
    }
}

fn strings(tensor: &Tensor) -> Result<Array> {
    let strings = tensor.as_strings()?;
    if strings.iter().any(|string| string.last() == Some(&0)) {
        return Ok(Array::Refused(
            "it has strings that end with a zero byte, which numpy would cut off".to_string(),
        ));
    }
    // numpy has no strings of length 0.
    let width = strings.iter().map(|string| string.len()).max().unwrap_or(0).max(1);
    match width.checked_mul(strings.len()) {
        Some(total) if total <= MAX_STRING_BYTES => Ok(Array::Strings { width }),
        _ => Ok(Array::Refused(format!(
            "{} strings as long as the longest would take too much room",
            strings.len()
        ))),
    }
}

fn header(code: &str, shape: &Shape) -> Result<Vec<u8>> {
    let sizes: Vec<String> = shape.iter().map(usize::to_string).collect();
    let comma = if sizes.len() == 1 { "," } else { "" };
    let mut dictionary =
        format!("{{'descr': '{code}', 'fortran_order': False, 'shape': ({}{comma}), }}", sizes.join(", "));
    let unpadded = MAGIC.len() + 2 + dictionary.len() + 1;
    dictionary.push_str(&" ".repeat(unpadded.next_multiple_of(ALIGNMENT) - unpadded));
    dictionary.push('\n');
    // A shape has at most 254 sizes of 20 digits, far below 65536 bytes.
    let len = u16::try_from(dictionary.len())
        .map_err(|_| Status::internal("the header of an array is too long"))?;
    Ok([MAGIC, &len.to_le_bytes(), dictionary.as_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_aligned_and_tell_the_shape() {
        for (dims, expected) in [(&[][..], "()"), (&[3], "(3,)"), (&[2, 3], "(2, 3)")] {
            let header = header("<f4", &Shape::new(dims).unwrap()).unwrap();
            assert_eq!(header.len() % 64, 0);
            assert_eq!(usize::from(u16::from_le_bytes([header[8], header[9]])), header.len() - 10);
            let text = String::from_utf8_lossy(&header[10..]).into_owned();
            assert!(text.starts_with("{'descr': '<f4', 'fortran_order': False, 'shape': "), "{text}");
            assert!(text.contains(&format!("'shape': {expected}, }}")) && text.ends_with('\n'), "{text}");
        }
        assert!(header("|S1", &Shape::new(&[1; 254]).unwrap()).is_ok());
    }

    fn written(tensor: &Tensor) -> Vec<u8> {
        let mut bytes = Vec::new();
        let array = Array::of(tensor).unwrap();
        let write = |piece: &[u8]| {
            bytes.extend_from_slice(piece);
            Ok(())
        };
        array.elements(tensor, write).unwrap();
        bytes
    }

    #[test]
    fn elements_are_little_endian_and_strings_padded() {
        assert_eq!(written(&Tensor::vector(&[1i16, -1]).unwrap()), [1, 0, 255, 255]);
        let brain = Tensor::vector(&[bf16::from_f32(1.5)]).unwrap();
        assert_eq!(written(&brain), 1.5f32.to_le_bytes());
        let strings = Tensor::from_strings(vec!["a".into(), "bcd".into()], &[2]).unwrap();
        assert_eq!(written(&strings), b"a\0\0bcd");
        let zeros = Tensor::from_strings(vec!["a\0".into()], &[1]).unwrap();
        assert!(matches!(Array::of(&zeros).unwrap(), Array::Refused(_)));
    }
}
