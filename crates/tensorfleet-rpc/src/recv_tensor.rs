//! Reads `RecvTensorResponse` so that the tensor becomes the only owner of the received bytes.
//!
//! Decoding through the generated message would leave the buffer shared, and the first op that wants to work in place
//! would have to copy it. So the usual encoding (a plain dtype, a shape, contents) is read by hand, in any order of
//! fields; everything else (strings, typed value lists, repeated or unknown fields) goes the general way.

use prost::Message;

use tensorfleet_core::{Buffer, DType, Result, Shape, Status, Tensor};
use tensorfleet_proto::tensorflow::{RecvTensorResponse, TensorShapeProto};

use crate::incoming::Incoming;
use crate::proto_reader::{ProtoReader, Value};

/// Where the contents of the tensor are in a `RecvTensorResponse`; see [`crate::CallOptions::align`].
pub const ALIGN: &[u32] = &[1, 4];

/// What a peer answered to RecvTensor.
#[derive(Debug)]
pub struct Received {
    /// The tensor, or `None` if it is dead.
    pub value: Option<Tensor>,
    /// When the peer began to send, in microseconds of its clock; 0 if it did not say.
    pub send_start_micros: i64,
    /// Whether the peer keeps the tensor until it is told that it has arrived.
    pub require_ack: bool,
}

/// Reads the answer to RecvTensor.
pub fn parse(message: Incoming) -> Result<Received> {
    match scan(message.as_bytes()) {
        Some(scanned) => finish_plain(message, scanned),
        None => parse_any(&message),
    }
    .map_err(|status| status.context("an answer to RecvTensor"))
}

#[derive(Default)]
struct Scanned {
    is_dead: bool,
    require_ack: bool,
    send_start_micros: i64,
    tensor: Option<PlainTensor>,
}

/// A tensor of a plain dtype, with the place of its contents in the message.
struct PlainTensor {
    dtype: DType,
    shape: Shape,
    offset: usize,
    len: usize,
}

/// Reads the usual encoding; `None` means that this is another one, or malformed.
fn scan(bytes: &[u8]) -> Option<Scanned> {
    let mut scanned = Scanned::default();
    let mut reader = ProtoReader::new(bytes);
    while !reader.is_at_end() {
        let field = reader.field()?;
        match (field.number, field.value) {
            (1, Value::Delimited(len)) if scanned.tensor.is_none() => {
                let offset = reader.position();
                let mut tensor = scan_tensor(reader.take(len)?)?;
                tensor.offset += offset;
                scanned.tensor = Some(tensor);
            }
            (2, Value::Varint(value)) => scanned.is_dead = value != 0,
            (3, Value::Varint(value)) => scanned.send_start_micros = value as i64,
            (5, Value::Varint(value)) => scanned.require_ack = value != 0,
            _ => return None,
        }
    }
    scanned.tensor.is_some().then_some(scanned)
}

fn scan_tensor(bytes: &[u8]) -> Option<PlainTensor> {
    let (mut dtype, mut shape, mut content) = (None, None, None);
    let mut reader = ProtoReader::new(bytes);
    while !reader.is_at_end() {
        let field = reader.field()?;
        match (field.number, field.value) {
            (1, Value::Varint(number)) => dtype = Some(DType::from_number(i32::try_from(number).ok()?).ok()?),
            (2, Value::Delimited(len)) if shape.is_none() => {
                let proto = TensorShapeProto::decode(reader.take(len)?).ok()?;
                shape = Some(Shape::from_proto(&proto).ok()?);
            }
            // The version of the encoding, which no one has ever set.
            (3, Value::Varint(_)) => {}
            (4, Value::Delimited(len)) => {
                content = Some((reader.position(), len));
                reader.take(len)?;
            }
            _ => return None,
        }
    }
    let (offset, len) = content.filter(|&(_, len)| len > 0)?;
    let dtype = dtype.filter(|dtype| dtype.is_plain())?;
    Some(PlainTensor { dtype, shape: shape.unwrap_or_else(Shape::scalar), offset, len })
}

fn finish_plain(message: Incoming, scanned: Scanned) -> Result<Received> {
    let Scanned { is_dead, require_ack, send_start_micros, tensor } = scanned;
    let value = match tensor {
        Some(tensor) if !is_dead => Some(take_tensor(message, tensor)?),
        _ => None,
    };
    Ok(Received { value, send_start_micros, require_ack })
}

fn take_tensor(message: Incoming, plain: PlainTensor) -> Result<Tensor> {
    let content: Buffer = message
        .slice(plain.offset, plain.len)
        .ok_or_else(|| Status::internal("the contents lie outside the message they were found in"))?;
    // From here on the view is the only owner.
    drop(message);
    Tensor::from_buffer(plain.dtype, plain.shape, content)
}

fn parse_any(message: &Incoming) -> Result<Received> {
    let response: RecvTensorResponse = message.decode()?;
    let value = match (&response.tensor, response.is_dead) {
        (_, true) => None,
        (Some(tensor), false) => Some(Tensor::from_proto(tensor)?),
        (None, false) => return Err(Status::internal("there is no tensor in it")),
    };
    Ok(Received { value, send_start_micros: response.send_start_micros, require_ack: response.require_ack })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensors::recv_tensor_response;
    use proptest::prelude::*;
    use tensorfleet_proto::tensorflow::TensorProto;

    fn incoming(bytes: &[u8]) -> Incoming {
        Incoming::from_bytes(bytes, ALIGN).unwrap()
    }

    #[test]
    fn the_tensor_is_the_only_owner_of_the_bytes_it_was_received_in() {
        for len in [1, 3, 10, 5000] {
            let tensor = Tensor::from_slice(&vec![2.5f64; len], &[len]).unwrap();
            let message = incoming(&recv_tensor_response(&Some(tensor.clone()), 5).to_bytes());
            let inside = message.as_bytes().as_ptr_range();
            let mut received = parse(message).unwrap().value.unwrap();
            assert_eq!(received, tensor);
            assert!(inside.contains(&received.as_bytes().unwrap().as_ptr()), "not copied");
            assert!(received.is_unique());
        }
    }

    #[test]
    fn dead_tensors_and_flags_are_read() {
        let dead = parse(incoming(&recv_tensor_response(&None, 5).to_bytes())).unwrap();
        assert!(dead.value.is_none() && dead.send_start_micros == 5 && !dead.require_ack);
        let message = RecvTensorResponse {
            tensor: Some(Tensor::scalar(3i32).to_proto()),
            require_ack: true,
            ..Default::default()
        };
        let received = parse(incoming(&message.encode_to_vec())).unwrap();
        assert!(received.require_ack);
        assert_eq!(received.value.unwrap().to_scalar::<i32>().unwrap(), 3);
    }

    #[test]
    fn any_order_and_any_encoding_is_accepted() {
        // content, shape, dtype; then the time.
        let backwards = [0x0a, 12, 0x22, 2, 7, 8, 0x12, 4, 0x12, 2, 8, 2, 8, 4, 0x18, 9];
        let received = parse(incoming(&backwards)).unwrap();
        assert_eq!(received.value.unwrap().as_slice::<u8>().unwrap(), [7, 8]);
        assert_eq!(received.send_start_micros, 9);
        let typed = TensorProto { dtype: 1, float_val: vec![1.5], ..Default::default() };
        let strings = Tensor::from_strings(vec!["ab".into(), "".into()], &[2]).unwrap();
        for (proto, expected) in [
            (typed, Tensor::scalar(1.5f32)),
            (strings.to_proto(), strings.clone()),
            (strings.to_content_proto(), strings),
        ] {
            let message = RecvTensorResponse { tensor: Some(proto), ..Default::default() };
            assert_eq!(parse(incoming(&message.encode_to_vec())).unwrap().value.unwrap(), expected);
        }
    }

    #[test]
    fn a_field_of_another_kind_is_malformed_here_as_it_is_for_the_decoder() {
        // A tensor, and `is_dead` as eight bytes instead of a varint.
        let bytes = [&[0x0a, 8, 8, 2, 0x22, 2, 0x22, 2, 8, 5, 0x11][..], &[7; 8]].concat();
        assert!(RecvTensorResponse::decode(&bytes[..]).is_err());
        assert!(parse(incoming(&bytes)).is_err());
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        // Two bytes for a float; a shape that overflows; no tensor at all.
        for bytes in [&[0x0a, 6, 8, 1, 0x22, 2, 7, 8][..], &[0x0a, 1, 0x12], &[], &[0x18, 5]] {
            assert!(parse(incoming(bytes)).is_err(), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(incoming(&bytes));
        }

        #[test]
        fn mutated_messages_never_panic(
            at in any::<prop::sample::Index>(),
            byte in any::<u8>(),
            cut in any::<prop::sample::Index>(),
            is_bool in any::<bool>(),
        ) {
            let tensor = match is_bool {
                true => Tensor::from_slice(&[true, false, true], &[1, 3]).unwrap(),
                false => Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2]).unwrap(),
            };
            let mut bytes = recv_tensor_response(&Some(tensor), 1234).to_bytes().to_vec();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            bytes.truncate(cut.index(bytes.len()) + 1);
            if let Ok(Received { value: Some(tensor), .. }) = parse(incoming(&bytes))
                && let Ok(bools) = tensor.as_slice::<bool>()
            {
                prop_assert!(bools.iter().all(|&value| value as u8 <= 1));
            }
        }
    }
}
