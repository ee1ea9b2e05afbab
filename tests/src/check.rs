//! Comparison of answers with what was expected: values within tolerances, and properties of random values.
//!
//! Every check returns a sentence that says what is wrong; the caller adds which fetch of which step it was.

use half::{bf16, f16};
use num_complex::Complex;
use tensorfleet_core::{DType, Status, Tensor};

use crate::case::{ExpectedError, PropertyCheck, Tolerance};

/// A check's verdict: fine, or what is wrong in one sentence.
pub type Verdict = Result<(), String>;

/// How close a tensor's numbers must come.
#[derive(Clone, Copy, Debug, Default)]
pub struct Closeness {
    /// The bounds; `None` for exact.
    pub tolerance: Option<Tolerance>,
    /// Whether `atol` is multiplied by the largest finite magnitude of the expected tensor, if above 1.
    pub atol_times_max: bool,
}

/// TensorFlow's enum name of a dtype, e.g. `DT_FLOAT`.
pub fn enum_name(dtype: DType) -> String {
    format!("DT_{}", dtype.name().to_uppercase())
}

/// Checks that `got` has the dtype, shape and values of `want`.
pub fn compare(got: &Tensor, want: &Tensor, closeness: Closeness) -> Verdict {
    if got.dtype() != want.dtype() {
        return Err(format!("dtype is {}, expected {}", got.dtype(), want.dtype()));
    }
    if got.shape() != want.shape() {
        return Err(format!("shape is {}, expected {}", got.shape(), want.shape()));
    }
    match (numbers(got), numbers(want)) {
        (Some(got), Some(want)) => compare_numbers(&got, &want, closeness),
        _ if got == want => Ok(()),
        _ => Err(format!("value is{got}, expected{want}")),
    }
}

fn compare_numbers(got: &[Complex<f64>], want: &[Complex<f64>], closeness: Closeness) -> Verdict {
    let tolerance = closeness.tolerance.unwrap_or_default();
    let largest = want.iter().map(|value| value.norm()).filter(|norm| norm.is_finite()).fold(1.0, f64::max);
    let atol = tolerance.atol * if closeness.atol_times_max { largest } else { 1.0 };
    let passes = |got: Complex<f64>, want: Complex<f64>| {
        // A relative bound around an infinity would admit everything, so infinities must be equal. A distance
        // that is NaN compares as false, which is right: NaN passes only against NaN.
        let close = || want.norm().is_finite() && (got - want).norm() <= atol + tolerance.rtol * want.norm();
        got == want || got.is_nan() && want.is_nan() || close()
    };
    let wrong = || got.iter().zip(want).enumerate().filter(|&(_, (&got, &want))| !passes(got, want));
    let Some((index, (first_got, first_want))) = wrong().next() else { return Ok(()) };
    Err(format!(
        "element {index} is {}, expected {} (rtol {:e}, atol {atol:e}); {} of {} elements are off",
        shown(*first_got),
        shown(*first_want),
        tolerance.rtol,
        wrong().count(),
        got.len()
    ))
}

fn shown(value: Complex<f64>) -> String {
    if value.im == 0.0 { format!("{:?}", value.re) } else { format!("{:?}{:+?}i", value.re, value.im) }
}

/// The elements of a floating or complex tensor; integers are compared exactly, without a detour.
fn numbers(tensor: &Tensor) -> Option<Vec<Complex<f64>>> {
    if tensor.dtype().is_floating() {
        return Some(reals(tensor)?.into_iter().map(|value| Complex::new(value, 0.0)).collect());
    }
    match tensor.dtype() {
        DType::Complex64 => Some(
            tensor
                .as_slice::<Complex<f32>>()
                .ok()?
                .iter()
                .map(|v| Complex::new(v.re.into(), v.im.into()))
                .collect(),
        ),
        DType::Complex128 => Some(tensor.as_slice::<Complex<f64>>().ok()?.to_vec()),
        _ => None,
    }
}

/// The elements of a tensor of real numbers, as floats.
fn reals(tensor: &Tensor) -> Option<Vec<f64>> {
    macro_rules! convert {
        ($($variant:ident: $rust:ty => $convert:expr;)*) => {
            match tensor.dtype() {
                $(DType::$variant => Some(tensor.as_slice::<$rust>().ok()?.iter().map($convert).collect()),)*
                _ => None,
            }
        };
    }
    convert! {
        Float: f32 => |&v| v.into();
        Double: f64 => |&v| v;
        Half: f16 => |&v| v.into();
        BFloat16: bf16 => |&v| v.into();
        Bool: bool => |&v| f64::from(u8::from(v));
        Int8: i8 => |&v| v.into();
        Int16: i16 => |&v| v.into();
        Int32: i32 => |&v| v.into();
        Int64: i64 => |&v| v as f64;
        UInt8: u8 => |&v| v.into();
        UInt16: u16 => |&v| v.into();
        UInt32: u32 => |&v| v.into();
        UInt64: u64 => |&v| v as f64;
    }
}

/// Checks the properties of a value that is random.
pub fn check_properties(got: &Tensor, check: &PropertyCheck) -> Verdict {
    if let Some(dtype) = &check.dtype
        && *dtype != enum_name(got.dtype())
    {
        return Err(format!("dtype is {}, expected {dtype}", enum_name(got.dtype())));
    }
    if let Some(shape) = &check.shape
        && got.shape().dims() != &shape[..]
    {
        return Err(format!("shape is {}, expected {shape:?}", got.shape()));
    }
    if let Some(values) = &check.permutation_of {
        check_permutation(got, values)?;
    }
    let Some(values) = reals(got) else { return Ok(()) };
    let outside = |value: &&f64| {
        !(check.min.is_none_or(|min| **value >= min) && check.max.is_none_or(|max| **value <= max))
    };
    if let Some(value) = values.iter().find(outside) {
        return Err(format!("value {value} lies outside [{:?}, {:?}]", check.min, check.max));
    }
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    check_between("mean", mean, check.mean)?;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64;
    check_between("standard deviation", variance.sqrt(), check.std)?;
    if let Some(least) = check.distinct {
        let mut sorted = values;
        sorted.sort_by(f64::total_cmp);
        sorted.dedup();
        if sorted.len() < least {
            return Err(format!("there are {} different values, expected at least {least}", sorted.len()));
        }
    }
    Ok(())
}

fn check_between(what: &str, value: f64, bounds: Option<[f64; 2]>) -> Verdict {
    match bounds {
        Some([low, high]) if !(low..=high).contains(&value) => {
            Err(format!("the {what} is {value}, expected a number in [{low}, {high}]"))
        }
        _ => Ok(()),
    }
}

fn check_permutation(got: &Tensor, want: &[serde_json::Value]) -> Verdict {
    let mut got_values: Vec<String> = match (got.as_strings(), reals(got)) {
        (Ok(strings), _) => {
            strings.iter().map(|string| String::from_utf8_lossy(string).into_owned()).collect()
        }
        (_, Some(numbers)) => numbers.iter().map(f64::to_string).collect(),
        _ => return Err(format!("a {} tensor has no values that could be put in order", got.dtype())),
    };
    let text = |value: &serde_json::Value| match value {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Bool(value) => u8::from(*value).to_string(),
        other => other.as_f64().map_or_else(|| other.to_string(), |number| number.to_string()),
    };
    let mut want_values: Vec<String> = want.iter().map(text).collect();
    got_values.sort();
    want_values.sort();
    if got_values == want_values {
        Ok(())
    } else {
        Err(format!("values{got} are no permutation of {want:?}"))
    }
}

/// Checks that a failed step failed as TensorFlow's did.
pub fn check_error(got: &Status, want: &ExpectedError) -> Verdict {
    let message = got.message();
    if want.codes.contains(&got.code()) && message.contains(&want.contains) {
        return Ok(());
    }
    Err(format!("error is {}: {message}; expected {}", got.code().proto_name(), expected_error(want)))
}

/// An expected error in words: its codes, and the fragment if there is one.
pub fn expected_error(want: &ExpectedError) -> String {
    let codes: Vec<&str> = want.codes.iter().map(|code| code.proto_name()).collect();
    let fragment =
        if want.contains.is_empty() { String::new() } else { format!(" with '{}'", want.contains) };
    format!("{}{fragment}", codes.join(" or "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensorfleet_core::Code;

    fn floats(values: &[f32]) -> Tensor {
        Tensor::vector(values).unwrap()
    }

    fn within(rtol: f64, atol: f64) -> Closeness {
        Closeness { tolerance: Some(Tolerance { rtol, atol }), atol_times_max: false }
    }

    #[test]
    fn numbers_may_be_off_by_both_tolerances_together() {
        let want = floats(&[10.0]);
        assert_eq!(compare(&floats(&[10.29]), &want, within(0.01, 0.2)), Ok(()));
        assert!(compare(&floats(&[10.31]), &want, within(0.01, 0.2)).is_err());
        assert!(compare(&floats(&[10.000_001]), &want, Closeness::default()).is_err());
    }

    #[test]
    fn the_largest_finite_magnitude_scales_atol_when_asked() {
        let want = floats(&[0.0, -100.0, f32::INFINITY]);
        let got = floats(&[0.5, -100.0, f32::INFINITY]);
        assert!(compare(&got, &want, within(0.0, 0.01)).is_err());
        let scaled = Closeness { atol_times_max: true, ..within(0.0, 0.01) };
        assert_eq!(compare(&got, &want, scaled), Ok(()));
        let small = floats(&[0.001, 0.0]);
        assert!(compare(&floats(&[0.001, 0.011]), &small, scaled).is_err(), "a scale below one is one");
    }

    #[test]
    fn nan_equals_nan_and_infinities_keep_their_sign() {
        let want = floats(&[f32::NAN, f32::INFINITY]);
        let close = within(1.0, 1.0);
        assert_eq!(compare(&want, &want, close), Ok(()));
        assert!(compare(&floats(&[0.0, f32::INFINITY]), &want, close).is_err());
        assert!(compare(&floats(&[f32::NAN, f32::NEG_INFINITY]), &want, close).is_err());
        assert!(compare(&floats(&[f32::NAN, 1.0]), &want, close).is_err());
        assert!(compare(&floats(&[f32::NAN]), &floats(&[1.0]), close).is_err());
    }

    #[test]
    fn dtype_shape_integers_and_strings_are_exact() {
        let close = within(1.0, 10.0);
        let want = Tensor::vector(&[1i32, 2]).unwrap();
        assert!(compare(&Tensor::vector(&[1i64, 2]).unwrap(), &want, close).unwrap_err().contains("dtype"));
        assert!(
            compare(&Tensor::from_slice(&[1i32, 2], &[2, 1]).unwrap(), &want, close)
                .unwrap_err()
                .contains("shape")
        );
        assert!(compare(&Tensor::vector(&[1i32, 3]).unwrap(), &want, close).is_err());
        assert!(compare(&"a".into(), &"b".into(), close).unwrap_err().contains("expected"));
        assert_eq!(compare(&"a".into(), &"a".into(), close), Ok(()));
    }

    #[test]
    fn complex_and_half_numbers_are_compared_by_distance() {
        let want = Tensor::scalar(Complex::new(3.0f32, 4.0));
        assert_eq!(compare(&Tensor::scalar(Complex::new(3.3f32, 4.4)), &want, within(0.11, 0.0)), Ok(()));
        assert!(compare(&Tensor::scalar(Complex::new(3.3f32, 4.4)), &want, within(0.09, 0.0)).is_err());
        let half = |value: f32| Tensor::scalar(f16::from_f32(value));
        assert_eq!(compare(&half(1.0), &half(1.001), within(0.01, 0.0)), Ok(()));
    }

    #[test]
    fn properties_of_random_values_are_checked() {
        let value = floats(&[0.0, 0.25, 0.75, 1.0]);
        let check = |text: &str| check_properties(&value, &serde_json::from_str(text).unwrap());
        for fine in [
            "{}",
            r#"{"dtype": "DT_FLOAT", "shape": [4]}"#,
            r#"{"min": 0.0, "max": 1, "mean": [0.4, 0.6], "std": [0.39, 0.4], "distinct": 4}"#,
            r#"{"permutation_of": [1, 0.25, 0.75, 0]}"#,
        ] {
            assert_eq!(check(fine), Ok(()), "{fine}");
        }
        for wrong in [
            r#"{"dtype": "DT_INT32"}"#,
            r#"{"shape": [2, 2]}"#,
            r#"{"min": 0.1}"#,
            r#"{"max": 0.9}"#,
            r#"{"mean": [0.6, 0.7]}"#,
            r#"{"std": [0, 0.1]}"#,
            r#"{"distinct": 5}"#,
            r#"{"permutation_of": [1, 0.25, 0.75]}"#,
        ] {
            assert!(check(wrong).is_err(), "{wrong}");
        }
        let nan = floats(&[f32::NAN]);
        assert!(check_properties(&nan, &serde_json::from_str(r#"{"min": 0}"#).unwrap()).is_err());
        let words = Tensor::from_strings(vec!["b".into(), "a".into()], &[2]).unwrap();
        let permutation = serde_json::from_str(r#"{"permutation_of": ["a", "b"]}"#).unwrap();
        assert_eq!(check_properties(&words, &permutation), Ok(()));
    }

    #[test]
    fn an_error_needs_an_accepted_code_and_the_fragment() {
        let want =
            ExpectedError { codes: vec![Code::NotFound, Code::InvalidArgument], contains: "gone".into() };
        assert_eq!(check_error(&Status::not_found("it is gone"), &want), Ok(()));
        assert_eq!(check_error(&Status::invalid_argument("x").at_node("gone", "Op", ""), &want), Ok(()));
        assert!(check_error(&Status::not_found("it is lost"), &want).is_err());
        assert!(check_error(&Status::internal("it is gone"), &want).unwrap_err().contains("INTERNAL"));
    }
}
