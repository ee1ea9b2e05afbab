//! Lists as they travel: TensorFlow's encoding, observed in 2.21.
//!
//! The metadata is a row of varints, the number of elements that nobody has set, their indices, the dtype's number, the
//! greatest length (all ones for any), and behind them the element shape as a message. The tensors are those that
//! were set, in order.

use bytes::{Buf, Bytes, BytesMut};
use prost::Message;
use prost::encoding::{decode_varint, encode_varint};
use tensorfleet_core::{DType, PartialShape, Result, Status, Tensor, ensure, memory};
use tensorfleet_proto::tensorflow::{TensorShapeProto, VariantTensorDataProto};

use super::list::{TensorList, check_len};

/// The name TensorFlow gives such variants.
pub(crate) const TYPE_NAME: &str = "tensorflow::TensorList";

pub(crate) fn encode(list: &TensorList) -> VariantTensorDataProto {
    let unset: Vec<usize> =
        list.items().iter().enumerate().filter(|(_, item)| item.is_none()).map(|(index, _)| index).collect();
    let mut metadata = BytesMut::new();
    encode_varint(unset.len() as u64, &mut metadata);
    for index in unset {
        encode_varint(index as u64, &mut metadata);
    }
    encode_varint(list.dtype().number() as u64, &mut metadata);
    encode_varint(list.max_len().map_or(u64::MAX, |max| max as u64), &mut metadata);
    metadata.extend_from_slice(&list.element_shape().to_proto().encode_to_vec());
    VariantTensorDataProto {
        type_name: TYPE_NAME.to_string(),
        metadata: metadata.freeze(),
        tensors: list.items().iter().flatten().map(Tensor::to_proto).collect(),
    }
}

pub(crate) fn decode(data: &VariantTensorDataProto) -> Result<TensorList> {
    let mut metadata: Bytes = data.metadata.clone();
    let unset = number(&mut metadata)?;
    // Each index takes a byte at least, which bounds what is allocated for them.
    ensure!(unset <= metadata.remaining() as u64, InvalidArgument, "a list's metadata is cut short");
    let len = data.tensors.len().saturating_add(unset as usize);
    check_len(len)?;
    let mut is_unset = memory::vec_of(false, len)?;
    for _ in 0..unset {
        let index = number(&mut metadata)?;
        let place = usize::try_from(index).ok().and_then(|index| is_unset.get_mut(index));
        match place {
            Some(place) if !*place => *place = true,
            _ => {
                return Err(Status::invalid_argument(format!(
                    "a list's metadata names element {index} of {len} wrongly"
                )));
            }
        }
    }
    let dtype = i32::try_from(number(&mut metadata)?).unwrap_or_default();
    let dtype = DType::from_number(dtype)?;
    // A negative length, extended to 64 bits, means any; also numbers no list can reach mean that.
    let max_len = usize::try_from(number(&mut metadata)?).ok().filter(|&max| max <= i32::MAX as usize);
    let shape = TensorShapeProto::decode(metadata)
        .map_err(|error| Status::invalid_argument(format!("a list's element shape is damaged: {error}")))?;
    let element_shape = PartialShape::from_proto(&shape)?;
    let mut tensors = data.tensors.iter();
    let mut items = memory::vec_with_room(len)?;
    for is_unset in is_unset {
        if is_unset {
            items.push(None);
            continue;
        }
        let proto = tensors.next().ok_or_else(|| Status::invalid_argument("a list lacks tensors"))?;
        let tensor = Tensor::from_proto(proto)?;
        ensure!(
            tensor.dtype() == dtype,
            InvalidArgument,
            "a list of {dtype} tensors came with one of {}",
            tensor.dtype()
        );
        items.push(Some(tensor));
    }
    TensorList::new(dtype, element_shape, max_len).with_items(items)
}

fn number(metadata: &mut Bytes) -> Result<u64> {
    decode_varint(metadata).map_err(|_| Status::invalid_argument("a list's metadata is cut short"))
}
