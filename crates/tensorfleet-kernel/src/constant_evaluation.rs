//! [`evaluate`]: what a node with constant inputs gives, computed by its own kernel before any step runs.
//!
//! Builders of graphs want the small numbers that shapes are made of, planners fold constants. What each finds worth the
//! effort is its own affair; that only ops without state are asked, and how, is said here.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};

use tensorfleet_core::Tensor;
use tensorfleet_threads::Threads;
use tensorfleet_threads::denormals::FlushDenormals;

use crate::cancellation::Cancellation;
use crate::continuation::Resume;
use crate::file_access::FileAccess;
use crate::functions::NoFunctions;
use crate::kernel::{Context, FrameIteration, KernelBox, SessionContext, StepContext, StepOrigin, Value};
use crate::node_spec::NodeSpec;
use crate::op::{Cost, Flow, Op};
use crate::rendezvous::NoRendezvous;
use crate::resource::ResourceManager;

/// Whether the outputs of an op depend on its inputs alone, and are computed quickly.
pub fn is_evaluable(op: &Op) -> bool {
    op.kernel.is_some() && !op.stateful && op.flow == Flow::Plain && op.cost != Cost::Heavy
}

/// The outputs of a node for these inputs. `None` if it cannot be evaluated or fails: its error is to come from the step, with
/// its place.
pub fn evaluate(spec: &NodeSpec<'_>, inputs: impl IntoIterator<Item = Tensor>) -> Option<Vec<Tensor>> {
    if !is_evaluable(spec.op()) {
        return None;
    }
    let KernelBox::Sync(kernel) = spec.kernel().ok()? else { return None };
    let mut inputs: Vec<Option<Value>> = inputs.into_iter().map(|input| Some(Value::Tensor(input))).collect();
    let mut outputs = vec![None; spec.outputs.len()];
    let mut context = Context {
        step: &NO_STEP,
        frame: FrameIteration::default(),
        inputs: &mut inputs,
        outputs: &mut outputs,
        is_input_dead: false,
        resume: Resume::OnPool,
        loops: &NO_STEP.loops,
    };
    // As in a step: the same numbers, and a kernel's bug must not take the process with it.
    let _flushing = FlushDenormals::begin();
    catch_unwind(AssertUnwindSafe(|| kernel.compute(&mut context))).ok()?.ok()?;
    let tensor = |output| match output {
        Some(Value::Tensor(tensor)) => Some(tensor),
        _ => None,
    };
    outputs.into_iter().map(tensor).collect()
}

/// The step that constants are evaluated in. Ops without state use none of it.
static NO_STEP: LazyLock<Arc<StepContext>> = LazyLock::new(|| {
    Arc::new(StepContext {
        step_id: 0,
        session: Arc::new(SessionContext {
            origin: StepOrigin::unknown(),
            device: Arc::from(""),
            resources: Arc::new(ResourceManager::new("").with_file_access(FileAccess::nowhere())),
            threads: Threads::of_process().clone(),
            background: Arc::default(),
        }),
        applied: None,
        epoch: 0,
        step_resources: ResourceManager::new(""),
        rendezvous: Arc::new(NoRendezvous),
        cancellation: Arc::new(Cancellation::new()),
        functions: Arc::new(NoFunctions),
        loops: Threads::of_process().loops().clone(),
    })
});
