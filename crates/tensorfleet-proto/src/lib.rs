//! The wire contract: generated TensorFlow-compatible messages, nothing else.
//!
//! The source is `proto/` at the root of the repository; `cargo xtask proto` turns it into `generated/`, and a test checks
//! that it has been run. Every `bytes` field is a [`bytes::Bytes`] and every map a [`BTreeMap`], so a message always
//! encodes to the same bytes. Fields unknown to the `.proto` files are dropped on decoding, which is
//! why those files also declare what only 2.x clients send.
//!
//! The services in the `.proto` files are documentation: `tensorfleet-rpc` speaks gRPC with these messages and no
//! generated stubs, because almost every call carries tensors that must not be copied.
//!
//! [`BTreeMap`]: std::collections::BTreeMap

pub use prost::Message;

/// Package `tensorflow`: all messages, enums and services.
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::unwrap_used)]
pub mod tensorflow {
    /// Package `tensorflow.error`: status codes.
    pub mod error {
        include!("../generated/tensorflow.error.rs");
    }

    include!("../generated/tensorflow.rs");
}

/// The well-known types that the messages above refer to.
#[allow(missing_docs, unreachable_pub, clippy::all)]
pub mod google {
    /// Package `google.protobuf`.
    pub mod protobuf {
        include!("../generated/google.protobuf.rs");
    }
}
