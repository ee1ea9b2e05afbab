//! Passing a node's outputs on: to the consumers in the iteration they belong to, which may become ready.

use tensorfleet_core::Result;
use tensorfleet_kernel::op::Flow;

use super::counts::{Arrival, MergeInput};
use super::executable::CONTROL;
use super::iteration::{IterationRef, Values};
use super::ready::{Ready, ReadyList};
use super::step::Step;

impl Step {
    /// Passes outputs on to the consumers, in the iteration they belong to.
    pub(super) fn propagate(&self, ready: &Ready, outputs: &mut Values, new: &mut ReadyList) -> Result<()> {
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
