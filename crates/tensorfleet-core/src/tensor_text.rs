//! Tensors as text, laid out as numpy lays out arrays.
//!
//! Elements stand in columns, rows in brackets, and a large tensor shows the edges of its axes. Numbers have at most eight digits
//! after the point (or as many as the format asks for, `{:.3}`), and all of a tensor are written alike: with exponents as soon as
//! some are very large, very small, or a thousand times another. A scalar stands alone, a text without quotes.

use std::fmt;

use half::{bf16, f16};
use num_complex::Complex;

use crate::dtype::DType;
use crate::resource_handle::ResourceHandle;
use crate::tensor::Tensor;

/// Digits after the point unless the format asks for others; numpy's number, as the next four.
const DIGITS: usize = 8;
/// Tensors with more elements are shown by their edges.
const SUMMARISED_ABOVE: usize = 1000;
/// So many from the beginning and from the end of an axis are an edge.
const EDGE: usize = 3;
const LINE_WIDTH: usize = 75;
/// More than the digits of any scalar that is written without exponent.
const MAX_DIGITS: usize = 400;
/// Smaller numbers are written with an exponent.
const SMALLEST_PLAIN: f64 = 1e-4;
/// Edges of many axes would still flood a screen.
const MAX_SHOWN: usize = 4000;
/// Bytes shown of a string among others.
const MAX_STRING: usize = 200;

impl fmt::Display for Tensor {
    /// The elements.
    ///
    /// ```
    /// use tensorfleet_core::Tensor;
    /// let matrix = Tensor::from_slice(&[1.0f32, 2.5, -3.0, 4.0], &[2, 2]).unwrap();
    /// assert_eq!(matrix.to_string(), "[[ 1.   2.5]\n [-3.   4. ]]");
    /// assert_eq!(Tensor::scalar(0.9652f32).to_string(), "0.9652");
    /// assert_eq!(Tensor::string("hello").to_string(), "hello");
    /// ```
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims = self.shape().dims();
        if dims.is_empty() {
            return f.write_str(&scalar(self, f.precision()));
        }
        if self.num_elements() == 0 {
            return match dims {
                [0] => f.write_str("[]"),
                _ => write!(f, "[] (shape {})", self.shape()),
            };
        }
        let is_summary = self.num_elements() > SUMMARISED_ABOVE;
        let shown = shown_indices(dims, is_summary);
        let words = words(self, &shown, f.precision().unwrap_or(DIGITS));
        let mut layout = Layout { dims, is_summary, words: words.into_iter(), text: String::new() };
        layout.axis(0);
        f.write_str(&layout.text)
    }
}

impl fmt::Debug for Tensor {
    /// Elements, shape and dtype: `Tensor([1. 2.], shape=[2], dtype=float)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.shape().rank() > 1 { "Tensor(\n" } else { "Tensor(" })?;
        fmt::Display::fmt(self, f)?;
        write!(f, ", shape={}, dtype={})", self.shape(), self.dtype())
    }
}

/// The positions of the elements that are shown, in order.
fn shown_indices(dims: &[usize], is_summary: bool) -> Vec<usize> {
    let mut starts = vec![0];
    let mut stride: usize = dims.iter().product();
    for &len in dims {
        stride /= len;
        let mut next = Vec::new();
        for start in starts {
            let indices = (0..len).filter(|&index| !is_cut(len, index, is_summary));
            next.extend(indices.map(|index| start + index * stride).take(MAX_SHOWN - next.len()));
        }
        starts = next;
    }
    starts
}

/// Whether this element of an axis is left out.
fn is_cut(len: usize, index: usize, is_summary: bool) -> bool {
    is_summary && len > 2 * EDGE && (EDGE..len - EDGE).contains(&index)
}

/// What is being written, and the elements that are still to come.
struct Layout<'a> {
    dims: &'a [usize],
    is_summary: bool,
    words: std::vec::IntoIter<String>,
    text: String,
}

impl Layout<'_> {
    /// Writes one axis in brackets. A shape has at most 254 axes, and so deep does this go.
    fn axis(&mut self, axis: usize) {
        let (len, axes_left) = (self.dims[axis], self.dims.len() - axis);
        self.text.push('[');
        for index in 0..len {
            if is_cut(len, index, self.is_summary) {
                if index == EDGE {
                    self.separate(axis, 3);
                    self.text.push_str("...");
                }
            } else if axes_left > 1 {
                if self.words.len() == 0 {
                    break;
                }
                if index > 0 {
                    self.separate(axis, 0);
                }
                self.axis(axis + 1);
            } else {
                let Some(word) = self.words.next() else {
                    self.text.push_str(" ...");
                    break;
                };
                if index > 0 {
                    self.separate(axis, word.chars().count());
                }
                self.text.push_str(&word);
            }
        }
        self.text.push(']');
    }

    /// Between elements a blank, or a new line if the next would not fit; between rows new lines, one more for every axis that
    /// they have themselves.
    fn separate(&mut self, axis: usize, width: usize) {
        let axes_left = self.dims.len() - axis;
        if axes_left > 1 {
            self.text.extend(std::iter::repeat_n('\n', axes_left - 1));
        } else {
            let line = self.text.rsplit('\n').next().unwrap_or_default();
            // As many brackets may close behind it as are open.
            if line.chars().count() + 1 + width + self.dims.len() <= LINE_WIDTH {
                self.text.push(' ');
                return;
            }
            self.text.truncate(self.text.trim_end().len());
            self.text.push('\n');
        }
        self.text.extend(std::iter::repeat_n(' ', axis + 1));
    }
}

/// The elements at these positions as text, all of the same width.
fn words(tensor: &Tensor, at: &[usize], digits: usize) -> Vec<String> {
    macro_rules! picked {
        ($rust:ty) => {{
            let slice = tensor.as_slice::<$rust>().unwrap_or_default();
            at.iter().filter_map(|&index| slice.get(index).copied())
        }};
    }
    macro_rules! by_dtype {
        (floats $($float:ident => $f:ty),*; integers $($integer:ident => $i:ty),*; complex $($complex:ident => $c:ty),*) => {
            match tensor.dtype().storage() {
                $(DType::$float => FloatFormat::aligned(&picked!($f).collect::<Vec<_>>(), digits, Sign::OnlyMinus),)*
                $(DType::$integer => right_aligned(picked!($i).map(|number| number.to_string()).collect()),)*
                $(DType::$complex => {
                    let (real, imaginary): (Vec<_>, Vec<_>) = picked!(Complex<$c>).map(|c| (c.re, c.im)).unzip();
                    let real = FloatFormat::aligned(&real, digits, Sign::OnlyMinus);
                    let imaginary = FloatFormat::aligned(&imaginary, digits, Sign::Always);
                    real.iter().zip(&imaginary).map(|(real, imaginary)| {
                        let (number, blanks) = imaginary.split_at(imaginary.trim_end().len());
                        format!("{real}{number}j{blanks}")
                    }).collect()
                })*
                DType::Bool => right_aligned(picked!(bool).map(truth).collect()),
                DType::String => {
                    let strings = tensor.as_strings().unwrap_or_default();
                    at.iter().filter_map(|&index| strings.get(index)).map(|string| quoted(string)).collect()
                }
                DType::Resource => {
                    let handles = tensor.as_resources().unwrap_or_default();
                    at.iter().filter_map(|&index| handles.get(index)).map(handle_text).collect()
                }
                _ => at.iter().map(|_| "<opaque>".to_string()).collect(),
            }
        };
    }
    by_dtype!(floats Float => f32, Double => f64, Half => f16, BFloat16 => bf16;
        integers Int8 => i8, Int16 => i16, Int32 => i32, Int64 => i64, UInt8 => u8, UInt16 => u16, UInt32 => u32, UInt64 => u64;
        complex Complex64 => f32, Complex128 => f64)
}

/// The only element of a tensor without axes.
fn scalar(tensor: &Tensor, digits: Option<usize>) -> String {
    fn text<F: Float>(number: F, digits: Option<usize>) -> String {
        let real = number.real();
        match digits {
            Some(digits) if real.is_finite() => format!("{real:.digits$}"),
            _ if real != 0.0 && real.is_finite() && !(SMALLEST_PLAIN..1e16).contains(&real.abs()) => {
                let shortest = number.shortest();
                let (mantissa, exponent) = parts(&shortest);
                format!("{mantissa}e{}", exponent_text(exponent, 2))
            }
            _ => match plain(number, MAX_DIGITS) {
                text if text.ends_with('.') => text + "0",
                text => text,
            },
        }
    }
    macro_rules! only {
        ($rust:ty) => {
            tensor.to_scalar::<$rust>().map(|number| text(number, digits)).unwrap_or_default()
        };
    }
    macro_rules! complex {
        ($rust:ty) => {
            tensor.to_scalar::<Complex<$rust>>().map_or_else(
                |_| String::new(),
                |number| {
                    let sign = if number.im.is_sign_negative() { '-' } else { '+' };
                    format!("({}{sign}{}j)", text(number.re, digits), text(number.im.abs(), digits))
                },
            )
        };
    }
    match tensor.dtype().storage() {
        DType::Float => only!(f32),
        DType::Double => only!(f64),
        DType::Half => only!(f16),
        DType::BFloat16 => only!(bf16),
        DType::Complex64 => complex!(f32),
        DType::Complex128 => complex!(f64),
        DType::String => match tensor.to_string_scalar() {
            Ok(string) => String::from_utf8_lossy(string).into_owned(),
            Err(_) => String::new(),
        },
        _ => words(tensor, &[0], DIGITS).pop().unwrap_or_default(),
    }
}

fn truth(value: bool) -> String {
    if value { "True" } else { "False" }.to_string()
}

fn handle_text(handle: &ResourceHandle) -> String {
    format!("<{}>", handle.name())
}

/// A string in quotes; what is no text is escaped.
fn quoted(string: &[u8]) -> String {
    match std::str::from_utf8(string) {
        Ok(text) if text.chars().count() <= MAX_STRING => {
            format!("'{}'", text.escape_debug().to_string().replace("\\\"", "\""))
        }
        _ => {
            let kept = &string[..string.len().min(MAX_STRING)];
            let mark = if kept.len() < string.len() { "..." } else { "" };
            format!("'{}'{mark}", kept.escape_ascii())
        }
    }
}

fn right_aligned(words: Vec<String>) -> Vec<String> {
    let width = words.iter().map(String::len).max().unwrap_or_default();
    words.into_iter().map(|word| format!("{word:>width$}")).collect()
}

/// What the floating point types have in common.
trait Float: Copy {
    fn real(self) -> f64;

    /// The fewest digits that still are this number and no other, as `1.25e-7`.
    fn shortest(self) -> String;

    /// From here on numbers are written with an exponent.
    fn largest_plain() -> f64;
}

impl Float for f32 {
    fn real(self) -> f64 {
        f64::from(self)
    }

    fn shortest(self) -> String {
        format!("{self:e}")
    }

    fn largest_plain() -> f64 {
        1e6
    }
}

impl Float for f64 {
    fn real(self) -> f64 {
        self
    }

    fn shortest(self) -> String {
        format!("{self:e}")
    }

    fn largest_plain() -> f64 {
        1e8
    }
}

macro_rules! half_floats {
    ($($rust:ty, $largest_plain:literal;)*) => {$(
        impl Float for $rust {
            fn real(self) -> f64 {
                self.to_f64()
            }

            fn shortest(self) -> String {
                /// Enough for every number of sixteen bits.
                const MAX_DIGITS: usize = 5;
                let text = |digits: usize| format!("{:.digits$e}", self.to_f64());
                let is_same = |text: &String| text.parse().is_ok_and(|number| <$rust>::from_f64(number) == self);
                (0..MAX_DIGITS).map(text).find(is_same).unwrap_or_else(|| text(MAX_DIGITS))
            }

            fn largest_plain() -> f64 {
                $largest_plain
            }
        }
    )*};
}

half_floats! {
    f16, 1e3;
    bf16, 1e2;
}

/// `1.25e-7` as `1.25` and `-7`.
fn parts(scientific: &str) -> (&str, i32) {
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    (mantissa, exponent.parse().unwrap_or_default())
}

/// With a sign, and at least so many digits.
fn exponent_text(exponent: i32, digits: usize) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{sign}{:0digits$}", exponent.unsigned_abs())
}

/// A number without exponent, with a point and at most so many digits behind it, and no zero at the end.
fn plain<F: Float>(number: F, max_digits: usize) -> String {
    let real = number.real();
    if !real.is_finite() {
        return if real.is_nan() {
            "nan"
        } else if real < 0.0 {
            "-inf"
        } else {
            "inf"
        }
        .to_string();
    }
    let shortest = number.shortest();
    let (mantissa, exponent) = parts(&shortest);
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let fraction = digits.len() as i32 - 1 - exponent;
    if fraction > max_digits as i32 || max_digits == 0 {
        let text = format!("{real:.max_digits$}");
        let text = if text.contains('.') { text } else { text + "." };
        return text.trim_end_matches('0').to_string();
    }
    let sign = if mantissa.starts_with('-') { "-" } else { "" };
    let (whole, rest) = if exponent < 0 {
        ("0".to_string(), format!("{}{digits}", "0".repeat((-exponent - 1) as usize)))
    } else {
        let whole = exponent as usize + 1;
        let padded = format!("{digits:0<whole$}");
        let (whole, rest) = padded.split_at(whole);
        (whole.to_string(), rest.to_string())
    };
    format!("{sign}{whole}.{}", rest.trim_end_matches('0'))
}

/// A number with an exponent: what stands before and behind the point, and the exponent.
fn scientific<F: Float>(number: F, max_digits: usize) -> (String, String, i32) {
    let mut text = number.shortest();
    if parts(&text).0.split('.').nth(1).is_some_and(|fraction| fraction.len() > max_digits) {
        text = format!("{:.max_digits$e}", number.real());
    }
    let (mantissa, exponent) = parts(&text);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    (whole.to_string(), fraction.trim_end_matches('0').to_string(), exponent)
}

/// Which numbers have a sign.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sign {
    OnlyMinus,
    Always,
}

/// How all numbers of a tensor are written.
struct FloatFormat;

impl FloatFormat {
    /// The numbers as text: points stand below points, and all have the same width.
    fn aligned<F: Float>(numbers: &[F], digits: usize, sign: Sign) -> Vec<String> {
        let sizes = || numbers.iter().map(|n| n.real().abs()).filter(|size| size.is_finite() && *size != 0.0);
        let (smallest, largest) =
            sizes().fold((f64::INFINITY, 0.0f64), |(a, b), size| (a.min(size), b.max(size)));
        let has_exponents = sizes().next().is_some()
            && (largest >= F::largest_plain() || smallest < SMALLEST_PLAIN || largest / smallest > 1000.0);
        let split: Vec<Option<[String; 2]>> = match has_exponents {
            true => Self::with_exponents(numbers, digits),
            false => {
                let plain = numbers.iter().map(|&number| plain(number, digits));
                plain.map(|text| text.split_once('.').map(|(a, b)| [a.to_string(), b.to_string()])).collect()
            }
        };
        let signed = |number: F, text: &str| match sign {
            Sign::Always if !number.real().is_sign_negative() => format!("+{text}"),
            _ => text.to_string(),
        };
        let finite =
            || split.iter().zip(numbers).filter_map(|(parts, &number)| Some((parts.as_ref()?, number)));
        let whole = finite().map(|(parts, number)| signed(number, &parts[0]).len()).max().unwrap_or_default();
        let fraction = finite().map(|(parts, _)| parts[1].len()).max().unwrap_or_default();
        let others = numbers.iter().filter(|number| !number.real().is_finite());
        let widest =
            others.map(|&number| signed(number, &plain(number, digits)).len()).max().unwrap_or_default();
        let point = usize::from(finite().next().is_some());
        let whole = whole.max(widest.saturating_sub(fraction + point));
        let width = whole + fraction + point;
        split
            .iter()
            .zip(numbers)
            .map(|(parts, &number)| match parts {
                Some([before, after]) => format!("{:>whole$}.{after:<fraction$}", signed(number, before)),
                None => format!("{:>width$}", signed(number, &plain(number, digits))),
            })
            .collect()
    }

    /// What stands before the point, and behind it with the exponent; nothing for what is not finite.
    fn with_exponents<F: Float>(numbers: &[F], digits: usize) -> Vec<Option<[String; 2]>> {
        let parts: Vec<_> =
            numbers.iter().map(|&n| n.real().is_finite().then(|| scientific(n, digits))).collect();
        let fraction =
            parts.iter().flatten().map(|(_, fraction, _)| fraction.len()).max().unwrap_or_default();
        let exponents = parts.iter().flatten().map(|(_, _, exponent)| exponent.unsigned_abs());
        let places = if exponents.max().unwrap_or_default() > 99 { 3 } else { 2 };
        let text = |(whole, behind, exponent): (String, String, i32)| {
            [whole, format!("{behind:0<fraction$}e{}", exponent_text(exponent, places))]
        };
        parts.into_iter().map(|parts| parts.map(text)).collect()
    }
}

#[cfg(test)]
#[path = "tensor_text_tests.rs"]
mod tests;
