//! Running one node: its inputs are taken, its kernel computes, its outputs are there.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tensorfleet_core::clock::Stopwatch;
use tensorfleet_core::{Result, Status, bail};
use tensorfleet_kernel::continuation::Resume;
use tensorfleet_kernel::kernel::{Context, KernelBox, Value};
use tensorfleet_kernel::op::Flow;

use super::executable::{Body, ExecNode, InputKind};
use super::iteration::Values;
use super::ready::Ready;
use super::step::Step;

/// What running a node came to.
pub(super) enum Outcome {
    /// Its outputs are there.
    Finished,
    /// Its continuation will come.
    Waiting,
}

impl Step {
    /// Runs a node. The steps whose waits its kernel ends go on where `resume` says.
    pub(super) fn run_node(
        self: &Arc<Step>,
        ready: &Ready,
        inputs: &mut Values,
        outputs: &mut Values,
        resume: Resume<'_>,
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
                        resume,
                        loops: match item.may_end_early {
                            true => &self.context.loops,
                            false => self.context.session.threads.loops(),
                        },
                    };
                    let started = self.trace.as_ref().map(|trace| trace.now());
                    let weighed = ready.weight_bytes.map(|bytes| (bytes, Stopwatch::start()));
                    let compute = AssertUnwindSafe(|| kernel.compute(&mut context));
                    let computed = catch_unwind(compute).unwrap_or_else(|_| Err(panicked()));
                    if item.may_end_early {
                        // What it has computed may have gaps.
                        self.context.cancellation.check()?;
                    }
                    computed?;
                    if let Some((bytes, begin)) = weighed {
                        item.stats.add(begin.elapsed(), bytes);
                    }
                    self.record(ready.node, started, outputs);
                }
                KernelBox::Async(kernel) => {
                    return self.start_async(&**kernel, ready, inputs, outputs, resume);
                }
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

    /// Notes in the trace, if there is one, that a node has run.
    pub(super) fn record(&self, node: u32, started: Option<Duration>, outputs: &Values) {
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
