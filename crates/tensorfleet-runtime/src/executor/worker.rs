//! [`Worker`]: a thread at work on a step, and which nodes it leaves to others.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tensorfleet_core::Result;
use tensorfleet_core::clock::Stopwatch;
use tensorfleet_kernel::continuation::Resume;
use tensorfleet_kernel::kernel::Outputs;
use tensorfleet_threads::denormals::FlushDenormals;

use super::expense::Expense;
use super::handed_over::HandedOver;
use super::io_thread::{IO_THREAD_NODES, IO_THREAD_TIME};
use super::iteration::Values;
use super::node::Outcome;
use super::ready::{Ready, ReadyList};
use super::step::{PANICKED, Step};

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
    /// Outstanding nodes in the care of this thread: should it panic, they must be retired all the same (`panics.rs`).
    held: usize,
    /// The node it is busy with.
    at: Option<u32>,
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
    begin: Stopwatch,
}

impl Budget {
    /// Short nodes take time as well if there are many; to look at the clock for each would take longer than some of them.
    fn is_used_up(&self) -> bool {
        self.nodes == 0 || (self.nodes % 32 == 1 && self.begin.elapsed() >= 2 * IO_THREAD_TIME)
    }
}

impl Step {
    /// Runs nodes, and what they make ready, until nothing is left for this thread.
    pub(super) fn run_nodes(self: &Arc<Step>, ready: ReadyList, resume: Resume<'_>) {
        self.work(ready.len(), resume, |worker| worker.new = ready);
    }

    /// Goes on from a node that has waited and now has its result.
    pub(super) fn go_on_from(
        self: &Arc<Step>,
        ready: Ready,
        started: Option<Duration>,
        result: Result<Outputs>,
        resume: Resume<'_>,
    ) {
        self.work(1, resume, |worker| {
            worker.at = Some(ready.node);
            let result = result.map(|values| worker.outputs.extend(values));
            self.record(ready.node, started, &worker.outputs);
            worker.settle(&ready, result);
        });
    }

    /// A thread's job: takes care of `held` outstanding nodes, which `begin` gives it, and of all that become ready by them. A
    /// panic fails the step; it neither leaves it without an end nor gets any further on this thread.
    fn work(self: &Arc<Step>, held: usize, resume: Resume<'_>, begin: impl FnOnce(&mut Worker<'_>)) {
        let _flushing = FlushDenormals::begin();
        let _at_work = self.context.session.threads.loops().at_work();
        let budget = match resume {
            Resume::OnPool => None,
            Resume::Here(_) => {
                Some(Budget { nodes: IO_THREAD_NODES, time: IO_THREAD_TIME, begin: Stopwatch::start() })
            }
        };
        let (stack, new, inputs, outputs) =
            (ReadyList::new(), ReadyList::new(), Values::new(), Values::new());
        let mut worker =
            Worker { step: self, resume, budget, held, at: None, stack, expensive: 0, new, inputs, outputs };
        let job = AssertUnwindSafe(|| {
            begin(&mut worker);
            worker.hand_out();
            worker.run();
            // Here rather than at the end of the scope: dropping a value runs the code of others.
            worker.inputs.clear();
        });
        if catch_unwind(job).is_err() {
            let (at, held) = (worker.at, worker.held);
            // What it had in its hands goes before the step ends, as it does otherwise.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(worker)));
            self.lose(PANICKED, at, held);
        }
    }
}

impl Worker<'_> {
    fn run(&mut self) {
        while let Some(ready) = self.stack.pop() {
            if let Some(budget) = &mut self.budget {
                if budget.is_used_up() {
                    self.stack.push(ready);
                    return self.leave_rest_to_pool();
                }
                budget.nodes -= 1;
            }
            self.expensive -= usize::from(ready.is_expensive);
            self.at = Some(ready.node);
            let step = self.step;
            if step.has_failed.load(Ordering::Acquire) {
                self.retire(0);
            } else if step.context.cancellation.is_cancelled() {
                step.fail(step.context.cancellation.status());
                self.retire(0);
            } else {
                let result = match step.run_node(&ready, &mut self.inputs, &mut self.outputs, self.resume) {
                    Ok(Outcome::Waiting) => {
                        self.held -= 1;
                        continue;
                    }
                    Ok(Outcome::Finished) => Ok(()),
                    Err(status) => Err(status),
                };
                self.settle(&ready, result);
                self.hand_out();
            }
        }
    }

    /// Records what a node did, and takes care of those it has made ready instead of it.
    fn settle(&mut self, ready: &Ready, result: Result<()>) {
        self.step.settle(ready, result, &mut self.outputs, &mut self.new);
        self.retire(self.new.len());
    }

    /// One node in this thread's care is done and has made `added` others ready.
    fn retire(&mut self, added: usize) {
        // First: retiring the last one ends the step, and nobody answers for it any more.
        self.held = self.held - 1 + added;
        self.step.retire(added);
    }

    /// Gives new work to this thread, or to others where that pays.
    fn hand_out(&mut self) {
        let is_only_one = self.new.len() + self.stack.len() <= 1;
        let is_io_thread = self.budget.is_some();
        let keeps_all =
            !is_io_thread && (is_only_one || !self.step.context.session.threads.nodes().hands_over());
        let from = if is_io_thread { EXPENSIVE_IO_THREAD_TIME } else { EXPENSIVE_TIME };
        let mut new = std::mem::take(&mut self.new);
        let mut unknown = ReadyList::new();
        for mut ready in new.drain(..) {
            // Another thread may have kept it for a while, and have left it to this one.
            ready.is_expensive = false;
            self.at = Some(ready.node);
            let expense = if keeps_all { Expense::Short } else { self.step.expense(&mut ready, from) };
            match expense {
                Expense::Unknown if is_io_thread => unknown.push(ready),
                Expense::Short | Expense::Unknown => self.stack.push(ready),
                Expense::Expensive if self.keeps(&ready) => {
                    self.expensive += 1;
                    ready.is_expensive = true;
                    // At the bottom: what is cheap may make more work for other threads.
                    self.stack.insert(0, ready);
                }
                Expense::Expensive => self.hand_over(vec![ready]),
            }
        }
        if !unknown.is_empty() {
            // Together: most of them are short, and the thread that gets them shares those that are not.
            self.hand_over(unknown);
        }
        self.new = new;
    }

    fn hand_over(&mut self, ready: ReadyList) {
        let threads = &self.step.context.session.threads;
        let about_to_work = threads.loops().about_to_work();
        self.held -= ready.len();
        let handed_over = HandedOver::new(self.step.clone(), ready);
        threads.nodes().spawn(move || {
            drop(about_to_work);
            handed_over.run();
        });
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
        let rest = std::mem::take(&mut self.stack);
        self.hand_over(rest);
    }
}
