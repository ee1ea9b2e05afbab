//! The wire contract: generated TensorFlow-compatible messages and gRPC stubs, nothing else.
//!
//! The source is `proto/` at the root of the repository; the build script turns it into the modules
//! below. Every `bytes` field is a [`bytes::Bytes`] and every map a [`BTreeMap`], so a message always
//! encodes to the same bytes. Fields unknown to the `.proto` files are dropped on decoding, which is
//! why those files also declare what only 2.x clients send.
//!
//! With the feature `grpc` the module [`tensorflow`] also holds `master_service_client`,
//! `master_service_server`, `worker_service_client` and `worker_service_server`.
//!
//! [`BTreeMap`]: std::collections::BTreeMap

pub use prost::Message;

/// Package `tensorflow`: all messages, enums and services.
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::unwrap_used)]
pub mod tensorflow {
    /// Package `tensorflow.error`: status codes.
    pub mod error {
        include!(concat!(env!("OUT_DIR"), "/tensorflow.error.rs"));
    }

    include!(concat!(env!("OUT_DIR"), "/tensorflow.rs"));
}

/// The well-known types that the messages above refer to.
#[allow(missing_docs, unreachable_pub, clippy::all)]
pub mod google {
    /// Package `google.protobuf`.
    pub mod protobuf {
        include!(concat!(env!("OUT_DIR"), "/google.protobuf.rs"));
    }
}
