//! A cluster in one process, for tests: the partitions of a step run side by side and meet in one rendezvous.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use tensorfleet_core::{GraphLimits, Result, Status, Tensor};
use tensorfleet_kernel::cancellation::Cancellation;
use tensorfleet_kernel::continuation::Resume;
use tensorfleet_kernel::kernel::{SessionContext, StepOrigin};
use tensorfleet_kernel::rendezvous::Rendezvous;
use tensorfleet_kernel::resource::ResourceManager;
use tensorfleet_threads::Threads;

use crate::catalogue;
use crate::checked_graph::CheckedGraph;
use crate::executor::Caller;
use crate::function_library::compile_partition;
use crate::kernels::Kernels;
use crate::partition::StepServices;
use crate::plan::*;
use crate::rendezvous::LocalRendezvous;

/// Tasks with their state.
pub(crate) struct Fleet {
    pub(crate) devices: Vec<Device>,
    tasks: Vec<Arc<Worker>>,
    counter: u64,
    step_id: i64,
}

struct Worker {
    resources: Arc<ResourceManager>,
    kernels: Kernels,
}

/// Long enough for the slowest machine; a plan that is right never waits.
const PATIENCE: Duration = Duration::from_secs(20);

type Results = Vec<Option<Tensor>>;

impl Fleet {
    /// Tasks with the short names `names`, one CPU each.
    pub(crate) fn new(names: &[&str]) -> Fleet {
        let worker = |_: &&str| {
            let resources = Arc::new(ResourceManager::new("job"));
            Arc::new(Worker { resources, kernels: Kernels::for_foreign_graphs() })
        };
        let tasks = names.iter().map(worker).collect();
        Fleet { devices: testing::devices(names), tasks, counter: 0, step_id: 1 }
    }

    /// Places the graph, with task 0 as the master's.
    pub(crate) fn place(&self, checked: &CheckedGraph) -> Vec<DeviceIndex> {
        let preferred_task = Some(self.devices[0].name.task_name());
        let options = PlaceOptions { allow_soft_placement: false, preferred_task };
        place(checked, &self.devices, &[], &options).unwrap()
    }

    /// Plans a step of the graph as it is placed.
    pub(crate) fn plan(
        &mut self,
        checked: &CheckedGraph,
        signature: &Signature,
        simplify: bool,
    ) -> Result<StepPlan> {
        let placement = self.place(checked);
        self.plan_placed(checked, &placement, signature, simplify)
    }

    /// Plans a step of the graph as `placement` has it.
    pub(crate) fn plan_placed(
        &mut self,
        checked: &CheckedGraph,
        placement: &[DeviceIndex],
        signature: &Signature,
        simplify: bool,
    ) -> Result<StepPlan> {
        let options = PlanOptions { simplify, terminals: Terminals::Rendezvous };
        plan_step(checked, placement, &self.devices, signature, &mut self.counter, &options)
    }

    /// Plans and runs a step; dead fetches are `None`.
    pub(crate) fn run(
        &mut self,
        checked: &CheckedGraph,
        signature: &Signature,
        feeds: &[Tensor],
        simplify: bool,
    ) -> Result<Results> {
        let plan = self.plan(checked, signature, simplify)?;
        self.execute(&plan, feeds, signature.fetches.len())
    }

    /// Runs a plan, each partition as a worker would that gets it over the wire.
    pub(crate) fn execute(
        &mut self,
        plan: &StepPlan,
        feeds: &[Tensor],
        num_fetches: usize,
    ) -> Result<Results> {
        let rendezvous = Arc::new(LocalRendezvous::new());
        let cancellation = Arc::new(Cancellation::new());
        let aborts = rendezvous.clone();
        let _ = cancellation.register(move |reason| aborts.abort(reason.derived()));
        self.step_id += 1;
        let (sender, receiver) = mpsc::channel();
        let mut starts = Vec::new();
        for partition in &plan.partitions {
            for (index, key) in &partition.feeds {
                rendezvous.send(key.clone(), Some(feeds[*index].clone()), Resume::OnPool)?;
            }
            let mut checked = CheckedGraph::new(catalogue::linked());
            checked.extend(partition.graph.to_graph_def(), &GraphLimits::default())?;
            let worker = &self.tasks[partition.device.index()];
            let compiled = compile_partition(checked.graph(), checked.catalogue(), &worker.kernels)?;
            let services = StepServices {
                step_id: self.step_id,
                session: session_on(&self.devices[partition.device.index()], worker.resources.clone()),
                applied: None,
                rendezvous: rendezvous.clone(),
                cancellation: cancellation.clone(),
            };
            let sender = sender.clone();
            let on_done = Box::new(move |result| sender.send(result).unwrap());
            starts.push(compiled.step(services, vec![], None, on_done).unwrap());
        }
        starts.iter().for_each(|step| step.run(Caller::Waits));
        let mut failure: Option<Status> = None;
        for _ in &plan.partitions {
            let result = receiver.recv_timeout(PATIENCE);
            let result =
                result.unwrap_or_else(|_| panic!("stuck waiting for {:?}", rendezvous.awaited_keys()));
            if let Err(status) = result {
                failure = failure.filter(|earlier| !earlier.is_derived()).or(Some(status));
            }
        }
        if let Some(status) = failure {
            return Err(status);
        }
        let mut fetches = vec![None; num_fetches];
        for (index, key) in plan.partitions.iter().flat_map(|partition| &partition.fetches) {
            let value = rendezvous.take(key).unwrap_or_else(|| panic!("nobody sent {key}"))?;
            fetches[*index] = value;
        }
        assert!(rendezvous.is_empty(), "every value that is sent must be received");
        Ok(fetches)
    }
}

fn session_on(device: &Device, resources: Arc<ResourceManager>) -> Arc<SessionContext> {
    Arc::new(SessionContext {
        origin: StepOrigin::unknown(),
        device: device.text.clone(),
        resources,
        threads: Threads::of_process().clone(),
        background: Arc::default(),
    })
}

/// The same step on one task, as a session of one process runs it, with nothing simplified.
pub(crate) fn run_whole(checked: &CheckedGraph, signature: &Signature, feeds: &[Tensor]) -> Result<Results> {
    let device = testing::devices(&["localhost:0"]).remove(0);
    let options = PlanOptions { simplify: false, terminals: Terminals::Arguments };
    let (partition, _) = plan_on(&device, checked, signature, &mut 0, &options)?;
    let services = StepServices {
        step_id: 1,
        session: session_on(&device, Arc::new(ResourceManager::new("localhost"))),
        applied: None,
        rendezvous: Arc::new(LocalRendezvous::new()),
        cancellation: Arc::new(Cancellation::new()),
    };
    let (sender, receiver) = mpsc::channel();
    let on_done = Box::new(move |result| sender.send(result).unwrap());
    let compiled = compile_partition(&partition.graph, checked.catalogue(), &Kernels::for_one_graph())?;
    if let Some(step) = compiled.step(services, feeds.to_vec(), None, on_done) {
        step.run(Caller::Waits);
    }
    receiver.recv_timeout(PATIENCE).expect("the step on one task hangs")
}

/// What a step is asked for, names separated by spaces.
pub(crate) fn signature(feeds: &str, fetches: &str, targets: &str) -> Signature {
    let names = |text: &str| text.split_whitespace().map(str::to_string).collect();
    Signature { feeds: names(feeds), fetches: names(fetches), targets: names(targets) }
}
