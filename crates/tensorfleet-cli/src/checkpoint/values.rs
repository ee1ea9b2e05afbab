//! Some of a tensor's elements as text: few enough to read, with the shape still visible.

use tensorfleet_core::{Result, Tensor};

use super::numbers::Numbers;

/// Of an axis that is longer than twice this, so many elements are shown from its beginning and from its end.
const EDGE: usize = 3;
/// Elements shown in all.
const MAX_SHOWN: usize = 200;
/// Bytes shown of a string.
const MAX_STRING: usize = 60;

/// The value in brackets, the last axis on a line: `[[1, 2, 3, …, 8, 9, 10],⏎ [ … ]]`.
pub(super) fn shortened(tensor: &Tensor) -> Result<String> {
    let numbers = Numbers::of(tensor)?;
    let strings = tensor.as_strings().unwrap_or_default();
    let element = |index: usize| match &numbers {
        Some(numbers) => numbers.text(index).unwrap_or_default(),
        None => strings.get(index).map_or_else(|| "?".to_string(), |string| quoted(string)),
    };
    let dims = tensor.shape().dims();
    if dims.is_empty() {
        return Ok(element(0));
    }
    if tensor.num_elements() == 0 {
        return Ok(format!("[] (no elements, shape {})", tensor.shape()));
    }
    let mut text = String::new();
    let mut shown = 0;
    write_axis(&mut text, dims, 0, 0, &element, &mut shown);
    if shown >= MAX_SHOWN {
        text.push_str(" …");
    }
    Ok(text)
}

/// Writes one axis. A shape has at most 254 axes, and so deep does this go.
fn write_axis(
    text: &mut String,
    dims: &[usize],
    axis: usize,
    offset: usize,
    element: &impl Fn(usize) -> String,
    shown: &mut usize,
) {
    let (Some((&len, rest)), true) = (dims.get(axis..).and_then(<[usize]>::split_first), *shown < MAX_SHOWN)
    else {
        return;
    };
    let stride: usize = rest.iter().product();
    text.push('[');
    let separator = match rest.is_empty() {
        true => ", ".to_string(),
        false => format!(",\n{}", " ".repeat(axis + 1)),
    };
    let is_long = len > 2 * EDGE;
    let indices = (0..len).filter(|&index| !is_long || index < EDGE || index >= len - EDGE);
    for index in indices {
        if *shown >= MAX_SHOWN {
            break;
        }
        if index > 0 {
            text.push_str(&separator);
        }
        if is_long && index == len - EDGE {
            text.push('…');
            text.push_str(&separator);
        }
        if rest.is_empty() {
            text.push_str(&element(offset + index));
            *shown += 1;
        } else {
            write_axis(text, dims, axis + 1, offset + index * stride, element, shown);
        }
    }
    text.push(']');
}

/// A string in quotes, with everything that is not printable as an escape.
fn quoted(string: &[u8]) -> String {
    let kept = &string[..string.len().min(MAX_STRING)];
    let mark = if kept.len() < string.len() { "…" } else { "" };
    format!("\"{}\"{mark}", kept.escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(tensor: Tensor) -> String {
        shortened(&tensor).unwrap()
    }

    #[test]
    fn small_values_are_shown_whole_and_large_ones_by_their_edges() {
        assert_eq!(shown(Tensor::scalar(7i64)), "7");
        assert_eq!(
            shown(Tensor::from_slice(&[1.5f32, 2.0, 3.0, 4.0], &[2, 2]).unwrap()),
            "[[1.5, 2],\n [3, 4]]"
        );
        let long: Vec<i32> = (0..100).collect();
        assert_eq!(shown(Tensor::vector(&long).unwrap()), "[0, 1, 2, …, 97, 98, 99]");
        assert_eq!(shown(Tensor::from_slice::<f32>(&[], &[0, 3]).unwrap()), "[] (no elements, shape [0,3])");
    }

    #[test]
    fn many_axes_do_not_flood_the_screen() {
        let dims = [6usize; 7];
        let tensor = Tensor::from_slice(&vec![1u8; 279_936], &dims).unwrap();
        assert!(shown(tensor).len() < 5000);
        let tensor = Tensor::from_slice(&[1u8], &[1; 254]).unwrap();
        assert!(shown(tensor).contains("[1]"));
    }

    #[test]
    fn strings_are_quoted_and_cut() {
        let tensor = Tensor::from_strings(vec!["a\"\n".into(), vec![0xff; 100].into()], &[2]).unwrap();
        let text = shown(tensor);
        assert!(text.starts_with("[\"a\\\"\\n\", \"\\xff") && text.ends_with("\"…]"), "{text}");
    }
}
