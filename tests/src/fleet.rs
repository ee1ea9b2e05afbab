//! The backend with a network: sessions on real servers, with the nodes of each case spread over their tasks.
//!
//! A case that asks for a cluster gets it. Any other gets two tasks, and every node that does not say where it belongs is
//! sent to one of them by its name, so that almost every edge of the graph crosses from one process to the other.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use tensorfleet_cluster::{ConnectOptions, RemoteRunOptions, RemoteSession};
use tensorfleet_core::attr::FromAttr;
use tensorfleet_core::{DType, GraphLimits, Result, Status, Tensor};
use tensorfleet_proto::tensorflow::{ConfigProto, GraphDef};
use tensorfleet_runtime::checked_graph::CheckedGraph;

use crate::backend::{Backend, RunRequest, Server, Session};
use crate::case::{Case, Mode};
use crate::cluster::{self, Cluster, Job};

/// Cases whose answers need a read of a reference variable to see an update that only its consumer is ordered after. Inside
/// a task it does, because the read shares the variable's memory; across tasks the value may have left before, in
/// TensorFlow as here. Real programs keep these nodes together, so these cases are not spread.
const KEPT_TOGETHER: &[&str] =
    &["accumulators/sync_replicas_three_workers_by_hand", "optimizers/moving_average_ref"];

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
        let is_kept_together = case.mode == Mode::Raw || KEPT_TOGETHER.contains(&&*case.name);
        let spreads = case.cluster.is_none() && !is_kept_together;
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
        let options = ConnectOptions { config: config.clone(), timeout: CONNECT_LIMIT, client: None };
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

/// Sends every node without a device to one of two tasks, what must be together to the same.
fn spread(graph: &mut GraphDef) {
    let mut groups = Groups::default();
    let mut checked = CheckedGraph::new(tensorfleet_ops::catalogue());
    // A graph that refers to an earlier one, or that is refused anyway, is spread by what its nodes say alone.
    if checked.extend(graph.clone(), &GraphLimits::default()).is_ok() {
        for (id, node) in checked.graph().iter() {
            for (input, expected) in node.inputs.iter().zip(&checked.types(id).inputs) {
                let is_ref = checked.output_type(*input).is_some_and(|edge| edge.is_ref);
                if is_ref || expected.dtype == DType::Resource {
                    groups.join(&node.name, &checked.graph().node(input.node).name);
                }
            }
        }
    }
    for node in &graph.node {
        let classes = node.attr.get("_class").and_then(|attr| Vec::<String>::from_attr(attr).ok());
        for class in classes.iter().flatten() {
            groups.join(&node.name, class.strip_prefix("loc:@").unwrap_or(class));
        }
        // Some resources are found by name, on whichever task asks.
        if let Some(shared) = node.attr.get("shared_name").and_then(|attr| String::from_attr(attr).ok()) {
            groups.join(&node.name, &format!("shared {shared}"));
        }
    }
    for node in graph.node.iter_mut().filter(|node| node.device.is_empty()) {
        let mut hasher = DefaultHasher::new();
        groups.root(&node.name).hash(&mut hasher);
        let job = if hasher.finish().is_multiple_of(2) { "ps" } else { "worker" };
        node.device = format!("/job:{job}/task:0");
    }
}

/// Which names belong together: a forest of names.
#[derive(Default)]
struct Groups(HashMap<String, String>);

impl Groups {
    fn root(&self, name: &str) -> String {
        let mut name = name;
        while let Some(parent) = self.0.get(name) {
            name = parent;
        }
        name.to_string()
    }

    fn join(&mut self, one: &str, other: &str) {
        let (one, other) = (self.root(one), self.root(other));
        if one != other {
            self.0.insert(one, other);
        }
    }
}
