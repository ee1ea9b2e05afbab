//! [`Graph`]: the handle programs build with.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::ThreadId;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use tensorfleet_core::{Endpoint, Node, NodeId, Result, Status, parse_endpoint};
use tensorfleet_ops::builder::{DeviceScope, GraphBuilder, NewNode, Scopes};
use tensorfleet_proto::tensorflow::GraphDef;

use super::collections::Collections;
use super::op_builder::OpBuilder;
use super::operation::Operation;
use super::output::Output;
use crate::variables::{Variable, VariableStore};

/// The graph's part of a seed where only the op's part is given, as in TensorFlow.
const DEFAULT_GRAPH_SEED: i64 = 87654321;

/// A dataflow graph under construction.
///
/// A handle: clones are the same graph, and may be used from several threads. Outputs of its nodes know their
/// graph, so that operators on them need not name it. Scopes ([`Graph::device`], [`Graph::name_scope`], …) hold for
/// the nodes that the calling thread builds inside a closure.
///
/// ```
/// use tensorfleet::{Graph, Session};
///
/// let g = Graph::new();
/// let a = g.constant([1.0f32, 2.0]);
/// let b = 2.0 * &a + 1.0;
/// let session = Session::new(&g);
/// assert_eq!(session.run(&b)?.as_slice::<f32>()?, [3.0, 5.0]);
/// # Ok::<(), tensorfleet::Status>(())
/// ```
#[derive(Clone, Default)]
pub struct Graph(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// [`GraphBuilder::complete_len`], for sessions to look at without the lock.
    complete_len: AtomicUsize,
}

#[derive(Default)]
struct State {
    builder: GraphBuilder,
    /// Scopes of the threads that are inside one.
    scopes: FxHashMap<ThreadId, Scopes>,
    collections: Collections,
    /// What [`Graph::add_to_collection`] gathers, by key.
    gathered: BTreeMap<String, Vec<Endpoint>>,
    variable_store: VariableStore,
    random_seed: Option<i64>,
}

impl Graph {
    /// An empty graph.
    pub fn new() -> Graph {
        Graph::default()
    }

    /// A graph from its definition.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session};
    /// let g = Graph::new();
    /// g.constant_named("answer", 42);
    /// let copy = Graph::from_graph_def(g.to_graph_def())?;
    /// assert_eq!(Session::new(&copy).run(copy.output("answer")?)?.to_scalar::<i32>()?, 42);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn from_graph_def(def: GraphDef) -> Result<Graph> {
        let graph = Graph::new();
        graph.import(def, "")?;
        Ok(graph)
    }

    /// Adds the nodes of a definition, with `prefix/` before their names unless the prefix is empty. Their types are
    /// checked and their shapes inferred; on an error nothing is added.
    ///
    /// ```
    /// # use tensorfleet::Graph;
    /// let layer = Graph::new();
    /// layer.constant_named("weight", 0.5f32);
    /// let g = Graph::new();
    /// g.import(layer.to_graph_def(), "first")?;
    /// g.import(layer.to_graph_def(), "second")?;
    /// assert_eq!(g.operation("second/weight")?.op_type(), "Const");
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn import(&self, def: GraphDef, prefix: &str) -> Result<()> {
        self.build(|builder| builder.import(def, prefix)).map(|_| ())
    }

    /// The definition of the graph.
    pub fn to_graph_def(&self) -> GraphDef {
        self.build(|builder| builder.graph().to_graph_def())
    }

    /// The number of nodes.
    pub fn len(&self) -> usize {
        self.build(|builder| builder.graph().len())
    }

    /// Whether the graph has no nodes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The operation called `name`.
    pub fn operation(&self, name: &str) -> Result<Operation> {
        let found = self.build(|builder| builder.graph().find(name));
        let id = found.ok_or_else(|| {
            Status::not_found(format!(
                "The name '{name}' refers to an Operation, but there is no operation of that name in the graph."
            ))
        })?;
        Ok(Operation::new(self, Ok(id)))
    }

    /// The output called `NODE:SLOT`, or the first output of `NODE`.
    pub fn output(&self, name: &str) -> Result<Output> {
        let (node, slot) = parse_endpoint(name)?;
        self.operation(node)?.output(slot).check()
    }

    /// Any op of the catalogue.
    ///
    /// ```
    /// # use tensorfleet::Graph;
    /// let g = Graph::new();
    /// let x = g.constant([[1.0f32, 2.0], [3.0, 4.0]]);
    /// let gram = g.op("MatMul").input(&x).input(&x).attr("transpose_b", true).name("gram").output()?;
    /// assert_eq!(gram.name(), "gram:0");
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn op(&self, op: &str) -> OpBuilder {
        OpBuilder::new(self, NewNode::new(op))
    }

    /// Puts `name/` before the names of the nodes built in `body`. A name that is taken gets a suffix; one that
    /// ends in `/` enters that scope again; an empty one leads back to the root.
    ///
    /// ```
    /// # use tensorfleet::Graph;
    /// let g = Graph::new();
    /// let x = g.name_scope("layer", || g.constant_named("x", 1.0f32));
    /// let y = g.name_scope("layer", || g.constant_named("x", 2.0f32));
    /// assert_eq!((x.name().as_str(), y.name().as_str()), ("layer/x:0", "layer_1/x:0"));
    /// ```
    pub fn name_scope<R>(&self, name: &str, body: impl FnOnce() -> R) -> R {
        self.scoped(
            |builder| {
                if let Err(status) = builder.enter_name_scope(name) {
                    builder.enter_invalid(status);
                }
            },
            body,
        )
    }

    /// Places the nodes built in `body`. Scopes nest: the inner one wins in what it names, the outer one fills the
    /// rest; `None` forgets all around. A [`DeviceScope::by`] chooses for each node; it must not use the graph.
    ///
    /// ```
    /// # use tensorfleet::Graph;
    /// let g = Graph::new();
    /// let c = g.device("/job:worker", || g.device("/task:1", || g.constant(1.0f32)));
    /// assert_eq!(c.device(), "/job:worker/task:1");
    /// ```
    pub fn device<R>(&self, device: impl Into<DeviceScope>, body: impl FnOnce() -> R) -> R {
        let device = device.into();
        self.scoped(|builder| builder.enter_device(device), body)
    }

    /// Places each node built in `body` where `choose` says. It sees the node with the device that the scopes further
    /// inside ask for; its answer replaces that, and the scopes further outside fill what it leaves open. It must not
    /// use the graph.
    ///
    /// ```
    /// # use tensorfleet::Graph;
    /// let g = Graph::new();
    /// let by_op = |node: &tensorfleet::Node| match &*node.op {
    ///     "MatMul" => "/gpu:0".to_string(),
    ///     _ => node.device.to_string(),
    /// };
    /// let x = g.device("/job:worker", || g.device_fn(by_op, || g.constant([[1.0f32]]).matmul([[2.0f32]])));
    /// assert_eq!(x?.device(), "/job:worker/device:GPU:0");
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn device_fn<R>(
        &self,
        choose: impl Fn(&Node) -> String + Send + Sync + 'static,
        body: impl FnOnce() -> R,
    ) -> R {
        self.device(DeviceScope::by(move |node| choose(node).parse()), body)
    }

    /// Makes the nodes built in `body` run after `before`.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session};
    /// let g = Graph::new();
    /// let count = g.variable("count", 0i32);
    /// let increment = count.assign_add(1)?;
    /// // Each run that reads this counts.
    /// let answer = g.control_dependencies([&increment], || g.constant(42).identity())?;
    /// let session = Session::new(&g);
    /// session.run(count.initializer())?;
    /// session.run(&answer)?;
    /// session.run(&answer)?;
    /// assert_eq!(session.run(&count)?.to_scalar::<i32>()?, 2);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn control_dependencies<R>(
        &self,
        before: impl IntoIterator<Item: Into<Operation>>,
        body: impl FnOnce() -> R,
    ) -> R {
        let nodes: Result<Vec<NodeId>> =
            before.into_iter().map(|operation| operation.into().node_in(self)).collect();
        let enter = |builder: &mut GraphBuilder| match nodes {
            Ok(nodes) => builder.enter_control_dependencies(nodes),
            Err(status) => builder.enter_invalid(status),
        };
        self.scoped(enter, body)
    }

    /// Forgets, for the nodes built in `body`, all control dependencies, branches and loops around.
    pub fn without_dependencies<R>(&self, body: impl FnOnce() -> R) -> R {
        self.scoped(GraphBuilder::enter_outside, body)
    }

    /// Places the nodes built in `body` where `operation` is.
    ///
    /// ```
    /// # use tensorfleet::Graph;
    /// let g = Graph::new();
    /// let v = g.device("/job:ps/task:1", || g.variable("v", 1.0f32));
    /// let doubled = g.device("/job:worker", || g.colocate_with(&v, || &v * 2.0));
    /// assert_eq!(doubled.device(), "/job:ps/task:1");
    /// ```
    pub fn colocate_with<R>(&self, operation: impl Into<Operation>, body: impl FnOnce() -> R) -> R {
        let node = operation.into().node_in(self);
        let enter = |builder: &mut GraphBuilder| match node {
            Ok(node) => builder.enter_colocation(node),
            Err(status) => builder.enter_invalid(status),
        };
        self.scoped(enter, body)
    }

    /// All variables, in the order they were made; those of [`crate::VariableBuilder::local`] are not among them.
    pub fn global_variables(&self) -> Vec<Variable> {
        self.variables(|collections| &collections.global)
    }

    /// The variables that training changes.
    pub fn trainable_variables(&self) -> Vec<Variable> {
        self.variables(|collections| &collections.trainable)
    }

    /// The variables that belong to one process and are not saved.
    pub fn local_variables(&self) -> Vec<Variable> {
        self.variables(|collections| &collections.local)
    }

    fn variables(&self, which: impl FnOnce(&Collections) -> &Vec<crate::variables::Parts>) -> Vec<Variable> {
        let parts = which(&self.0.state.lock().collections).clone();
        parts.into_iter().map(|parts| Variable::new(self, Ok(parts))).collect()
    }

    /// An operation, named `init`, that initialises all global variables.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session};
    /// let g = Graph::new();
    /// let (a, b) = (g.variable("a", 1.0f32), g.variable("b", 2.0f32));
    /// let session = Session::new(&g);
    /// session.run(g.global_variables_initializer()?)?;
    /// assert_eq!(session.run(&a + &b)?.to_scalar::<f32>()?, 3.0);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn global_variables_initializer(&self) -> Result<Operation> {
        self.group_named("init", self.global_variables().iter().map(Variable::initializer))
    }

    /// An operation, named `init`, that initialises all local variables.
    pub fn local_variables_initializer(&self) -> Result<Operation> {
        self.group_named("init", self.local_variables().iter().map(Variable::initializer))
    }

    /// Adds an output to the collection called `key`, such as `summaries` or `losses`: where one part of a program
    /// leaves what another will look for.
    ///
    /// ```
    /// # use tensorfleet::Graph;
    /// let g = Graph::new();
    /// g.add_to_collection("losses", &g.constant(1.0f32))?;
    /// assert_eq!(g.collection("losses")[0].name(), "Const:0");
    /// assert!(g.collection("summaries").is_empty());
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn add_to_collection(&self, key: &str, output: &Output) -> Result<()> {
        let endpoint = output.endpoint_in(self)?;
        self.0.state.lock().gathered.entry(key.to_string()).or_default().push(endpoint);
        Ok(())
    }

    /// The outputs of a collection, in the order they were added.
    pub fn collection(&self, key: &str) -> Vec<Output> {
        let endpoints = self.0.state.lock().gathered.get(key).cloned().unwrap_or_default();
        endpoints.into_iter().map(|endpoint| self.output_at(endpoint)).collect()
    }

    /// Makes the random numbers of ops built from now on the same in every program: each op's seed follows from this
    /// one and from the number of nodes before it, as in TensorFlow.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session};
    /// let draw = || -> tensorfleet::Result<_> {
    ///     let g = Graph::new();
    ///     g.set_random_seed(7);
    ///     Session::new(&g).run(g.random_uniform([3], 0.0, 1.0)?)
    /// };
    /// assert_eq!(draw()?.as_slice::<f32>()?, draw()?.as_slice::<f32>()?);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn set_random_seed(&self, seed: i64) {
        self.0.state.lock().random_seed = Some(seed);
    }

    /// The seeds of a random op that is built now; zeros mean other numbers in each session.
    pub(crate) fn seeds(&self) -> (i64, i64) {
        self.seeds_for(None)
    }

    /// The seeds of a random op that has a seed of its own.
    pub(crate) fn seeds_for(&self, own: Option<i64>) -> (i64, i64) {
        let state = self.0.state.lock();
        let pair = match (state.random_seed, own) {
            (Some(seed), Some(own)) => (seed, own),
            (Some(seed), None) => (seed, state.builder.graph().len() as i64),
            (None, Some(own)) => (DEFAULT_GRAPH_SEED, own),
            (None, None) => return (0, 0),
        };
        match pair {
            (0, 0) => (0, i64::from(i32::MAX)),
            other => other,
        }
    }

    /// Whether both handles are the same graph.
    pub fn is_same(&self, other: &Graph) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// What tells this graph from others while a handle of it exists.
    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }

    /// Works on the graph itself, with the scopes of this thread: for front ends and gradients that need more than
    /// this crate's methods. `work` must not use this or any other handle of the graph.
    pub fn build<R>(&self, work: impl FnOnce(&mut GraphBuilder) -> R) -> R {
        let mut state = self.0.state.lock();
        let result = work(InOwnScopes::enter(&mut state).builder());
        self.0.complete_len.store(state.builder.complete_len(), Ordering::Release);
        result
    }

    /// Runs `body` inside the scope that `enter` enters; leaves it even if `body` panics.
    pub(crate) fn scoped<R>(&self, enter: impl FnOnce(&mut GraphBuilder), body: impl FnOnce() -> R) -> R {
        struct Leave<'a>(&'a Graph, usize);
        impl Drop for Leave<'_> {
            fn drop(&mut self) {
                self.0.build(|builder| builder.leave(self.1));
            }
        }
        let depth = self.build(|builder| {
            let depth = builder.depth();
            enter(builder);
            depth
        });
        let _leave = Leave(self, depth);
        body()
    }

    /// The prefix of names of nodes built now, without a slash at its end.
    pub(crate) fn current_name_scope(&self) -> String {
        self.build(|builder| builder.name_scope().to_string())
    }

    pub(crate) fn variable_store<R>(&self, work: impl FnOnce(&mut VariableStore) -> R) -> R {
        work(&mut self.0.state.lock().variable_store)
    }

    pub(crate) fn collect<R>(&self, work: impl FnOnce(&mut Collections) -> R) -> R {
        work(&mut self.0.state.lock().collections)
    }

    pub(crate) fn complete_len(&self) -> usize {
        self.0.complete_len.load(Ordering::Acquire)
    }

    /// An output of this graph, with its type.
    pub(crate) fn output_at(&self, endpoint: Endpoint) -> Output {
        Output::new(self, self.build(|builder| Ok((endpoint, builder.edge_type(endpoint)?))))
    }

    /// Adds a node and gives its first output.
    pub(crate) fn emit(&self, node: NewNode) -> Result<Output> {
        self.build(|builder| {
            let endpoint = builder.emit(node)?;
            let edge = builder.edge_type(endpoint)?;
            Ok(Output::new(self, Ok((endpoint, edge))))
        })
    }
}

/// Gives the builder the scopes of this thread, and takes them back even if the work with it panics.
struct InOwnScopes<'a> {
    state: &'a mut State,
    thread: ThreadId,
    /// The thread's scopes before and after; those of no thread in between.
    scopes: Scopes,
}

impl<'a> InOwnScopes<'a> {
    fn enter(state: &'a mut State) -> InOwnScopes<'a> {
        let thread = std::thread::current().id();
        let mut scopes = state.scopes.remove(&thread).unwrap_or_default();
        state.builder.swap_scopes(&mut scopes);
        InOwnScopes { state, thread, scopes }
    }

    fn builder(&mut self) -> &mut GraphBuilder {
        &mut self.state.builder
    }
}

impl Drop for InOwnScopes<'_> {
    fn drop(&mut self) {
        self.state.builder.swap_scopes(&mut self.scopes);
        if !self.scopes.is_empty() {
            self.state.scopes.insert(self.thread, std::mem::take(&mut self.scopes));
        }
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Graph({} nodes)", self.len())
    }
}
