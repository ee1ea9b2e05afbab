//! What our own tasks say to each other beyond TensorFlow's protocol. A TensorFlow server answers `UNIMPLEMENTED`, and is not
//! asked again.

use tensorfleet_proto::tensorflow::NamedTensorProto;

/// Gives the status document.
pub(crate) const STATUS_METHOD: &str = "/tensorfleet.FleetService/Status";
/// Asks a server to end.
pub(crate) const SHUTDOWN_METHOD: &str = "/tensorfleet.FleetService/Shutdown";
/// Gives several tensors of a step, each as soon as it is there: one request and one answer of several messages, where
/// TensorFlow has a call for each tensor.
pub(crate) const RECV_TENSORS_METHOD: &str = "/tensorfleet.FleetService/RecvTensors";

/// Lets what a session does between its steps rest until the next one.
pub(crate) const PAUSE_SESSION_METHOD: &str = "/tensorfleet.FleetService/PauseSession";

/// Keys at most in one request for several tensors.
pub(crate) const MAX_KEYS: usize = 4096;

/// Asks for tensors of a step.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct RecvTensorsRequest {
    #[prost(int64, tag = "1")]
    pub(crate) step_id: i64,
    /// Rendezvous keys.
    #[prost(string, repeated, tag = "2")]
    pub(crate) keys: Vec<String>,
}

/// Names a session whose user is away.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PauseSessionRequest {
    #[prost(string, tag = "1")]
    pub(crate) session_handle: String,
}

/// Some of them, by key; the others follow in further messages.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct RecvTensorsResponse {
    #[prost(message, repeated, tag = "1")]
    pub(crate) tensor: Vec<NamedTensorProto>,
    /// Keys of tensors that are on a branch not taken.
    #[prost(string, repeated, tag = "2")]
    pub(crate) dead: Vec<String>,
}
