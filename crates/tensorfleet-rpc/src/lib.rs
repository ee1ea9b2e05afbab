//! gRPC as TensorFlow speaks it: a server and channels that move tensors without copying them.
//!
//! A call is one request and one answer, of one message or, between tasks of ours, of several ([`ResponseStream`],
//! [`Reply::more`]). What makes this crate worth having is how messages are stored: an outgoing message is a list of
//! byte slices, big tensors among them by reference ([`Parts`], [`tensors`]); an incoming one is received into one
//! buffer, placed so that its big payload is aligned and can become a tensor where it lies
//! ([`Incoming`], [`recv_tensor`]). Both ends advertise frames of 1 MiB, which is what makes HTTP/2 as fast as plain TCP.
//!
//! The server ([`serve`]) is hyper's, because it also answers plain HTTP requests; a [`Channel`] uses HTTP/2 streams
//! directly, so that a call runs in its caller's task and costs no task of its own.
//!
//! Of gRPC there is what TensorFlow uses, and on purpose no more: no streams of requests, no compression (a message that is
//! compressed is refused and told so), no TLS and no authentication, no HTTP/2 keepalive pings (servers close connections
//! that ping unasked: liveness is a cheap call, see `channel/connection.rs`), no retries (a call that the peer has looked at
//! is never sent again; one that it refuses unseen, because it is out of room, is), no name resolution but the system's, no load balancing, no reflection, and no generated stubs.
//!
//! This crate knows sockets and messages; it knows nothing of graphs, sessions or clusters. It changes nothing that belongs
//! to the process; a program that moves big tensors can do so itself with [`keep_freed_memory`].

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests wait in real time and start threads"))]

mod channel;
mod decoded_size;
mod frame;
mod frame_memory;
mod grpc_status;
mod grpc_timeout;
mod incoming;
mod parts;
mod payload_scan;
mod proto_reader;
pub mod recv_tensor;
mod server;
pub mod tensors;
mod transport;

pub use channel::{CallOptions, Channel, ChannelOptions, ChannelStats, Response, ResponseStream};
pub use frame::MAX_MESSAGE_BYTES;
pub use frame_memory::{keep_freed_memory, release_freed_memory};
pub use http::HeaderMap;
pub use incoming::Incoming;
pub use parts::{Parts, PartsBuilder};
pub use server::{
    Connection, ConnectionGuard, ConnectionId, Ending, Handler, Limits, Listener, Messages, MethodInfo,
    Origin, Page, Peer, Reply, Request, serve,
};
pub use transport::network::{Arrivals, ByteStream, Network};
pub use transport::same_machine::is_of_this_machine;
