//! Numbers to text and back: `AsString` and `StringToNumber`.

use bytes::Bytes;
use half::{bf16, f16};
use num_complex::Complex;
use num_traits::AsPrimitive;
use tensorfleet_core::{DType, Element, Result, Status, StringsBuilder, Tensor, ensure, excerpt};

use super::c_format::{Fill, FloatStyle, Spec};
use super::number_text::{parse_float, parse_integer};
use super::{each_string, joined};
use tensorfleet_kernel::Work;
use tensorfleet_kernel::cancellation::Cancellation;
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::same_as_input;
use tensorfleet_numeric::dispatch::no_kernel;

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("AsString", "input: T -> output: string").not_differentiable()
        .attrs(
            "T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64, complex64, \
             complex128, bool, variant, string}; precision: int = -1; scientific: bool = false; \
             shortest: bool = false; width: int = -1; fill: string = ''",
        )
        .shape(same_as_input)
        .kernel(as_string),
    Op::new("StringToNumber", "string_tensor: string -> output: out_type").work(Work::Inputs).not_differentiable()
        .attrs("out_type: {float, double, int32, int64, uint32, uint64} = float")
        .shape(same_as_input)
        .kernel(string_to_number),
];

/// Bounds the padding a graph can ask for.
const MAX_WIDTH: i64 = 1 << 16;

fn as_string(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let dtype = node.dtype()?;
    let (precision, width): (i64, i64) = (node.attr("precision")?, node.attr("width")?);
    let (scientific, shortest): (bool, bool) = (node.attr("scientific")?, node.attr("shortest")?);
    let numeric = dtype.is_floating() || dtype.is_complex();
    if dtype != DType::String && !numeric {
        ensure!(
            !scientific && !shortest,
            InvalidArgument,
            "scientific and shortest format not supported for datatype {dtype}"
        );
        ensure!(precision < 0, InvalidArgument, "precision not supported for datatype {dtype}");
    }
    ensure!(!scientific || !shortest, InvalidArgument, "Cannot select both scientific and shortest notation");
    let fill = match &node.attr::<Bytes>("fill")?[..] {
        b"" => Fill::None,
        b"0" => Fill::Zero,
        b"-" => Fill::Left,
        b" " => Fill::Space,
        b"+" => Fill::Plus,
        [other] => {
            let other = *other as char;
            return Err(Status::invalid_argument(format!("Fill argument not supported: \"{other}\"")));
        }
        _ => return Err(Status::invalid_argument("Fill string must be one or fewer characters")),
    };
    ensure!(
        width <= MAX_WIDTH && precision <= MAX_WIDTH,
        InvalidArgument,
        "width and precision may be at most {MAX_WIDTH}"
    );
    let spec = Spec { fill, width: width.max(0) as usize, precision: usize::try_from(precision).ok() };
    let style = match (scientific, shortest) {
        (true, _) => FloatStyle::Scientific,
        (_, true) => FloatStyle::Shortest,
        _ => FloatStyle::Fixed,
    };
    Ok(KernelBox::from_fn(move |ctx| {
        let input = ctx.input(0)?;
        let output = texts(&ctx.step.cancellation, input, &spec, style)?;
        ctx.set_output(0, output);
        Ok(())
    }))
}

fn texts(cancellation: &Cancellation, input: &Tensor, spec: &Spec, style: FloatStyle) -> Result<Tensor> {
    fn each<T: Element>(
        (cancellation, input): (&Cancellation, &Tensor),
        text: impl Fn(T) -> String,
    ) -> Result<Tensor> {
        let mut texts = StringsBuilder::new(input.num_elements())?;
        for value in cancellation.unless_cancelled(input.as_slice::<T>()?) {
            texts.push(text(*value?))?;
        }
        texts.finish(input.shape())
    }
    let each_of = (cancellation, input);
    let float = |value: f64| spec.float(value, style);
    match input.dtype() {
        DType::Float => each::<f32>(each_of, |x| float(x as f64)),
        DType::Double => each::<f64>(each_of, float),
        DType::Half => each::<f16>(each_of, |x| float(x.to_f64())),
        DType::BFloat16 => each::<bf16>(each_of, |x| float(x.to_f64())),
        DType::Complex64 => {
            each::<Complex<f32>>(each_of, |x| format!("({},{})", float(x.re as f64), float(x.im as f64)))
        }
        DType::Complex128 => each::<Complex<f64>>(each_of, |x| format!("({},{})", float(x.re), float(x.im))),
        DType::Int8 => each::<i8>(each_of, |x| spec.signed(x.as_())),
        DType::Int16 => each::<i16>(each_of, |x| spec.signed(x.as_())),
        DType::Int32 => each::<i32>(each_of, |x| spec.signed(x.as_())),
        DType::Int64 => each::<i64>(each_of, |x| spec.signed(x)),
        DType::UInt8 => each::<u8>(each_of, |x| spec.unsigned(x.as_())),
        DType::UInt16 => each::<u16>(each_of, |x| spec.unsigned(x.as_())),
        DType::UInt32 => each::<u32>(each_of, |x| spec.unsigned(x.as_())),
        DType::UInt64 => each::<u64>(each_of, |x| spec.unsigned(x)),
        DType::Bool => each::<bool>(each_of, |x| x.to_string()),
        DType::String => each_string(cancellation, input, |text| {
            let padding = vec![b' '; spec.width.saturating_sub(text.len())];
            match spec.fill {
                _ if padding.is_empty() => Ok(text.clone()),
                Fill::Left => joined([&text[..], &padding].into_iter(), b""),
                _ => joined([&padding, &text[..]].into_iter(), b""),
            }
        }),
        other => Err(no_kernel(other)),
    }
}

fn string_to_number(node: &NodeSpec<'_>) -> Result<KernelBox> {
    fn kernel<T: Element>(parse: impl Fn(&[u8]) -> Option<T> + Send + Sync + 'static) -> Result<KernelBox> {
        Ok(KernelBox::from_fn(move |ctx| {
            let input = ctx.input(0)?;
            let number = |text: &Bytes| {
                parse(text).ok_or_else(|| {
                    let text = excerpt(text);
                    Status::invalid_argument(format!(
                        "StringToNumberOp could not correctly convert string: {text}"
                    ))
                })
            };
            let texts = ctx.step.cancellation.unless_cancelled(input.as_strings()?);
            let numbers: Vec<T> = texts.map(|text| number(text?)).collect::<Result<_>>()?;
            let output = Tensor::from_slice(&numbers, input.shape())?;
            ctx.set_output(0, output);
            Ok(())
        }))
    }
    match node.output_dtype(0)? {
        DType::Float => kernel(|text| parse_float::<f32>(text, |value| value as f32)),
        DType::Double => kernel(|text| parse_float::<f64>(text, |value| value)),
        DType::Int32 => kernel(parse_integer::<i32>),
        DType::Int64 => kernel(parse_integer::<i64>),
        DType::UInt32 => kernel(parse_integer::<u32>),
        DType::UInt64 => kernel(parse_integer::<u64>),
        other => Err(no_kernel(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strings::tests::strings;
    use crate::testing::{TestOp, test_op};
    use tensorfleet_core::Code;

    fn as_string_op(input: Tensor) -> TestOp {
        test_op("AsString").attr("T", input.dtype()).input(input)
    }

    #[test]
    fn every_kind_of_value_has_a_text() {
        let floats = Tensor::vector(&[1.5f32, -0.0, f32::NAN]).unwrap();
        assert_eq!(
            as_string_op(floats.clone()).run_one().unwrap(),
            strings(&["1.500000", "-0.000000", "nan"])
        );
        let short = as_string_op(floats).attr("shortest", true).run_one().unwrap();
        assert_eq!(short, strings(&["1.5", "-0", "nan"]));
        let integers =
            as_string_op(Tensor::vector(&[5i32, -12]).unwrap()).attr("width", 4i64).attr("fill", "0");
        assert_eq!(integers.run_one().unwrap(), strings(&["0005", "-012"]));
        let bools = as_string_op(Tensor::vector(&[true, false]).unwrap()).attr("width", 9i64);
        assert_eq!(bools.run_one().unwrap(), strings(&["true", "false"]));
        let complex = Tensor::vector(&[Complex::new(1.5f32, -2.0)]).unwrap();
        let complex = as_string_op(complex).attr("precision", 2i64).attr("fill", "+").run_one().unwrap();
        assert_eq!(complex, strings(&["(+1.50,-2.00)"]));
        let text = as_string_op(strings(&["ab"])).attr("width", 4i64).run_one().unwrap();
        assert_eq!(text, strings(&["  ab"]));
    }

    #[test]
    fn formats_that_make_no_sense_are_refused() {
        let integers = || as_string_op(Tensor::vector(&[5i32]).unwrap());
        for op in [
            integers().attr("precision", 2i64),
            integers().attr("scientific", true),
            integers().attr("fill", "x"),
            integers().attr("fill", "00"),
            integers().attr("width", 1i64 << 40),
        ] {
            assert_eq!(op.run().unwrap_err().code(), Code::InvalidArgument);
        }
    }

    #[test]
    fn what_is_no_number_is_named() {
        let op = |text: &str| test_op("StringToNumber").input(strings(&[text]));
        assert_eq!(op("1e3").run_one().unwrap().as_slice::<f32>().unwrap(), [1000.0]);
        let status = op("abc").run().unwrap_err();
        assert_eq!(status.text(), "StringToNumberOp could not correctly convert string: abc");
        assert_eq!(op("1.5").attr("out_type", DType::Int64).run().unwrap_err().code(), Code::InvalidArgument);
    }
}
