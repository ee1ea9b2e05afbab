//! A cluster: its specification, its servers with their master and worker services, and clients of them.
//!
//! Three actors: a `client` has a session on a `master`, which plans its steps and drives them on the `worker` of each task.
//! `worker_api` is what a worker can be asked for; `peers` reaches a task's worker whether it is in this process
//! (`local_tasks`) or in another (`wire`). `service` answers what comes over the wire, `server` puts all of it on a port and
//! owns what runs by itself (`tasks`). Each of these knows only those named before it.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests wait in real time and start threads"))]

pub mod address;
mod client;
mod client_id;
mod cluster_spec;
mod default_placement;
mod environment;
mod fair_share;
mod graph_version;
mod idle_memory;
mod io;
mod listening;
mod local_tasks;
mod master;
mod members;
mod numbered_request;
mod peers;
mod random;
mod relief;
mod request_log;
mod server;
mod service;
mod status;
mod survey;
mod tasks;
mod users;
mod wire;
mod worker;
mod worker_api;

pub use client::{ConnectOptions, RemoteCallable, RemotePartialRun, RemoteRunOptions, RemoteSession, reset};
pub use client_id::ClientId;
pub use cluster_spec::{ClusterSpec, TaskId, TfConfig};
pub use default_placement::DefaultPlacement;
pub use environment::Environment;
pub use server::{Server, ServerOptions};
pub use status::{MasterSessionStatus, RoundStatus, StepStatus, TaskStatus, Totals, WorkerSessionStatus};
pub use survey::{Finding, TaskState, request_stop, survey};
pub use tensorfleet_rpc::{keep_freed_memory, release_freed_memory};

// The catalogue that tests link.
#[cfg(test)]
use tensorfleet_ops as _;
