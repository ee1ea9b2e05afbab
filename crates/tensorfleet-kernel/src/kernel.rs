//! What a kernel is and what it sees: [`Kernel`], [`AsyncKernel`], [`Context`].
//!
//! A kernel gets values, step-wide services and nothing else: no session, no network, no other node. One
//! kernel object serves all steps of a session, from many threads at once; state that belongs to a step or a
//! resource lives there, not in the kernel.
//!
//! A kernel that has to wait (dequeue, receive, take a gradient) is an [`AsyncKernel`]: it leaves a
//! continuation behind and returns, so that no thread is blocked.

use std::sync::{Arc, LazyLock};

use smallvec::SmallVec;
use tensorfleet_core::{DType, ResourceHandle, Result, Status, Tensor};
use tensorfleet_threads::{Loops, Threads};

use crate::applied_updates::AppliedUpdates;
use crate::background::Background;
use crate::cancellation::Cancellation;
use crate::continuation::Resume;
use crate::file_access::FileAccess;
use crate::functions::Functions;
use crate::rendezvous::Rendezvous;
use crate::resource::{Resource, ResourceManager};
use crate::variable::Variable;

/// What travels along an edge.
#[derive(Clone, Debug)]
pub enum Value {
    /// A tensor.
    Tensor(Tensor),
    /// A variable itself (a TensorFlow 1.x reference edge).
    Ref(Arc<Variable>),
}

/// The outputs of a node; `None` is a dead output.
pub type Outputs = SmallVec<[Option<Value>; 2]>;
/// The inputs of a node; `None` is a dead input, which only control-flow ops get to see.
pub type Inputs = SmallVec<[Option<Value>; 4]>;

/// A computation that runs to its end on the calling thread.
///
/// Closures `Fn(&mut Context) -> Result<()>` are kernels.
pub trait Kernel: Send + Sync + 'static {
    /// Computes the outputs from the inputs.
    fn compute(&self, ctx: &mut Context<'_>) -> Result<()>;
}

impl<F: Fn(&mut Context<'_>) -> Result<()> + Send + Sync + 'static> Kernel for F {
    fn compute(&self, ctx: &mut Context<'_>) -> Result<()> {
        self(ctx)
    }
}

/// A computation that may have to wait.
pub trait AsyncKernel: Send + Sync + 'static {
    /// Starts the computation. `done` is called exactly once, now or later, on any thread. The
    /// implementation registers with the step's cancellation whatever it leaves behind. Steps whose waits it ends go on
    /// where `resume` says.
    fn start(&self, ctx: AsyncContext, done: Done, resume: Resume<'_>);
}

/// Takes the result of an [`AsyncKernel`]. Its step goes on where whoever calls this says.
pub type Done = Box<dyn FnOnce(Result<Outputs>, Resume<'_>) + Send>;

/// A kernel of either kind.
pub enum KernelBox {
    /// Runs to its end.
    Sync(Box<dyn Kernel>),
    /// May wait.
    Async(Box<dyn AsyncKernel>),
}

impl KernelBox {
    /// Wraps a kernel that runs to its end.
    pub fn new(kernel: impl Kernel) -> KernelBox {
        KernelBox::Sync(Box::new(kernel))
    }

    /// Wraps a closure. (A function rather than `new`, so that the closure's argument type is inferred.)
    pub fn from_fn(kernel: impl Fn(&mut Context<'_>) -> Result<()> + Send + Sync + 'static) -> KernelBox {
        KernelBox::Sync(Box::new(kernel))
    }

    /// Wraps a kernel that may wait.
    pub fn new_async(kernel: impl AsyncKernel) -> KernelBox {
        KernelBox::Async(Box::new(kernel))
    }
}

/// Services that all nodes of a step on one device share.
pub struct StepContext {
    /// The step's number, unique in its session.
    pub step_id: i64,
    /// What it shares with the other steps of its session.
    pub session: Arc<SessionContext>,
    /// What the request it belongs to has done on the device before, if that is numbered; see [`AppliedUpdates`].
    pub applied: Option<Arc<AppliedUpdates>>,
    /// How often something on the device had been begun anew when the step began; see [`ResourceManager::begin_anew`].
    pub epoch: u64,
    /// Resources that live as long as the step: stacks, tensor arrays.
    pub step_resources: ResourceManager,
    /// Where sends meet receives.
    pub rendezvous: Arc<dyn Rendezvous>,
    /// Tells that the step is given up.
    pub cancellation: Arc<Cancellation>,
    /// The functions that nodes may call.
    pub functions: Arc<dyn Functions>,
    /// The session's threads for loops, for loops that end early when the step is given up.
    pub loops: Loops,
}

/// What all steps of a session on one device share. One value, so that a step holds it by one pointer.
pub struct SessionContext {
    /// On whose behalf its steps run.
    pub origin: Arc<StepOrigin>,
    /// The device's full name.
    pub device: Arc<str>,
    /// The device's resources: variables, queues, accumulators.
    pub resources: Arc<ResourceManager>,
    /// The threads of the device's task.
    pub threads: Arc<Threads>,
    /// Whether work that goes on after a step may do so.
    pub background: Arc<Background>,
}

/// On whose behalf steps run: what queues and accumulators know about who gives and takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepOrigin {
    /// The task whose master drives the step, which is the worker itself where each worker has its session on its own server. Empty
    /// if it is not known.
    pub owner: Arc<str>,
    /// The life of that task; 0 if it is not known.
    pub incarnation: u64,
    /// The session.
    pub session: Arc<str>,
}

impl StepOrigin {
    /// A step of whom nothing is known, as in a session of this process.
    pub fn unknown() -> Arc<StepOrigin> {
        static UNKNOWN: LazyLock<Arc<StepOrigin>> = LazyLock::new(Arc::default);
        UNKNOWN.clone()
    }
}

/// Which iteration of which loop a node runs in; both 0 outside loops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FrameIteration {
    /// TensorFlow's hash of the frame and the iterations around it.
    pub frame_id: u64,
    /// The iteration in that frame.
    pub iteration: u64,
}

/// What a [`Kernel`] sees of its node and step.
pub struct Context<'a> {
    /// Step-wide services.
    pub step: &'a Arc<StepContext>,
    /// The loop iteration the node runs in.
    pub frame: FrameIteration,
    /// The node's inputs.
    pub inputs: &'a mut [Option<Value>],
    /// The node's outputs; what stays `None` is dead.
    pub outputs: &'a mut [Option<Value>],
    /// Whether an input, data or control, was dead (only ops with `Flow::Transfer` run then).
    pub is_input_dead: bool,
    /// Where steps go on whose waits the kernel ends.
    pub resume: Resume<'a>,
    /// See [`Context::loops`].
    pub loops: &'a Loops,
}

/// What an [`AsyncKernel`] sees of its node and step. It owns its inputs, since it may outlive the call.
pub struct AsyncContext {
    /// Step-wide services.
    pub step: Arc<StepContext>,
    /// The loop iteration the node runs in.
    pub frame: FrameIteration,
    /// The node's inputs.
    pub inputs: Inputs,
    /// Whether an input, data or control, was dead (only ops with `Flow::Transfer` run then).
    pub is_input_dead: bool,
}

impl<'a> Context<'a> {
    /// The threads that share this kernel's loops and products. They are the step's: inputs may be taken while they are held.
    /// The loops of a node without effects end early when the step is given up; its outputs are thrown away then.
    pub fn loops(&self) -> &'a Loops {
        self.loops
    }

    /// Fails once the step is given up: for loops of the kernel's own that may be long.
    pub fn check_cancelled(&self) -> Result<()> {
        self.step.cancellation.check()
    }
}

impl Context<'_> {
    /// The files the node may touch. Whoever opens one asks this first.
    pub fn file_access(&self) -> &FileAccess {
        self.step.session.resources.file_access()
    }

    /// The number of inputs.
    pub fn num_inputs(&self) -> usize {
        self.inputs.len()
    }

    /// Input `index`.
    pub fn input(&self, index: usize) -> Result<&Tensor> {
        tensor_at(self.inputs, index)
    }

    /// Lets `read` see input `index`, a tensor or the value of a variable. A writer of the variable waits meanwhile. For ops that
    /// [read in place](crate::op::Op::reads_in_place).
    pub fn read_in_place<R>(&self, index: usize, read: impl FnOnce(&Tensor) -> Result<R>) -> Result<R> {
        match self.inputs.get(index) {
            Some(Some(Value::Ref(variable))) => variable.inspect(read),
            _ => read(self.input(index)?),
        }
    }

    /// Takes input `index` out. If nobody else holds it, the tensor is unique and may be overwritten.
    pub fn take_input(&mut self, index: usize) -> Result<Tensor> {
        take_tensor(self.inputs, index)
    }

    /// The variable that input `index` refers to, through a reference edge or a resource handle.
    pub fn variable(&self, index: usize) -> Result<Arc<Variable>> {
        variable_at(self.inputs, index, &self.step.session.resources)
    }

    /// The resource that the handle in input `index` names.
    pub fn resource<R: Resource>(&self, index: usize) -> Result<Arc<R>> {
        resource_at(self.inputs, index, &self.step.session.resources)
    }

    /// Sets output `index`.
    pub fn set_output(&mut self, index: usize, tensor: Tensor) {
        self.outputs[index] = Some(Value::Tensor(tensor));
    }

    /// Sets output `index` to the variable itself.
    pub fn set_ref_output(&mut self, index: usize, variable: Arc<Variable>) {
        self.outputs[index] = Some(Value::Ref(variable));
    }

    /// Sets output `index` to input `index_in`, whatever it is; used where values only pass through.
    pub fn forward(&mut self, index_in: usize, index_out: usize) {
        self.outputs[index_out] = self.inputs[index_in].take();
    }
}

impl AsyncContext {
    /// Input `index`.
    pub fn input(&self, index: usize) -> Result<&Tensor> {
        tensor_at(&self.inputs, index)
    }

    /// Takes input `index` out.
    pub fn take_input(&mut self, index: usize) -> Result<Tensor> {
        take_tensor(&mut self.inputs, index)
    }

    /// The resource that the handle in input `index` names.
    pub fn resource<R: Resource>(&self, index: usize) -> Result<Arc<R>> {
        resource_at(&self.inputs, index, &self.step.session.resources)
    }
}

/// The outputs of a node with tensors only.
pub fn tensor_outputs(tensors: impl IntoIterator<Item = Tensor>) -> Outputs {
    tensors.into_iter().map(|tensor| Some(Value::Tensor(tensor))).collect()
}

fn tensor_at(inputs: &[Option<Value>], index: usize) -> Result<&Tensor> {
    match inputs.get(index) {
        Some(Some(Value::Tensor(tensor))) => Ok(tensor),
        _ => Err(not_a_tensor(index)),
    }
}

fn take_tensor(inputs: &mut [Option<Value>], index: usize) -> Result<Tensor> {
    match inputs.get_mut(index).and_then(Option::take) {
        Some(Value::Tensor(tensor)) => Ok(tensor),
        _ => Err(not_a_tensor(index)),
    }
}

fn variable_at(inputs: &[Option<Value>], index: usize, resources: &ResourceManager) -> Result<Arc<Variable>> {
    match inputs.get(index) {
        Some(Some(Value::Ref(variable))) => Ok(variable.clone()),
        Some(Some(Value::Tensor(tensor))) => resources.lookup::<Variable>(&handle_in(tensor)?),
        _ => Err(not_a_tensor(index)),
    }
}

fn resource_at<R: Resource>(
    inputs: &[Option<Value>],
    index: usize,
    resources: &ResourceManager,
) -> Result<Arc<R>> {
    resources.lookup::<R>(&handle_in(tensor_at(inputs, index)?)?)
}

/// A handle is a resource scalar, or, in TensorFlow's first queue and accumulator ops, a vector of two
/// strings: container and name.
pub fn handle_in(tensor: &Tensor) -> Result<ResourceHandle> {
    match tensor.dtype() {
        DType::Resource => match tensor.as_resources()? {
            [handle] => Ok(handle.clone()),
            _ => Err(Status::invalid_argument(format!(
                "a resource handle is a scalar, got {}",
                tensor.shape()
            ))),
        },
        DType::String => match tensor.as_strings()? {
            [container, name] => {
                let text = |bytes: &bytes::Bytes| String::from_utf8_lossy(bytes).into_owned();
                Ok(ResourceHandle::new("", &text(container), &text(name), ""))
            }
            _ => Err(Status::invalid_argument("Resource handle must have 2 elements: container and name")),
        },
        other => Err(Status::invalid_argument(format!("expected a resource handle, got a {other} tensor"))),
    }
}

#[cold]
fn not_a_tensor(index: usize) -> Status {
    Status::internal(format!(
        "input {index} is missing, dead, taken already, or of the other kind (value, reference)"
    ))
}
