//! Nodes that wait: how a kernel that may wait is started, and how its step goes on when it has its result.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tensorfleet_core::{Result, Status};
use tensorfleet_kernel::continuation::{Continuation, Resume};
use tensorfleet_kernel::kernel::{AsyncContext, AsyncKernel, Outputs};
use tensorfleet_threads::Threads;

use super::async_call::AsyncCall;
use super::iteration::{IterationRef, Values};
use super::node::Outcome;
use super::panics::NEVER_RUN;
use super::ready::Ready;
use super::step::Step;

impl Step {
    /// Starts a kernel that may wait. If it has its result within the call, that is used at once; otherwise the step goes on
    /// where whoever ends the wait says.
    pub(super) fn start_async(
        self: &Arc<Step>,
        kernel: &dyn AsyncKernel,
        ready: &Ready,
        inputs: &mut Values,
        outputs: &mut Values,
        resume: Resume<'_>,
    ) -> Result<Outcome> {
        let context = AsyncContext {
            step: self.context.clone(),
            frame: self.iteration(&ready.iteration).frame_iteration(),
            inputs: inputs.drain(..).collect(),
            is_input_dead: ready.is_dead,
        };
        let call = Arc::new(AsyncCall::new());
        let started = self.trace.as_ref().map(|trace| trace.now());
        let mut completer = Completer(Some(Waiting {
            step: self.clone(),
            call: call.clone(),
            node: ready.node,
            iteration: ready.iteration.clone(),
            is_dead: ready.is_dead,
            started,
        }));
        let done = Box::new(move |result, resume: Resume<'_>| completer.complete(result, resume));
        // A panic drops the completer, which completes the call with an error.
        let _ = catch_unwind(AssertUnwindSafe(|| kernel.start(context, done, resume)));
        match call.returned(|| self.waiting.lock().push(ready.node)) {
            Some(result) => {
                outputs.clear();
                outputs.extend(result?);
                self.record(ready.node, started, outputs);
                Ok(Outcome::Finished)
            }
            None => Ok(Outcome::Waiting),
        }
    }

    fn stops_waiting(&self, node: u32) {
        let mut waiting = self.waiting.lock();
        if let Some(position) = waiting.iter().position(|&other| other == node) {
            waiting.swap_remove(position);
        }
    }
}

/// A node that was started and may have to wait.
struct Waiting {
    step: Arc<Step>,
    call: Arc<AsyncCall<Result<Outputs>>>,
    node: u32,
    iteration: IterationRef,
    is_dead: bool,
    started: Option<Duration>,
}

/// Completes the call of a kernel. A kernel that loses it without a result has the node fail rather than its step hang.
struct Completer(Option<Waiting>);

impl Completer {
    fn complete(&mut self, result: Result<Outputs>, resume: Resume<'_>) {
        let Some(waiting) = self.0.take() else { return };
        if let Some(result) = waiting.call.complete(result) {
            let resumption = Resumption { waiting, result: Some(result) };
            resumption.waiting.step.stops_waiting(resumption.waiting.node);
            resume.resume(Box::new(resumption));
        }
    }
}

impl Drop for Completer {
    fn drop(&mut self) {
        self.complete(Err(Status::internal("the kernel gave up without a result")), Resume::OnPool);
    }
}

/// The rest of a step, from a node that has waited and now has its result. If it is dropped before it goes on, the step fails:
/// the node would be outstanding for ever.
struct Resumption {
    waiting: Waiting,
    /// `None` once it goes on.
    result: Option<Result<Outputs>>,
}

impl Continuation for Resumption {
    fn threads(&self) -> &Arc<Threads> {
        &self.waiting.step.context.session.threads
    }

    fn go_on(mut self: Box<Self>, resume: Resume<'_>) {
        let Some(result) = self.result.take() else { return };
        let Waiting { step, node, iteration, is_dead, started, .. } = &mut self.waiting;
        let ready = Ready::new(*node, iteration.take(), *is_dead);
        step.go_on_from(ready, *started, result, resume);
    }
}

impl Drop for Resumption {
    fn drop(&mut self) {
        if self.result.is_some() {
            self.waiting.step.lose(NEVER_RUN, Some(self.waiting.node), 1);
        }
    }
}
