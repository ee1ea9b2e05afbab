//! Assertions, printing, checks for numbers gone wrong, and the time.

use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};

use half::{bf16, f16};
use tensorfleet_core::{DType, Element, PartialShape, Result, Status, Tensor, bail, clock, ensure, excerpt};
use tensorfleet_files::io_status;

use tensorfleet_kernel::Work;
use tensorfleet_kernel::builder::NewNode;
use tensorfleet_kernel::gradients::{Differential, Grads};
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::{Cost, Op};
use tensorfleet_kernel::shape_context::{ShapeContext, same_as_input, scalars};
use tensorfleet_numeric::dispatch::no_kernel;
use tensorfleet_ops_tensor::strings::tensor_text::first_elements;

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("Assert", "condition: bool, data: T ->")
        .not_differentiable()
        .attrs("T: list(type) >= 1; summarize: int = 3")
        .stateful()
        .shape(assert_shape)
        .kernel(assert)
        .work(Work::Inputs),
    Op::new("Print", "input: T, data: U -> output: T")
        .gradient(print_gradient)
        .attrs("T: type; U: list(type) >= 0; message: string = ''; first_n: int = -1; summarize: int = 3")
        .stateful()
        .shape(same_as_input)
        .kernel(print),
    Op::new("PrintV2", "input: string ->")
        .attrs("output_stream: string = 'stderr'; end: string = '\n'")
        .stateful()
        .shape(print_v2_shape)
        .kernel(print_v2),
    Op::new("CheckNumerics", "tensor: T -> output: T")
        .work(Work::Inputs)
        .gradient(check_gradient)
        .attrs("T: {bfloat16, half, float, double}; message: string")
        .stateful()
        .shape(same_as_input)
        .kernel(|node| check_numerics(node, describe)),
    Op::new("CheckNumericsV2", "tensor: T -> output: T")
        .work(Work::Inputs)
        .gradient(check_gradient)
        .attrs("T: {bfloat16, half, float, double}; message: string")
        .stateful()
        .shape(same_as_input)
        .kernel(|node| check_numerics(node, describe_signs)),
    Op::new("Timestamp", "-> ts: double")
        .not_differentiable()
        .stateful()
        .shape(scalars)
        .kernel(timestamp)
        .cost(Cost::Trivial),
];

fn assert_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    ctx.input_with_rank(0, 0)?;
    Ok(Vec::new())
}

fn assert(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let summarize: i64 = node.attr("summarize")?;
    Ok(KernelBox::from_fn(move |ctx| {
        let condition = ctx.input(0)?;
        ensure!(condition.is_scalar(), InvalidArgument, "In[0] should be a scalar: {}", condition.shape());
        if condition.to_scalar::<bool>()? {
            return Ok(());
        }
        let bracketed = |index| Ok(format!("[{}]", first_elements(ctx.input(index)?, summarize)?));
        let data: Vec<String> = (1..ctx.num_inputs()).map(bracketed).collect::<Result<_>>()?;
        Err(Status::invalid_argument(format!("assertion failed: {}", data.join(" "))))
    }))
}

/// `Print`: passes its first input on, and prints the others the first few times.
fn print(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let message: String = node.attr("message")?;
    let (first_n, summarize): (i64, i64) = (node.attr("first_n")?, node.attr("summarize")?);
    let printed = AtomicI64::new(0);
    Ok(KernelBox::from_fn(move |ctx| {
        if first_n < 0 || printed.fetch_add(1, Ordering::Relaxed) < first_n {
            let mut line = message.clone();
            for index in 1..ctx.num_inputs() {
                line.push_str(&format!("[{}]", first_elements(ctx.input(index)?, summarize)?));
            }
            line.push('\n');
            // Nobody is left to tell if the error stream itself fails.
            let _ = io::stderr().write_all(line.as_bytes());
        }
        ctx.forward(0, 0);
        Ok(())
    }))
}

fn print_v2_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    ctx.input_with_rank(0, 0)?;
    Ok(Vec::new())
}

/// `PrintV2`: prints a string that has been formatted already.
fn print_v2(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let (stream, end): (String, bytes::Bytes) = (node.attr("output_stream")?, node.attr("end")?);
    let file = stream.strip_prefix("file://").map(str::to_string);
    let known = ["stdout", "stderr", "log(info)", "log(warning)", "log(error)"];
    ensure!(
        file.is_some() || known.contains(&stream.as_str()),
        InvalidArgument,
        "Unknown output stream: {}, possible options are: {}, and file://PATH",
        excerpt(&stream),
        known.join(", ")
    );
    Ok(KernelBox::from_fn(move |ctx| {
        let text = [&ctx.input(0)?.to_string_scalar()?[..], &end].concat();
        match &file {
            Some(path) => {
                let written = ctx.file_access().append(path)?.write_all(&text);
                return written.map_err(|error| io_status(Path::new(path), &error));
            }
            None if stream == "stdout" => drop(io::stdout().write_all(&text)),
            None => drop(io::stderr().write_all(&text)),
        }
        Ok(())
    }))
}

/// Which values that are no finite numbers a tensor has.
#[derive(Clone, Copy, Default)]
struct Oddities {
    negative_infinity: bool,
    positive_infinity: bool,
    nan: bool,
}

fn describe(found: Oddities) -> String {
    let infinite = (found.negative_infinity || found.positive_infinity).then_some("Inf");
    listed([infinite, found.nan.then_some("NaN")].into_iter().flatten().collect())
}

fn describe_signs(found: Oddities) -> String {
    let names = [
        found.negative_infinity.then_some("-Inf"),
        found.positive_infinity.then_some("+Inf"),
        found.nan.then_some("NaN"),
    ];
    listed(names.into_iter().flatten().collect())
}

fn listed(names: Vec<&str>) -> String {
    match names[..] {
        [a, b, c] => format!("{a}, {b}, and {c}"),
        _ => names.join(" and "),
    }
}

fn oddities<T: Element>(tensor: &Tensor, widen: fn(T) -> f64) -> Result<Oddities> {
    let values = tensor.as_slice::<T>()?;
    // The usual case takes one pass without branches to remember anything.
    if values.iter().all(|&value| widen(value).is_finite()) {
        return Ok(Oddities::default());
    }
    let mut found = Oddities::default();
    for value in values.iter().map(|&value| widen(value)) {
        found.nan |= value.is_nan();
        found.positive_infinity |= value == f64::INFINITY;
        found.negative_infinity |= value == f64::NEG_INFINITY;
    }
    Ok(found)
}

fn check_numerics(node: &NodeSpec<'_>, describe: fn(Oddities) -> String) -> Result<KernelBox> {
    let message: String = node.attr("message")?;
    Ok(KernelBox::from_fn(move |ctx| {
        let tensor = ctx.input(0)?;
        let found = match tensor.dtype() {
            DType::Float => oddities::<f32>(tensor, |x| x as f64)?,
            DType::Double => oddities::<f64>(tensor, |x| x)?,
            DType::Half => oddities::<f16>(tensor, f16::to_f64)?,
            DType::BFloat16 => oddities::<bf16>(tensor, bf16::to_f64)?,
            other => return Err(no_kernel(other)),
        };
        if found.nan || found.positive_infinity || found.negative_infinity {
            bail!(InvalidArgument, "{message} : Tensor had {} values", describe(found));
        }
        ctx.forward(0, 0);
        Ok(())
    }))
}

fn timestamp(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let since_epoch = clock::since_epoch();
        ctx.set_output(0, Tensor::scalar(since_epoch.as_secs_f64()));
        Ok(())
    }))
}

/// The value passes through, what is printed does not matter.
fn print_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let mut grads = vec![None; d.inputs().len()];
    if let Some(first) = grads.first_mut() {
        *first = d.arriving(0);
    }
    Ok(grads)
}

/// Where values are checked, their gradients are.
fn check_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (dy, op) = (d.dy(0)?, d.node().op.to_string());
    let message = format!(
        "Not a number (NaN) or infinity (Inf) values detected in gradient. {}",
        d.attr::<String>("message")?
    );
    let checked = d.emit(NewNode::new(op).input(dy).attr("message", message))?;
    d.only(0, checked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::test_op;
    use tensorfleet_core::Code;

    #[test]
    fn a_failed_assertion_shows_its_data() {
        let op = |condition: Tensor| {
            let op = test_op("Assert").attr("T", vec![DType::String, DType::Int32]);
            op.input(condition)
                .input(Tensor::string("oh no"))
                .input(Tensor::vector(&[1i32, 2, 3, 4]).unwrap())
        };
        assert!(op(Tensor::scalar(true)).run().unwrap().is_empty());
        let status = op(Tensor::scalar(false)).run().unwrap_err();
        assert_eq!(
            (status.code(), status.text()),
            (Code::InvalidArgument, "assertion failed: [oh no] [1 2 3...]")
        );
        assert_eq!(op(Tensor::vector(&[true]).unwrap()).run().unwrap_err().code(), Code::InvalidArgument);
    }

    #[test]
    fn print_hands_its_first_input_on() {
        let value = Tensor::vector(&[1.0f32, 2.0]).unwrap();
        let op = test_op("Print").attr("T", DType::Float).attr("U", vec![DType::Float]).attr("first_n", 1i64);
        let runs = op.input(value.clone()).input(value.clone()).run_times(2).unwrap();
        assert_eq!(runs, [[value.clone()], [value]]);
    }

    #[test]
    fn printing_to_a_file_appends() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let op = test_op("PrintV2").attr("output_stream", format!("file://{}", path.display()));
        op.input(Tensor::string("x")).run_times(2).unwrap();
        assert_eq!(std::fs::read(path).unwrap(), b"x\nx\n");
        let unknown = test_op("PrintV2").attr("output_stream", "paper").input(Tensor::string("x"));
        assert_eq!(unknown.run().unwrap_err().code(), Code::InvalidArgument);
    }

    #[test]
    fn odd_numbers_are_named() {
        let check = |op: &str, values: &[f32]| {
            let op = test_op(op).attr("T", DType::Float).attr("message", "m");
            op.input(Tensor::vector(values).unwrap()).run_one()
        };
        let message = |op: &str, values: &[f32]| check(op, values).unwrap_err().text().to_string();
        let (inf, nan) = (f32::INFINITY, f32::NAN);
        assert!(
            check("CheckNumerics", &[1.0, -2.0, f32::MAX]).is_ok() && check("CheckNumerics", &[]).is_ok()
        );
        assert_eq!(message("CheckNumerics", &[1.0, nan]), "m : Tensor had NaN values");
        assert_eq!(message("CheckNumerics", &[-inf]), "m : Tensor had Inf values");
        assert_eq!(message("CheckNumerics", &[nan, inf]), "m : Tensor had Inf and NaN values");
        assert_eq!(message("CheckNumericsV2", &[inf, -inf]), "m : Tensor had -Inf and +Inf values");
        assert_eq!(
            message("CheckNumericsV2", &[inf, nan, -inf]),
            "m : Tensor had -Inf, +Inf, and NaN values"
        );
    }

    #[test]
    fn the_time_is_after_this_was_written() {
        let now = test_op("Timestamp").run_one().unwrap().to_scalar::<f64>().unwrap();
        assert!(now > 1.7e9);
    }
}
