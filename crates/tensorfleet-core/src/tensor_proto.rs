//! Tensors to and from `TensorProto`, in all the encodings clients use.
//!
//! A value arrives either as `tensor_content` (raw little-endian bytes, shared without a copy where aligned)
//! or in the typed list of its dtype, where a short list repeats its last value and an empty one means zeros.
//! Nothing is allocated before the claimed size has been checked against the bytes that are there or against
//! the memory limit.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use half::{bf16, f16};
use num_complex::Complex;
use prost::Message;

use tensorfleet_proto::tensorflow::{ResourceHandleProto, TensorProto, VariantTensorDataProto};

use crate::buffer::Buffer;
use crate::dtype::{DType, Element};
use crate::memory;
use crate::resource_handle::ResourceHandle;
use crate::shape::Shape;
use crate::status::{Result, Status};
use crate::strings::Strings;
use crate::tensor::{Data, Tensor};
use crate::variant::Variant;
use crate::{bail, ensure};

impl Tensor {
    /// Decodes a value. Contents are shared, not copied, where alignment allows.
    pub fn from_proto(proto: &TensorProto) -> Result<Tensor> {
        let dtype = DType::from_number(proto.dtype)?;
        let shape = proto.tensor_shape.as_ref().map_or(Ok(Shape::scalar()), Shape::from_proto)?;
        decode(proto, dtype, shape).map_err(|status| status.context("Cannot parse tensor from proto"))
    }

    /// Encodes the value: plain elements as `tensor_content` (shared, not copied), strings as `string_val`.
    pub fn to_proto(&self) -> TensorProto {
        let mut proto = TensorProto {
            dtype: self.dtype().number(),
            tensor_shape: Some(self.shape().to_proto()),
            ..Default::default()
        };
        match self.data() {
            Data::Plain(buffer) => proto.tensor_content = buffer.to_shared_bytes(),
            Data::Strings(strings) => proto.string_val = strings.to_vec(),
            Data::Resources(handles) => {
                proto.resource_handle_val = handles.iter().map(ResourceHandle::to_proto).collect();
            }
            Data::Variants(variants) => {
                proto.variant_val = variants.iter().map(Variant::to_data).collect();
            }
        }
        proto
    }

    /// Encodes the value with everything in `tensor_content`, strings and handles in list form (lengths, then
    /// bytes), as TensorFlow does between tasks.
    pub fn to_content_proto(&self) -> TensorProto {
        let mut proto = self.to_proto();
        let items: Vec<Bytes> = match self.data() {
            Data::Plain(_) => return proto,
            Data::Strings(_) => std::mem::take(&mut proto.string_val),
            Data::Resources(_) => encode_all(&std::mem::take(&mut proto.resource_handle_val)),
            Data::Variants(_) => encode_all(&std::mem::take(&mut proto.variant_val)),
        };
        proto.tensor_content = encode_list(&items);
        proto
    }
}

fn decode(proto: &TensorProto, dtype: DType, shape: Shape) -> Result<Tensor> {
    let count = shape.num_elements();
    let content = &proto.tensor_content;
    if dtype.is_plain() {
        if !content.is_empty() {
            return Tensor::from_buffer(dtype, shape, Buffer::from_foreign(content.clone()));
        }
        return decode_typed(proto, dtype, shape);
    }
    let dims = shape.dims().to_vec();
    match dtype {
        DType::String => {
            if !content.is_empty() {
                let strings = Strings::of_message(decode_list(content.clone(), count)?)?;
                return Tensor::from_string_data(strings, shape);
            }
            let filler = proto.string_val.last().cloned().unwrap_or_default();
            Tensor::from_string_data(Strings::filled(&proto.string_val, count, filler)?, shape)
        }
        DType::Resource => {
            let protos: Vec<ResourceHandleProto> = match content.is_empty() {
                true => proto.resource_handle_val.clone(),
                false => decode_messages(content.clone(), count)?,
            };
            let handles: Vec<_> = protos.iter().map(ResourceHandle::from_proto).collect::<Result<_>>()?;
            Tensor::from_resources(handles, &dims)
        }
        _ => {
            let protos: Vec<VariantTensorDataProto> = match content.is_empty() {
                true => proto.variant_val.clone(),
                false => decode_messages(content.clone(), count)?,
            };
            Tensor::from_variants(protos.into_iter().map(Variant::new).collect(), &dims)
        }
    }
}

fn decode_typed(proto: &TensorProto, dtype: DType, shape: Shape) -> Result<Tensor> {
    use DType::*;
    let integers = &proto.int_val;
    let halves = &proto.half_val;
    let tensor = match dtype.storage() {
        Float => fill(shape, &proto.float_val, |&v| v),
        Double => fill(shape, &proto.double_val, |&v| v),
        Int32 => fill(shape, integers, |&v| v),
        Int16 => fill(shape, integers, |&v| v as i16),
        Int8 => fill(shape, integers, |&v| v as i8),
        UInt8 => fill(shape, integers, |&v| v as u8),
        UInt16 => fill(shape, integers, |&v| v as u16),
        UInt32 => fill(shape, &proto.uint32_val, |&v| v),
        UInt64 => fill(shape, &proto.uint64_val, |&v| v),
        Int64 => fill(shape, &proto.int64_val, |&v| v),
        Bool => fill(shape, &proto.bool_val, |&v| v),
        Half => fill(shape, halves, |&v| f16::from_bits(v as u16)),
        BFloat16 => fill(shape, halves, |&v| bf16::from_bits(v as u16)),
        Complex64 => fill(shape, pairs(&proto.scomplex_val)?, |&[re, im]| Complex::new(re, im)),
        Complex128 => fill(shape, pairs(&proto.dcomplex_val)?, |&[re, im]| Complex::new(re, im)),
        other => bail!(Internal, "{other} is not a plain dtype"),
    }?;
    tensor.with_dtype(dtype)
}

fn pairs<T>(values: &[T]) -> Result<&[[T; 2]]> {
    let (pairs, rest) = values.as_chunks::<2>();
    ensure!(rest.is_empty(), InvalidArgument, "complex values come in pairs, got {} numbers", values.len());
    Ok(pairs)
}

fn fill<V, T: Element>(shape: Shape, values: &[V], convert: impl Fn(&V) -> T) -> Result<Tensor> {
    let Some(last) = values.last() else { return Tensor::zeros(T::DTYPE, shape) };
    Tensor::build::<T>(shape, |out| {
        for (slot, value) in out.iter_mut().zip(values) {
            *slot = convert(value);
        }
        if let Some(rest) = out.get_mut(values.len()..) {
            rest.fill(convert(last));
        }
        Ok(())
    })
}

/// List form: `count` varint lengths, then the concatenated bytes; nothing may be left over.
fn decode_list(mut content: Bytes, count: usize) -> Result<Vec<Bytes>> {
    // Every element takes at least the byte of its length, which bounds the allocation below.
    ensure!(
        count <= content.len(),
        InvalidArgument,
        "{count} elements cannot fit in {} bytes of content",
        content.len()
    );
    let mut lengths = memory::vec_with_room(count)?;
    for _ in 0..count {
        let length = prost::encoding::decode_varint(&mut content)
            .map_err(|_| Status::invalid_argument("the element lengths are cut short"))?;
        lengths.push(length);
    }
    let mut items = memory::vec_with_room(count)?;
    for length in lengths {
        let length = usize::try_from(length).ok().filter(|&length| length <= content.remaining());
        let length = length.ok_or_else(|| Status::invalid_argument("an element reaches past the content"))?;
        items.push(content.split_to(length));
    }
    ensure!(content.is_empty(), InvalidArgument, "{} bytes are left over after the elements", content.len());
    Ok(items)
}

fn decode_messages<M: Message + Default>(content: Bytes, count: usize) -> Result<Vec<M>> {
    let decode = |bytes: Bytes| M::decode(bytes).map_err(|error| Status::invalid_argument(error.to_string()));
    decode_list(content, count)?.into_iter().map(decode).collect()
}

fn encode_all<M: Message>(messages: &[M]) -> Vec<Bytes> {
    messages.iter().map(|message| Bytes::from(message.encode_to_vec())).collect()
}

fn encode_list(items: &[Bytes]) -> Bytes {
    let mut out = BytesMut::with_capacity(items.iter().map(|item| item.len() + 2).sum());
    items.iter().for_each(|item| prost::encoding::encode_varint(item.len() as u64, &mut out));
    items.iter().for_each(|item| out.put_slice(item));
    out.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;
    use proptest::prelude::*;
    use tensorfleet_proto::tensorflow::TensorShapeProto;
    use tensorfleet_proto::tensorflow::tensor_shape_proto::Dim;

    fn proto(dtype: DType, dims: &[i64]) -> TensorProto {
        let dim = dims.iter().map(|&size| Dim { size, ..Default::default() }).collect();
        TensorProto {
            dtype: dtype.number(),
            tensor_shape: Some(TensorShapeProto { dim, unknown_rank: false }),
            ..Default::default()
        }
    }

    #[test]
    fn a_short_list_repeats_its_last_value_and_an_empty_one_means_zeros() {
        let mut short = proto(DType::Int16, &[4]);
        short.int_val = vec![7, -1];
        assert_eq!(Tensor::from_proto(&short).unwrap().as_slice::<i16>().unwrap(), [7, -1, -1, -1]);
        let mut long = proto(DType::Float, &[2]);
        long.float_val = vec![1.0, 2.0, 3.0];
        assert_eq!(Tensor::from_proto(&long).unwrap().as_slice::<f32>().unwrap(), [1.0, 2.0]);
        let none = proto(DType::Bool, &[2]);
        assert_eq!(Tensor::from_proto(&none).unwrap().as_slice::<bool>().unwrap(), [false, false]);
    }

    #[test]
    fn strings_travel_in_list_form() {
        let tensor = Tensor::from_strings(vec!["a".into(), "".into(), "hello".into()], &[3]).unwrap();
        let proto = tensor.to_content_proto();
        assert_eq!(&proto.tensor_content[..], b"\x01\x00\x05ahello");
        assert_eq!(Tensor::from_proto(&proto).unwrap(), tensor);
        assert_eq!(Tensor::from_proto(&tensor.to_proto()).unwrap(), tensor);
    }

    #[test]
    fn content_that_does_not_fit_the_shape_is_refused() {
        let mut wrong = proto(DType::Float, &[3]);
        wrong.tensor_content = Bytes::from_static(&[0; 8]);
        assert_eq!(Tensor::from_proto(&wrong).unwrap_err().code(), Code::InvalidArgument);
        let mut list = proto(DType::String, &[2]);
        for content in [&b"\x01"[..], b"\x01\x01a", b"\x01\x01abc", b"\xff\xff\xff\xff\x7f\x01"] {
            list.tensor_content = Bytes::from_static(content);
            assert_eq!(Tensor::from_proto(&list).unwrap_err().code(), Code::InvalidArgument, "{content:?}");
        }
        let huge = proto(DType::Float, &[1 << 40]);
        assert_eq!(Tensor::from_proto(&huge).unwrap_err().code(), Code::ResourceExhausted);
        let overflowing = proto(DType::Float, &[1 << 40, 1 << 40]);
        assert_eq!(Tensor::from_proto(&overflowing).unwrap_err().code(), Code::InvalidArgument);
        assert!(Tensor::from_proto(&proto(DType::Float, &[-1])).is_err());
        assert!(Tensor::from_proto(&TensorProto::default()).is_err());
    }

    #[test]
    fn aligned_content_is_shared_with_the_message() {
        let tensor = Tensor::from_slice(&vec![1.5f32; 1000], &[10, 100]).unwrap();
        let proto = tensor.to_proto();
        assert_eq!(proto.tensor_content.as_ptr(), tensor.as_bytes().unwrap().as_ptr());
        let back = Tensor::from_proto(&proto).unwrap();
        assert_eq!(back.as_bytes().unwrap().as_ptr(), tensor.as_bytes().unwrap().as_ptr());
    }

    proptest! {
        /// Whatever the dtype and the shape, a value survives both encodings.
        #[test]
        fn values_survive_the_wire(
            which in 0..DType::ALL.len(),
            dims in proptest::collection::vec(0usize..4, 0..4),
            seed in proptest::collection::vec(any::<u8>(), 64 * 16),
        ) {
            let dtype = DType::ALL[which];
            let shape = Shape::new(&dims).unwrap();
            let count = shape.num_elements();
            let tensor = match (dtype, dtype.size()) {
                (DType::String, _) => {
                    let text = |i: usize| Bytes::copy_from_slice(&seed[i..i + usize::from(seed[i] % 9)]);
                    Tensor::from_strings((0..count).map(text).collect(), &dims).unwrap()
                }
                (DType::Resource, _) => {
                    let handle = |i: usize| ResourceHandle::new("/device:CPU:0", "c", &format!("r{i}"), "kind");
                    Tensor::from_resources((0..count).map(handle).collect(), &dims).unwrap()
                }
                (_, Some(size)) => {
                    let content = Bytes::copy_from_slice(&seed[..count * size]);
                    Tensor::from_buffer(dtype, shape, Buffer::from_foreign(content)).unwrap()
                }
                _ => return Ok(()),
            };
            for proto in [tensor.to_proto(), tensor.to_content_proto()] {
                let bytes = Bytes::from(proto.encode_to_vec());
                let decoded = TensorProto::decode(bytes).unwrap();
                prop_assert_eq!(&Tensor::from_proto(&decoded).unwrap(), &tensor);
            }
        }
    }
}
