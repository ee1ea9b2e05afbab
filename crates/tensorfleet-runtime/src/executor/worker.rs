//! [`Worker`]: a thread at work on a step, and which nodes it leaves to others.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tensorfleet_kernel::continuation::Resume;
use tensorfleet_threads::denormals::FlushDenormals;

use super::io_thread::{IO_THREAD_NODES, IO_THREAD_TIME};
use super::iteration::Values;
use super::node::Outcome;
use super::ready::{Ready, ReadyList};
use super::step::Step;

/// What takes less time than this is not worth another thread, if this one has nothing else to do: to wake one up takes half of it
/// on many machines.
const EXPENSIVE_TIME: Duration = Duration::from_micros(40);
/// The same on a thread that serves sockets: its process shares the machine with others, which need the cores as well.
const EXPENSIVE_IO_THREAD_TIME: Duration = Duration::from_micros(100);

/// A thread at work on a step. Its lists are kept from node to node, so that running one allocates nothing.
struct Worker<'a> {
    step: &'a Arc<Step>,
    /// Where steps go on whose waits its nodes end.
    resume: Resume<'a>,
    /// What a thread that serves sockets may still do; `None` if it has all the time.
    budget: Option<Budget>,
    /// Nodes this thread will run, the next one last.
    stack: ReadyList,
    /// How many of them are expensive.
    expensive: usize,
    new: ReadyList,
    inputs: Values,
    outputs: Values,
}

/// How much a thread that serves sockets may still do for a step.
struct Budget {
    nodes: usize,
    /// For expensive nodes.
    time: Duration,
}

impl Step {
    /// Runs nodes, and what they make ready, until nothing is left for this thread.
    pub(super) fn run_nodes(self: &Arc<Step>, ready: ReadyList, resume: Resume<'_>) {
        let _flushing = FlushDenormals::begin();
        let _at_work = self.context.threads.loops().at_work();
        let budget = match resume {
            Resume::OnPool => None,
            Resume::Here(_) => Some(Budget { nodes: IO_THREAD_NODES, time: IO_THREAD_TIME }),
        };
        let (stack, inputs, outputs) = (ReadyList::new(), Values::new(), Values::new());
        let mut worker =
            Worker { step: self, resume, budget, stack, expensive: 0, new: ready, inputs, outputs };
        worker.hand_out();
        worker.run();
    }
}

impl Worker<'_> {
    fn run(&mut self) {
        while let Some(ready) = self.stack.pop() {
            if let Some(budget) = &mut self.budget {
                if budget.nodes == 0 {
                    self.stack.push(ready);
                    return self.leave_rest_to_pool();
                }
                budget.nodes -= 1;
            }
            self.expensive -= usize::from(ready.is_expensive);
            let step = self.step;
            if step.has_failed.load(Ordering::Acquire) {
                step.retire(0);
            } else if step.context.cancellation.is_cancelled() {
                step.fail(step.cancelled());
                step.retire(0);
            } else {
                let result = match step.run_node(&ready, &mut self.inputs, &mut self.outputs, self.resume) {
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
        let is_io_thread = self.budget.is_some();
        let keeps_all = !is_io_thread && (is_only_one || !self.step.context.threads.nodes().hands_over());
        let from = if is_io_thread { EXPENSIVE_IO_THREAD_TIME } else { EXPENSIVE_TIME };
        let mut new = std::mem::take(&mut self.new);
        for mut ready in new.drain(..) {
            if keeps_all || !self.step.is_expensive(&mut ready, from) {
                self.stack.push(ready);
            } else if self.keeps(&ready) {
                self.expensive += 1;
                ready.is_expensive = true;
                // At the bottom: what is cheap may make more work for other threads.
                self.stack.insert(0, ready);
            } else {
                let (step, threads) = (self.step.clone(), &self.step.context.threads);
                let about_to_work = threads.loops().about_to_work();
                threads.nodes().spawn(move || {
                    drop(about_to_work);
                    step.run_nodes(vec![ready], Resume::OnPool);
                });
            }
        }
        self.new = new;
    }

    /// Whether an expensive node stays on this thread: if it is the only one, or, on a thread that serves sockets, if there is
    /// time for it, which is taken away then.
    fn keeps(&mut self, ready: &Ready) -> bool {
        let Some(budget) = &mut self.budget else { return self.expensive == 0 };
        let left = self.step.usual_time(ready).and_then(|time| budget.time.checked_sub(time));
        budget.time = left.unwrap_or(budget.time);
        left.is_some()
    }

    fn leave_rest_to_pool(&mut self) {
        let (step, rest) = (self.step.clone(), std::mem::take(&mut self.stack));
        self.step.context.threads.nodes().spawn(move || step.run_nodes(rest, Resume::OnPool));
    }
}
