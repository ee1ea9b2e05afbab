//! Tests of the list ops; texts are those of TensorFlow 2.21.

use tensorfleet_core::{Code, DType, PartialShape, Result, Tensor, Variant};
use tensorfleet_proto::Message;

use crate::testing::{TestOp, test_op};
use crate::variants::TensorList;
use crate::variants::list_wire as wire;

fn ints(values: &[i32]) -> Tensor {
    Tensor::vector(values).unwrap()
}

fn floats(values: &[f32]) -> Tensor {
    Tensor::vector(values).unwrap()
}

/// The shape about which nothing is known.
fn any_shape() -> Tensor {
    Tensor::scalar(-1i32)
}

fn op(name: &str) -> TestOp {
    test_op(name).attr("element_dtype", DType::Float)
}

fn empty(shape: Tensor, max: i32) -> Tensor {
    op("EmptyTensorList").attr("shape_type", DType::Int32).input(shape).input(max.into()).run_one().unwrap()
}

fn reserved(shape: Tensor, len: i32) -> Result<Tensor> {
    op("TensorListReserve").attr("shape_type", DType::Int32).input(shape).input(len.into()).run_one()
}

fn push(list: Tensor, tensor: Tensor) -> Result<Tensor> {
    op("TensorListPushBack").input(list).input(tensor).run_one()
}

fn list_of(elements: &[&[f32]]) -> Tensor {
    elements.iter().fold(empty(any_shape(), -1), |list, element| push(list, floats(element)).unwrap())
}

fn set(list: Tensor, index: i32, item: &[f32]) -> Result<Tensor> {
    op("TensorListSetItem").input(list).input(index.into()).input(floats(item)).run_one()
}

fn get(list: &Tensor, index: i32, shape: Tensor) -> Result<Tensor> {
    op("TensorListGetItem").input(list.clone()).input(index.into()).input(shape).run_one()
}

fn stack(list: &Tensor, shape: Tensor) -> Result<Tensor> {
    op("TensorListStack").input(list.clone()).input(shape).run_one()
}

fn length(list: &Tensor) -> i32 {
    test_op("TensorListLength").input(list.clone()).run_one().unwrap().to_scalar().unwrap()
}

/// Where the list's object lies.
fn address(list: &Tensor) -> usize {
    std::ptr::from_ref(list.as_variants().unwrap()[0].object::<TensorList>().unwrap()).addr()
}

#[test]
fn the_last_owner_changes_a_list_in_place_and_others_keep_theirs() {
    let list = list_of(&[&[1.0]]);
    let place = address(&list);
    let list = push(list, floats(&[2.0])).unwrap();
    let list = set(list, 0, &[5.0]).unwrap();
    let popped = op("TensorListPopBack").input(list).input(any_shape()).run().unwrap();
    let [list, last] = <[Tensor; 2]>::try_from(popped).unwrap();
    assert_eq!((address(&list), last.as_slice::<f32>().unwrap()), (place, &[2.0f32][..]));
    let kept = list.clone();
    let longer = push(list, floats(&[3.0])).unwrap();
    assert_ne!(address(&longer), place);
    assert_eq!((length(&kept), length(&longer)), (1, 2));
    assert_eq!(stack(&longer, any_shape()).unwrap().as_slice::<f32>().unwrap(), [5.0, 3.0]);
}

#[test]
fn elements_that_nobody_has_set_are_zeros_if_their_shape_can_be_known() {
    let list = reserved(any_shape(), 2).unwrap();
    assert!(get(&list, 0, any_shape()).unwrap_err().text().contains("no list element is set"));
    assert!(stack(&list, any_shape()).unwrap_err().text().contains("only contains uninitialized"));
    assert_eq!(get(&list, 0, ints(&[2])).unwrap().as_slice::<f32>().unwrap(), [0.0, 0.0]);
    let list = set(list, 1, &[1.0, 2.0]).unwrap();
    assert_eq!(get(&list, 0, any_shape()).unwrap().as_slice::<f32>().unwrap(), [0.0, 0.0]);
    assert_eq!(stack(&list, any_shape()).unwrap().as_slice::<f32>().unwrap(), [0.0, 0.0, 1.0, 2.0]);
    let known = reserved(ints(&[3]), 1).unwrap();
    assert!(get(&known, 0, ints(&[2])).unwrap_err().text().contains("Incompatible shapes"));
    let none = stack(&reserved(ints(&[3]), 0).unwrap(), any_shape()).unwrap();
    assert_eq!(none.shape().dims(), [0, 3]);
}

#[test]
fn wrong_uses_are_told_as_tensorflow_tells_them() {
    let refused = |result: Result<Tensor>, text: &str| {
        let status = result.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.text().contains(text), "{}", status.text());
    };
    refused(push(empty(any_shape(), 0), floats(&[1.0])), "full list list size: 0 max_num_elements: 0");
    refused(push(empty(ints(&[3]), -1), floats(&[1.0])), "Op element shape: [1] list shape: [3]");
    refused(
        push(empty(any_shape(), -1), ints(&[1])),
        "Invalid data types; op elements int32 but list elements float",
    );
    refused(reserved(any_shape(), -1), "must be a non negative number, but got -1");
    refused(reserved(Tensor::scalar(3i32), 1), "The only valid scalar shape");
    refused(reserved(ints(&[-2]), 1), "");
    refused(set(list_of(&[&[1.0]]), 1, &[2.0]), "modify element 1 in a list with 1 elements");
    refused(get(&list_of(&[&[1.0]]), -1, any_shape()), "access element -1 in a list with 1 elements");
    refused(
        stack(&list_of(&[&[1.0], &[1.0, 2.0]]), any_shape()),
        "Incompatible shapes during merge: [1] vs. [2]",
    );
    let pop =
        |list| op("TensorListPopBack").input(list).input(any_shape()).run().map(|mut all| all.remove(0));
    refused(pop(empty(any_shape(), -1)), "pop from an empty list");
    refused(pop(reserved(any_shape(), 1).unwrap()), "element_shape is not fully defined");
    refused(test_op("TensorListResize").input(list_of(&[])).input((-1i32).into()).run_one(), "Got: -1");
    let strange = Tensor::from_variants(vec![Variant::new(Default::default())], &[]).unwrap();
    refused(test_op("TensorListLength").input(strange.clone()).run_one(), "is not a list");
    let two = list_of(&[]).as_variants().unwrap()[0].clone();
    let two = Tensor::from_variants(vec![two.clone(), two], &[2]).unwrap();
    refused(test_op("TensorListLength").input(two).run_one(), "must be a scalar saw: [2]");
    assert_eq!(reserved(any_shape(), i32::MAX).unwrap_err().code(), Code::ResourceExhausted);
    let far = op("TensorListSetItem").attr("resize_if_index_out_of_bounds", true);
    let far = far.input(list_of(&[])).input(i32::MAX.into()).input(floats(&[1.0])).run_one();
    assert_eq!(far.unwrap_err().code(), Code::ResourceExhausted);
}

fn scatter(tensor: Tensor, indices: &[i32], len: i32) -> Result<Tensor> {
    let op = op("TensorListScatterV2").attr("shape_type", DType::Int32);
    op.input(tensor).input(ints(indices)).input(any_shape()).input(len.into()).run_one()
}

#[test]
fn rows_are_scattered_and_gathered() {
    let list = scatter(floats(&[1.0, 2.0]), &[3, 1], -1).unwrap();
    assert_eq!(length(&list), 4);
    let gather = |list: &Tensor, indices: &[i32]| {
        op("TensorListGather").input(list.clone()).input(ints(indices)).input(any_shape()).run_one()
    };
    assert_eq!(gather(&list, &[1, 3, 0]).unwrap().as_slice::<f32>().unwrap(), [2.0, 1.0, 0.0]);
    assert!(gather(&list, &[0]).unwrap_err().text().contains("gather uninitialized tensors"));
    assert!(gather(&list, &[4]).unwrap_err().text().contains("gather element 4 in a list with 4"));
    assert!(gather(&list, &[]).unwrap_err().text().contains("gather 0-elements"));
    for (tensor, indices, len, text) in [
        (floats(&[1.0, 2.0]), &[3, -1][..], -1, "must all be non-negative"),
        (floats(&[1.0, 2.0]), &[3, 1], 2, "scatter at index 3 in list with size 2"),
        (floats(&[1.0, 2.0]), &[3, 1], -2, "num_elements >= -1, found: -2"),
        (floats(&[1.0, 2.0]), &[3], -1, "Expected: 1 Actual: 2"),
        (Tensor::scalar(1.0f32), &[3], -1, "at least a vector, but saw shape: []"),
    ] {
        assert!(scatter(tensor, indices, len).unwrap_err().text().contains(text), "{text}");
    }
    let into = op("TensorListScatterIntoExistingList").input(list.clone()).input(floats(&[7.0, 8.0]));
    let into = into.input(ints(&[0, 5])).run_one().unwrap();
    assert_eq!((length(&list), length(&into)), (4, 6));
    assert_eq!(stack(&into, any_shape()).unwrap().as_slice::<f32>().unwrap(), [7.0, 2.0, 0.0, 1.0, 0.0, 8.0]);
}

fn split(tensor: Tensor, lengths: &[i64]) -> Result<Tensor> {
    let op = op("TensorListSplit").attr("shape_type", DType::Int32);
    op.input(tensor).input(any_shape()).input(Tensor::vector(lengths).unwrap()).run_one()
}

fn concat(list: Tensor, leading: &[i64]) -> Result<Vec<Tensor>> {
    let op = op("TensorListConcatV2").attr("shape_type", DType::Int32);
    op.input(list).input(any_shape()).input(Tensor::vector(leading).unwrap()).run()
}

#[test]
fn a_tensor_is_split_and_joined_again() {
    let list = split(floats(&[1.0, 2.0, 3.0]), &[1, 0, 2]).unwrap();
    let joined = concat(list, &[]).unwrap();
    assert_eq!(joined[0].as_slice::<f32>().unwrap(), [1.0, 2.0, 3.0]);
    assert_eq!(joined[1].as_slice::<i64>().unwrap(), [1, 0, 2]);
    let unset = concat(reserved(ints(&[-1, 2]), 2).unwrap(), &[1, 2]).unwrap();
    assert_eq!((unset[0].shape().dims(), unset[1].as_slice::<i64>().unwrap()), (&[3, 2][..], &[1, 2][..]));
    let none = concat(empty(ints(&[-1, 2]), -1), &[]).unwrap();
    assert_eq!(none[0].shape().dims(), [0, 2]);
    for (lengths, text) in [
        (&[1i64, 1][..], "Values used: 2"),
        (&[1, 5], "slice [1, 6] from tensor with length 3"),
        (&[4, -1], "slice [0, 4]"),
        (&[3, -1], "Invalid value in lengths: -1"),
        (&[i64::MAX, i64::MAX], "slice [0, "),
    ] {
        let status = split(floats(&[1.0, 2.0, 3.0]), lengths).unwrap_err();
        assert!(status.text().contains(text), "{}", status.text());
    }
    assert!(concat(reserved(ints(&[-1, 2]), 1).unwrap(), &[]).unwrap_err().text().contains("how long it is"));
    let scalars = push(empty(any_shape(), -1), Tensor::scalar(1.0f32)).unwrap();
    assert!(concat(scalars, &[]).unwrap_err().text().contains("scalar shape at index 0"));
    assert!(
        concat(empty(any_shape(), -1), &[]).unwrap_err().text().contains("concating an empty tensor list")
    );
}

#[test]
fn lists_add_up_and_have_zeros_of_their_form() {
    let add = |a: Tensor, b: Tensor| {
        test_op("AddN").attr("N", 2i64).attr("T", DType::Variant).input(a).input(b).run_one()
    };
    let nested = |list: Tensor| {
        let outer = test_op("EmptyTensorList").attr("element_dtype", DType::Variant);
        let outer = outer.attr("shape_type", DType::Int32).input(any_shape()).input((-1i32).into());
        let push = test_op("TensorListPushBack").attr("element_dtype", DType::Variant);
        push.input(outer.run_one().unwrap()).input(list).run_one().unwrap()
    };
    let sum = add(nested(list_of(&[&[1.0, 2.0]])), nested(list_of(&[&[3.0, 4.0]]))).unwrap();
    let zeros = test_op("ZerosLike").attr("T", DType::Variant).input(sum.clone()).run_one().unwrap();
    let inner = |list: Tensor| {
        let get = test_op("TensorListGetItem").attr("element_dtype", DType::Variant);
        let inner = get.input(list).input(0i32.into()).input(any_shape()).run_one().unwrap();
        stack(&inner, any_shape()).unwrap().as_slice::<f32>().unwrap().to_vec()
    };
    assert_eq!((inner(sum), inner(zeros)), (vec![4.0, 6.0], vec![0.0, 0.0]));
    let unset = add(list_of(&[&[1.0]]), reserved(any_shape(), 1).unwrap()).unwrap();
    assert_eq!(stack(&unset, any_shape()).unwrap().as_slice::<f32>().unwrap(), [1.0]);
    let differs = |a, b, text: &str| {
        let status = add(a, b).unwrap_err();
        assert!(status.text().contains(text), "{}", status.text());
    };
    differs(list_of(&[&[1.0]]), list_of(&[]), "One is 1 and the other is 0");
    differs(list_of(&[&[1.0]]), list_of(&[&[1.0, 2.0]]), "incompatible element shapes. One is [1]");
    differs(empty(ints(&[2]), -1), empty(ints(&[3]), -1), "One is [2] and the other is [3]");
}

/// What `tf.raw_ops.SerializeTensor` of TensorFlow 2.21 gives for a list of two, the first element unset, the second
/// `[[1, 2]]`, and pushed `[[5, 6]]`, with element shape `[?, 2]`; without the envelope.
const SERIALIZED: &[u8] =
    b"\n\x16tensorflow::TensorList\x12\x1e\x01\x00\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\
    \x12\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x12\x02\x08\x02\
    \x1a\x16\x08\x01\x12\x08\x12\x02\x08\x01\x12\x02\x08\x02*\x08\x00\x00\x80?\x00\x00\x00@\
    \x1a\x16\x08\x01\x12\x08\x12\x02\x08\x01\x12\x02\x08\x02*\x08\x00\x00\xa0@\x00\x00\xc0@";

#[test]
fn lists_travel_in_tensorflows_encoding() {
    let data = tensorfleet_proto::tensorflow::VariantTensorDataProto::decode(SERIALIZED).unwrap();
    let list = wire::decode(&data).unwrap();
    assert_eq!((list.dtype(), list.len(), list.max_len()), (DType::Float, 3, None));
    assert_eq!(list.element_shape(), &PartialShape::new([None, Some(2)]));
    assert!(list.items()[0].is_none());
    assert_eq!(list.items()[2].as_ref().unwrap().as_slice::<f32>().unwrap(), [5.0, 6.0]);
    let again = wire::encode(&list);
    assert_eq!((&again.type_name, &again.metadata), (&data.type_name, &data.metadata));
    // Through the tensor's own encodings, as between tasks, and used there.
    let tensor = list.into_tensor().unwrap();
    for proto in [tensor.to_proto(), tensor.to_content_proto()] {
        let arrived = Tensor::from_proto(&proto).unwrap();
        let pushed = op("TensorListPushBack").input(arrived);
        let pushed = pushed.input(Tensor::from_slice(&[7.0f32, 8.0], &[1, 2]).unwrap()).run_one().unwrap();
        assert_eq!(length(&pushed), 4);
    }
}

#[test]
fn damaged_lists_are_errors() {
    let whole = tensorfleet_proto::tensorflow::VariantTensorDataProto::decode(SERIALIZED).unwrap();
    for cut in 0..whole.metadata.len() {
        let mut data = whole.clone();
        data.metadata = whole.metadata.slice(..cut);
        // A shape that is cut where a message may end is one of lower rank, which is no damage that can be seen.
        if let Ok(list) = wire::decode(&data) {
            assert!(list.element_shape() != &PartialShape::new([None, Some(2)]), "cut at {cut}");
        }
    }
    for metadata in
        [&b"\x02\x00\x00\x01\x01"[..], b"\x01\x07\x01\x01", b"\xff\xff\xff\xff\x7f\x01", b"\x00\x63\x01"]
    {
        let mut data = whole.clone();
        data.metadata = bytes::Bytes::from_static(metadata);
        assert!(wire::decode(&data).is_err(), "{metadata:?}");
    }
    let mut wrong = whole.clone();
    wrong.tensors[0] = ints(&[1, 2]).to_proto();
    assert!(wire::decode(&wrong).is_err());
}
