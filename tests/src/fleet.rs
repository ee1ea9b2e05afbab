//! The backend with a network: sessions on real servers, with the nodes of each case spread over their tasks.
//!
//! A case that asks for a cluster gets it. Any other gets two tasks, and every node that does not say where it belongs is
//! sent to one of them by its name, so that almost every edge of the graph crosses from one process to the other.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use tensorfleet_cluster::{ConnectOptions, RemoteRunOptions, RemoteSession};
use tensorfleet_core::attr::FromAttr;
use tensorfleet_core::{Result, Status, Tensor};
use tensorfleet_proto::tensorflow::{ConfigProto, GraphDef, NodeDef};

use crate::backend::{Backend, RunRequest, Server, Session};
use crate::case::{Case, Mode};
use crate::cluster::{self, Cluster, Job};

/// How long a session may take to come about.
const CONNECT_LIMIT: Duration = Duration::from_secs(60);

/// Runs cases on clusters of processes, each case on one of its own.
pub struct Fleet;

impl Backend for Fleet {
    fn refusal(&self, _: &Case) -> Option<String> {
        None
    }

    fn start(&self, case: &Case) -> Result<Box<dyn Server>> {
        let tasks = |job: &str| match &case.cluster {
            Some(jobs) => jobs.get(job).copied().unwrap_or(0) as usize,
            None => 1,
        };
        let servers = |job: &str| vec![cluster::Server::Tensorfleet; tasks(job)];
        let cluster = Cluster::start(&servers("ps"), &servers("worker")).map_err(Status::internal)?;
        // Cases in raw mode are about what a master says to exactly this graph.
        let spreads = case.cluster.is_none() && case.mode != Mode::Raw;
        Ok(Box::new(FleetServer { cluster, spreads }))
    }
}

struct FleetServer {
    cluster: Cluster,
    spreads: bool,
}

impl FleetServer {
    fn target(&self, task: &str) -> Result<String> {
        let (job, index) = match task.split_once('/') {
            None => (Job::Worker, 0),
            Some((job, index)) => {
                let job = if job == "ps" { Job::Ps } else { Job::Worker };
                (job, index.parse().map_err(|_| Status::invalid_argument(format!("{task} is no task")))?)
            }
        };
        self.cluster.target(job, index).ok_or_else(|| Status::not_found(format!("there is no task {task}")))
    }
}

impl Server for FleetServer {
    fn session(&self, target: &str, graph: &GraphDef, config: &ConfigProto) -> Result<Arc<dyn Session>> {
        let mut graph = graph.clone();
        if self.spreads {
            spread(&mut graph);
        }
        let options = ConnectOptions { config: config.clone(), timeout: CONNECT_LIMIT };
        let session = RemoteSession::create(&self.target(target)?, graph, options)?;
        Ok(Arc::new(FleetSession { session, spreads: self.spreads }))
    }

    fn reset(&self, containers: &[String]) -> Result<()> {
        let containers: Vec<&str> = containers.iter().map(String::as_str).collect();
        tensorfleet_cluster::reset(&self.target("")?, &containers, &[], CONNECT_LIMIT)
    }
}

struct FleetSession {
    session: RemoteSession,
    spreads: bool,
}

impl Session for FleetSession {
    fn extend(&self, mut graph: GraphDef, version: Option<i64>) -> Result<()> {
        if self.spreads {
            spread(&mut graph);
        }
        match version {
            None => self.session.extend(graph),
            Some(version) => self.session.extend_version(graph, version),
        }
    }

    fn run(&self, request: &RunRequest) -> Result<Vec<Tensor>> {
        let feeds: Vec<(&str, &Tensor)> =
            request.feeds.iter().map(|(name, value)| (&**name, value)).collect();
        let fetches: Vec<&str> = request.fetches.iter().map(String::as_str).collect();
        let targets: Vec<&str> = request.targets.iter().map(String::as_str).collect();
        let options = RemoteRunOptions { timeout: request.timeout, ..RemoteRunOptions::default() };
        self.session.run(&feeds, &fetches, &targets, &options).map(|(tensors, _)| tensors)
    }

    fn close(&self) -> Result<()> {
        self.session.close()
    }
}

/// Sends every node without a device to one of two tasks, nodes of one colocation group to the same.
fn spread(graph: &mut GraphDef) {
    for node in &mut graph.node {
        if node.device.is_empty() {
            let mut hasher = DefaultHasher::new();
            group(node).hash(&mut hasher);
            let job = if hasher.finish().is_multiple_of(2) { "ps" } else { "worker" };
            node.device = format!("/job:{job}/task:0");
        }
    }
}

/// The name of the group a node belongs to: its own, unless it is to be with another.
fn group(node: &NodeDef) -> String {
    let classes = node.attr.get("_class").and_then(|attr| Vec::<String>::from_attr(attr).ok());
    let mut groups: Vec<String> = classes
        .unwrap_or_default()
        .iter()
        .filter_map(|class| class.strip_prefix("loc:@").map(str::to_string))
        .collect();
    groups.sort_unstable();
    groups.into_iter().next().unwrap_or_else(|| node.name.clone())
}
