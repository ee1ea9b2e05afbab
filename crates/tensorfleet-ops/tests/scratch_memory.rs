//! What kernels need beside their inputs and outputs may be too much as well: then their step fails, and the process lives on.
//!
//! The limit is that of the whole process, so this is the only test in its binary.
#![allow(clippy::unwrap_used)]

use tensorfleet_core::{Code, DType, Shape, Tensor, memory};
use tensorfleet_kernel::testing::TestOp;
use tensorfleet_ops::catalogue;

/// What the large input of each op takes.
const INPUT_BYTES: usize = 64 << 20;
/// What there is room for beside it: the outputs, but no second vector of that length.
const ROOM_BYTES: usize = 16 << 20;

fn zeros(dtype: DType, dims: &[usize]) -> Tensor {
    Tensor::zeros(dtype, Shape::new(dims).unwrap()).unwrap()
}

fn vector(dtype: DType) -> Tensor {
    zeros(dtype, &[INPUT_BYTES / dtype.size().unwrap()])
}

fn matrix(dtype: DType) -> Tensor {
    zeros(dtype, &[INPUT_BYTES / dtype.size().unwrap() / COLUMNS, COLUMNS])
}

const COLUMNS: usize = 1 << 10;

fn op(name: &str, input: Tensor) -> TestOp {
    TestOp::new(catalogue(), name).attr("T", input.dtype()).input(input)
}

fn reduction(name: &str, input: Tensor) -> TestOp {
    let op = op(name, input).attr("keep_dims", false).attr("Tidx", DType::Int32);
    op.input(Tensor::vector(&[0i32]).unwrap())
}

fn product(a: Tensor, b: Tensor) -> TestOp {
    op("MatMul", a).attr("transpose_a", false).attr("transpose_b", true).input(b)
}

/// An op, made when its turn has come.
type Case = (&'static str, fn() -> TestOp);

const CASES: &[Case] = &[
    ("the sum of halves", || reduction("Sum", vector(DType::Half))),
    ("the mean of bytes", || reduction("Mean", vector(DType::UInt8))),
    ("the largest half", || {
        let op = op("ArgMax", vector(DType::Half)).attr("Tidx", DType::Int32);
        op.attr("output_type", DType::Int64).input(Tensor::scalar(0i32))
    }),
    ("the squares of halves", || op("L2Loss", vector(DType::Half))),
    ("the sums of columns of halves", || op("BiasAddGrad", matrix(DType::Half)).attr("data_format", "NHWC")),
    ("a product of halves", || product(matrix(DType::Half), zeros(DType::Half, &[1, COLUMNS]))),
    ("a product of integers", || product(zeros(DType::Int32, &[1, COLUMNS]), matrix(DType::Int32))),
];

#[test]
fn kernels_without_room_for_their_scratch_space_fail_their_step() {
    let limit = memory::limit_bytes();
    for (what, op) in CASES {
        let op = op();
        memory::set_limit_bytes(memory::live_bytes() + ROOM_BYTES);
        let result = op.run();
        memory::set_limit_bytes(limit);
        let status = result.map(drop).expect_err(what);
        assert_eq!(status.code(), Code::ResourceExhausted, "{what}: {status}");
    }
}
