//! Expected values are what TensorFlow 2.21 draws for the same seeds.

#![allow(clippy::excessive_precision, reason = "digits as TensorFlow prints them")]

use half::{bf16, f16};
use tensorfleet_core::{Code, DType, Tensor};

use super::*;
use crate::testing::{TestOp, test_op};

fn shape(dims: &[i32]) -> Tensor {
    Tensor::vector(dims).unwrap()
}

fn op(name: &str, dtype: DType) -> TestOp {
    test_op(name).attr("dtype", dtype).attr("T", DType::Int32).attr("seed", 1i64).attr("seed2", 2i64)
}

/// Both draws of a kernel, 7 values each.
fn draws<T: Element>(name: &str) -> (Vec<T>, Vec<T>) {
    let runs = op(name, T::DTYPE).input(shape(&[7])).run_times(2).unwrap();
    let values = |run: usize| runs[run][0].as_slice::<T>().unwrap().to_vec();
    (values(0), values(1))
}

fn assert_close(got: &[f32], want: &[f32]) {
    assert_eq!(got.len(), want.len());
    assert!(got.iter().zip(want).all(|(a, b)| (a - b).abs() <= 2e-6 * b.abs().max(1.0)), "{got:?} {want:?}");
}

#[test]
fn floats_are_tensorflows_in_the_first_and_the_second_step() {
    let (first, second) = draws::<f32>("RandomUniform");
    assert_close(
        &first,
        &[0.406396746635437, 0.8575996, 0.05539584, 0.08587229, 0.4121536, 0.03663087, 0.6572133],
    );
    assert_close(&second, &[0.4326129, 0.868968, 0.26664758, 0.6024519, 0.8833823, 0.24750876, 0.32722437]);
    let (first, second) = draws::<f32>("RandomStandardNormal");
    assert_close(&first, &[-1.0467793, 0.8397046, 1.2358364, 2.0637853, 0.3037427, 1.2963251, 0.4801929]);
    assert_close(
        &second,
        &[-0.9494025, 0.8800335, -0.9758495, -1.3005278, 0.49792933, 0.00779465, 0.39359093],
    );
    let (first, second) = draws::<f32>("TruncatedNormal");
    assert_close(&first, &[-1.0467793, 0.8397046, 1.2358364, 0.3037427, 0.38869092, 1.2367047, 0.24039803]);
    assert_close(
        &second,
        &[-0.9494025, 0.8800335, -0.9758495, -1.3005278, -0.30384868, -0.2890824, 0.12751131],
    );
}

#[test]
fn doubles_come_in_pairs() {
    let (first, second) = draws::<f64>("RandomUniform");
    assert_eq!(first[..3], [0.2511744980841868, 0.44316677020093853, 0.2972296290781924]);
    assert_eq!(second[6], 0.8463250124658188);
    let narrow = |values: Vec<f64>| values.into_iter().map(|x| x as f32).collect::<Vec<_>>();
    let (first, second) = draws::<f64>("RandomStandardNormal");
    assert_close(
        &narrow(first),
        &[0.58105877, -1.5574291, 1.555897, -0.0753995, -0.273524, 0.14851613, -0.703509],
    );
    assert_close(&narrow(second)[5..], &[-1.9971691, -0.47914553]);
    let (first, second) = draws::<f64>("TruncatedNormal");
    assert_close(
        &narrow(first),
        &[0.58105877, -1.5574291, -1.1295845, -0.515653, -1.1279219, -0.55897853, 1.0048698],
    );
    assert_close(&narrow(second)[5..], &[-0.62962965, -0.90422345]);
}

#[test]
fn half_and_bfloat16_are_tensorflows() {
    let half = |values: &[f16]| values.iter().map(|x| x.to_f32()).collect::<Vec<_>>();
    let brain = |values: &[bf16]| values.iter().map(|x| x.to_f32()).collect::<Vec<_>>();
    assert_eq!(
        half(&draws::<f16>("RandomUniform").0),
        [0.20214844, 0.45605469, 0.80273438, 0.46582031, 0.36230469, 0.080078125, 0.89160156]
    );
    assert_eq!(
        brain(&draws::<bf16>("RandomUniform").1),
        [0.71875, 0.6875, 0.015625, 0.2890625, 0.34375, 0.734375, 0.9765625]
    );
    assert_eq!(
        half(&draws::<f16>("TruncatedNormal").1),
        [-0.94921875, 0.8798828, -0.9760742, -1.3007813, -0.30395508, -0.2890625, 0.12756348]
    );
    assert_eq!(
        brain(&draws::<bf16>("RandomStandardNormal").0),
        [-1.046875, 0.83984375, 1.234375, 2.0625, 0.3046875, 1.296875, 0.48046875]
    );
}

fn integers<T: Element>(low: T, high: T) -> TestOp {
    test_op("RandomUniformInt")
        .attr("Tout", T::DTYPE)
        .attr("T", DType::Int32)
        .attr("seed", 1i64)
        .attr("seed2", 2i64)
        .input(shape(&[7]))
        .input(Tensor::scalar(low))
        .input(Tensor::scalar(high))
}

#[test]
fn integers_are_tensorflows() {
    let output = integers(-5, 100).run_one().unwrap();
    assert_eq!(output.as_slice::<i32>().unwrap(), [84, 75, 22, 54, 81, 56, 38]);
    let output = integers(-5, 1i64 << 40).run_one().unwrap();
    assert_eq!(
        output.as_slice::<i64>().unwrap(),
        [910070865905, 950241910848, 355197626878, 1044818814816, 771251413837, 908900707310, 342994027602]
    );
    // The full range wraps around without a panic.
    integers(i32::MIN, i32::MAX).run_one().unwrap();
    integers(i64::MIN, i64::MAX).run_one().unwrap();
}

#[test]
fn stateless_values_follow_from_the_seed_alone() {
    let run = |name: &str| {
        let op = test_op(name).attr("dtype", DType::Float).input(shape(&[5]));
        let output = op.input(Tensor::vector(&[7i64, -3]).unwrap()).run_one().unwrap();
        output.as_slice::<f32>().unwrap().to_vec()
    };
    assert_close(&run("StatelessRandomUniform"), &[0.4346422, 0.06527591, 0.74761295, 0.14876413, 0.5897864]);
    assert_close(&run("StatelessRandomNormal"), &[0.51473767, 1.1838536, 0.6135526, 0.45309275, 0.93150365]);
    assert_close(
        &run("StatelessTruncatedNormal"),
        &[0.51473767, 1.1838536, 0.6135526, 0.45309275, 1.0124135],
    );
    let op = test_op("StatelessRandomUniformInt").attr("dtype", DType::Int32).attr("T", DType::Int32);
    let op = op.input(shape(&[5])).input(Tensor::vector(&[7i64, -3]).unwrap());
    let output = op.input(Tensor::scalar(2i32)).input(Tensor::scalar(50i32)).run_one().unwrap();
    assert_eq!(output.as_slice::<i32>().unwrap(), [45, 8, 26, 22, 17]);
}

#[test]
fn without_seeds_two_kernels_differ() {
    let draw = || {
        let op = test_op("RandomUniform").attr("dtype", DType::Float).attr("T", DType::Int32);
        op.input(shape(&[16])).run_one().unwrap()
    };
    assert_ne!(draw(), draw());
}

#[test]
fn large_outputs_are_the_same_stream_however_they_are_cut() {
    let long = op("TruncatedNormal", DType::Float).input(shape(&[100_003])).run_one().unwrap();
    let short = op("TruncatedNormal", DType::Float).input(shape(&[7])).run_one().unwrap();
    let long = long.as_slice::<f32>().unwrap();
    assert_eq!(&long[..7], short.as_slice::<f32>().unwrap());
    assert!(long.iter().all(|x| x.abs() < 2.0));
}

#[test]
fn bad_shapes_and_bounds_are_refused() {
    let code = |op: TestOp| op.run_one().unwrap_err().code();
    assert_eq!(code(op("RandomUniform", DType::Float).input(shape(&[-1]))), Code::InvalidArgument);
    assert_eq!(code(op("RandomUniform", DType::Float).input(Tensor::scalar(3i32))), Code::InvalidArgument);
    assert_eq!(code(integers(5, 5)), Code::InvalidArgument);
    assert_eq!(op("RandomUniform", DType::Float).input(shape(&[0, 3])).run_one().unwrap().num_elements(), 0);
}
