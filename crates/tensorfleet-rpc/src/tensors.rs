//! Writes messages that contain tensors, the big contents by reference.
//!
//! The fields around a tensor are written by hand and all other fields by the generated code; protobuf allows the two
//! encodings to be put one after the other. The order dtype, shape, content, with the content last, keeps a TensorFlow
//! receiver on its fast path.

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};

use tensorfleet_core::{DType, Shape, Tensor};

use crate::parts::{Parts, PartsBuilder};

/// `RecvTensorResponse`: the tensor, or `None` for a dead one.
pub fn recv_tensor_response(value: &Option<Tensor>, send_start_micros: i64) -> Parts {
    let mut out = PartsBuilder::with_capacity(96);
    if value.is_none() {
        put_varint_field(out.small(), 2, 1);
    }
    if send_start_micros != 0 {
        put_varint_field(out.small(), 3, send_start_micros as u64);
    }
    match value {
        Some(tensor) => put_tensor_field(&mut out, 1, &Encoded::new(tensor)),
        // TensorFlow always sends some tensor along; its own choice is an empty vector.
        None => put_tensor_field(&mut out, 1, &Encoded::empty_vector()),
    }
    out.finish()
}

/// A message whose repeated field `field` holds named tensors: `RunStepRequest.feed`, `RunStepResponse.tensor`,
/// `RunGraphRequest.send`, `RunGraphResponse.recv`. `rest` is the message without them.
pub fn with_named_tensors(field: u32, tensors: &[(&str, &Tensor)], rest: &impl Message) -> Parts {
    let mut out = PartsBuilder::with_capacity(rest.encoded_len() + 96 * tensors.len());
    out.put_message(rest);
    for (name, tensor) in tensors {
        let tensor = Encoded::new(tensor);
        let name_len = length_delimited_len(1, name.len());
        encode_key(field, WireType::LengthDelimited, out.small());
        encode_varint((name_len + length_delimited_len(2, tensor.len())) as u64, out.small());
        encode_key(1, WireType::LengthDelimited, out.small());
        encode_varint(name.len() as u64, out.small());
        out.small().put_slice(name.as_bytes());
        put_tensor_field(&mut out, 2, &tensor);
    }
    out.finish()
}

/// A message whose repeated field `field` holds tensors: `RunCallableRequest.feed`, `RunCallableResponse.fetch`. `rest`
/// is the message without them.
pub fn with_tensors(field: u32, tensors: &[&Tensor], rest: &impl Message) -> Parts {
    let mut out = PartsBuilder::with_capacity(rest.encoded_len() + 64 * tensors.len());
    out.put_message(rest);
    for tensor in tensors {
        put_tensor_field(&mut out, field, &Encoded::new(tensor));
    }
    out.finish()
}

/// A `TensorProto` about to be written.
struct Encoded<'a> {
    dtype: DType,
    dims: &'a [usize],
    content: Content<'a>,
}

enum Content<'a> {
    Borrowed(&'a [u8]),
    Shared(Bytes),
}

impl Content<'_> {
    fn len(&self) -> usize {
        match self {
            Content::Borrowed(bytes) => bytes.len(),
            Content::Shared(bytes) => bytes.len(),
        }
    }
}

impl<'a> Encoded<'a> {
    fn new(tensor: &'a Tensor) -> Encoded<'a> {
        let content = match tensor.buffer() {
            Ok(buffer) if PartsBuilder::copies(buffer.len()) => Content::Borrowed(buffer.as_bytes()),
            Ok(buffer) => Content::Shared(buffer.to_shared_bytes()),
            Err(_) => Content::Shared(tensor.to_content_proto().tensor_content),
        };
        Encoded { dtype: tensor.dtype(), dims: Shape::dims(tensor.shape()), content }
    }

    fn empty_vector() -> Encoded<'static> {
        Encoded { dtype: DType::Float, dims: &[0], content: Content::Borrowed(&[]) }
    }

    fn shape_len(&self) -> usize {
        self.dims.iter().map(|&size| length_delimited_len(2, dim_len(size))).sum()
    }

    fn len(&self) -> usize {
        let mut len = key_len(1) + encoded_len_varint(self.dtype.number() as u64);
        if !self.dims.is_empty() {
            len += length_delimited_len(2, self.shape_len());
        }
        if self.content.len() > 0 {
            len += length_delimited_len(4, self.content.len());
        }
        len
    }
}

/// A dimension of size 0 is an empty message.
fn dim_len(size: usize) -> usize {
    if size == 0 { 0 } else { key_len(1) + encoded_len_varint(size as u64) }
}

fn put_tensor_field(out: &mut PartsBuilder, field: u32, tensor: &Encoded<'_>) {
    let small = out.small();
    encode_key(field, WireType::LengthDelimited, small);
    encode_varint(tensor.len() as u64, small);
    put_varint_field(small, 1, tensor.dtype.number() as u64);
    // A missing shape means rank 0; TensorFlow's encoder leaves it out as well.
    if !tensor.dims.is_empty() {
        encode_key(2, WireType::LengthDelimited, small);
        encode_varint(tensor.shape_len() as u64, small);
        for &size in tensor.dims {
            encode_key(2, WireType::LengthDelimited, small);
            encode_varint(dim_len(size) as u64, small);
            if size != 0 {
                put_varint_field(small, 1, size as u64);
            }
        }
    }
    if tensor.content.len() == 0 {
        return;
    }
    encode_key(4, WireType::LengthDelimited, small);
    encode_varint(tensor.content.len() as u64, small);
    match &tensor.content {
        Content::Borrowed(bytes) => small.put_slice(bytes),
        Content::Shared(bytes) => out.put_shared(bytes.clone()),
    }
}

fn put_varint_field(out: &mut BytesMut, field: u32, value: u64) {
    encode_key(field, WireType::Varint, out);
    encode_varint(value, out);
}

/// Length of a field that holds `len` bytes: key, length and the bytes.
fn length_delimited_len(field: u32, len: usize) -> usize {
    key_len(field) + encoded_len_varint(len as u64) + len
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensorfleet_proto::tensorflow::{
        NamedTensorProto, RecvTensorResponse, RunCallableRequest, RunStepRequest, TensorProto,
    };

    fn samples() -> Vec<Tensor> {
        vec![
            Tensor::scalar(2.5f32),
            Tensor::from_slice(&[1i64, -2, 3, 4, 5, 6], &[2, 3]).unwrap(),
            Tensor::zeros(DType::Double, Shape::new(&[3, 0, 200]).unwrap()).unwrap(),
            Tensor::from_slice(&vec![1.5f32; 5000], &[5000]).unwrap(),
            Tensor::from_strings(vec!["a".into(), "".into(), vec![b'x'; 9000].into()], &[3]).unwrap(),
            Tensor::vector(&[true, false]).unwrap(),
        ]
    }

    fn decoded(proto: Option<&TensorProto>) -> Tensor {
        Tensor::from_proto(proto.unwrap()).unwrap()
    }

    #[test]
    fn a_tensor_reads_back_from_every_message_that_holds_it() {
        for tensor in &samples() {
            let parts = recv_tensor_response(&Some(tensor.clone()), 77);
            let message = RecvTensorResponse::decode(parts.to_bytes()).unwrap();
            assert_eq!(message.encoded_len(), parts.len(), "nothing but the tensor and the time");
            assert_eq!((message.send_start_micros, message.is_dead), (77, false));
            assert_eq!(&decoded(message.tensor.as_ref()), tensor);

            let rest = RunStepRequest { session_handle: "s".into(), request_id: 5, ..Default::default() };
            let parts = with_named_tensors(2, &[("x:0", tensor), ("y:0", tensor)], &rest);
            let mut message = RunStepRequest::decode(parts.to_bytes()).unwrap();
            let feeds: Vec<NamedTensorProto> = std::mem::take(&mut message.feed);
            assert_eq!(message, rest);
            assert_eq!((feeds[0].name.as_str(), feeds[1].name.as_str()), ("x:0", "y:0"));
            assert_eq!(&decoded(feeds[1].tensor.as_ref()), tensor);

            let rest = RunCallableRequest { handle: 3, ..Default::default() };
            let message = RunCallableRequest::decode(with_tensors(3, &[tensor], &rest).to_bytes()).unwrap();
            assert_eq!(&decoded(message.feed.first()), tensor);
        }
    }

    #[test]
    fn big_contents_go_by_reference() {
        let tensor = Tensor::from_slice(&vec![1u8; 100_000], &[100_000]).unwrap();
        let chunks = recv_tensor_response(&Some(tensor.clone()), 1).into_chunks("M").unwrap();
        assert_eq!(chunks.len(), 2);
        assert_eq!(chunks[1].as_ptr(), tensor.as_bytes().unwrap().as_ptr());
    }

    #[test]
    fn the_bytes_are_those_of_tensorflow() {
        // Seen from TensorFlow 2.21: send_start_micros first, no shape for a scalar, an empty Dim for size 0.
        let scalar = recv_tensor_response(&Some(Tensor::scalar(1.0f32)), 1).to_bytes();
        assert_eq!(scalar[..], [0x18, 1, 0x0a, 8, 8, 1, 0x22, 4, 0, 0, 0x80, 0x3f]);
        let dead = recv_tensor_response(&None, 1).to_bytes();
        assert_eq!(dead[..], [0x10, 1, 0x18, 1, 0x0a, 6, 8, 1, 0x12, 2, 0x12, 0]);
    }
}
