//! [`Graph`]: the handle programs build with.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::ThreadId;

use parking_lot::{ReentrantMutex, ReentrantMutexGuard};
use rustc_hash::FxHashMap;
use tensorfleet_core::{Node, Result};
use tensorfleet_kernel::Catalogue;
use tensorfleet_kernel::builder::{DeviceScope, GraphBuilder, Scopes};
use tensorfleet_proto::tensorflow::GraphDef;
use tensorfleet_runtime::catalogue;

use super::registry::Registry;

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
#[derive(Clone)]
pub struct Graph(Arc<Shared>);

struct Shared {
    catalogue: &'static Catalogue,
    /// Reentrant for [`Graph::lend`]: the thread that lends the builder has the lock.
    state: ReentrantMutex<RefCell<State>>,
    /// [`GraphBuilder::complete_len`], for sessions to look at without the lock.
    complete_len: AtomicUsize,
}

struct State {
    /// `None` while a thread works with it.
    builder: Option<Box<GraphBuilder>>,
    /// Scopes of the threads that are inside one.
    scopes: FxHashMap<ThreadId, Scopes>,
    registry: Registry,
    random_seed: Option<i64>,
}

/// What a program has done that uses a graph inside the work of [`Graph::build`].
const IN_USE: &str = "nobody uses a graph while Graph::build works on it";

impl State {
    fn builder(&self) -> &GraphBuilder {
        self.builder.as_deref().expect(IN_USE)
    }
}

impl Graph {
    /// An empty graph.
    pub fn new() -> Graph {
        let catalogue = catalogue::linked();
        let state = State {
            builder: Some(Box::new(GraphBuilder::new(catalogue))),
            scopes: FxHashMap::default(),
            registry: Registry::default(),
            random_seed: None,
        };
        let state = ReentrantMutex::new(RefCell::new(state));
        Graph(Arc::new(Shared { catalogue, state, complete_len: AtomicUsize::new(0) }))
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

    /// Forgets, for the nodes built in `body`, all control dependencies, branches and loops around.
    pub fn without_dependencies<R>(&self, body: impl FnOnce() -> R) -> R {
        self.scoped(GraphBuilder::enter_outside, body)
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
        self.set_random_seed_or_none(Some(seed));
    }

    /// Sets the graph's part of seeds, or forgets it.
    pub fn set_random_seed_or_none(&self, seed: Option<i64>) {
        self.0.state.lock().borrow_mut().random_seed = seed;
    }

    /// The seeds of a random op that is built now; zeros mean other numbers in each session.
    pub(crate) fn seeds(&self) -> (i64, i64) {
        self.seeds_for(None)
    }

    /// The seeds of a random op that has a seed of its own.
    pub(crate) fn seeds_for(&self, own: Option<i64>) -> (i64, i64) {
        self.seed_pair(own).unwrap_or((0, 0))
    }

    /// The graph's and the op's part of the seed of a random op that is built now; `None` if neither has one.
    pub fn seed_pair(&self, own: Option<i64>) -> Option<(i64, i64)> {
        let state = self.0.state.lock();
        let state = state.borrow();
        let pair = match (state.random_seed, own) {
            (Some(seed), Some(own)) => (seed, own),
            (Some(seed), None) => (seed, state.builder().graph().len() as i64),
            (None, Some(own)) => (DEFAULT_GRAPH_SEED, own),
            (None, None) => return None,
        };
        Some(match pair {
            (0, 0) => (0, i64::from(i32::MAX)),
            other => other,
        })
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
        let mut building = Building::enter(self.0.state.lock());
        let result = work(building.builder());
        self.0.complete_len.store(building.builder().complete_len(), Ordering::Release);
        result
    }

    /// Lets `body` use the graph in the midst of the work of [`Graph::build`], with the scopes that this work has entered: the
    /// gradients that a program defines are built so, while the library differentiates. `builder` is the one that
    /// [`Graph::build`] has given to the work.
    ///
    /// ```
    /// # use tensorfleet::Graph;
    /// let g = Graph::new();
    /// let name = g.build(|builder| {
    ///     builder.enter_name_scope("inside")?;
    ///     let name = g.lend(builder, || g.constant_named("x", 1.0f32).name());
    ///     builder.leave(0);
    ///     Ok::<_, tensorfleet::Status>(name)
    /// })?;
    /// assert_eq!(name, "inside/x:0");
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn lend<R>(&self, builder: &mut GraphBuilder, body: impl FnOnce() -> R) -> R {
        let _back = Lent::lend(self, builder);
        body()
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

    /// Works on what a module keeps with this graph, under a type of its own. `work` must not use the graph.
    pub(crate) fn registry<T: Default + Send + 'static, R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        work(self.0.state.lock().borrow_mut().registry.of())
    }

    /// The ops that its nodes may have.
    pub(crate) fn catalogue(&self) -> &'static Catalogue {
        self.0.catalogue
    }

    pub(crate) fn complete_len(&self) -> usize {
        self.0.complete_len.load(Ordering::Acquire)
    }
}

/// The builder in the hands of a thread, with the scopes of this thread; all goes back even if the work with it panics.
struct Building<'a> {
    state: ReentrantMutexGuard<'a, RefCell<State>>,
    builder: Option<Box<GraphBuilder>>,
    thread: ThreadId,
    /// The thread's scopes before and after; those of no thread in between.
    scopes: Scopes,
}

impl<'a> Building<'a> {
    fn enter(state: ReentrantMutexGuard<'a, RefCell<State>>) -> Building<'a> {
        let thread = std::thread::current().id();
        let (mut builder, mut scopes) = {
            let mut state = state.borrow_mut();
            let builder = state.builder.take().expect(IN_USE);
            (builder, state.scopes.remove(&thread).unwrap_or_default())
        };
        builder.swap_scopes(&mut scopes);
        Building { state, builder: Some(builder), thread, scopes }
    }

    fn builder(&mut self) -> &mut GraphBuilder {
        self.builder.as_deref_mut().expect("it is here until it goes back")
    }
}

impl Drop for Building<'_> {
    fn drop(&mut self) {
        let mut state = self.state.borrow_mut();
        if let Some(mut builder) = self.builder.take() {
            builder.swap_scopes(&mut self.scopes);
            state.builder = Some(builder);
        }
        if !self.scopes.is_empty() {
            state.scopes.insert(self.thread, std::mem::take(&mut self.scopes));
        }
    }
}

/// A builder that its user has lent to the graph; it goes back even if what it is lent for panics.
struct Lent<'a> {
    graph: &'a Graph,
    /// Where it goes back to. An empty one stands there meanwhile.
    user: &'a mut GraphBuilder,
}

impl<'a> Lent<'a> {
    fn lend(graph: &'a Graph, user: &'a mut GraphBuilder) -> Lent<'a> {
        let mut lent = Box::new(GraphBuilder::new(graph.0.catalogue));
        std::mem::swap(&mut *lent, user);
        let mut scopes = Scopes::default();
        lent.swap_scopes(&mut scopes);
        let state = graph.0.state.lock();
        let mut state = state.borrow_mut();
        state.scopes.insert(std::thread::current().id(), scopes);
        state.builder = Some(lent);
        drop(state);
        Lent { graph, user }
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let state = self.graph.0.state.lock();
        let mut state = state.borrow_mut();
        let mut scopes = state.scopes.remove(&std::thread::current().id()).unwrap_or_default();
        if let Some(mut lent) = state.builder.take() {
            lent.swap_scopes(&mut scopes);
            std::mem::swap(&mut *lent, self.user);
        }
    }
}

impl Default for Graph {
    fn default() -> Graph {
        Graph::new()
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Graph({} nodes)", self.len())
    }
}
