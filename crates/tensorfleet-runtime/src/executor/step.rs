//! [`Step`]: one run of an [`Executable`].
//!
//! The thread that starts a step runs it, node after node, from a stack of ready nodes. A node that is expensive goes to
//! another thread if this one has other expensive work; a node that waits leaves, and its continuation comes back on a
//! pool thread. The step is over when no node is ready, running or waiting.
//!
//! The first error ends it: nodes not yet run are skipped, and those that wait are cancelled. An error that is only a
//! consequence of another one never hides its cause.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tensorfleet_core::{Result, Status, Tensor, bail};
use tensorfleet_kernel::kernel::{
    AsyncContext, AsyncKernel, Context, KernelBox, Outputs, StepContext, Value,
};
use tensorfleet_kernel::op::{Cost, Flow};
use tensorfleet_threads::denormals::FlushDenormals;

use super::counts::{Arrival, MergeInput};
use super::errands;
use super::executable::{Body, CONTROL, ExecNode, Executable, InputKind};
use super::loops::{Iteration, IterationRef};
use super::trace::Trace;

/// Called once with the results in order, `None` for dead ones, or with the error.
pub type OnStepDone = Box<dyn FnOnce(Result<Vec<Option<Tensor>>>) + Send>;

/// A node that may run now.
pub(super) struct Ready {
    node: u32,
    iteration: IterationRef,
    is_dead: bool,
    /// Whether it counts as expensive work of the thread that holds it.
    is_expensive: bool,
    /// The size of its inputs, if that makes it possible that it is expensive: then its time is of interest.
    weight_bytes: Option<usize>,
}

impl Ready {
    fn new(node: u32, iteration: IterationRef, is_dead: bool) -> Ready {
        Ready { node, iteration, is_dead, is_expensive: false, weight_bytes: None }
    }
}

/// Nodes that became ready and are not yet given to a thread.
pub(super) type ReadyList = Vec<Ready>;

/// Inputs of a `Linear` node above this size are worth another thread, as long as nothing is known about its time.
const EXPENSIVE_LINEAR_BYTES: usize = 256 << 10;
/// The same for a `Heavy` node.
const EXPENSIVE_HEAVY_BYTES: usize = 16 << 10;
/// What takes less time than this is not worth another thread, if this one has nothing else to do: to wake one up takes half of it
/// on many machines.
const EXPENSIVE_TIME: Duration = Duration::from_micros(40);
/// The same on a thread with other duties: its process shares the machine with others, which need the cores as well.
const EXPENSIVE_BORROWED_TIME: Duration = Duration::from_micros(100);
/// Expensive nodes may keep a thread with other duties from them for this long at a time: to hand them over to another thread,
/// and their results back, takes about as long as a step of a small model.
pub(super) const BORROWED_THREAD_TIME: Duration = Duration::from_millis(2);

/// Nodes a caller that has other duties runs itself, before it leaves the rest to the pool.
pub(super) const BORROWED_THREAD_NODES: usize = 4096;

thread_local! {
    /// Whether whoever completes a wait on this thread lets the step go on here.
    static IS_LENT: Cell<bool> = const { Cell::new(false) };
}

/// Runs `complete`, which ends the wait of some nodes, and lets their steps go on on this thread with what is cheap. For
/// threads with other duties that have just received what the nodes waited for: another thread need not be woken.
pub fn lend_thread<T>(complete: impl FnOnce() -> T) -> T {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            IS_LENT.set(self.0);
        }
    }
    let _restore = Restore(IS_LENT.replace(true));
    complete()
}

/// Whose thread starts a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Caller {
    /// A thread that waits for the step anyway: it runs whatever it can.
    Waits,
    /// A thread with other duties, say one that serves sockets: it runs what is cheap, and leaves what takes long to
    /// the pool.
    HasOtherDuties,
}

/// A run of an executable.
pub struct Step {
    pub(super) executable: Arc<Executable>,
    context: Arc<StepContext>,
    trace: Option<Arc<Trace>>,
    /// Nodes that wait for something: kept so that a stuck step can be explained.
    waiting: Mutex<Vec<u32>>,
    root: Iteration,
    arguments: Box<[Mutex<Option<Tensor>>]>,
    results: Box<[Mutex<Option<Value>>]>,
    /// Nodes that are ready, running or waiting.
    outstanding: AtomicUsize,
    has_failed: AtomicBool,
    failure: Mutex<Option<Status>>,
    on_done: Mutex<Option<OnStepDone>>,
}

/// Values on their way into or out of a kernel; `None` is dead.
pub(super) type Values = Vec<Option<Value>>;

/// What running a node came to.
enum Outcome {
    /// Its outputs are there.
    Finished,
    /// Its continuation will come.
    Waiting,
}

/// A thread at work on a step. Its lists are kept from node to node, so that running one allocates nothing.
struct Worker<'a> {
    step: &'a Arc<Step>,
    /// How many nodes a thread with other duties may still run.
    budget: Option<usize>,
    /// How long it may still be kept by expensive ones.
    time_left: Duration,
    /// Nodes this thread will run, the next one last.
    stack: ReadyList,
    /// How many of them are expensive.
    expensive: usize,
    new: ReadyList,
    inputs: Values,
    outputs: Values,
}

impl Step {
    /// Runs `executable` with these arguments. Works on the calling thread as long as there is something to do for it,
    /// then returns; `on_done` is called on whichever thread finishes last.
    pub fn start(
        executable: Arc<Executable>,
        context: Arc<StepContext>,
        arguments: Vec<Tensor>,
        on_done: OnStepDone,
    ) {
        if let Some(step) = Step::new(executable, context, arguments, None, on_done) {
            step.run(Caller::Waits);
        }
    }

    /// A step ready to [`run`](Step::run). With the wrong number of arguments there is none, and `on_done` gets the
    /// error.
    pub fn new(
        executable: Arc<Executable>,
        context: Arc<StepContext>,
        arguments: Vec<Tensor>,
        trace: Option<Arc<Trace>>,
        on_done: OnStepDone,
    ) -> Option<Arc<Step>> {
        if arguments.len() != executable.num_args {
            let (expected, found) = (executable.num_args, arguments.len());
            on_done(Err(Status::internal(format!("the step takes {expected} arguments, got {found}"))));
            return None;
        }
        let sources = executable.sources.len();
        Some(Arc::new(Step {
            root: Iteration::root(&executable.frames[0]),
            arguments: arguments.into_iter().map(|argument| Mutex::new(Some(argument))).collect(),
            results: (0..executable.num_results).map(|_| Mutex::new(None)).collect(),
            // One more for `run`, so that the step cannot end before all sources are handed out.
            outstanding: AtomicUsize::new(sources + 1),
            has_failed: AtomicBool::new(false),
            failure: Mutex::new(None),
            on_done: Mutex::new(Some(on_done)),
            executable,
            context,
            trace,
            waiting: Mutex::default(),
        }))
    }

    /// Sets the step going, once.
    pub fn run(self: &Arc<Step>, caller: Caller) {
        let ready = self.executable.sources.iter().rev().map(|&node| Ready::new(node, None, false)).collect();
        let budget = (caller == Caller::HasOtherDuties).then_some(BORROWED_THREAD_NODES);
        self.run_nodes(ready, budget);
        self.retire(0);
    }

    /// The nodes that wait for something, with their ops.
    pub fn waiting(&self) -> Vec<(Arc<str>, Arc<str>)> {
        let node = |&index: &u32| {
            let item = &self.executable.nodes[index as usize];
            (item.name.clone(), item.op.clone())
        };
        self.waiting.lock().iter().map(node).collect()
    }

    pub(super) fn iteration<'a>(&'a self, iteration: &'a IterationRef) -> &'a Iteration {
        iteration.as_deref().unwrap_or(&self.root)
    }

    /// Runs nodes, and what they make ready, until nothing is left for this thread.
    fn run_nodes(self: &Arc<Step>, stack: ReadyList, budget: Option<usize>) {
        // A node that ends another's wait (an enqueue, a send) must not run that one below itself.
        let was_lent = IS_LENT.replace(false);
        let _flushing = FlushDenormals::begin();
        let _at_work = self.context.threads.loops().at_work();
        let (new, inputs, outputs) = (ReadyList::new(), Values::new(), Values::new());
        let time_left = BORROWED_THREAD_TIME;
        let mut worker =
            Worker { step: self, budget, time_left, stack: new, expensive: 0, new: stack, inputs, outputs };
        let run = || {
            worker.hand_out();
            worker.run();
        };
        match budget {
            Some(_) => errands::run_after(run),
            None => errands::run_without(run),
        }
        IS_LENT.set(was_lent);
    }

    /// Whether a node may be worth another thread, as one is that takes `from` or more.
    fn is_expensive(&self, ready: &mut Ready, from: Duration) -> bool {
        let item = &self.executable.nodes[ready.node as usize];
        if item.waits_for_disk {
            return true;
        }
        ready.weight_bytes = self.weight(item, ready);
        let may_be_long = |bytes| item.experience.usual_time(bytes).is_none_or(|time| time >= from);
        ready.weight_bytes.is_some_and(may_be_long)
    }

    fn usual_time(&self, ready: &Ready) -> Option<Duration> {
        self.executable.nodes[ready.node as usize].experience.usual_time(ready.weight_bytes?)
    }

    /// The size of a node's inputs, if that makes it possible that it is expensive.
    fn weight(&self, item: &ExecNode, ready: &Ready) -> Option<usize> {
        let limit = match item.cost {
            Cost::Trivial => return None,
            Cost::Linear | Cost::Shaped => EXPENSIVE_LINEAR_BYTES,
            Cost::Heavy => EXPENSIVE_HEAVY_BYTES,
        };
        if ready.is_dead || item.flow != Flow::Plain {
            return None;
        }
        let slots = &self.iteration(&ready.iteration).slots;
        if item.cost == Cost::Shaped {
            // SAFETY: as below.
            let bytes = match unsafe { slots.peek(item.first_slot) } {
                Some(Value::Tensor(shape)) => shaped_bytes(shape),
                _ => 0,
            };
            return (bytes >= limit).then_some(bytes);
        }
        let bytes = |slot: u32| {
            // SAFETY: the node is ready and not running: all its producers are done, and only this thread has it.
            match unsafe { slots.peek(slot) } {
                Some(Value::Tensor(tensor)) if tensor.dtype().is_plain() => tensor.byte_size(),
                // A node that looks at a variable, or updates rows of it, does not walk over the whole: the other inputs tell.
                Some(Value::Ref(_)) if item.touches_rows => 0,
                // No snapshot: a writer that comes meanwhile would copy the value.
                Some(Value::Ref(variable)) => {
                    variable.inspect(|tensor| Ok(tensor.byte_size())).unwrap_or_default()
                }
                _ => 0,
            }
        };
        let total = (0..item.num_inputs).map(|input| bytes(item.first_slot + input)).sum::<usize>();
        (total >= limit).then_some(total)
    }

    /// Records what a node did: its outputs or its error.
    fn settle(&self, ready: &Ready, result: Result<()>, outputs: &mut Values, new: &mut ReadyList) {
        let item = &self.executable.nodes[ready.node as usize];
        if let Err(status) = result.and_then(|()| self.propagate(ready, outputs, new)) {
            self.fail(status.at_node(&item.name, &item.op, &self.context.device));
            new.clear();
        } else {
            self.node_finished(&ready.iteration, new);
        }
        outputs.clear();
        self.retire(new.len());
    }

    /// One outstanding node is done and has made `added` others ready. Ends the step after the last.
    fn retire(&self, added: usize) {
        if added > 1 {
            self.outstanding.fetch_add(added - 1, Ordering::Relaxed);
        } else if added == 0 && self.outstanding.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.finish();
        }
    }

    fn finish(&self) {
        self.root.dismantle();
        let Some(on_done) = self.on_done.lock().take() else { return };
        if let Some(status) = self.failure.lock().take() {
            return on_done(Err(status));
        }
        let take = |result: &Mutex<Option<Value>>| match result.lock().take() {
            Some(Value::Tensor(tensor)) => Ok(Some(tensor)),
            Some(Value::Ref(variable)) => variable.read().map(Some),
            None => Ok(None),
        };
        on_done(self.results.iter().map(take).collect());
    }

    /// Remembers the first error, or the first that is not a mere consequence, and stops the rest of the step.
    fn fail(&self, status: Status) {
        {
            let mut failure = self.failure.lock();
            match &*failure {
                Some(earlier) if !earlier.is_derived() || status.is_derived() => {}
                _ => *failure = Some(status.clone()),
            }
        }
        self.has_failed.store(true, Ordering::Release);
        self.context.cancellation.cancel(status.derived());
    }

    fn cancelled(&self) -> Status {
        self.context.cancellation.reason().unwrap_or_else(|| Status::cancelled("the step was cancelled"))
    }

    fn run_node(
        self: &Arc<Step>,
        ready: &Ready,
        inputs: &mut Values,
        outputs: &mut Values,
    ) -> Result<Outcome> {
        let item = &self.executable.nodes[ready.node as usize];
        inputs.clear();
        outputs.clear();
        outputs.resize_with(item.num_outputs as usize, || None);
        if ready.is_dead && !matches!(item.flow, Flow::Transfer | Flow::Trigger) {
            return Ok(Outcome::Finished);
        }
        self.take_inputs(item, ready, inputs)?;
        match &item.body {
            Body::Kernel(kernel) => match &**kernel {
                KernelBox::Sync(kernel) => {
                    let mut context = Context {
                        step: &self.context,
                        frame: self.iteration(&ready.iteration).frame_iteration(),
                        inputs,
                        outputs,
                        is_input_dead: ready.is_dead,
                    };
                    let started = self.trace.as_ref().map(|trace| trace.now());
                    let weighed = ready.weight_bytes.map(|bytes| (bytes, Instant::now()));
                    let compute = AssertUnwindSafe(|| kernel.compute(&mut context));
                    catch_unwind(compute).unwrap_or_else(|_| Err(panicked()))?;
                    if let Some((bytes, begin)) = weighed {
                        item.experience.add(begin.elapsed(), bytes);
                    }
                    self.record(ready.node, started, outputs);
                }
                KernelBox::Async(kernel) => return self.start_async(&**kernel, ready, inputs, outputs),
            },
            Body::Argument(index) => {
                let argument = self.arguments[*index as usize].lock().take();
                let argument = argument.ok_or_else(|| Status::internal("an argument was taken twice"))?;
                outputs[0] = Some(Value::Tensor(argument));
            }
            Body::Result(index) => *self.results[*index as usize].lock() = inputs.pop().flatten(),
        }
        Ok(Outcome::Finished)
    }

    /// Starts a kernel that may wait. If it finishes within the call, the result is used at once; otherwise the
    /// continuation is an errand, because whoever completes it is busy with something else.
    fn start_async(
        self: &Arc<Step>,
        kernel: &dyn AsyncKernel,
        ready: &Ready,
        inputs: &mut Values,
        outputs: &mut Values,
    ) -> Result<Outcome> {
        let call = Arc::new(Mutex::new(AsyncCall::Starting));
        let context = AsyncContext {
            step: self.context.clone(),
            frame: self.iteration(&ready.iteration).frame_iteration(),
            inputs: inputs.drain(..).collect(),
            is_input_dead: ready.is_dead,
        };
        let (node, iteration, is_dead) = (ready.node, ready.iteration.clone(), ready.is_dead);
        let started = self.trace.as_ref().map(|trace| trace.now());
        let step = self.clone();
        let mut continuation = Continuation(Some((call.clone(), move |result: Result<Outputs>| {
            step.stops_waiting(node);
            let resume = move |budget| {
                let ready = Ready::new(node, iteration, is_dead);
                let (mut outputs, mut new) = (Values::new(), ReadyList::new());
                let result = result.map(|values| outputs.extend(values));
                step.record(node, started, &outputs);
                step.settle(&ready, result, &mut outputs, &mut new);
                step.run_nodes(new, budget);
            };
            match IS_LENT.get() {
                true => resume(Some(BORROWED_THREAD_NODES)),
                false => errands::run_soon(resume),
            }
        })));
        let start = || kernel.start(context, Box::new(move |result| continuation.complete(result)));
        // A panic drops the continuation, which completes the call with an error.
        let _ = catch_unwind(AssertUnwindSafe(start));
        let mut call = call.lock();
        match std::mem::replace(&mut *call, AsyncCall::Returned) {
            AsyncCall::Finished(result) => {
                outputs.clear();
                outputs.extend(result?);
                self.record(node, started, outputs);
                Ok(Outcome::Finished)
            }
            _ => {
                // Still under the call's lock, so that the continuation comes after this.
                self.waiting.lock().push(node);
                Ok(Outcome::Waiting)
            }
        }
    }

    fn stops_waiting(&self, node: u32) {
        let mut waiting = self.waiting.lock();
        if let Some(position) = waiting.iter().position(|&other| other == node) {
            waiting.swap_remove(position);
        }
    }

    /// Notes in the trace, if there is one, that a node has run.
    fn record(&self, node: u32, started: Option<Duration>, outputs: &Values) {
        if let (Some(trace), Some(started)) = (&self.trace, started) {
            trace.add(node, started, outputs);
        }
    }

    fn take_inputs(&self, item: &ExecNode, ready: &Ready, inputs: &mut Values) -> Result<()> {
        let iteration = self.iteration(&ready.iteration);
        // A merge may run before its other producers have: it takes the input that won and no other.
        let only = match item.flow {
            Flow::Merge => iteration.counts.merge_winner(item.position),
            _ => None,
        };
        for input in 0..item.num_inputs {
            inputs.push(if only.is_none_or(|winner| winner == input) {
                // SAFETY: this input's arrival, or the arrival of all, made the node ready, and it runs once per
                // iteration. A merge that runs has a winner.
                unsafe { iteration.slots.take(item.first_slot + input) }
            } else {
                None
            });
        }
        if let Some(kinds) = &item.references {
            for (input, kind) in inputs.iter_mut().zip(kinds) {
                prepare_reference(input, *kind)?;
            }
        }
        Ok(())
    }

    /// Passes outputs on to the consumers, in the iteration they belong to.
    fn propagate(&self, ready: &Ready, outputs: &mut Values, new: &mut ReadyList) -> Result<()> {
        let item = &self.executable.nodes[ready.node as usize];
        let is_dead = ready.is_dead && item.flow != Flow::Trigger;
        match item.flow {
            Flow::Enter => self.enter(ready.node, &ready.iteration, outputs, is_dead, new),
            Flow::Exit if !is_dead => self.exit(ready.node, &ready.iteration, outputs, new)?,
            Flow::NextIteration if !is_dead => {
                self.next_iteration(ready.node, &ready.iteration, outputs, new)
            }
            // Deadness stops here: the frame's end speaks for its exits, and a dead iteration is the last.
            Flow::Exit | Flow::NextIteration => {}
            // A receive of a dead value is dead for its control edges, too.
            Flow::Transfer => {
                let is_dead = is_dead || (!outputs.is_empty() && outputs.iter().all(Option::is_none));
                self.activate(ready.node, &ready.iteration, outputs, is_dead, new);
            }
            _ => self.activate(ready.node, &ready.iteration, outputs, is_dead, new),
        }
        Ok(())
    }

    /// Delivers outputs to all consumers in `target`, and lists those that became ready.
    pub(super) fn activate(
        &self,
        node: u32,
        target: &IterationRef,
        outputs: &mut Values,
        is_dead: bool,
        new: &mut ReadyList,
    ) {
        let nodes = &self.executable.nodes;
        let item = &nodes[node as usize];
        let iteration = self.iteration(target);
        for edge in &self.executable.edges[item.out.start as usize..item.out.end as usize] {
            let consumer = &nodes[edge.consumer as usize];
            let is_control = edge.output == CONTROL;
            let value = match outputs.get_mut(edge.output as usize) {
                Some(output) if edge.is_last => output.take(),
                Some(output) => output.clone(),
                None => None,
            };
            let arrives_dead = if is_control { is_dead } else { value.is_none() };
            if let Some(value) = value {
                // SAFETY: this is the edge's producer in this iteration, and the arrival is counted below.
                unsafe { iteration.slots.put(consumer.first_slot + edge.input, value) };
            }
            let arrival = if consumer.flow == Flow::Merge {
                let input = match (is_control, arrives_dead) {
                    (true, _) => MergeInput::Control,
                    (false, false) => MergeInput::Live(edge.input),
                    (false, true) if item.flow == Flow::Enter => MergeInput::DeadEnter,
                    (false, true) => MergeInput::Dead,
                };
                iteration.counts.arrive_at_merge(consumer.position, consumer.num_inputs, input)
            } else {
                iteration.counts.arrive(consumer.position, arrives_dead)
            };
            if let Arrival::Ready { is_dead } = arrival {
                if let Some(iteration) = target {
                    iteration.add_outstanding();
                }
                new.push(Ready::new(edge.consumer, target.clone(), is_dead));
            }
        }
    }
}

impl Worker<'_> {
    fn run(&mut self) {
        while let Some(ready) = self.stack.pop() {
            if self.budget == Some(0) {
                self.stack.push(ready);
                return self.leave_rest_to_pool();
            }
            self.budget = self.budget.map(|budget| budget - 1);
            self.expensive -= usize::from(ready.is_expensive);
            let step = self.step;
            if step.has_failed.load(Ordering::Acquire) {
                step.retire(0);
            } else if step.context.cancellation.is_cancelled() {
                step.fail(step.cancelled());
                step.retire(0);
            } else {
                let result = match step.run_node(&ready, &mut self.inputs, &mut self.outputs) {
                    Ok(Outcome::Waiting) => continue,
                    Ok(Outcome::Finished) => Ok(()),
                    Err(status) => Err(status),
                };
                step.settle(&ready, result, &mut self.outputs, &mut self.new);
                self.hand_out();
            }
        }
    }

    /// Gives new work to this thread, or to others where that pays.
    fn hand_out(&mut self) {
        let is_only_one = self.new.len() + self.stack.len() <= 1;
        let has_other_duties = self.budget.is_some();
        let hands_over = self.step.context.threads.nodes().hands_over();
        let from = if has_other_duties { EXPENSIVE_BORROWED_TIME } else { EXPENSIVE_TIME };
        let mut new = std::mem::take(&mut self.new);
        for mut ready in new.drain(..) {
            let stays = !has_other_duties && (is_only_one || !hands_over);
            if stays || !self.step.is_expensive(&mut ready, from) {
                self.stack.push(ready);
            } else if self.keeps(&ready) {
                self.expensive += 1;
                ready.is_expensive = true;
                // At the bottom: what is cheap may make more work for other threads.
                self.stack.insert(0, ready);
            } else {
                let (step, about_to_work) =
                    (self.step.clone(), self.step.context.threads.loops().about_to_work());
                self.step.context.threads.nodes().spawn(move || {
                    drop(about_to_work);
                    step.run_nodes(vec![ready], None);
                });
            }
        }
        self.new = new;
    }

    /// Whether an expensive node stays on this thread: if it is the only one, or, on a thread with other duties, if there is
    /// time for it, which is taken away then.
    fn keeps(&mut self, ready: &Ready) -> bool {
        if self.budget.is_none() {
            return self.expensive == 0;
        }
        let left = self.step.usual_time(ready).and_then(|time| self.time_left.checked_sub(time));
        self.time_left = left.unwrap_or(self.time_left);
        left.is_some()
    }

    fn leave_rest_to_pool(&mut self) {
        let (step, rest) = (self.step.clone(), std::mem::take(&mut self.stack));
        self.step.context.threads.nodes().spawn(move || step.run_nodes(rest, None));
    }
}

/// The state of a call to a kernel that may wait.
enum AsyncCall {
    /// The kernel's `start` has not returned.
    Starting,
    /// It has, without a result.
    Returned,
    /// The result came before `start` returned.
    Finished(Result<Outputs>),
}

/// The continuation of an asynchronous kernel. A kernel that loses it without calling it completes with an error
/// rather than leaving the step hanging.
struct Continuation<F: FnOnce(Result<Outputs>)>(Option<(Arc<Mutex<AsyncCall>>, F)>);

impl<F: FnOnce(Result<Outputs>)> Continuation<F> {
    fn complete(&mut self, result: Result<Outputs>) {
        let Some((call, resume)) = self.0.take() else { return };
        let mut state = call.lock();
        if matches!(*state, AsyncCall::Returned) {
            drop(state);
            resume(result);
        } else {
            *state = AsyncCall::Finished(result);
        }
    }
}

impl<F: FnOnce(Result<Outputs>)> Drop for Continuation<F> {
    fn drop(&mut self) {
        self.complete(Err(Status::internal("the kernel gave up without a result")));
    }
}

/// About how many bytes a tensor of the shape has that another one describes.
fn shaped_bytes(shape: &Tensor) -> usize {
    let product = |dims: &mut dyn Iterator<Item = i64>| {
        dims.fold(size_of::<f32>(), |bytes, dim| bytes.saturating_mul(usize::try_from(dim).unwrap_or(0)))
    };
    match (shape.as_slice::<i32>(), shape.as_slice::<i64>()) {
        (Ok(dims), _) => product(&mut dims.iter().map(|&dim| i64::from(dim))),
        (_, Ok(dims)) => product(&mut dims.iter().copied()),
        _ => 0,
    }
}

fn prepare_reference(input: &mut Option<Value>, kind: InputKind) -> Result<()> {
    let Some(Value::Ref(variable)) = input else { return Ok(()) };
    match kind {
        InputKind::Value => bail!(Internal, "a reference came where a value was expected"),
        InputKind::Dereferenced => *input = Some(Value::Tensor(variable.read()?)),
        InputKind::InitializedRef if !variable.is_initialized() => return Err(variable.uninitialized()),
        InputKind::InitializedRef | InputKind::Ref => {}
    }
    Ok(())
}

#[cold]
fn panicked() -> Status {
    Status::internal("the kernel panicked: this is a bug in Tensorfleet")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fill_weighs_what_it_fills_and_not_what_describes_it() {
        let weight = |shape: Tensor| shaped_bytes(&shape);
        assert_eq!(weight(Tensor::vector(&[1000i32, 64]).unwrap()), 256_000);
        assert_eq!(weight(Tensor::vector(&[1i64 << 40, 1 << 40]).unwrap()), usize::MAX);
        assert_eq!(weight(Tensor::vector(&[-1i32, 5]).unwrap()), 0);
        assert_eq!(weight(Tensor::vector(&[1.5f32]).unwrap()), 0);
    }
}
