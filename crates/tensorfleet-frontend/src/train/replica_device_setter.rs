//! [`replica_device_setter`]: variables to the parameter servers, everything else to a worker.
//!
//! Between-graph replication needs every worker's program to place the variables alike without a word between them.
//! So the placement depends only on the order in which variables are built: each goes to the next server in turn, or
//! to the one with the fewest bytes so far. Observed in TensorFlow 2.21: an inner scope wins in what it names, even
//! over the chosen server; a variable that an inner scope puts in another job takes no turn.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use tensorfleet_cluster::ClusterSpec;
use tensorfleet_core::attr::FromAttr;
use tensorfleet_core::{DType, DeviceName, Node, PartialShape, Result, Status};
use tensorfleet_kernel::builder::DeviceScope;

/// Ops that hold state for all workers, and so belong on parameter servers.
const PS_OPS: [&str; 14] = [
    "Variable",
    "VariableV2",
    "VarHandleOp",
    "AutoReloadVariable",
    "MutableHashTable",
    "MutableHashTableV2",
    "MutableHashTableOfTensors",
    "MutableHashTableOfTensorsV2",
    "MutableDenseHashTable",
    "MutableDenseHashTableV2",
    "ResourceConditionalAccumulator",
    "BoostedTreesEnsembleResourceHandleOp",
    "BoostedTreesQuantileStreamResourceHandleOp",
    "DecisionTreeResource",
];

/// How variables are spread over the parameter servers; see [`ReplicaDeviceSetter::strategy`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PsStrategy {
    /// One after the other.
    #[default]
    RoundRobin,
    /// Each to the server that has the fewest bytes of variables so far, the first of them if several have. A dimension
    /// that is not known when the variable is built counts as 1.
    FewestBytes,
}

/// A device function for between-graph replication; see [`replica_device_setter`].
#[derive(Clone, Debug)]
#[must_use = "it is used by giving it to `Graph::device`"]
pub struct ReplicaDeviceSetter {
    ps_tasks: u32,
    cluster: Option<ClusterSpec>,
    ps_device: String,
    worker_device: String,
    merges: bool,
    ps_ops: Vec<String>,
    strategy: PsStrategy,
    chosen_by: Option<ChosenBy>,
}

type Choose = dyn Fn(&Node) -> Result<u32> + Send + Sync;

/// A function of the program that chooses parameter servers.
#[derive(Clone)]
struct ChosenBy(Arc<Choose>);

impl fmt::Debug for ChosenBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(a function)")
    }
}

/// Puts variables on parameter servers in turn and everything else on the worker device. Without parameter servers it
/// is the same as `None`: it forgets the device scopes around.
///
/// ```
/// use tensorfleet::{Graph, replica_device_setter};
///
/// let g = Graph::new();
/// let (v1, v2, sum) = g.device(replica_device_setter().ps_tasks(2), || {
///     let v1 = g.variable("v1", 1.0f32);
///     let v2 = g.variable("v2", 2.0f32);
///     let sum = &v1 + &v2;
///     (v1, v2, sum)
/// });
/// assert_eq!(v1.handle().device(), "/job:ps/task:0");
/// assert_eq!(v2.handle().device(), "/job:ps/task:1");
/// assert_eq!(sum.device(), "/job:worker");
/// ```
///
/// The turn is part of the scope. To go on with it in a second scope, keep the [`DeviceScope`] and enter its clones:
/// `let scope = DeviceScope::from(replica_device_setter().ps_tasks(2));`.
pub fn replica_device_setter() -> ReplicaDeviceSetter {
    ReplicaDeviceSetter {
        ps_tasks: 0,
        cluster: None,
        ps_device: "/job:ps".to_string(),
        worker_device: "/job:worker".to_string(),
        merges: true,
        ps_ops: PS_OPS.map(String::from).to_vec(),
        strategy: PsStrategy::RoundRobin,
        chosen_by: None,
    }
}

impl ReplicaDeviceSetter {
    /// How many parameter servers there are.
    pub fn ps_tasks(mut self, ps_tasks: u32) -> ReplicaDeviceSetter {
        self.ps_tasks = ps_tasks;
        self
    }

    /// The cluster, whose job named in the parameter servers' device has the parameter servers. Indices may have gaps.
    pub fn cluster(mut self, cluster: &ClusterSpec) -> ReplicaDeviceSetter {
        self.cluster = Some(cluster.clone());
        self
    }

    /// The device of the parameter servers, without the task; `/job:ps` if not said otherwise.
    pub fn ps_device(mut self, device: &str) -> ReplicaDeviceSetter {
        self.ps_device = device.to_string();
        self
    }

    /// The device of everything else; `/job:worker` if not said otherwise.
    pub fn worker_device(mut self, device: &str) -> ReplicaDeviceSetter {
        self.worker_device = device.to_string();
        self
    }

    /// Whether to fill what inner scopes leave open, which is so if not said otherwise. Without it a node for which an
    /// inner scope says anything at all is left alone.
    pub fn merge_devices(mut self, merges: bool) -> ReplicaDeviceSetter {
        self.merges = merges;
        self
    }

    /// The ops that go to parameter servers, instead of variables and tables.
    pub fn ps_ops<'a>(mut self, ops: impl IntoIterator<Item = &'a str>) -> ReplicaDeviceSetter {
        self.ps_ops = ops.into_iter().map(String::from).collect();
        self
    }

    /// How to spread variables.
    ///
    /// ```
    /// # use tensorfleet::{Graph, PsStrategy, replica_device_setter};
    /// let g = Graph::new();
    /// let setter = replica_device_setter().ps_tasks(2).strategy(PsStrategy::FewestBytes);
    /// let devices = g.device(setter, || {
    ///     let variables = [g.variable("large", [0.0f32; 100]), g.variable("a", 1.0f32), g.variable("b", 2.0f32)];
    ///     variables.map(|variable| variable.device())
    /// });
    /// assert_eq!(devices, ["/job:ps/task:0", "/job:ps/task:1", "/job:ps/task:1"]);
    /// ```
    #[doc(alias = "ps_strategy")]
    pub fn strategy(mut self, strategy: PsStrategy) -> ReplicaDeviceSetter {
        self.strategy = strategy;
        self
    }

    /// Lets `choose` give the task of the parameter server for each node that goes to one, instead of a [`PsStrategy`]. It must
    /// not use the graph.
    ///
    /// ```
    /// # use tensorfleet::{Graph, replica_device_setter};
    /// let g = Graph::new();
    /// let setter = replica_device_setter().ps_tasks(3).strategy_by(|node| Ok(node.name.len() as u32));
    /// assert_eq!(g.device(setter, || g.variable("ab", 1.0f32)).device(), "/job:ps/task:2");
    /// ```
    pub fn strategy_by(
        mut self,
        choose: impl Fn(&Node) -> Result<u32> + Send + Sync + 'static,
    ) -> ReplicaDeviceSetter {
        self.chosen_by = Some(ChosenBy(Arc::new(choose)));
        self
    }

    fn into_scope(self) -> Result<DeviceScope> {
        let device = |what: &str, text: &str| {
            let parsed: Result<DeviceName> = text.parse();
            parsed.map_err(|status| status.context(format!("{what} of replica_device_setter")))
        };
        let ps_device = device("ps_device", &self.ps_device)?;
        let worker_device = device("worker_device", &self.worker_device)?;
        let tasks: Vec<u32> = match (&self.cluster, &ps_device.job) {
            (Some(cluster), Some(job)) if cluster.has_job(job) => cluster.task_indices(job)?,
            (Some(_), _) => Vec::new(),
            (None, _) => (0..self.ps_tasks).collect(),
        };
        if tasks.is_empty() {
            return Ok(DeviceScope::Reset);
        }
        let turn = Mutex::new(Turn { bytes: vec![0; tasks.len()], tasks, next: 0, strategy: self.strategy });
        let (merges, ps_ops, chosen_by) = (self.merges, self.ps_ops, self.chosen_by);
        Ok(DeviceScope::by(move |node| {
            let inner: DeviceName = node.device.parse()?;
            if !merges && !inner.is_unconstrained() {
                return Ok(inner);
            }
            if !ps_ops.iter().any(|op| **op == *node.op) {
                return Ok(worker_device.overridden_by(&inner));
            }
            let mut device = ps_device.clone();
            let takes_turn = device.job.is_some() && (inner.job.is_none() || inner.job == device.job);
            if takes_turn {
                device.task = Some(match &chosen_by {
                    Some(ChosenBy(choose)) => choose(node)?,
                    None => turn.lock().take(node)?,
                });
            }
            Ok(device.overridden_by(&inner))
        }))
    }
}

impl From<ReplicaDeviceSetter> for DeviceScope {
    fn from(setter: ReplicaDeviceSetter) -> DeviceScope {
        setter.into_scope().unwrap_or_else(DeviceScope::Invalid)
    }
}

/// Whose turn it is.
struct Turn {
    /// Indices of the parameter servers; at least one.
    tasks: Vec<u32>,
    /// Bytes on each of them.
    bytes: Vec<u64>,
    next: usize,
    strategy: PsStrategy,
}

impl Turn {
    fn take(&mut self, node: &Node) -> Result<u32> {
        let chosen = match self.strategy {
            PsStrategy::RoundRobin => {
                let chosen = self.next;
                self.next = (chosen + 1) % self.tasks.len();
                chosen
            }
            // `min_by_key` gives the first of several minima.
            PsStrategy::FewestBytes => (0..self.tasks.len()).min_by_key(|&at| self.bytes[at]).unwrap_or(0),
        };
        self.bytes[chosen] = self.bytes[chosen].saturating_add(byte_size(node)?);
        Ok(self.tasks[chosen])
    }
}

/// What the variable or table that `node` holds takes in memory, as far as its attributes tell.
fn byte_size(node: &Node) -> Result<u64> {
    let Some(dtype) = node.attrs.get("dtype").or_else(|| node.attrs.get("value_dtype")) else { return Ok(0) };
    let dtype = DType::from_attr(dtype)
        .map_err(|status: Status| status.at_node(&node.name, &node.op, &node.device))?;
    let shape = node.attrs.get("shape").and_then(|shape| PartialShape::from_attr(shape).ok());
    let elements = shape.map_or(1, |shape| {
        let dims = shape.dims().unwrap_or_default();
        dims.iter().fold(1u64, |product, dim| product.saturating_mul(dim.map_or(1, |size| size as u64)))
    });
    Ok(elements.saturating_mul(dtype.size().unwrap_or(1) as u64))
}
