//! What our own tasks say to each other beyond TensorFlow's protocol. A TensorFlow server answers `UNIMPLEMENTED`, and is not
//! asked again.

use tensorfleet_proto::tensorflow::NamedTensorProto;

/// Gives the status document.
pub(crate) const STATUS_METHOD: &str = "/tensorfleet.FleetService/Status";
/// Asks a server to end.
pub(crate) const SHUTDOWN_METHOD: &str = "/tensorfleet.FleetService/Shutdown";
/// Gives several small tensors of a step at once.
pub(crate) const RECV_READY_METHOD: &str = "/tensorfleet.FleetService/RecvReadyTensors";

/// Asks for the small tensors among these that are there once the step has begun.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct RecvReadyTensorsRequest {
    #[prost(int64, tag = "1")]
    pub(crate) step_id: i64,
    /// Rendezvous keys.
    #[prost(string, repeated, tag = "2")]
    pub(crate) keys: Vec<String>,
}

/// The tensors by key, in any order; whatever is missing must be asked for alone.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct RecvReadyTensorsResponse {
    #[prost(message, repeated, tag = "1")]
    pub(crate) tensor: Vec<NamedTensorProto>,
    /// Keys of tensors that are on a branch not taken.
    #[prost(string, repeated, tag = "2")]
    pub(crate) dead: Vec<String>,
}
