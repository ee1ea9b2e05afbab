//! Parsing of examples: features, defaults and malformed input.

use prost::Message;
use tensorfleet_core::{Code, DType, PartialShape, Tensor};
use tensorfleet_proto::tensorflow::feature::Kind;
use tensorfleet_proto::tensorflow::{BytesList, Example, Feature, Features, FloatList, Int64List};

use super::*;
use crate::testing::test_op;

fn floats(value: &[f32]) -> Kind {
    Kind::FloatList(FloatList { value: value.to_vec() })
}

fn integers(value: &[i64]) -> Kind {
    Kind::Int64List(Int64List { value: value.to_vec() })
}

fn texts(value: &[&str]) -> Kind {
    Kind::BytesList(BytesList { value: value.iter().map(|text| text.to_string().into()).collect() })
}

fn example(features: &[(&str, Kind)]) -> Bytes {
    let feature = features.iter().map(|(key, kind)| (key.to_string(), Feature { kind: Some(kind.clone()) }));
    Example { features: Some(Features { feature: feature.collect() }) }.encode_to_vec().into()
}

fn vector(strings: Vec<Bytes>) -> Tensor {
    let count = strings.len();
    Tensor::from_strings(strings, &[count]).unwrap()
}

/// Parses the dense features a (float [2]) and b (int64, default -1) and the sparse feature v (int64).
fn parse(examples: Vec<Bytes>) -> Result<Vec<Tensor>> {
    let op = test_op("ParseExample").attr("Nsparse", 1i64).attr("Ndense", 2i64);
    let op = op.attr("sparse_types", vec![DType::Int64]).attr("Tdense", vec![DType::Float, DType::Int64]);
    let op = op.attr("dense_shapes", vec![PartialShape::vector(Some(2)), PartialShape::scalar()]);
    let op = op.input(vector(examples)).input(vector(vec![])).input(Tensor::string("v"));
    let op = op.input(Tensor::string("a")).input(Tensor::string("b"));
    op.input(Tensor::vector::<f32>(&[]).unwrap()).input(Tensor::vector(&[-1i64]).unwrap()).run()
}

#[test]
fn batches_have_dense_rows_with_defaults_and_sparse_values() {
    let first = example(&[("a", floats(&[1.0, 2.0])), ("b", integers(&[7])), ("v", integers(&[1, 2, 3]))]);
    let second = example(&[("a", floats(&[3.0, 4.0])), ("w", texts(&["z"]))]);
    let outputs = parse(vec![first, second]).unwrap();
    assert_eq!(outputs[0].as_slice::<i64>().unwrap(), [0, 0, 0, 1, 0, 2]);
    assert_eq!(outputs[1].as_slice::<i64>().unwrap(), [1, 2, 3]);
    assert_eq!(outputs[2].as_slice::<i64>().unwrap(), [2, 3]);
    assert_eq!(outputs[3], Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2]).unwrap());
    assert_eq!(outputs[4].as_slice::<i64>().unwrap(), [7, -1]);
    assert_eq!(&parse(vec![]).unwrap()[3].shape()[..], [0, 2]);
}

#[test]
fn what_does_not_fit_is_named() {
    let message = |example: Bytes| {
        let status = parse(vec![example]).unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        status.text().to_string()
    };
    assert!(message(example(&[("b", integers(&[7]))])).contains("Feature: a (data type: float) is required"));
    assert!(message(example(&[("a", floats(&[1.0]))])).contains("Key: a"));
    assert!(message(example(&[("a", integers(&[1, 2]))])).contains("Data types don't match"));
    assert!(message(Bytes::from_static(b"\xff\xff")).contains("Could not parse"));
}

#[test]
fn a_single_example_has_no_batch_dimension() {
    let op = test_op("ParseSingleExample").attr("num_sparse", 1i64);
    let op = op.attr("sparse_keys", vec!["v".to_string()]).attr("dense_keys", vec!["a".to_string()]);
    let op = op.attr("sparse_types", vec![DType::String]).attr("Tdense", vec![DType::Float]);
    let op = op.attr("dense_shapes", vec![PartialShape::vector(Some(2))]);
    let one = example(&[("a", floats(&[1.0, 2.0])), ("v", texts(&["x", "y"]))]);
    let outputs = op.input(Tensor::string(one)).input(Tensor::vector::<f32>(&[]).unwrap()).run().unwrap();
    assert_eq!(outputs[0], Tensor::from_slice(&[0i64, 1], &[2, 1]).unwrap());
    assert_eq!(outputs[1], vector(vec!["x".into(), "y".into()]));
    assert_eq!(outputs[2].as_slice::<i64>().unwrap(), [2]);
    assert_eq!(outputs[3], Tensor::vector(&[1.0f32, 2.0]).unwrap());
}

#[test]
fn version_two_has_ragged_and_padded_features() {
    let op = test_op("ParseExampleV2").attr("num_sparse", 0i64).attr("sparse_types", Vec::<DType>::new());
    let op = op.attr("Tdense", vec![DType::Int64]).attr("dense_shapes", vec![PartialShape::vector(None)]);
    let op = op.attr("ragged_value_types", vec![DType::Float]).attr("ragged_split_types", vec![DType::Int32]);
    let examples = vec![
        example(&[("p", integers(&[1, 2])), ("r", floats(&[0.5]))]),
        example(&[("r", floats(&[1.0, 2.0]))]),
    ];
    let op = op.input(vector(examples)).input(vector(vec![])).input(vector(vec![]));
    let op = op.input(vector(vec!["p".into()])).input(vector(vec!["r".into()]));
    let outputs = op.input(Tensor::scalar(-1i64)).run().unwrap();
    assert_eq!(outputs[0], Tensor::from_slice(&[1i64, 2, -1, -1], &[2, 2]).unwrap());
    assert_eq!(outputs[1].as_slice::<f32>().unwrap(), [0.5, 1.0, 2.0]);
    assert_eq!(outputs[2].as_slice::<i32>().unwrap(), [0, 1, 3]);
}
