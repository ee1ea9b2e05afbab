//! Where the tensors of a message are: field numbers, by which they are written by reference and received aligned.
//!
//! A path leads from the message to the bytes of its biggest tensor, one field number for each message on the way. The
//! numbers are those of TensorFlow's `.proto` files; the tests below check each against the messages themselves.

/// `RunStepRequest.feed`.
pub(crate) const RUN_STEP_FEED: u32 = 2;
/// `RunStepResponse.tensor`.
pub(crate) const RUN_STEP_FETCH: u32 = 1;
/// `RunCallableRequest.feed`.
pub(crate) const RUN_CALLABLE_FEED: u32 = 3;
/// `RunCallableResponse.fetch`.
pub(crate) const RUN_CALLABLE_FETCH: u32 = 1;
/// `RunGraphRequest.send`.
pub(crate) const RUN_GRAPH_SEND: u32 = 3;
/// `RunGraphResponse.recv`.
pub(crate) const RUN_GRAPH_RECV: u32 = 1;
/// `RecvTensorsResponse.tensor`.
pub(crate) const RECV_TENSORS_TENSOR: u32 = 1;

/// `NamedTensorProto.tensor`.
const NAMED_TENSOR: u32 = 2;
/// `TensorProto.tensor_content`.
const CONTENT: u32 = 4;

/// To the contents of a feed in a `RunStepRequest`.
pub(crate) const RUN_STEP_REQUEST: &[u32] = &[RUN_STEP_FEED, NAMED_TENSOR, CONTENT];
/// To the contents of a fetch in a `RunStepResponse`.
pub(crate) const RUN_STEP_RESPONSE: &[u32] = &[RUN_STEP_FETCH, NAMED_TENSOR, CONTENT];
/// To the contents of a feed in a `RunCallableRequest`.
pub(crate) const RUN_CALLABLE_REQUEST: &[u32] = &[RUN_CALLABLE_FEED, CONTENT];
/// To the contents of a fetch in a `RunCallableResponse`.
pub(crate) const RUN_CALLABLE_RESPONSE: &[u32] = &[RUN_CALLABLE_FETCH, CONTENT];
/// To the contents of a tensor sent along with a `RunGraphRequest`.
pub(crate) const RUN_GRAPH_REQUEST: &[u32] = &[RUN_GRAPH_SEND, NAMED_TENSOR, CONTENT];
/// To the contents of a tensor in a `RunGraphResponse`.
pub(crate) const RUN_GRAPH_RESPONSE: &[u32] = &[RUN_GRAPH_RECV, NAMED_TENSOR, CONTENT];
/// To the contents of a tensor in a `RecvTensorsResponse`.
pub(crate) const RECV_TENSORS_RESPONSE: &[u32] = &[RECV_TENSORS_TENSOR, NAMED_TENSOR, CONTENT];

#[cfg(test)]
mod tests {
    use tensorfleet_proto::Message;
    use tensorfleet_proto::tensorflow::{
        NamedTensorProto, RunCallableRequest, RunCallableResponse, RunGraphRequest, RunGraphResponse,
        RunStepRequest, RunStepResponse, TensorProto,
    };

    use super::*;
    use crate::wire::fleet_messages::RecvTensorsResponse;

    const MARK: &[u8] = b"the tensor's bytes";

    fn tensor() -> TensorProto {
        TensorProto { tensor_content: MARK.into(), ..Default::default() }
    }

    fn named() -> Vec<NamedTensorProto> {
        vec![NamedTensorProto { name: "key".into(), tensor: Some(tensor()) }]
    }

    /// A base-128 number at the start of `bytes`, and what follows it.
    fn varint(bytes: &[u8]) -> (u64, &[u8]) {
        let length = bytes.iter().position(|byte| byte & 0x80 == 0).unwrap() + 1;
        let digits = bytes[..length].iter().rev();
        (digits.fold(0, |number, byte| number << 7 | u64::from(byte & 0x7f)), &bytes[length..])
    }

    /// The length-delimited field at the end of a path. The marked fields are the only ones that are set, but for a name.
    fn follow<'a>(mut bytes: &'a [u8], path: &[u32]) -> Option<&'a [u8]> {
        let Some((&field, rest)) = path.split_first() else { return Some(bytes) };
        while !bytes.is_empty() {
            let (tag, after) = varint(bytes);
            assert_eq!(tag & 7, 2, "all fields that are set are messages, texts or bytes");
            let (length, after) = varint(after);
            let (content, next) = after.split_at(length as usize);
            if tag >> 3 == u64::from(field) {
                return follow(content, rest);
            }
            bytes = next;
        }
        None
    }

    #[test]
    fn every_path_leads_to_the_bytes_of_the_tensor() {
        let messages: [(&str, Vec<u8>, &[u32]); 7] = [
            (
                "RunStepRequest",
                RunStepRequest { feed: named(), ..Default::default() }.encode_to_vec(),
                RUN_STEP_REQUEST,
            ),
            (
                "RunStepResponse",
                RunStepResponse { tensor: named(), ..Default::default() }.encode_to_vec(),
                RUN_STEP_RESPONSE,
            ),
            (
                "RunCallableRequest",
                RunCallableRequest { feed: vec![tensor()], ..Default::default() }.encode_to_vec(),
                RUN_CALLABLE_REQUEST,
            ),
            (
                "RunCallableResponse",
                RunCallableResponse { fetch: vec![tensor()], ..Default::default() }.encode_to_vec(),
                RUN_CALLABLE_RESPONSE,
            ),
            (
                "RunGraphRequest",
                RunGraphRequest { send: named(), ..Default::default() }.encode_to_vec(),
                RUN_GRAPH_REQUEST,
            ),
            (
                "RunGraphResponse",
                RunGraphResponse { recv: named(), ..Default::default() }.encode_to_vec(),
                RUN_GRAPH_RESPONSE,
            ),
            (
                "RecvTensorsResponse",
                RecvTensorsResponse { tensor: named(), ..Default::default() }.encode_to_vec(),
                RECV_TENSORS_RESPONSE,
            ),
        ];
        for (name, bytes, path) in messages {
            assert_eq!(follow(&bytes, path), Some(MARK), "{name} {path:?}");
        }
    }
}
