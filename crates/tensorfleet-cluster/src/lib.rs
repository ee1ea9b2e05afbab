//! A cluster: its specification, its servers with their master and worker services, and clients of them.

pub mod address;
mod client;
mod cluster_spec;
mod cluster_text;
mod finished_steps;
mod fleet_messages;
mod graph_version;
mod io;
mod master;
mod peers;
mod random;
mod recent_requests;
mod remote_worker;
mod request_log;
mod server;
mod service;
mod status;
mod survey;
mod wire_status;
mod worker;

pub use client::{ConnectOptions, RemoteCallable, RemotePartialRun, RemoteRunOptions, RemoteSession, reset};
pub use cluster_spec::{ClusterSpec, TaskId};
pub use cluster_text::TfConfig;
pub use server::{Server, ServerOptions};
pub use status::{MasterSessionStatus, StepStatus, TaskStatus, Totals, WorkerSessionStatus};
pub use survey::{Finding, TaskState, request_stop, survey};

// The catalogue that tests link.
#[cfg(test)]
use tensorfleet_ops as _;
