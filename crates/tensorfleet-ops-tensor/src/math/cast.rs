//! `Cast` between plain dtypes, and `Bitcast`.
//!
//! Conversions of floats to integers out of range are undefined in TensorFlow; what is done here is what its x86
//! kernels were observed to do, since programs come to depend on it.

use half::{bf16, f16};
use num_complex::Complex;
use smallvec::SmallVec;
use tensorfleet_core::{DType, Element, PartialShape, Result, Shape, Status, Tensor, bail, ensure};

use tensorfleet_kernel::Work;
use tensorfleet_kernel::gradients::{Differential, Grad, Grads};
use tensorfleet_kernel::kernel::{Context, KernelBox};
use tensorfleet_kernel::known_value::{KnownValue, is_integer};
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::{Cost, Op};
use tensorfleet_kernel::shape_context::{ShapeContext, same_as_input};
use tensorfleet_numeric::dispatch;
use tensorfleet_numeric::elementwise::cost;
use tensorfleet_numeric::stored::Stored;
use tensorfleet_numeric::vector_math::FlushDenormal;
use tensorfleet_threads::Loops;

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("Cast", "x: SrcT -> y: DstT").work(Work::Inputs)
        .attrs("SrcT: type; DstT: type; Truncate: bool = false")
        .shape(same_as_input)
        .kernel(cast).gradient(cast_gradient)
        .known_value(known_cast),
    Op::new("Bitcast", "input: T -> output: type")
        .attrs(
            "T: {bfloat16, half, float, double, int64, int32, uint8, uint16, uint32, uint64, int8, int16, complex64, \
             complex128, qint8, quint8, qint16, quint16, qint32}; \
             type: {bfloat16, half, float, double, int64, int32, uint8, uint16, uint32, uint64, int8, int16, complex64, \
             complex128, qint8, quint8, qint16, quint16, qint32}",
        )
        .shape(bitcast_shape)
        .kernel(bitcast)
        .cost(Cost::Trivial),
];

/// A shape is the same in both integer dtypes.
fn known_cast(ctx: &ShapeContext<'_>, _: usize) -> Option<KnownValue> {
    let are_shapes = ctx.gives_shape() && is_integer(ctx.node.input_dtype(0).ok()?);
    are_shapes.then(|| ctx.as_shape(0).cloned().map(KnownValue::Shape))?
}

/// Floating-point and complex values stay differentiable; what passes through other dtypes does not.
fn cast_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (from, dy) = (d.dtype(d.input(0)?)?, d.dy(0)?);
    let is_continuous = |dtype: DType| dtype.is_floating() || dtype.is_complex();
    match is_continuous(from) && is_continuous(d.dtype(dy)?) {
        true => Ok(vec![Some(Grad::Dense(d.cast(dy, from)?))]),
        false => Ok(vec![None]),
    }
}

/// A value that can become a `D`.
trait CastTo<D> {
    fn cast(self) -> D;
}

/// Conversions that Rust's `as` does as TensorFlow does.
macro_rules! cast_as {
    ($($from:ident)* => $to:tt) => {$(
        cast_as!(@one $from $to);
    )*};
    (@one $from:ident [$($to:ident)*]) => {$(
        #[allow(clippy::unnecessary_cast, reason = "some are the same type")]
        impl CastTo<$to> for $from {
            #[inline(always)]
            fn cast(self) -> $to {
                self as $to
            }
        }
    )*};
}
cast_as!(i8 i16 i32 i64 u8 u16 u32 u64 => [i8 i16 i32 i64 u8 u16 u32 u64 f32 f64]);
cast_as!(f32 f64 => [f32 f64]);
cast_as!(bool => [bool i8 i16 i32 i64 u8 u16 u32 u64]);

macro_rules! cast_floats {
    ($($float:ident)*) => {$(
        impl CastTo<i32> for $float {
            #[inline(always)]
            fn cast(self) -> i32 {
                // The instruction answers the smallest integer for everything out of range.
                if (-2147483648.0..2147483648.0).contains(&self) { self as i32 } else { i32::MIN }
            }
        }
        impl CastTo<i64> for $float {
            #[inline(always)]
            fn cast(self) -> i64 {
                let is_in_range = (-9223372036854775808.0..9223372036854775808.0).contains(&self);
                if is_in_range { self as i64 } else { i64::MIN }
            }
        }
        impl CastTo<u64> for $float {
            #[inline(always)]
            fn cast(self) -> u64 {
                let is_high = (9223372036854775808.0..18446744073709551616.0).contains(&self);
                let low: i64 = self.cast();
                if is_high { self as u64 } else { low as u64 }
            }
        }
        // Smaller integers are the low bits of larger ones.
        cast_floats!(@low $float: i8 as i32, i16 as i32, u8 as i32, u16 as i32, u32 as i64);
        impl CastTo<bool> for $float {
            #[inline(always)]
            fn cast(self) -> bool {
                self.flush_denormal() != 0.0
            }
        }
        impl CastTo<$float> for bool {
            #[inline(always)]
            fn cast(self) -> $float {
                self as u8 as $float
            }
        }
    )*};
    (@low $float:ident: $($to:ident as $through:ident),*) => {$(
        impl CastTo<$to> for $float {
            #[inline(always)]
            fn cast(self) -> $to {
                let wide: $through = self.cast();
                wide as $to
            }
        }
    )*};
}
cast_floats!(f32 f64);

macro_rules! cast_integers_to_bool {
    ($($integer:ident)*) => {$(
        impl CastTo<bool> for $integer {
            #[inline(always)]
            fn cast(self) -> bool {
                self != 0
            }
        }
    )*};
}
cast_integers_to_bool!(i8 i16 i32 i64 u8 u16 u32 u64);

/// A complex number becomes anything real through its real part; a real number has no imaginary part.
macro_rules! cast_complex {
    ($($real:ident)*) => {$(
        impl<T: CastTo<$real>> CastTo<$real> for Complex<T> {
            #[inline(always)]
            fn cast(self) -> $real {
                self.re.cast()
            }
        }
        impl<T: Default> CastTo<Complex<T>> for $real
        where
            $real: CastTo<T>,
        {
            #[inline(always)]
            fn cast(self) -> Complex<T> {
                Complex { re: self.cast(), im: T::default() }
            }
        }
    )*};
}
cast_complex!(f32 f64 i8 i16 i32 i64 u8 u16 u32 u64 bool);

impl<T: CastTo<D>, D> CastTo<Complex<D>> for Complex<T> {
    #[inline(always)]
    fn cast(self) -> Complex<D> {
        Complex { re: self.re.cast(), im: self.im.cast() }
    }
}

/// A conversion of a whole tensor. Conversions are many (every type to every other), so each is little code.
type Conversion = fn(&Loops, &Tensor) -> Result<Tensor>;

fn convert<S: Element + CastTo<D>, D: Element>(loops: &Loops, input: &Tensor) -> Result<Tensor> {
    let elements = input.as_slice::<S>()?;
    build_in_parallel::<D>(loops, input, &|start, out| {
        out.iter_mut().zip(&elements[start..]).for_each(|(to, from)| *to = from.cast());
    })
}

/// As [`convert`], but negative numbers become zero.
fn convert_non_negative<D: Element>(loops: &Loops, input: &Tensor) -> Result<Tensor>
where
    f32: CastTo<D>,
{
    let elements = input.as_slice::<f32>()?;
    build_in_parallel::<D>(loops, input, &|start, out| {
        out.iter_mut().zip(&elements[start..]).for_each(|(to, from)| *to = from.max(0.0).cast());
    })
}

/// A tensor of the input's shape, filled by parts: `fill` gets where its part starts.
fn build_in_parallel<D: Element>(
    loops: &Loops,
    input: &Tensor,
    fill: &(dyn Fn(usize, &mut [D]) + Send + Sync),
) -> Result<Tensor> {
    Tensor::build::<D>(input.shape().clone(), |out| {
        loops.chunks_mut(out, 1, cost::ARITHMETIC, fill);
        Ok(())
    })
}

fn widen<S: Stored<Compute = f32>>(loops: &Loops, input: &Tensor) -> Result<Tensor> {
    let elements = input.as_slice::<S>()?;
    build_in_parallel::<f32>(loops, input, &|start, out| S::widen(&elements[start..][..out.len()], out))
}

fn narrow<D: Stored<Compute = f32>>(loops: &Loops, input: &Tensor) -> Result<Tensor> {
    let elements = input.as_slice::<f32>()?;
    build_in_parallel::<D>(loops, input, &|start, out| D::narrow(&elements[start..][..out.len()], out))
}

/// The steps from one dtype to another: 16-bit floats go through `f32`.
fn conversions(from: DType, to: DType) -> Result<SmallVec<[Conversion; 3]>> {
    let mut steps: SmallVec<[Conversion; 3]> = SmallVec::new();
    match from {
        DType::Half => steps.push(widen::<f16>),
        DType::BFloat16 => steps.push(widen::<bf16>),
        _ => {}
    }
    let compute = |dtype| match dtype {
        DType::Half | DType::BFloat16 => DType::Float,
        other => other.storage(),
    };
    match (from, to) {
        // Here TensorFlow's kernels were observed to saturate at zero instead of keeping low bits.
        (DType::BFloat16, DType::UInt8) => steps.push(convert_non_negative::<u8>),
        (DType::BFloat16, DType::UInt16) => steps.push(convert_non_negative::<u16>),
        _ if compute(from) == compute(to) => {}
        _ => steps.push(conversion(compute(from), compute(to))?),
    }
    match to {
        DType::Half => steps.push(narrow::<f16>),
        DType::BFloat16 => steps.push(narrow::<bf16>),
        _ => {}
    }
    Ok(steps)
}

/// The conversion between two compute types.
fn conversion(from: DType, to: DType) -> Result<Conversion> {
    dispatch!(from, S in [f32, f64, i8, i16, i32, i64, u8, u16, u32, u64, bool, Complex<f32>, Complex<f64>] => {
        dispatch!(to, D in [f32, f64, i8, i16, i32, i64, u8, u16, u32, u64, bool, Complex<f32>, Complex<f64>] => {
            Ok(convert::<S, D> as Conversion)
        })
    })
}

fn cast(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let (from, to) = (node.input_dtype(0)?, node.output_dtype(0)?);
    if from == to {
        return Ok(KernelBox::from_fn(|ctx| {
            ctx.forward(0, 0);
            Ok(())
        }));
    }
    let steps = conversions(from, to)
        .map_err(|_| Status::unimplemented(format!("Cast {from} to {to} is not supported")))?;
    let truncates = node.attr("Truncate")? && to.is_floating();
    Ok(KernelBox::from_fn(move |ctx| {
        let mut value = ctx.take_input(0)?;
        if truncates {
            value = truncate_mantissa(value, to)?;
        }
        for step in &steps {
            value = step(ctx.loops(), &value)?;
        }
        ctx.set_output(0, value.with_dtype(to)?);
        Ok(())
    }))
}

/// The input with the mantissa bits that `to` lacks set to zero, so that converting it does not round.
fn truncate_mantissa(mut input: Tensor, to: DType) -> Result<Tensor> {
    let kept: u32 = match to {
        DType::Half => f16::MANTISSA_DIGITS - 1,
        DType::BFloat16 => bf16::MANTISSA_DIGITS - 1,
        DType::Float => f32::MANTISSA_DIGITS - 1,
        _ => return Ok(input),
    };
    match input.dtype() {
        DType::Double => {
            let mask = u64::MAX << (f64::MANTISSA_DIGITS - 1 - kept);
            input.make_mut::<f64>()?.iter_mut().for_each(|x| *x = f64::from_bits(x.to_bits() & mask));
        }
        DType::Float if to != DType::Float => {
            let mask = u32::MAX << (f32::MANTISSA_DIGITS - 1 - kept);
            input.make_mut::<f32>()?.iter_mut().for_each(|x| *x = f32::from_bits(x.to_bits() & mask));
        }
        _ => {}
    }
    Ok(input)
}

/// How the last dimension changes when elements of `from` bytes are read as elements of `to` bytes.
enum Regrouping {
    Same,
    /// Every element becomes this many.
    Split(usize),
    /// The last dimension, which must be this long, becomes one element.
    Join(usize),
}

impl Regrouping {
    fn between(from: DType, to: DType) -> Result<Regrouping> {
        let (Some(from_size), Some(to_size)) = (from.size(), to.size()) else {
            bail!(InvalidArgument, "Cannot bitcast from {from} to {to}")
        };
        Ok(match (from_size, to_size) {
            (from, to) if from == to => Regrouping::Same,
            (from, to) if from > to => Regrouping::Split(from / to),
            (from, to) => Regrouping::Join(to / from),
        })
    }
}

fn bitcast_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let (from, to): (DType, DType) = (ctx.attr("T")?, ctx.attr("type")?);
    let Some(dims) = ctx.input(0).dims() else { return Ok(vec![PartialShape::unknown()]) };
    let shape = match (Regrouping::between(from, to)?, dims) {
        (Regrouping::Same, _) => ctx.input(0).clone(),
        (Regrouping::Split(count), _) => PartialShape::new(dims.iter().copied().chain([Some(count)])),
        (Regrouping::Join(count), [rest @ .., last]) if last.is_none_or(|last| last == count) => {
            PartialShape::new(rest.iter().copied())
        }
        (Regrouping::Join(_), _) => bail!(InvalidArgument, "Cannot bitcast due to shape: {}", ctx.input(0)),
    };
    Ok(vec![shape])
}

fn bitcast(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let (from, to) = (node.input_dtype(0)?, node.output_dtype(0)?);
    let regrouping = Regrouping::between(from, to)?;
    Ok(KernelBox::from_fn(move |ctx: &mut Context<'_>| {
        let input = ctx.input(0)?;
        let mut dims = input.shape().to_vec();
        match regrouping {
            Regrouping::Same => {}
            Regrouping::Split(count) => dims.push(count),
            Regrouping::Join(count) => {
                ensure!(
                    dims.pop() == Some(count),
                    InvalidArgument,
                    "Cannot bitcast from {} to {}: the last dimension of {} must be {count}",
                    from.number(),
                    to.number(),
                    input.shape()
                );
            }
        }
        let output = Tensor::from_buffer(to, Shape::new(&dims)?, input.buffer()?.clone())?;
        ctx.set_output(0, output);
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::test_op;

    fn cast_to<S: Element, D: Element>(values: &[S]) -> Vec<D> {
        let op = test_op("Cast").attr("SrcT", S::DTYPE).attr("DstT", D::DTYPE);
        let output = op.input(Tensor::vector(values).unwrap()).run_one().unwrap();
        output.as_slice::<D>().unwrap().to_vec()
    }

    #[test]
    fn floats_become_integers_as_on_x86() {
        assert_eq!(cast_to::<f32, i32>(&[1.9, -1.9, 1e20, f32::NAN]), [1, -1, i32::MIN, i32::MIN]);
        assert_eq!(cast_to::<f32, i8>(&[300.0, -300.0, 1e20]), [44, -44, 0]);
        assert_eq!(
            cast_to::<f64, u64>(&[1e19, -1.0, f64::NAN]),
            [10_000_000_000_000_000_000, u64::MAX, 1 << 63]
        );
        assert_eq!(cast_to::<bf16, u8>(&[bf16::from_f32(-2.5), bf16::from_f32(2.5)]), [0, 2]);
    }

    #[test]
    fn everything_but_zero_is_true() {
        assert_eq!(
            cast_to::<f32, bool>(&[0.3, f32::NAN, -0.0, f32::from_bits(1)]),
            [true, true, false, false]
        );
        assert_eq!(cast_to::<i64, bool>(&[0, -5]), [false, true]);
        assert_eq!(cast_to::<bool, f16>(&[true, false]), [f16::ONE, f16::ZERO]);
    }

    #[test]
    fn narrowing_rounds_to_even_unless_told_to_truncate() {
        assert_eq!(
            cast_to::<f32, f16>(&[2049.0, 2051.0, 65520.0]).map_to_f32(),
            [2048.0, 2052.0, f32::INFINITY]
        );
        let truncated = |to: DType| {
            let op = test_op("Cast").attr("SrcT", DType::Float).attr("DstT", to).attr("Truncate", true);
            op.input(Tensor::vector(&[1.99999f32]).unwrap()).run_one().unwrap()
        };
        assert_eq!(truncated(DType::BFloat16).as_slice::<bf16>().unwrap()[0].to_f32(), 1.9921875);
        assert_eq!(truncated(DType::Half).as_slice::<f16>().unwrap()[0].to_f32(), 1.9990234);
    }

    trait MapToF32 {
        fn map_to_f32(&self) -> Vec<f32>;
    }
    impl MapToF32 for Vec<f16> {
        fn map_to_f32(&self) -> Vec<f32> {
            self.iter().map(|x| x.to_f32()).collect()
        }
    }

    #[test]
    fn complex_numbers_lose_their_imaginary_part() {
        let complex = Complex { re: 1.5f32, im: 2.0 };
        assert_eq!(cast_to::<Complex<f32>, f64>(&[complex]), [1.5]);
        assert_eq!(cast_to::<Complex<f32>, Complex<f64>>(&[complex]), [Complex { re: 1.5, im: 2.0 }]);
        assert_eq!(cast_to::<i32, Complex<f32>>(&[7]), [Complex { re: 7.0, im: 0.0 }]);
    }

    #[test]
    fn strings_cannot_be_cast() {
        let op = test_op("Cast").attr("SrcT", DType::String).attr("DstT", DType::Int32);
        let status = op.input(Tensor::string("1")).run_one().unwrap_err();
        assert_eq!(status.code(), tensorfleet_core::Code::Unimplemented);
        assert_eq!(status.text(), "Cast string to int32 is not supported");
    }

    #[test]
    fn bitcasts_regroup_the_last_dimension() {
        let bitcast = |input: Tensor, to: DType| {
            test_op("Bitcast").attr("T", input.dtype()).attr("type", to).input(input).run_one()
        };
        let bytes = bitcast(Tensor::vector(&[1.0f32, 2.0]).unwrap(), DType::UInt8).unwrap();
        assert_eq!(bytes.shape().dims(), [2, 4]);
        assert_eq!(bytes.as_slice::<u8>().unwrap(), [0, 0, 128, 63, 0, 0, 0, 64]);
        assert_eq!(bitcast(bytes, DType::Float).unwrap().as_slice::<f32>().unwrap(), [1.0, 2.0]);
        assert!(
            bitcast(Tensor::scalar(1.0f32), DType::Double).unwrap_err().text().contains("Cannot bitcast")
        );
        assert!(bitcast(Tensor::vector(&[1.0f32; 3]).unwrap(), DType::Double).is_err());
    }
}
