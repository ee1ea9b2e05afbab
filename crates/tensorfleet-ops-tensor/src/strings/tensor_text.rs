//! Tensors as text for people, in TensorFlow's two layouts: the first elements on one line (assertions and `Print`),
//! and a block with the edges of every dimension (`StringFormat`, which is behind `tf.print`).

use half::{bf16, f16};
use tensorfleet_core::{DType, Result, Tensor, memory};

use super::c_format::{brief_f32, brief_f64};

/// Element `index` as text; strings in quotes if `quoted`.
fn element(tensor: &Tensor, index: usize, quoted: bool) -> String {
    macro_rules! at {
        ($rust:ty, $text:expr) => {
            tensor.as_slice::<$rust>().ok().and_then(|all| all.get(index)).map($text)
        };
    }
    let text = match tensor.dtype().storage() {
        DType::Float => at!(f32, |&x| brief_f32(x)),
        DType::Double => at!(f64, |&x| brief_f64(x)),
        DType::Half => at!(f16, |&x| brief_f32(x.to_f32())),
        DType::BFloat16 => at!(bf16, |&x| brief_f32(x.to_f32())),
        DType::Int8 => at!(i8, |x| x.to_string()),
        DType::Int16 => at!(i16, |x| x.to_string()),
        DType::Int32 => at!(i32, |x| x.to_string()),
        DType::Int64 => at!(i64, |x| x.to_string()),
        DType::UInt8 => at!(u8, |x| x.to_string()),
        DType::UInt16 => at!(u16, |x| x.to_string()),
        DType::UInt32 => at!(u32, |x| x.to_string()),
        DType::UInt64 => at!(u64, |x| x.to_string()),
        DType::Bool => at!(bool, |&x| (x as u8).to_string()),
        DType::String => tensor.as_strings().ok().and_then(|all| all.get(index)).map(|text| match quoted {
            true => format!("\"{}\"", escaped(text)),
            false => String::from_utf8_lossy(text).into_owned(),
        }),
        // TensorFlow prints no complex numbers and no handles.
        _ => None,
    };
    text.unwrap_or_else(|| "?".to_string())
}

/// The text with C's escapes; UTF-8 is left as it is.
fn escaped(text: &[u8]) -> String {
    let mut out = String::new();
    for chunk in text.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '"' => out.push_str("\\\""),
                '\'' => out.push_str("\\'"),
                '\\' => out.push_str("\\\\"),
                c if c.is_ascii_control() => out.push_str(&format!("\\{:03o}", c as u32)),
                c => out.push(c),
            }
        }
        chunk.invalid().iter().for_each(|byte| out.push_str(&format!("\\{byte:03o}")));
    }
    out
}

/// The first `limit` elements (all, if negative) on one line, without the outermost brackets: `[1 2][3...]...`.
pub fn first_elements(tensor: &Tensor, limit: i64) -> Result<String> {
    let count = tensor.num_elements();
    let shown = usize::try_from(limit).unwrap_or(usize::MAX).min(count);
    check_text(tensor, shown)?;
    let shape = tensor.shape();
    let row = shape.last().copied().unwrap_or(1).max(1);
    // Every block of one of these sizes stands in brackets of its own.
    let blocks: Vec<usize> =
        (1..shape.rank()).map(|axis| shape[axis..].iter().product::<usize>().max(1)).collect();
    let mut out = String::new();
    for index in 0..shown {
        let opened = blocks.iter().filter(|&&block| index.is_multiple_of(block)).count();
        out.push_str(&"[".repeat(opened));
        if !index.is_multiple_of(row) {
            out.push(' ');
        }
        out.push_str(&element(tensor, index, false));
        let closed = blocks.iter().filter(|&&block| (index + 1).is_multiple_of(block)).count();
        out.push_str(&"]".repeat(closed));
    }
    if shown < count {
        let open = blocks.iter().filter(|&&block| !shown.is_multiple_of(block)).count();
        if open > 0 && !shown.is_multiple_of(row) {
            out.push_str("...");
        }
        out.push_str(&"]".repeat(open));
        out.push_str("...");
    }
    Ok(out)
}

/// Whether there is room for the text of so many elements.
fn check_text(tensor: &Tensor, shown: usize) -> Result<()> {
    const MANY: usize = 1 << 10;
    // A number with its blank; an escaped byte.
    let longest = match tensor.as_strings() {
        Ok(strings) => strings.iter().map(|text| text.len()).max().unwrap_or(0).saturating_mul(4),
        Err(_) if shown < MANY => return Ok(()),
        Err(_) => 0,
    };
    let each = longest.saturating_add(32 + 2 * tensor.shape().rank());
    memory::check_fits(each.saturating_mul(shown))
}

/// The first and last `limit` entries of every dimension (all, if negative), nested in brackets over several lines.
pub(crate) fn edges(tensor: &Tensor, limit: i64) -> Result<String> {
    let ends = match usize::try_from(limit) {
        Ok(limit) => limit.min(tensor.num_elements()),
        Err(_) => tensor.shape().iter().copied().max().unwrap_or(0),
    };
    let shown = |&dim: &usize| dim.min(ends.saturating_mul(2));
    check_text(tensor, tensor.shape().iter().map(shown).fold(1, usize::saturating_mul))?;
    let mut out = String::new();
    write_edges(tensor, 0, 0, ends, &mut out);
    Ok(out)
}

/// Writes dimension `axis` from element `start` on. The recursion is as deep as the rank, which shapes bound.
fn write_edges(tensor: &Tensor, axis: usize, start: usize, ends: usize, out: &mut String) {
    let shape = tensor.shape();
    if axis == shape.rank() {
        out.push_str(&element(tensor, start, true));
        return;
    }
    let separate = |out: &mut String| match axis + 1 == shape.rank() {
        true => out.push(' '),
        false => {
            out.push_str(&"\n".repeat(shape.rank() - axis - 1));
            out.push_str(&" ".repeat(axis + 1));
        }
    };
    out.push('[');
    let (count, stride) = (shape[axis], shape[axis + 1..].iter().product::<usize>());
    for index in 0..ends.min(count) {
        if index > 0 {
            separate(out);
        }
        write_edges(tensor, axis + 1, start + index * stride, ends, out);
    }
    if count > ends.saturating_mul(2) {
        separate(out);
        out.push_str("...");
    }
    for index in ends.max(count.saturating_sub(ends))..count {
        separate(out);
        write_edges(tensor, axis + 1, start + index * stride, ends, out);
    }
    out.push(']');
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensorfleet_core::Shape;

    fn counting(dims: &[usize]) -> Tensor {
        let values: Vec<i32> = (0..dims.iter().product::<usize>() as i32).collect();
        Tensor::from_slice(&values, dims).unwrap()
    }

    #[test]
    fn first_elements_are_cut_where_tensorflow_cuts() {
        assert_eq!(first_elements(&counting(&[5]), 3).unwrap(), "0 1 2...");
        assert_eq!(first_elements(&counting(&[5]), -1).unwrap(), "0 1 2 3 4");
        assert_eq!(first_elements(&counting(&[5]), 0).unwrap(), "...");
        assert_eq!(first_elements(&counting(&[3, 2]), 3).unwrap(), "[0 1][2...]...");
        assert_eq!(first_elements(&counting(&[3, 2]), 100).unwrap(), "[0 1][2 3][4 5]");
        assert_eq!(first_elements(&counting(&[2, 3, 2]), 7).unwrap(), "[[0 1][2 3][4 5]][[6...]]...");
        assert_eq!(first_elements(&counting(&[]), 3).unwrap(), "0");
        assert_eq!(first_elements(&counting(&[2, 0]), 3).unwrap(), "");
        assert_eq!(first_elements(&Tensor::string("x"), 3).unwrap(), "x");
        assert_eq!(first_elements(&Tensor::vector(&[true, false]).unwrap(), 3).unwrap(), "1 0");
        let complex = Tensor::scalar(num_complex::Complex::new(1.0f32, 2.0));
        assert_eq!(first_elements(&complex, 3).unwrap(), "?");
    }

    #[test]
    fn edges_show_both_ends_of_every_dimension() {
        assert_eq!(
            edges(&counting(&[6, 10]), 2).unwrap(),
            "[[0 1 ... 8 9]\n [10 11 ... 18 19]\n ...\n [40 41 ... 48 49]\n [50 51 ... 58 59]]"
        );
        assert_eq!(
            edges(&counting(&[3, 4, 5]), 1).unwrap(),
            "[[[0 ... 4]\n  ...\n  [15 ... 19]]\n\n ...\n\n [[40 ... 44]\n  ...\n  [55 ... 59]]]"
        );
        assert_eq!(edges(&counting(&[2, 2]), 2).unwrap(), "[[0 1]\n [2 3]]");
        assert_eq!(edges(&counting(&[12]), -1).unwrap(), "[0 1 2 3 4 5 6 7 8 9 10 11]");
        assert_eq!(edges(&Tensor::string("x\n\"é"), 3).unwrap(), "\"x\\n\\\"é\"");
        assert_eq!(
            edges(&Tensor::zeros(DType::Float, Shape::new(&[0]).unwrap()).unwrap(), -1).unwrap(),
            "[]"
        );
        assert_eq!(edges(&counting(&[2, 0]), 2).unwrap(), "[\n ...]");
    }
}
