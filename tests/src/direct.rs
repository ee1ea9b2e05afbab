//! The backend without a network: sessions on a task of this process.

use std::sync::Arc;

use tensorfleet_core::{Result, Status, Tensor};
use tensorfleet_proto::tensorflow::{ConfigProto, GraphDef};
use tensorfleet_runtime::{DirectSession, RunOptions, SessionOptions, Task};

use crate::backend::{Backend, RunRequest, Server, Session};
use crate::case::{Case, Step};

/// Runs cases in [`DirectSession`]s, each case on a task of its own.
pub struct Direct;

impl Backend for Direct {
    fn refusal(&self, case: &Case) -> Option<String> {
        let claims_version = |step: &Step| matches!(step, Step::Extend(extend) if extend.version.is_some());
        if case.cluster.is_some() {
            Some("needs a cluster".to_string())
        } else if case.steps.iter().any(claims_version) {
            Some("needs a master, which counts graph versions".to_string())
        } else {
            None
        }
    }

    fn start(&self, _: &Case) -> Result<Box<dyn Server>> {
        Ok(Box::new(LocalServer { task: Task::local() }))
    }
}

struct LocalServer {
    task: Arc<Task>,
}

impl Server for LocalServer {
    fn session(&self, _: &str, graph: &GraphDef, config: &ConfigProto) -> Result<Arc<dyn Session>> {
        let options =
            SessionOptions { allow_soft_placement: config.allow_soft_placement, ..SessionOptions::default() };
        let session = DirectSession::new(self.task.clone(), options);
        session.extend(graph.clone())?;
        Ok(Arc::new(LocalSession(session)))
    }

    fn reset(&self, containers: &[String]) -> Result<()> {
        self.task.reset(containers);
        Ok(())
    }
}

struct LocalSession(DirectSession);

impl Session for LocalSession {
    fn extend(&self, graph: GraphDef, version: Option<i64>) -> Result<()> {
        match version {
            None => self.0.extend(graph),
            Some(_) => Err(Status::unimplemented("a local session does not count graph versions")),
        }
    }

    fn run(&self, request: &RunRequest) -> Result<Vec<Tensor>> {
        let feeds: Vec<(&str, Tensor)> =
            request.feeds.iter().map(|(name, value)| (&**name, value.clone())).collect();
        let fetches: Vec<&str> = request.fetches.iter().map(String::as_str).collect();
        let targets: Vec<&str> = request.targets.iter().map(String::as_str).collect();
        let options = RunOptions { timeout: request.timeout };
        self.0.run(&feeds, &fetches, &targets, &options)
    }

    fn close(&self) -> Result<()> {
        self.0.close()
    }
}
