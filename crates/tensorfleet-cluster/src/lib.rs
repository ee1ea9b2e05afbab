//! A cluster: its specification, its servers with their master and worker services, and clients of them.

pub mod address;
mod cluster_spec;
mod cluster_text;

pub use cluster_spec::{ClusterSpec, TaskId};
pub use cluster_text::TfConfig;
