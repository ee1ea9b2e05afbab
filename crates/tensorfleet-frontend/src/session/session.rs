//! [`Session`]: runs parts of a graph.
//!
//! A run is identified by the ids of what is fed, fetched and run; for each such signature the session keeps the
//! prepared call, so that a repeated run builds no strings and takes no lock on the graph.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use tensorfleet_cluster::RemoteSession;
use tensorfleet_core::{DType, Endpoint, NodeId, PartialShape, Result, Status, Tensor, ensure};
use tensorfleet_kernel::builder::{GraphBuilder, adapt_literal, python_name};
use tensorfleet_proto::tensorflow::{DeviceAttributes, RunMetadata};
use tensorfleet_runtime::{DirectSession, RunOptions, Task};

use super::backend::{Backend, PreparedCall, Trace};
use super::fetch::{Fetch, Request, Results};
use super::session_options::SessionOptions;
use crate::graph::{Adapts, Graph, IntoTensor, Output};

/// Signatures kept per session; a program that never repeats one must not exhaust memory.
const MAX_PREPARED: usize = 4096;

/// Runs parts of a graph, from any number of threads at once.
///
/// The graph may grow between runs. Errors of a run leave the session as it was.
///
/// ```
/// use tensorfleet::{DType, Graph, Session};
///
/// let g = Graph::new();
/// let x = g.placeholder(DType::Float, [-1]);
/// let w = g.variable("w", 3.0f32);
/// let (y, total) = (&x * &w, (&x * &w).reduce_sum(..)?);
///
/// let session = Session::new(&g);
/// session.run(g.global_variables_initializer()?)?;
/// let (y, total) = session.feed(&x, [1.0, 2.0]).run((&y, &total))?;
/// assert_eq!(y.as_slice::<f32>()?, [3.0, 6.0]);
/// assert_eq!(total.to_scalar::<f32>()?, 9.0);
/// # Ok::<(), tensorfleet::Status>(())
/// ```
pub struct Session {
    graph: Graph,
    backend: Backend,
    /// How many nodes of the graph the backend has.
    extended: AtomicUsize,
    extending: Mutex<()>,
    prepared: RwLock<FxHashMap<Box<[u64]>, Arc<Prepared>>>,
}

/// A signature, ready to run.
struct Prepared {
    /// `None` if there is nothing to run: nothing is asked for, or only what is fed.
    call: Option<PreparedCall>,
    feeds: Vec<Feed>,
    /// Where each fetch comes from; empty if they are the results, in order.
    sources: Vec<Source>,
}

/// Where a fetched tensor comes from: a fed one needs no run, and a repeated one is computed once.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Result(usize),
    Feed(usize),
}

pub(crate) struct Feed {
    name: String,
    dtype: DType,
    shape: PartialShape,
}

type Key = SmallVec<[u64; 16]>;

impl Session {
    /// A session in this process, with variables of its own.
    pub fn new(graph: &Graph) -> Session {
        Session::on_task(Task::local(), graph, SessionOptions::default())
    }

    /// A session on `target`: `grpc://host:port` is a server of a cluster, `""` this process. Sessions on a cluster
    /// share variables by name.
    ///
    /// ```
    /// use tensorfleet::{Graph, Server, Session};
    ///
    /// let server = Server::local()?;
    /// let g = Graph::new();
    /// let v = g.variable("v", 2.0f32);
    /// let session = Session::connect(&server.target(), &g)?;
    /// session.run(v.initializer())?;
    /// let another = Session::connect(&server.target(), &g)?;
    /// assert_eq!(another.run(&v * 3.0)?.to_scalar::<f32>()?, 6.0);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn connect(target: &str, graph: &Graph) -> Result<Session> {
        Session::connect_with(target, graph, SessionOptions::default())
    }

    /// A session on `target`, with options. Waits for a server that is not there yet, says so every few seconds, and
    /// gives up after [`SessionOptions::connect_timeout`].
    pub fn connect_with(target: &str, graph: &Graph, options: SessionOptions) -> Result<Session> {
        if target.is_empty() {
            return Ok(Session::on_task(Task::local_on(options.threads()?), graph, options));
        }
        let (len, def) = graph.build(|builder| {
            let len = builder.complete_len();
            (len, builder.export(0, len))
        });
        let remote = RemoteSession::create(target, def, options.for_server())?;
        Ok(Session::over(Backend::Remote(remote), graph, len))
    }

    /// A session on a task of this process. Sessions on the same task share variables by name, and its threads.
    pub fn on_task(task: Arc<Task>, graph: &Graph, options: SessionOptions) -> Session {
        let direct = DirectSession::new(task, options.for_this_process());
        Session::over(Backend::Direct(direct), graph, 0)
    }

    fn over(backend: Backend, graph: &Graph, extended: usize) -> Session {
        Session {
            graph: graph.clone(),
            backend,
            extended: AtomicUsize::new(extended),
            extending: Mutex::new(()),
            prepared: RwLock::default(),
        }
    }

    /// Clears containers of variables and queues (the default one if none is named) on all tasks that the server at
    /// `target` knows, and ends its sessions: what a program left behind no longer meets the next one.
    pub fn reset(target: &str, containers: &[&str]) -> Result<()> {
        ensure!(
            !target.is_empty(),
            InvalidArgument,
            "there is nothing to reset in this process: a session here has variables of its own, which go with it"
        );
        tensorfleet_cluster::reset(target, containers, &[], SessionOptions::default().connect_timeout)
    }

    pub(crate) fn backend(&self) -> &Backend {
        &self.backend
    }

    /// The graph it runs.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Runs what `fetch` needs, and gives its values: a [`Tensor`] for an [`Output`] or
    /// [`Variable`](crate::Variable), `()` for an [`Operation`](crate::Operation), a tuple, array or `Vec` for several.
    pub fn run<F: Fetch>(&self, fetch: F) -> Result<F::Value> {
        self.step().run(fetch)
    }

    /// A run with `value` in place of `output`, be it a placeholder or any other value. More can be fed before the
    /// [`Step`] is run.
    pub fn feed(&self, output: &Output, value: impl IntoTensor) -> Step<'_> {
        self.step().feed(output, value)
    }

    /// A run with nothing fed yet.
    pub fn step(&self) -> Step<'_> {
        Step {
            session: self,
            feeds: SmallVec::new(),
            options: RunOptions::default(),
            number: None,
            error: None,
        }
    }

    /// A run by the numbers of nodes, for front ends of other languages: gives the fetches in order, and a record of the run if it
    /// is traced.
    pub fn run_endpoints(
        &self,
        feeds: Vec<(Endpoint, Tensor)>,
        fetches: &[Endpoint],
        targets: &[NodeId],
        options: &RunOptions,
        is_traced: bool,
    ) -> Result<(Vec<Tensor>, RunMetadata)> {
        let wanted = Wanted { fetches, targets };
        let (endpoints, tensors): (SmallVec<[Endpoint; 4]>, Vec<Tensor>) = feeds.into_iter().unzip();
        let mut request = Request::new(&self.graph);
        wanted.request(&mut request)?;
        let trace = if is_traced { Trace::Full } else { Trace::Off };
        self.lookup(&endpoints, &request)?.run(&wanted, tensors, options, trace, None)
    }

    /// Prepares a run that will be repeated: its calls need not look it up.
    ///
    /// ```
    /// # use tensorfleet::{DType, Graph, Session};
    /// let g = Graph::new();
    /// let x = g.placeholder(DType::Int32, ());
    /// let double = Session::new(&g).prepare(&[&x], &x * 2)?;
    /// assert_eq!(double.run([21])?.to_scalar::<i32>()?, 42);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn prepare<F: Fetch>(&self, feeds: &[&Output], fetch: F) -> Result<PreparedRun<F>> {
        let mut request = Request::new(&self.graph);
        fetch.request(&mut request)?;
        let feeds: SmallVec<[Endpoint; 4]> =
            feeds.iter().map(|output| output.endpoint_in(&self.graph)).collect::<Result<_>>()?;
        Ok(PreparedRun { prepared: self.lookup(&feeds, &request)?, fetch })
    }

    /// Ends the session. Running steps are cancelled, later ones refused.
    pub fn close(&self) -> Result<()> {
        let closed = self.backend.close();
        self.prepared.write().clear();
        closed
    }

    /// The devices that nodes can be placed on.
    pub fn list_devices(&self) -> Result<Vec<DeviceAttributes>> {
        self.backend.list_devices()
    }

    /// The prepared call for a signature, made now if it is new.
    fn lookup(&self, feeds: &[Endpoint], request: &Request<'_>) -> Result<Arc<Prepared>> {
        let key = key_of(feeds, &request.fetches, &request.targets);
        if let Some(prepared) = self.prepared.read().get(&key[..]) {
            return Ok(prepared.clone());
        }
        self.extend_to_graph()?;
        let prepared = Arc::new(self.prepare_signature(feeds, request)?);
        let mut all = self.prepared.write();
        if all.len() >= MAX_PREPARED {
            all.clear();
        }
        all.insert(key.into_boxed_slice(), prepared.clone());
        Ok(prepared)
    }

    /// Gives the backend the nodes that were added since the last time. Nodes never change, so what is prepared
    /// stays valid.
    pub(crate) fn extend_to_graph(&self) -> Result<()> {
        if self.extended.load(Ordering::Acquire) >= self.graph.complete_len() {
            return Ok(());
        }
        let _one_at_a_time = self.extending.lock();
        let start = self.extended.load(Ordering::Acquire);
        let (end, def) = self.graph.build(|builder| {
            let end = builder.complete_len();
            (end, (end > start).then(|| builder.export(start, end)))
        });
        if let Some(def) = def {
            self.backend.extend(def)?;
            self.extended.store(end, Ordering::Release);
        }
        Ok(())
    }

    fn prepare_signature(&self, feeds: &[Endpoint], request: &Request<'_>) -> Result<Prepared> {
        let extended = self.extended.load(Ordering::Acquire);
        let mut distinct: Vec<Endpoint> = Vec::with_capacity(request.fetches.len());
        let mut seen: FxHashMap<Endpoint, Source> =
            feeds.iter().enumerate().map(|(index, &feed)| (feed, Source::Feed(index))).collect();
        let mut sources = Vec::with_capacity(request.fetches.len());
        for &fetch in &request.fetches {
            sources.push(*seen.entry(fetch).or_insert_with(|| {
                distinct.push(fetch);
                Source::Result(distinct.len() - 1)
            }));
        }
        let (feeds, fetches, targets) = self.graph.build(|builder| -> Result<_> {
            let feeds: Vec<Feed> =
                feeds.iter().map(|&endpoint| Feed::of(builder, endpoint)).collect::<Result<_>>()?;
            for endpoint in &distinct {
                check_fetchable(builder, endpoint.node, extended)?;
            }
            let fetches: Vec<String> =
                distinct.iter().map(|&endpoint| tensor_name(builder, endpoint)).collect();
            let mut targets = Vec::with_capacity(request.targets.len());
            for &target in &request.targets {
                check_fetchable(builder, target, extended)?;
                let name = builder.node(target).name.to_string();
                if !targets.contains(&name) {
                    targets.push(name);
                }
            }
            Ok((feeds, fetches, targets))
        })?;
        let feed_names: Vec<&str> = feeds.iter().map(|feed| feed.name.as_str()).collect();
        let fetch_names: Vec<&str> = fetches.iter().map(String::as_str).collect();
        let target_names: Vec<&str> = targets.iter().map(String::as_str).collect();
        let call = match fetch_names.is_empty() && target_names.is_empty() {
            true => None,
            false => Some(self.backend.prepare(&feed_names, &fetch_names, &target_names)?),
        };
        if sources.iter().enumerate().all(|(index, &source)| source == Source::Result(index)) {
            sources.clear();
        }
        Ok(Prepared { call, feeds, sources })
    }
}

/// Nodes by their numbers.
struct Wanted<'a> {
    fetches: &'a [Endpoint],
    targets: &'a [NodeId],
}

impl Fetch for Wanted<'_> {
    type Value = Vec<Tensor>;

    fn request(&self, request: &mut Request<'_>) -> Result<()> {
        request.fetches.extend_from_slice(self.fetches);
        request.targets.extend_from_slice(self.targets);
        Ok(())
    }

    fn take(&self, results: &mut Results) -> Result<Vec<Tensor>> {
        self.fetches.iter().map(|_| results.next_tensor()).collect()
    }
}

fn key_of(feeds: &[Endpoint], fetches: &[Endpoint], targets: &[NodeId]) -> Key {
    let number = |endpoint: &Endpoint| (endpoint.node.index() as u64) << 32 | u64::from(endpoint.slot);
    let mut key = Key::new();
    key.push((feeds.len() as u64) << 32 | fetches.len() as u64);
    key.extend(feeds.iter().map(number));
    key.extend(fetches.iter().map(number));
    key.extend(targets.iter().map(|target| target.index() as u64));
    key
}

pub(crate) fn tensor_name(builder: &GraphBuilder, endpoint: Endpoint) -> String {
    format!("{}:{}", builder.node(endpoint.node).name, endpoint.slot)
}

fn check_fetchable(builder: &GraphBuilder, node: NodeId, extended: usize) -> Result<()> {
    let name = &builder.node(node).name;
    ensure!(
        builder.enclosing_loop(node).is_none(),
        InvalidArgument,
        "Operation '{name}' has been marked as not fetchable: it is inside a while loop"
    );
    ensure!(
        node.index() < extended,
        FailedPrecondition,
        "Operation '{name}' cannot run yet: a while loop that was begun before it is still being built"
    );
    Ok(())
}

impl Feed {
    pub(crate) fn of(builder: &GraphBuilder, endpoint: Endpoint) -> Result<Feed> {
        let facts = builder.facts(endpoint)?;
        let name = tensor_name(builder, endpoint);
        Ok(Feed { name, dtype: facts.edge.dtype, shape: facts.shape.clone() })
    }

    pub(crate) fn check(&self, value: &Tensor) -> Result<()> {
        ensure!(
            value.dtype() == self.dtype,
            InvalidArgument,
            "Cannot feed value of type {} for Tensor '{}', which has type {}",
            python_name(value.dtype()),
            self.name,
            python_name(self.dtype)
        );
        ensure!(
            self.shape.admits(value.shape()),
            InvalidArgument,
            "Cannot feed value of shape {} for Tensor '{}', which has shape '{}'",
            value.shape(),
            self.name,
            self.shape
        );
        Ok(())
    }
}

impl Prepared {
    fn run<F: Fetch>(
        &self,
        fetch: &F,
        feeds: Vec<Tensor>,
        options: &RunOptions,
        trace: Trace,
        number: Option<u64>,
    ) -> Result<(F::Value, RunMetadata)> {
        for (feed, value) in self.feeds.iter().zip(&feeds) {
            feed.check(value)?;
        }
        let run = |feeds| match &self.call {
            Some(call) => call.run(feeds, options, trace, number),
            None => Ok(Default::default()),
        };
        if self.sources.is_empty() {
            let (results, metadata) = run(feeds)?;
            return Ok((fetch.take(&mut Results::new(results))?, metadata));
        }
        let fed = feeds.clone();
        let (results, metadata) = run(feeds)?;
        let pick = |source: &Source| {
            let tensor = match *source {
                Source::Result(index) => results.get(index),
                Source::Feed(index) => fed.get(index),
            };
            tensor.cloned().ok_or_else(|| Status::internal("a run gave fewer tensors than were asked for"))
        };
        let tensors = self.sources.iter().map(pick).collect::<Result<_>>()?;
        Ok((fetch.take(&mut Results::new(tensors))?, metadata))
    }
}

/// A run about to start: what is fed, and how. [`Session::feed`] and [`Session::step`] begin one.
///
/// ```
/// # use tensorfleet::{DType, Graph, Session};
/// use std::time::Duration;
///
/// let g = Graph::new();
/// let x = g.placeholder(DType::Float, ());
/// let y = &x * 3.0;
/// let session = Session::new(&g);
/// let (value, record) = session.feed(&x, 2.0).timeout(Duration::from_secs(60)).run_traced(&y)?;
/// assert_eq!(value.to_scalar::<f32>()?, 6.0);
/// assert!(record.step_stats.is_some());
/// # Ok::<(), tensorfleet::Status>(())
/// ```
#[must_use = "nothing runs before `run`"]
pub struct Step<'a> {
    session: &'a Session,
    feeds: SmallVec<[(Endpoint, Tensor); 4]>,
    options: RunOptions,
    number: Option<u64>,
    /// The first thing that went wrong, reported by `run`.
    error: Option<Status>,
}

impl Step<'_> {
    /// Feeds `value` in place of `output`. A literal takes the dtype of the output.
    pub fn feed(mut self, output: &Output, value: impl IntoTensor) -> Self {
        let feed = || -> Result<(Endpoint, Tensor)> {
            Ok((output.endpoint_in(&self.session.graph)?, output.adapted(value)?))
        };
        match feed() {
            Ok(feed) => self.feeds.push(feed),
            Err(status) => self.error = self.error.or(Some(status)),
        }
        self
    }

    /// Gives up after this time with `DeadlineExceeded`.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Some(timeout);
        self
    }

    /// Gives the run a number among those of the session's client ([`SessionOptions::client`]): repeated with the same one, in the
    /// same or in another session of the client, it writes no variable twice. A client's numbers grow from run to run.
    pub(crate) fn number(mut self, number: u64) -> Self {
        self.number = Some(number);
        self
    }

    /// Runs what `fetch` needs, and gives its values.
    pub fn run<F: Fetch>(self, fetch: F) -> Result<F::Value> {
        self.run_as(fetch, Trace::Off).map(|(value, _)| value)
    }

    /// Like [`Step::run`], with a record of the run: which node ran when, on which device, for how long. From a server
    /// comes the graph of each task as well.
    pub fn run_traced<F: Fetch>(self, fetch: F) -> Result<(F::Value, RunMetadata)> {
        self.run_as(fetch, Trace::Full)
    }

    fn run_as<F: Fetch>(self, fetch: F, trace: Trace) -> Result<(F::Value, RunMetadata)> {
        if let Some(status) = self.error {
            return Err(status);
        }
        let mut request = Request::new(&self.session.graph);
        fetch.request(&mut request)?;
        let endpoints: SmallVec<[Endpoint; 4]> = self.feeds.iter().map(|(endpoint, _)| *endpoint).collect();
        let prepared = self.session.lookup(&endpoints, &request)?;
        let tensors = self.feeds.into_iter().map(|(_, tensor)| tensor).collect();
        prepared.run(&fetch, tensors, &self.options, trace, self.number)
    }
}

/// A prepared run; see [`Session::prepare`].
pub struct PreparedRun<F> {
    prepared: Arc<Prepared>,
    fetch: F,
}

impl<F: Fetch> PreparedRun<F> {
    /// Runs with one value for each feed, in order.
    pub fn run<T: IntoTensor>(&self, feeds: impl IntoIterator<Item = T>) -> Result<F::Value> {
        self.run_with(feeds, &RunOptions::default())
    }

    /// Runs with options.
    pub fn run_with<T: IntoTensor>(
        &self,
        feeds: impl IntoIterator<Item = T>,
        options: &RunOptions,
    ) -> Result<F::Value> {
        let mut tensors = Vec::with_capacity(self.prepared.feeds.len());
        for (index, value) in feeds.into_iter().enumerate() {
            let (tensor, adapts) = value.into_tensor();
            let tensor = tensor?;
            let dtype = self.prepared.feeds.get(index).map(|feed| feed.dtype);
            let adapted = match (adapts, dtype) {
                (Adapts::Yes, Some(dtype)) => adapt_literal(&tensor, dtype),
                _ => None,
            };
            tensors.push(adapted.unwrap_or(tensor));
        }
        let (value, _) = self.prepared.run(&self.fetch, tensors, options, Trace::Off, None)?;
        Ok(value)
    }
}
