//! What can execute a case: a [`Backend`] starts a [`Server`] per case, which gives out [`Session`]s.
//!
//! The runner sees nothing but these traits, so a session in this process and one behind a network are asked
//! the same questions.

use std::sync::Arc;
use std::time::Duration;

use tensorfleet_core::{Result, Tensor};
use tensorfleet_proto::tensorflow::{ConfigProto, GraphDef};

use crate::case::Case;

/// A way to execute cases.
pub trait Backend: Send + Sync {
    /// Why this backend cannot run the case at all, if so.
    fn refusal(&self, case: &Case) -> Option<String>;

    /// Starts an empty server: no session, no variable of another case.
    fn start(&self, case: &Case) -> Result<Box<dyn Server>>;
}

/// What the sessions of one case share.
pub trait Server: Send + Sync {
    /// A session on the task `target` (`worker/1`; empty: the default one) with this graph.
    fn session(&self, target: &str, graph: &GraphDef, config: &ConfigProto) -> Result<Arc<dyn Session>>;

    /// Forgets the resources in these containers, or in all if none is named.
    fn reset(&self, containers: &[String]) -> Result<()>;
}

/// A session; its methods may be called from several threads at once.
pub trait Session: Send + Sync {
    /// Adds nodes. `version` is the graph version the client claims to have; `None`: the true one.
    fn extend(&self, graph: GraphDef, version: Option<i64>) -> Result<()>;

    /// Runs one step and returns the fetched values in order.
    fn run(&self, request: &RunRequest) -> Result<Vec<Tensor>>;

    /// Cancels what is running and ends the session.
    fn close(&self) -> Result<()>;
}

/// One step to run.
#[derive(Clone, Debug, Default)]
pub struct RunRequest {
    /// Tensor names with the values that replace them.
    pub feeds: Vec<(String, Tensor)>,
    /// Names of tensors to return.
    pub fetches: Vec<String>,
    /// Names of nodes to run.
    pub targets: Vec<String>,
    /// The deadline, if there is one.
    pub timeout: Option<Duration>,
}
