//! How bytes get to another process: TCP, or between processes of one machine a Unix socket.

pub(crate) mod local_stream;
pub(crate) mod network;
pub(crate) mod port_owner;
pub(crate) mod same_machine;
pub(crate) mod socket;
pub(crate) mod socket_options;
