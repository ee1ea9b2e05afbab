//! Tensors as messages.

use tensorfleet_core::Tensor;
use tensorfleet_proto::Message;
use tensorfleet_proto::tensorflow::{RecvTensorResponse, TensorProto};
use tensorfleet_rpc::{Incoming, recv_tensor as wire};

use super::sandbox;

/// A `TensorProto`: the tensor it stands for is written and read again unchanged, in both encodings.
pub fn tensor_proto(data: &[u8]) {
    sandbox::bound_memory();
    let Ok(proto) = TensorProto::decode(data) else { return };
    let Ok(tensor) = Tensor::from_proto(&proto) else { return };
    // Long tensors of one repeated value are many bytes from few.
    if tensor.byte_size() > 1 << 16 {
        return;
    }
    assert_eq!(Tensor::from_proto(&tensor.to_proto()).unwrap(), tensor);
    assert_eq!(Tensor::from_proto(&tensor.to_content_proto()).unwrap(), tensor);
}

/// The answer to `RecvTensor`, which is read by hand: what that reads is what the generated decoder reads.
pub fn recv_tensor(data: &[u8]) {
    sandbox::bound_memory();
    let Ok(incoming) = Incoming::from_bytes(data, wire::ALIGN) else { return };
    assert_eq!(incoming.as_bytes(), data);
    let by_hand = wire::parse(incoming);
    let decoded = RecvTensorResponse::decode(data);
    let Ok(by_hand) = by_hand else { return };
    let decoded = decoded.unwrap_or_else(|error| panic!("read by hand, though it is malformed: {error}"));
    assert_eq!(by_hand.send_start_micros, decoded.send_start_micros);
    assert_eq!(by_hand.require_ack, decoded.require_ack);
    assert_eq!(by_hand.value.is_none(), decoded.is_dead);
    if let Some(value) = by_hand.value {
        assert_eq!(value, Tensor::from_proto(&decoded.tensor.unwrap()).unwrap());
    }
}
