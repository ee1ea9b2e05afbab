//! [`DirectSession`]: a graph on a task of this process, and runs of parts of it.
//!
//! A run is looked up by its signature (feeds, fetches, targets). The first time it is planned: pruned, compiled, its
//! kernels made. After that a run is: find the plan, check the feeds, start a [`Step`], wait.
//!
//! Kernels belong to the session and are shared by its plans, so that the state some of them have (a random stream, a
//! private queue) is one per node, not one per plan.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, RwLock};
use rustc_hash::{FxHashMap, FxHasher};
use tensorfleet_core::{Code, DType, GraphLimits, Result, Status, Tensor, ensure};
use tensorfleet_kernel::NodeSpec;
use tensorfleet_kernel::cancellation::Cancellation;
use tensorfleet_kernel::kernel::StepContext;
use tensorfleet_kernel::resource::ResourceManager;
use tensorfleet_proto::tensorflow::{DeviceAttributes, GraphDef, RunMetadata, StepStats};

use crate::checked_graph::CheckedGraph;
use crate::completion::Completion;
use crate::executor::{Caller, Executable, Step, Trace};
use crate::kernels::Kernels;
use crate::plan::{self, Device, PlaceOptions, Signature};
use crate::rendezvous::LocalRendezvous;
use crate::task::Task;

/// Plans kept per session. A client that never repeats a signature must not exhaust memory.
const MAX_PLANS: usize = 4096;

/// How a session behaves; the fields have the names they have in TensorFlow's `ConfigProto`.
#[derive(Clone, Debug, Default)]
pub struct SessionOptions {
    /// Lets nodes that ask for a missing device run on one that exists.
    pub allow_soft_placement: bool,
    /// Time-out of runs that do not give their own.
    pub operation_timeout: Option<Duration>,
    /// Bounds on the graph.
    pub graph_limits: GraphLimits,
}

/// How one run behaves.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// Gives up after this time with `DeadlineExceeded`; `None` waits for ever.
    pub timeout: Option<Duration>,
}

/// A session on a task of this process.
pub struct DirectSession {
    inner: Arc<Inner>,
}

struct Inner {
    task: Arc<Task>,
    options: SessionOptions,
    graph: RwLock<SessionGraph>,
    plans: RwLock<FxHashMap<u64, Vec<Arc<Plan>>>>,
    kernels: Kernels,
    running: Mutex<Running>,
    all_ended: Condvar,
}

struct SessionGraph {
    checked: CheckedGraph,
    /// Whether the graph can be placed, once somebody has asked. Reported by every run, as TensorFlow does.
    placement: OnceLock<Result<()>>,
}

/// A signature, planned.
struct Plan {
    signature: Signature,
    executable: Arc<Executable>,
    feed_dtypes: Vec<DType>,
}

#[derive(Default)]
struct Running {
    is_closed: bool,
    steps: FxHashMap<i64, Arc<Cancellation>>,
}

/// A prepared run: the signature is looked up once.
#[derive(Clone)]
pub struct Callable {
    inner: Arc<Inner>,
    plan: Arc<Plan>,
}

impl DirectSession {
    /// A session with an empty graph.
    pub fn new(task: Arc<Task>, options: SessionOptions) -> DirectSession {
        DirectSession {
            inner: Arc::new(Inner {
                graph: RwLock::new(SessionGraph {
                    checked: CheckedGraph::new(task.catalogue()),
                    placement: OnceLock::new(),
                }),
                task,
                options,
                plans: RwLock::default(),
                kernels: Kernels::for_one_graph(),
                running: Mutex::default(),
                all_ended: Condvar::new(),
            }),
        }
    }

    /// Adds nodes to the graph. On an error the graph is unchanged.
    pub fn extend(&self, def: GraphDef) -> Result<()> {
        self.inner.check_open()?;
        let mut graph = self.inner.graph.write();
        graph.checked.extend(def, &self.inner.options.graph_limits)?;
        graph.placement = OnceLock::new();
        Ok(())
    }

    /// Runs what `fetches` and `targets` need, with `feeds` in place of the tensors they name. Returns the fetched
    /// tensors in order.
    pub fn run(
        &self,
        feeds: &[(&str, Tensor)],
        fetches: &[&str],
        targets: &[&str],
        options: &RunOptions,
    ) -> Result<Vec<Tensor>> {
        let feed_names: Vec<&str> = feeds.iter().map(|(name, _)| *name).collect();
        let plan = self.inner.plan(&feed_names, fetches, targets)?;
        let arguments = feeds.iter().map(|(_, tensor)| tensor.clone()).collect();
        self.inner.run(&plan, arguments, options, None)
    }

    /// Prepares a run that will be repeated.
    pub fn make_callable(&self, feeds: &[&str], fetches: &[&str], targets: &[&str]) -> Result<Callable> {
        let plan = self.inner.plan(feeds, fetches, targets)?;
        Ok(Callable { inner: self.inner.clone(), plan })
    }

    /// Ends the session: running steps are cancelled and waited for, later ones refused. Variables stay.
    pub fn close(&self) -> Result<()> {
        let steps: Vec<Arc<Cancellation>> = {
            let mut running = self.inner.running.lock();
            running.is_closed = true;
            running.steps.values().cloned().collect()
        };
        let reason = || Status::cancelled("Step was cancelled by an explicit call to `Session::Close()`.");
        steps.iter().for_each(|step| step.cancel(reason()));
        let mut running = self.inner.running.lock();
        while !running.steps.is_empty() {
            self.inner.all_ended.wait(&mut running);
        }
        drop(running);
        // Resources that belong to kernels, such as private queues, go with them.
        self.inner.plans.write().clear();
        self.inner.kernels.clear();
        Ok(())
    }

    /// The devices nodes can be placed on.
    pub fn list_devices(&self) -> Vec<DeviceAttributes> {
        vec![self.inner.task.device_attributes()]
    }
}

impl Callable {
    /// Runs with one tensor for each feed, and returns the fetched tensors, in the order of `make_callable`.
    pub fn run(&self, feeds: Vec<Tensor>, options: &RunOptions) -> Result<Vec<Tensor>> {
        let (expected, found) = (self.plan.feed_dtypes.len(), feeds.len());
        ensure!(expected == found, InvalidArgument, "the callable takes {expected} feeds, got {found}");
        self.inner.run(&self.plan, feeds, options, None)
    }

    /// Like [`Callable::run`], with a record of which node ran when and for how long.
    pub fn run_traced(&self, feeds: Vec<Tensor>, options: &RunOptions) -> Result<(Vec<Tensor>, RunMetadata)> {
        let (expected, found) = (self.plan.feed_dtypes.len(), feeds.len());
        ensure!(expected == found, InvalidArgument, "the callable takes {expected} feeds, got {found}");
        let trace = Trace::begin();
        let results = self.inner.run(&self.plan, feeds, options, Some(trace.clone()))?;
        let device = trace.to_device_stats(&self.plan.executable, self.inner.task.device_text());
        let step_stats = Some(StepStats { dev_stats: vec![device] });
        Ok((results, RunMetadata { step_stats, ..Default::default() }))
    }
}

impl Inner {
    fn check_open(&self) -> Result<()> {
        ensure!(!self.running.lock().is_closed, Cancelled, "Session has been closed.");
        Ok(())
    }

    /// The plan for a signature, made now if it is new.
    fn plan(&self, feeds: &[&str], fetches: &[&str], targets: &[&str]) -> Result<Arc<Plan>> {
        let mut hasher = FxHasher::default();
        (feeds, fetches, targets).hash(&mut hasher);
        let hash = hasher.finish();
        let is_same = |plan: &&Arc<Plan>| {
            let Signature { feeds: f, fetches: g, targets: t } = &plan.signature;
            f == feeds && g == fetches && t == targets
        };
        if let Some(plan) = self.plans.read().get(&hash).and_then(|plans| plans.iter().find(is_same)) {
            return Ok(plan.clone());
        }
        self.check_open()?;
        let owned = |names: &[&str]| names.iter().map(|name| name.to_string()).collect();
        let signature = Signature { feeds: owned(feeds), fetches: owned(fetches), targets: owned(targets) };
        let plan = Arc::new(self.make_plan(signature)?);
        let mut plans = self.plans.write();
        if plans.len() >= MAX_PLANS {
            plans.clear();
        }
        plans.entry(hash).or_default().push(plan.clone());
        Ok(plan)
    }

    fn make_plan(&self, signature: Signature) -> Result<Plan> {
        let graph = self.graph.read();
        graph.placement.get_or_init(|| self.check_placement(&graph.checked)).clone()?;
        let pruned = plan::prune(&graph.checked, &signature)?;
        let executable = Arc::new(Executable::compile(&pruned, self.task.catalogue(), &self.kernels)?);
        // The arguments stand first in a pruned graph, in order.
        let args = &pruned.nodes()[..signature.feeds.len()];
        let feed_dtypes = args.iter().map(|node| NodeSpec::resolve(node, self.task.catalogue())?.dtype());
        let feed_dtypes = feed_dtypes.collect::<Result<_>>()?;
        Ok(Plan { signature, executable, feed_dtypes })
    }

    fn check_placement(&self, checked: &CheckedGraph) -> Result<()> {
        let device = Device::new(self.task.device().clone(), self.task.incarnation());
        let options = PlaceOptions {
            allow_soft_placement: self.options.allow_soft_placement,
            local_task: device.name.task_name(),
        };
        plan::place(checked, &[device], &[], &options).map(drop)
    }

    fn run(
        &self,
        plan: &Plan,
        arguments: Vec<Tensor>,
        options: &RunOptions,
        trace: Option<Arc<Trace>>,
    ) -> Result<Vec<Tensor>> {
        for ((tensor, &expected), name) in arguments.iter().zip(&plan.feed_dtypes).zip(&plan.signature.feeds)
        {
            ensure!(
                tensor.dtype() == expected,
                InvalidArgument,
                "The value fed for '{name}' is a {} tensor, but the graph expects {expected} there",
                tensor.dtype()
            );
        }
        let results = self.run_step(plan, arguments, options, trace)?;
        let dead = |name: &String| {
            Status::invalid_argument(format!(
                "The tensor returned for {name} was not valid: it is on a branch not taken"
            ))
        };
        let names = &plan.signature.fetches;
        results.into_iter().zip(names).map(|(result, name)| result.ok_or_else(|| dead(name))).collect()
    }

    fn run_step(
        &self,
        plan: &Plan,
        arguments: Vec<Tensor>,
        options: &RunOptions,
        trace: Option<Arc<Trace>>,
    ) -> Result<Vec<Option<Tensor>>> {
        let step_id = self.task.new_step_id();
        let cancellation = Arc::new(Cancellation::new());
        {
            let mut running = self.running.lock();
            ensure!(!running.is_closed, Cancelled, "Session has been closed.");
            running.steps.insert(step_id, cancellation.clone());
        }
        let _registration = Registration { inner: self, step_id };
        let rendezvous = Arc::new(LocalRendezvous::new());
        if plan.executable.has_transfers() {
            let rendezvous = rendezvous.clone();
            // Nobody can have cancelled a step that has not begun.
            let _ = cancellation.register(move |reason| rendezvous.abort(reason.derived()));
        }
        let timeout = options.timeout.or(self.options.operation_timeout);
        let _alarm = timeout.map(|timeout| {
            let cancellation = cancellation.clone();
            self.task.threads().timer().after(timeout, move || {
                let text =
                    format!("Deadline Exceeded: the step did not finish within {} ms", timeout.as_millis());
                cancellation.cancel(Status::new(Code::DeadlineExceeded, text));
            })
        });
        let context = Arc::new(StepContext {
            step_id,
            device: self.task.device_text().clone(),
            resources: self.task.resources().clone(),
            step_resources: ResourceManager::new("step"),
            rendezvous,
            cancellation,
            functions: plan.executable.functions().clone(),
            threads: self.task.threads().clone(),
        });
        let done = Arc::new(Completion::default());
        let on_done = {
            let done = done.clone();
            Box::new(move |result| done.set(result))
        };
        if let Some(step) = Step::new(plan.executable.clone(), context, arguments, trace, on_done) {
            step.run(Caller::Waits);
        }
        done.wait()
    }
}

/// Takes a step off the list of running ones, however its run ends.
struct Registration<'a> {
    inner: &'a Inner,
    step_id: i64,
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        let mut running = self.inner.running.lock();
        running.steps.remove(&self.step_id);
        if running.is_closed && running.steps.is_empty() {
            self.inner.all_ended.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensorfleet_core::attr::IntoAttr;
    use tensorfleet_proto::tensorflow::{AttrValue, NodeDef};

    fn node(name: &str, op: &str, inputs: &[&str], attrs: Vec<(&str, AttrValue)>) -> NodeDef {
        let input = inputs.iter().map(|input| input.to_string()).collect();
        let attr = attrs.into_iter().map(|(key, value)| (key.to_string(), value)).collect();
        NodeDef { name: name.into(), op: op.into(), input, attr, ..Default::default() }
    }

    fn constant(name: &str, value: impl Into<Tensor>) -> NodeDef {
        let value = value.into();
        node(name, "Const", &[], vec![("dtype", value.dtype().into_attr()), ("value", value.into_attr())])
    }

    fn typed(name: &str, op: &str, inputs: &[&str], dtype: DType) -> NodeDef {
        node(name, op, inputs, vec![("T", dtype.into_attr())])
    }

    fn session(nodes: Vec<NodeDef>) -> DirectSession {
        let session = DirectSession::new(Task::local(), SessionOptions::default());
        session.extend(GraphDef { node: nodes, ..Default::default() }).unwrap();
        session
    }

    fn fetch(session: &DirectSession, name: &str) -> Result<Tensor> {
        session.run(&[], &[name], &[], &RunOptions::default()).map(|mut results| results.remove(0))
    }

    #[test]
    fn values_flow_and_any_tensor_can_be_fed() {
        let session = session(vec![
            constant("a", 1i32),
            typed("b", "Identity", &["a"], DType::Int32),
            typed("c", "Identity", &["b", "^a"], DType::Int32),
        ]);
        assert_eq!(fetch(&session, "c:0").unwrap(), Tensor::scalar(1i32));
        let feeds = [("b", Tensor::scalar(5i32))];
        let results = session.run(&feeds, &["c", "a", "c"], &["b:0"], &RunOptions::default()).unwrap();
        assert_eq!(results, [Tensor::scalar(5i32), Tensor::scalar(1i32), Tensor::scalar(5i32)]);
    }

    #[test]
    fn bad_requests_get_tensorflows_codes_and_leave_the_session_usable() {
        let session = session(vec![
            constant("a", 1i32),
            node("p", "Placeholder", &[], vec![("dtype", DType::Float.into_attr())]),
        ]);
        let run = |feeds: &[(&str, Tensor)], fetches: &[&str], targets: &[&str]| {
            session.run(feeds, fetches, targets, &RunOptions::default()).unwrap_err()
        };
        let one = Tensor::scalar(1i32);
        assert_eq!(run(&[], &["x"], &[]).code(), Code::NotFound);
        assert_eq!(run(&[], &[], &["x"]).code(), Code::NotFound);
        assert_eq!(run(&[("x", one.clone())], &["a"], &[]).code(), Code::NotFound);
        assert_eq!(run(&[], &["a:1"], &[]).code(), Code::InvalidArgument);
        assert_eq!(run(&[], &[], &[]).code(), Code::InvalidArgument);
        assert_eq!(run(&[("a", one.clone())], &["a"], &[]).code(), Code::InvalidArgument);
        assert_eq!(
            run(&[("a", one.clone()), ("a:0", one.clone())], &["p"], &[]).code(),
            Code::InvalidArgument
        );
        assert_eq!(run(&[("p", one)], &[], &["p"]).code(), Code::InvalidArgument);
        let unfed = run(&[], &["p"], &[]);
        assert_eq!(unfed.code(), Code::InvalidArgument);
        assert!(unfed.message().contains("placeholder tensor 'p' with dtype float"), "{unfed}");
        assert!(unfed.message().contains("{{node p}}"), "{unfed}");
        assert_eq!(fetch(&session, "a").unwrap(), Tensor::scalar(1i32));
    }

    #[test]
    fn the_branch_not_taken_is_dead() {
        let session = session(vec![
            constant("x", 7i32),
            constant("yes", true),
            typed("switch", "Switch", &["x", "yes"], DType::Int32),
            typed("no_branch", "Identity", &["switch:0"], DType::Int32),
            typed("yes_branch", "Identity", &["switch:1"], DType::Int32),
            node(
                "merge",
                "Merge",
                &["no_branch", "yes_branch"],
                vec![("T", DType::Int32.into_attr()), ("N", 2i64.into_attr())],
            ),
        ]);
        assert_eq!(fetch(&session, "merge:0").unwrap(), Tensor::scalar(7i32));
        assert_eq!(fetch(&session, "merge:1").unwrap(), Tensor::scalar(1i32));
        assert_eq!(fetch(&session, "no_branch").unwrap_err().code(), Code::InvalidArgument);
        let feeds = [("yes", Tensor::scalar(false))];
        let results = session.run(&feeds, &["merge:1"], &[], &RunOptions::default()).unwrap();
        assert_eq!(results, [Tensor::scalar(0i32)]);
    }

    #[test]
    fn sends_meet_receives_and_a_missing_sender_runs_into_the_deadline() {
        let transfer = |name: &str, op: &str, inputs: &[&str], dtype_attr: &str| {
            let attrs = vec![
                (dtype_attr, DType::Int32.into_attr()),
                ("tensor_name", "edge_1_x".into_attr()),
                ("send_device", "/job:a".into_attr()),
                ("recv_device", "/job:b".into_attr()),
                ("send_device_incarnation", (-1i64).into_attr()),
            ];
            node(name, op, inputs, attrs)
        };
        let session = session(vec![
            constant("x", 7i32),
            transfer("send", "_Send", &["x"], "T"),
            transfer("recv", "_Recv", &[], "tensor_type"),
        ]);
        let results = session.run(&[], &["recv"], &["send"], &RunOptions::default()).unwrap();
        assert_eq!(results, [Tensor::scalar(7i32)]);
        let options = RunOptions { timeout: Some(Duration::from_millis(20)) };
        let status = session.run(&[], &["recv"], &[], &options).unwrap_err();
        assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
    }

    #[test]
    fn closing_cancels_a_waiting_step() {
        let attrs = vec![
            ("tensor_type", DType::Int32.into_attr()),
            ("tensor_name", "never".into_attr()),
            ("send_device", "/job:a".into_attr()),
            ("recv_device", "/job:b".into_attr()),
            ("send_device_incarnation", 1i64.into_attr()),
        ];
        let session = Arc::new(session(vec![node("recv", "_Recv", &[], attrs)]));
        let waiting = {
            let session = session.clone();
            std::thread::spawn(move || fetch(&session, "recv").unwrap_err())
        };
        while session.inner.running.lock().steps.is_empty() {
            std::thread::yield_now();
        }
        session.close().unwrap();
        let status = waiting.join().unwrap();
        assert_eq!(status.code(), Code::Cancelled);
        assert!(status.message().contains("Session::Close()"), "{status}");
        assert_eq!(fetch(&session, "recv").unwrap_err().code(), Code::Cancelled);
    }

    #[test]
    fn loops_without_a_switch_and_crossed_frames_are_refused_or_fail_cleanly() {
        let enter = |name: &str, frame: &str| {
            node(
                name,
                "Enter",
                &["x"],
                vec![("T", DType::Int32.into_attr()), ("frame_name", frame.into_attr())],
            )
        };
        let merge = |inputs: &[&str]| {
            node("m", "Merge", inputs, vec![("T", DType::Int32.into_attr()), ("N", 2i64.into_attr())])
        };
        let crossed = session(vec![
            constant("x", 1i32),
            enter("e", "f"),
            node("both", "IdentityN", &["x", "e"], vec![("T", vec![DType::Int32; 2].into_attr())]),
        ]);
        assert_eq!(fetch(&crossed, "both:0").unwrap_err().code(), Code::InvalidArgument);
        let endless = session(vec![
            constant("x", 1i32),
            enter("e", "f"),
            merge(&["e", "n"]),
            typed("n", "NextIteration", &["m"], DType::Int32),
            typed("out", "Exit", &["m"], DType::Int32),
        ]);
        assert_eq!(fetch(&endless, "out").unwrap_err().code(), Code::InvalidArgument);
        let options = RunOptions { timeout: Some(Duration::from_millis(20)) };
        let status = endless.run(&[], &[], &["n"], &options).unwrap_err();
        assert_eq!(status.code(), Code::DeadlineExceeded, "an endless loop ends with its time-out: {status}");
    }
}
