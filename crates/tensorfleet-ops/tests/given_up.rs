//! Kernels that may take long look, again and again, whether anybody still waits for them.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use tensorfleet_core::{Code, DType, Status, Tensor};
use tensorfleet_kernel::kernel::StepContext;
use tensorfleet_kernel::testing::{TestOp, test_step};
use tensorfleet_ops::catalogue;

fn op(name: &str) -> TestOp {
    TestOp::new(catalogue(), name)
}

fn typed(name: &str, input: Tensor) -> TestOp {
    op(name).attr("T", input.dtype()).input(input)
}

fn numbers() -> Tensor {
    Tensor::from_slice(&[3i32, 1, 2, 3, 5, 8], &[2, 3]).unwrap()
}

fn texts() -> Tensor {
    Tensor::from_strings(["a", "b", "a"].map(Into::into).to_vec(), &[3]).unwrap()
}

/// An image of two pixels.
fn image() -> Tensor {
    Tensor::from_slice(&[1u8, 2, 3, 4, 5, 6], &[1, 2, 3]).unwrap()
}

fn encoded() -> Tensor {
    typed("EncodePng", image()).attr("compression", -1i64).run_one().unwrap()
}

/// A grey JPEG image of eight by eight pixels.
fn jpeg() -> Tensor {
    Tensor::string(&include_bytes!("../../tensorfleet-ops-input/src/io/images/grey_8x8.jpg")[..])
}

/// The same as a BMP image of two pixels.
fn bmp() -> Tensor {
    let mut file = b"BM".to_vec();
    file.resize(54, 0);
    for (at, number) in [(10, 54i32), (14, 40), (18, 2), (22, 1), (26, 1), (28, 24)] {
        file[at..at + 4].copy_from_slice(&number.to_le_bytes());
    }
    file.extend_from_slice(&[1, 2, 3, 4, 5, 6, 0, 0]);
    Tensor::string(file)
}

fn sets(set: Tensor) -> TestOp {
    typed("DenseToDenseSetOperation", set.clone())
        .attr("set_operation", "union")
        .attr("validate_indices", true)
        .input(set)
}

fn pairs(tensor: Tensor) -> Tensor {
    let rows = tensor.num_elements();
    tensor.reshaped(tensorfleet_core::Shape::new(&[rows, 1]).unwrap()).unwrap()
}

fn matrix() -> Tensor {
    Tensor::from_slice(&[2.0f32, 1.0, 1.0, 2.0], &[2, 2]).unwrap()
}

fn vector() -> Tensor {
    Tensor::vector(&[3i32, 1, 3]).unwrap()
}

/// An op, made when its turn has come.
type Case = (&'static str, fn() -> TestOp);

const CASES: &[Case] = &[
    ("a PNG image", || op("DecodePng").attr("channels", 0i64).attr("dtype", DType::UInt8).input(encoded())),
    ("a JPEG image", || {
        let op = op("DecodeJpeg").attr("channels", 0i64).attr("ratio", 1i64);
        op.attr("try_recover_truncated", false).input(jpeg())
    }),
    ("a truncated JPEG image", || {
        let op = op("DecodeJpeg").attr("channels", 0i64).attr("ratio", 1i64);
        op.attr("try_recover_truncated", true).input(jpeg())
    }),
    ("a BMP image", || op("DecodeBmp").attr("channels", 0i64).input(bmp())),
    ("a PNG file", || typed("EncodePng", image()).attr("compression", -1i64)),
    ("the largest", || {
        let op = typed("TopKV2", numbers()).attr("sorted", true).attr("Tk", DType::Int32);
        op.attr("index_type", DType::Int32).input(Tensor::scalar(2i32))
    }),
    ("a draw", || {
        let logits = Tensor::from_slice(&[0.5f32, 0.5], &[1, 2]).unwrap();
        let op = typed("Multinomial", logits).attr("output_dtype", DType::Int32);
        op.input(Tensor::scalar(3i32))
    }),
    ("a determinant", || typed("MatrixDeterminant", matrix())),
    ("its logarithm", || typed("LogMatrixDeterminant", matrix())),
    ("an inverse", || typed("MatrixInverse", matrix()).attr("adjoint", false)),
    ("a Cholesky factor", || typed("Cholesky", matrix())),
    ("a solution", || typed("MatrixSolve", matrix()).attr("adjoint", false).input(matrix())),
    ("a solution by substitution", || {
        typed("MatrixTriangularSolve", matrix()).attr("lower", true).attr("adjoint", false).input(matrix())
    }),
    ("among the largest", || {
        let scores = Tensor::from_slice(&[1.0f32, 2.0], &[1, 2]).unwrap();
        let targets = Tensor::vector(&[0i32]).unwrap();
        op("InTopK").attr("k", 1i64).attr("T", DType::Int32).input(scores).input(targets)
    }),
    ("sets of numbers", || sets(numbers())),
    ("sets of strings", || sets(pairs(texts()))),
    ("different numbers", || typed("Unique", vector()).attr("out_idx", DType::Int32)),
    ("different strings", || typed("Unique", texts()).attr("out_idx", DType::Int32)),
    ("what else there is", || typed("ListDiff", vector()).attr("out_idx", DType::Int32).input(vector())),
    ("what else there is to say", || typed("ListDiff", texts()).attr("out_idx", DType::Int32).input(texts())),
    ("where", || typed("Where", numbers())),
    ("a match", || op("StaticRegexFullMatch").attr("pattern", "a+").input(texts())),
    ("a replacement", || {
        let op = op("StaticRegexReplace").attr("pattern", "a+").attr("rewrite", "b");
        op.attr("replace_global", true).input(texts())
    }),
];

fn given_up() -> Arc<StepContext> {
    let step = test_step();
    step.cancellation.cancel(Status::cancelled("the client is gone"));
    step
}

#[test]
fn whoever_may_take_long_ends_when_the_step_is_given_up() {
    let step = given_up();
    for (what, op) in CASES {
        assert!(op().run().is_ok(), "{what}, while somebody waits: {:?}", op().run());
        let status = op().in_step(&step).run().map(drop).expect_err(what);
        assert_eq!((status.code(), status.text()), (Code::Cancelled, "the client is gone"), "{what}");
    }
}
