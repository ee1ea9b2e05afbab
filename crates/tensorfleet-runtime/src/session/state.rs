//! [`SessionState`]: what a session of this process is, shared by its callables and partial runs.

use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, RwLock};
use tensorfleet_core::{DType, Result, Tensor, interrupt};
use tensorfleet_kernel::cancellation::Cancellation;
use tensorfleet_kernel::kernel::{SessionContext, StepOrigin};
use tensorfleet_kernel::rendezvous::{NoRendezvous, Rendezvous};
use tensorfleet_proto::tensorflow::GraphDef;
use tensorfleet_threads::{Alarm, Completion};

use super::options::{RunOptions, SessionOptions};
use super::running::RunningSteps;
use crate::checked_graph::CheckedGraph;
use crate::executor::{Caller, Trace};
use crate::function_library::compile_partition;
use crate::kernels::Kernels;
use crate::partition::{CompiledPartition, StepServices};
use crate::plan::{self, Device, DeviceIndex, Partition, PlaceOptions, PlanOptions, Signature, Terminals};
use crate::plan_cache::{PlanBounds, PlanCache, plan_bytes};
use crate::rendezvous::LocalRendezvous;
use crate::step_errors::{check_feeds, dead_fetch, deadline_exceeded};
use crate::task::Task;

/// Plans kept per session. A client that never repeats a signature must not exhaust memory.
const PLAN_BOUNDS: PlanBounds = PlanBounds { plans: 4096, bytes: 1 << 30, at_least: 16 };

pub(super) struct SessionState {
    pub(super) task: Arc<Task>,
    options: SessionOptions,
    device: Device,
    graph: RwLock<SessionGraph>,
    plans: PlanCache<Plan>,
    /// Numbers the nodes that planning adds; held while a plan is made.
    next_name: Mutex<u64>,
    pub(super) kernels: Kernels,
    context: Arc<SessionContext>,
    /// For steps that neither send nor receive, which are nearly all.
    no_rendezvous: Arc<dyn Rendezvous>,
    pub(super) running: RunningSteps,
}

struct SessionGraph {
    checked: CheckedGraph,
    /// Where the nodes go, or why they cannot be placed, once somebody has asked. The error is reported by every run, as
    /// TensorFlow does.
    placement: OnceLock<Result<Vec<DeviceIndex>>>,
}

/// A signature, planned.
pub(super) struct Plan {
    signature: Signature,
    pub(super) partition: CompiledPartition,
    feed_dtypes: Vec<DType>,
}

impl SessionState {
    pub(super) fn new(task: Arc<Task>, options: SessionOptions) -> SessionState {
        let device = Device::new(task.device().clone(), task.incarnation());
        let context = Arc::new(SessionContext {
            origin: StepOrigin::unknown(),
            device: device.text.clone(),
            resources: task.resources().clone(),
            threads: task.threads().clone(),
            // Never paused: the session's user is in this process.
            background: Arc::default(),
        });
        SessionState {
            device,
            graph: RwLock::new(SessionGraph {
                checked: CheckedGraph::new(task.catalogue()),
                placement: OnceLock::new(),
            }),
            task,
            options,
            plans: PlanCache::new(PLAN_BOUNDS),
            next_name: Mutex::default(),
            kernels: Kernels::for_one_graph(),
            context,
            no_rendezvous: Arc::new(NoRendezvous),
            running: RunningSteps::default(),
        }
    }

    pub(super) fn extend(&self, def: GraphDef) -> Result<()> {
        self.running.check_open()?;
        let mut graph = self.graph.write();
        graph.checked.extend(def, &self.options.graph_limits)?;
        graph.placement = OnceLock::new();
        Ok(())
    }

    /// The plan for a signature, made now if it is new.
    pub(super) fn plan(&self, feeds: &[&str], fetches: &[&str], targets: &[&str]) -> Result<Arc<Plan>> {
        if let Some(plan) = self.plans.find(feeds, fetches, targets) {
            return Ok(plan);
        }
        let signature = Signature::new(feeds, fetches, targets);
        let options = PlanOptions { simplify: self.options.simplify, terminals: Terminals::Arguments };
        let (partition, feed_dtypes) = self.plan_step(&signature, &options, |_| Ok(()))?.0;
        let bytes = plan_bytes([&partition.graph].into_iter());
        let partition = compile_partition(&partition.graph, self.task.catalogue(), &self.kernels)?;
        let plan = Arc::new(Plan { signature: signature.clone(), partition, feed_dtypes });
        Ok(self.plans.insert(signature, plan, bytes))
    }

    /// Plans a step, and asks the graph that it was planned for something else.
    pub(super) fn plan_step<T>(
        &self,
        signature: &Signature,
        options: &PlanOptions,
        ask: impl FnOnce(&CheckedGraph) -> Result<T>,
    ) -> Result<((Partition, Vec<DType>), T)> {
        self.running.check_open()?;
        let graph = self.graph.read();
        if let Err(status) = graph.placement.get_or_init(|| self.place(&graph.checked)) {
            return Err(status.clone());
        }
        let mut next_name = self.next_name.lock();
        let planned = plan::plan_on(&self.device, &graph.checked, signature, &mut next_name, options)?;
        Ok((planned, ask(&graph.checked)?))
    }

    fn place(&self, checked: &CheckedGraph) -> Result<Vec<DeviceIndex>> {
        let options =
            PlaceOptions { allow_soft_placement: self.options.allow_soft_placement, preferred_task: None };
        let devices = std::slice::from_ref(&self.device);
        let placement = plan::place(checked, devices, &[], &options)?;
        if self.options.log_device_placement {
            plan::print_placement(checked, &placement, devices);
        }
        Ok(placement)
    }

    /// Runs a planned step and waits for it. This is all that a repeated run does.
    pub(super) fn run(
        &self,
        plan: &Plan,
        feeds: Vec<Tensor>,
        options: &RunOptions,
        trace: Option<Arc<Trace>>,
    ) -> Result<Vec<Tensor>> {
        let names = &plan.signature;
        check_feeds(&names.feeds, &plan.feed_dtypes, &feeds)?;
        let results = self.run_step(&plan.partition, feeds, options, trace)?;
        let live = |(result, name): (Option<Tensor>, &String)| result.ok_or_else(|| dead_fetch(name));
        results.into_iter().zip(&names.fetches).map(live).collect()
    }

    fn run_step(
        &self,
        partition: &CompiledPartition,
        arguments: Vec<Tensor>,
        options: &RunOptions,
        trace: Option<Arc<Trace>>,
    ) -> Result<Vec<Option<Tensor>>> {
        let step_id = self.task.new_step_id();
        let cancellation = Arc::new(Cancellation::new());
        self.running.enter(step_id, cancellation.clone())?;
        let _leave = LeaveOnDrop { running: &self.running, step_id };
        let rendezvous: Arc<dyn Rendezvous> = match partition.has_transfers() {
            true => {
                let rendezvous = Arc::new(LocalRendezvous::new());
                let aborted = rendezvous.clone();
                // Nobody can have cancelled a step that has not begun.
                let _ = cancellation.register(move |reason| aborted.abort(reason.derived()));
                rendezvous
            }
            false => self.no_rendezvous.clone(),
        };
        let _alarm = self.alarm(options, &cancellation);
        let done = Arc::new(Completion::default());
        let on_done = {
            let done = done.clone();
            Box::new(move |result| done.set(result))
        };
        let interrupted = interrupt::interval().map(|interval| (interval, cancellation.clone()));
        let services = self.services(step_id, rendezvous, cancellation);
        if let Some(step) = partition.step(services, arguments, trace, on_done) {
            step.run(Caller::Waits);
        }
        match interrupted {
            None => done.wait(),
            Some((interval, cancellation)) => done.wait_asking(interval, || {
                if let Err(reason) = interrupt::check() {
                    cancellation.cancel(reason);
                }
            }),
        }
    }

    pub(super) fn services(
        &self,
        step_id: i64,
        rendezvous: Arc<dyn Rendezvous>,
        cancellation: Arc<Cancellation>,
    ) -> StepServices {
        StepServices { step_id, session: self.context.clone(), applied: None, rendezvous, cancellation }
    }

    /// Cancels a step when its time, or that of the session, is over; until the alarm is dropped.
    pub(super) fn alarm(&self, options: &RunOptions, cancellation: &Arc<Cancellation>) -> Option<Alarm> {
        let timeout = options.timeout.or(self.options.operation_timeout)?;
        let cancellation = cancellation.clone();
        Some(
            self.task
                .threads()
                .timer()
                .after(timeout, move || cancellation.cancel(deadline_exceeded(timeout))),
        )
    }

    /// Ends the session: running steps are cancelled and waited for, later ones refused.
    pub(super) fn close(&self) {
        self.running.close();
        // Resources that belong to kernels, such as private queues, go with them.
        self.plans.clear();
        self.kernels.clear();
    }
}

/// Takes a step off the list of running ones, however its run ends.
struct LeaveOnDrop<'a> {
    running: &'a RunningSteps,
    step_id: i64,
}

impl Drop for LeaveOnDrop<'_> {
    fn drop(&mut self) {
        self.running.leave(self.step_id);
    }
}
