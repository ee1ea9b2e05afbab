//! [`CompiledPartition`]: what a task runs of a step, compiled, and the one place where its steps begin.
//!
//! Whoever drives a step brings what is the step's own, its [`StepServices`]: a session of this process, a master through
//! its worker, or a dataset that calls a function. What runs is the same: the compiled graph, with the kernels of a
//! session and the functions of the graph. No message is known here.

use std::sync::Arc;

use tensorfleet_core::memory::Charge;
use tensorfleet_core::{Graph, Result, Tensor};
use tensorfleet_kernel::Catalogue;
use tensorfleet_kernel::applied_updates::AppliedUpdates;
use tensorfleet_kernel::cancellation::Cancellation;
use tensorfleet_kernel::functions::Functions;
use tensorfleet_kernel::kernel::{SessionContext, StepContext};
use tensorfleet_kernel::rendezvous::Rendezvous;
use tensorfleet_kernel::resource::ResourceManager;
use tensorfleet_proto::tensorflow::DeviceStepStats;

use crate::executor::{Executable, KernelSource, OnStepDone, Step, Trace};

/// A partition of a plan, ready to run any number of times.
pub struct CompiledPartition {
    executable: Arc<Executable>,
    functions: Arc<dyn Functions>,
    _charge: Charge,
}

/// What a node takes once it is compiled: its kernel, its place in the tables, its share of each step's.
const COMPILED_NODE_BYTES: usize = 1 << 10;

/// What one step has of its own, besides its arguments.
pub struct StepServices {
    /// The number of the step.
    pub step_id: i64,
    /// What it shares with the other steps of its session.
    pub session: Arc<SessionContext>,
    /// What the request it belongs to has done before, if that is numbered.
    pub applied: Option<Arc<AppliedUpdates>>,
    /// Where its sends and receives meet.
    pub rendezvous: Arc<dyn Rendezvous>,
    /// What ends it early.
    pub cancellation: Arc<Cancellation>,
}

impl CompiledPartition {
    /// Compiles the graph of a partition, whose nodes have been checked and may call `functions`.
    pub(crate) fn compile(
        graph: &Graph,
        catalogue: &'static Catalogue,
        kernels: &dyn KernelSource,
        functions: Arc<dyn Functions>,
    ) -> Result<CompiledPartition> {
        let charge = Charge::new(graph.len().saturating_mul(COMPILED_NODE_BYTES))
            .map_err(|status| status.context("the plan of a step"))?;
        let executable = Arc::new(Executable::compile(graph, catalogue, kernels)?);
        Ok(CompiledPartition { executable, functions, _charge: charge })
    }

    /// A step ready to [`run`](Step::run). With the wrong number of arguments there is none, and `on_done` gets the
    /// error.
    pub fn step(
        &self,
        services: StepServices,
        arguments: Vec<Tensor>,
        trace: Option<Arc<Trace>>,
        on_done: OnStepDone,
    ) -> Option<Arc<Step>> {
        let StepServices { step_id, session, applied, rendezvous, cancellation } = services;
        let context = Arc::new(StepContext {
            step_id,
            applied,
            epoch: session.resources.epoch(),
            step_resources: ResourceManager::of_step(),
            rendezvous,
            loops: session.threads.loops().until(cancellation.clone()),
            cancellation,
            functions: self.functions.clone(),
            session,
        });
        Step::new(self.executable.clone(), context, arguments, trace, on_done)
    }

    /// Whether it takes arguments or gives results by position.
    pub fn has_arguments_or_results(&self) -> bool {
        self.executable.num_args() > 0 || self.executable.num_results() > 0
    }

    /// Whether it sends or receives.
    pub fn has_transfers(&self) -> bool {
        self.executable.has_transfers()
    }

    /// What `trace` recorded of one of its steps, which ran on `device`.
    pub fn step_stats(&self, trace: &Trace, device: &str) -> DeviceStepStats {
        trace.to_device_stats(&self.executable, device)
    }
}
