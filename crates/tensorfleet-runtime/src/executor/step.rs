//! [`Step`]: one run of an [`Executable`], from its start to its result.
//!
//! How it goes, and where to read on:
//!
//! 1. The thread that starts a step takes the sources for a start and works on them, node after node, from a stack of ready
//!    nodes (`worker.rs`). A node that is expensive (`expense.rs`) goes to another thread if this one has other expensive work.
//! 2. A node takes its inputs out of its slots and its kernel computes (`node.rs`). A kernel that waits leaves a continuation
//!    behind, and the node goes on when that comes, where whoever ended the wait said (`wait.rs`).
//! 3. Its outputs go into the slots of its consumers, and those that miss nothing any more become ready (`propagate.rs`;
//!    in loops `loops.rs`, `iteration.rs`).
//! 4. The step is over when no node is ready, running or waiting; the thread that finds this out gives the results.
//!
//! The first error ends it: nodes not yet run are skipped, and those that wait are cancelled. An error that is only a
//! consequence of another one never hides its cause. A panic, of a kernel or of the executor itself, is such an error
//! (`panics.rs`).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tensorfleet_core::{Result, Status, Tensor};
use tensorfleet_kernel::continuation::Resume;
use tensorfleet_kernel::kernel::{StepContext, Value};

use super::executable::Executable;
use super::io_thread::run_nodes_on_io_thread;
use super::iteration::{Iteration, IterationRef, Values};
use super::ready::{Ready, ReadyList};
use super::trace::Trace;

/// Why a step fails when the executor itself panics (`panics.rs`).
pub(super) const PANICKED: &str = "the executor panicked: this is a bug in Tensorfleet";

/// Called once with the results in order, `None` for dead ones, or with the error.
pub type OnStepDone = Box<dyn FnOnce(Result<Vec<Option<Tensor>>>) + Send>;

/// Whose thread starts a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Caller {
    /// A thread that waits for the step anyway: it runs whatever it can.
    Waits,
    /// A thread that serves sockets: it runs what is known to be short, and leaves the rest to the node pool.
    IoThread,
    /// A thread that must not run nodes at all: the node pool does.
    OnPool,
}

/// A run of an executable.
pub struct Step {
    pub(super) executable: Arc<Executable>,
    pub(super) context: Arc<StepContext>,
    pub(super) trace: Option<Arc<Trace>>,
    /// Nodes that wait for something: kept so that a stuck step can be explained.
    pub(super) waiting: Mutex<Vec<u32>>,
    root: Iteration,
    pub(super) arguments: Box<[Mutex<Option<Tensor>>]>,
    pub(super) results: Box<[Mutex<Option<Value>>]>,
    /// Nodes that are ready, running or waiting.
    outstanding: AtomicUsize,
    pub(super) has_failed: AtomicBool,
    failure: Mutex<Option<Status>>,
    on_done: Mutex<Option<OnStepDone>>,
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
        let start = AssertUnwindSafe(|| match caller {
            Caller::Waits => self.run_nodes(ready, Resume::OnPool),
            Caller::IoThread => run_nodes_on_io_thread(|resume| self.run_nodes(ready, resume)),
            Caller::OnPool => self.run_on_pool(ready),
        });
        match catch_unwind(start) {
            Ok(()) => self.retire(0),
            Err(_) => self.lose(PANICKED, None, 1),
        }
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

    /// Records what a node did: its outputs or its error. The node is still to be retired, with as many as are `new`.
    pub(super) fn settle(
        &self,
        ready: &Ready,
        result: Result<()>,
        outputs: &mut Values,
        new: &mut ReadyList,
    ) {
        let item = &self.executable.nodes[ready.node as usize];
        if let Err(status) = result.and_then(|()| self.propagate(ready, outputs, new)) {
            self.fail(status.at_node(&item.name, &item.op, &self.context.session.device));
            new.clear();
        } else {
            self.node_finished(&ready.iteration, new);
        }
        outputs.clear();
    }

    /// One outstanding node is done and has made `added` others ready. Ends the step after the last.
    pub(super) fn retire(&self, added: usize) {
        if added > 1 {
            self.outstanding.fetch_add(added - 1, Ordering::Relaxed);
        } else if added == 0 && self.outstanding.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.finish();
        }
    }

    /// `count` outstanding nodes will never run. Ends the step if they were the last.
    pub(super) fn retire_unrun(&self, count: usize) {
        if count > 0 && self.outstanding.fetch_sub(count, Ordering::AcqRel) == count {
            self.finish();
        }
    }

    fn finish(&self) {
        let Some(on_done) = self.on_done.lock().take() else { return };
        // Whoever waits for the step hears of its end even if a value cannot be dropped.
        let results = catch_unwind(AssertUnwindSafe(|| self.take_results()));
        on_done(results.unwrap_or_else(|_| Err(self.lost_at(PANICKED, None))));
    }

    fn take_results(&self) -> Result<Vec<Option<Tensor>>> {
        self.root.dismantle();
        if let Some(status) = self.failure.lock().take() {
            return Err(status);
        }
        let take = |result: &Mutex<Option<Value>>| match result.lock().take() {
            Some(Value::Tensor(tensor)) => Ok(Some(tensor)),
            Some(Value::Ref(variable)) => variable.read().map(Some),
            None => Ok(None),
        };
        self.results.iter().map(take).collect()
    }

    /// Remembers the first error, or the first that is not a mere consequence, and stops the rest of the step.
    pub(super) fn fail(&self, status: Status) {
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
}
