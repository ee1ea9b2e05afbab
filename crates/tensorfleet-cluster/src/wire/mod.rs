//! What travels between tasks: messages and headers of our own beside TensorFlow's, where the tensors in a message are,
//! errors inside bodies, and the worker of another process as a caller sees it.
//!
//! The other end of the calls is [`service`](crate::service).

pub(crate) mod finished_steps;
pub(crate) mod fleet_messages;
pub(crate) mod headers;
pub(crate) mod owed_ends;
pub(crate) mod payloads;
pub(crate) mod recent_requests;
pub(crate) mod remote_worker;
pub(crate) mod status_body;
