//! gRPC as TensorFlow speaks it: a server and channels that move tensors without copying them.
//!
//! All calls are unary. What makes this crate worth having is how messages are stored: an outgoing message is a list of
//! byte slices, big tensors among them by reference ([`Parts`], [`tensors`]); an incoming one is received into one
//! buffer, allocated once, placed so that its big payload is aligned and can become a tensor where it lies
//! ([`Incoming`], [`recv_tensor`]). Both ends advertise frames of 1 MiB, which is what makes HTTP/2 as fast as plain TCP.
//!
//! The server ([`serve`]) is hyper's, because it also answers plain HTTP requests; a [`Channel`] uses HTTP/2 streams
//! directly, so that a call runs in its caller's task and costs no task of its own.
//!
//! This crate knows sockets and messages; it knows nothing of graphs, sessions or clusters.

mod channel;
mod frame;
mod frame_memory;
mod grpc_status;
mod grpc_timeout;
mod incoming;
mod local_stream;
mod parts;
mod payload_scan;
mod port_owner;
mod proto_reader;
pub mod recv_tensor;
mod same_machine;
mod server;
mod socket;
mod socket_options;
pub mod tensors;

pub use channel::{CallOptions, Channel, ChannelOptions, ChannelStats, Response, ResponseStream};
pub use frame::MAX_MESSAGE_BYTES;
pub use http::HeaderMap;
pub use incoming::Incoming;
pub use parts::{Parts, PartsBuilder};
pub use server::{
    Connection, Handler, Limits, Listener, Messages, MethodInfo, Page, Peer, Reply, Request, serve,
};
