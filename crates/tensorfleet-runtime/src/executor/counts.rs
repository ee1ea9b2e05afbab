//! [`Counts`]: how many inputs each node of an iteration still waits for, and whether dead ones have come.

use crate::sync::atomic::{AtomicU64, Ordering};

/// Inputs (data and control together) a node can have, so that counts fit their fields.
pub(super) const MAX_INPUTS: usize = (1 << 20) - 1;

const FIELD: u64 = (1 << 20) - 1;
const DEAD_SHIFT: u32 = 32;
const MERGE_DEAD_SHIFT: u32 = 20;
const MERGE_WINNER_SHIFT: u32 = 40;

/// One counter per node, updated by the producers of its inputs, from any thread.
///
/// An ordinary node's counter has the number of missing inputs in its lower half and the number of dead ones in its
/// upper half; one atomic addition records an arrival. A merge's counter has three fields: missing control inputs,
/// dead data inputs, and the live data input that came first.
pub(super) struct Counts(Box<[AtomicU64]>);

/// What an arrival made of the consumer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Arrival {
    /// It still waits.
    Waiting,
    /// It may run now.
    Ready {
        /// Whether it is dead.
        is_dead: bool,
    },
}

/// An arrival at a merge.
#[derive(Clone, Copy)]
pub(super) enum MergeInput {
    Control,
    Live(u32),
    Dead,
    /// A loop's entry is dead: its body will never run, so the merge need not wait for the next iteration.
    DeadEnter,
}

impl Counts {
    pub(super) fn new(initial: &[u64]) -> Counts {
        Counts(initial.iter().map(|&count| AtomicU64::new(count)).collect())
    }

    /// The initial counter of an ordinary node.
    pub(super) fn initial(inputs: usize) -> u64 {
        inputs as u64
    }

    /// The initial counter of a merge.
    pub(super) fn initial_merge(control_inputs: usize) -> u64 {
        control_inputs as u64
    }

    /// Records an arrival at an ordinary node. Everything the producer wrote before is visible to whoever sees the
    /// node become ready.
    pub(super) fn arrive(&self, position: u32, is_dead: bool) -> Arrival {
        let change = (u64::from(is_dead) << DEAD_SHIFT).wrapping_sub(1);
        let before = self.0[position as usize].fetch_add(change, Ordering::AcqRel);
        if before as u32 != 1 {
            return Arrival::Waiting;
        }
        Arrival::Ready { is_dead: before.wrapping_add(change) >> DEAD_SHIFT != 0 }
    }

    /// Records an arrival at a merge with `data_inputs` data inputs. It becomes ready once: with the first live
    /// input, or when all are dead, and all control inputs have come.
    pub(super) fn arrive_at_merge(&self, position: u32, data_inputs: u32, input: MergeInput) -> Arrival {
        let counter = &self.0[position as usize];
        let mut before = counter.load(Ordering::Acquire);
        loop {
            let after = merge_after(before, data_inputs, input);
            match counter.compare_exchange_weak(before, after, Ordering::AcqRel, Ordering::Acquire) {
                Err(current) => before = current,
                Ok(_) if is_merge_ready(after, data_inputs) && !is_merge_ready(before, data_inputs) => {
                    return Arrival::Ready { is_dead: winner(after).is_none() };
                }
                Ok(_) => return Arrival::Waiting,
            }
        }
    }

    /// The live input that made a merge ready.
    pub(super) fn merge_winner(&self, position: u32) -> Option<u32> {
        winner(self.0[position as usize].load(Ordering::Acquire))
    }
}

fn winner(counter: u64) -> Option<u32> {
    (counter >> MERGE_WINNER_SHIFT).checked_sub(1).map(|index| index as u32)
}

fn dead(counter: u64) -> u64 {
    (counter >> MERGE_DEAD_SHIFT) & FIELD
}

fn is_merge_ready(counter: u64, data_inputs: u32) -> bool {
    counter & FIELD == 0 && (winner(counter).is_some() || dead(counter) >= u64::from(data_inputs))
}

fn merge_after(before: u64, data_inputs: u32, input: MergeInput) -> u64 {
    match input {
        MergeInput::Control => before - 1,
        MergeInput::Live(_) if winner(before).is_some() => before,
        MergeInput::Live(index) => before | (u64::from(index) + 1) << MERGE_WINNER_SHIFT,
        MergeInput::Dead => before + (1 << MERGE_DEAD_SHIFT),
        MergeInput::DeadEnter => before + ((u64::from(data_inputs) - dead(before)) << MERGE_DEAD_SHIFT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READY: Arrival = Arrival::Ready { is_dead: false };
    const READY_DEAD: Arrival = Arrival::Ready { is_dead: true };

    #[test]
    fn a_node_is_ready_after_its_last_input_and_dead_if_one_was() {
        let counts = Counts::new(&[Counts::initial(3), Counts::initial(2)]);
        assert_eq!(counts.arrive(0, false), Arrival::Waiting);
        assert_eq!(counts.arrive(0, true), Arrival::Waiting);
        assert_eq!(counts.arrive(0, false), READY_DEAD);
        assert_eq!(counts.arrive(1, false), Arrival::Waiting);
        assert_eq!(counts.arrive(1, false), READY);
    }

    #[test]
    fn a_merge_takes_the_first_live_input_and_fires_once() {
        let counts = Counts::new(&[Counts::initial_merge(1)]);
        let arrive = |input| counts.arrive_at_merge(0, 2, input);
        assert_eq!(arrive(MergeInput::Live(1)), Arrival::Waiting, "a control input is missing");
        assert_eq!(arrive(MergeInput::Control), READY);
        assert_eq!(arrive(MergeInput::Live(0)), Arrival::Waiting, "it has fired already");
        assert_eq!(counts.merge_winner(0), Some(1));
    }

    #[test]
    fn a_merge_is_dead_when_all_inputs_are_or_the_loop_is_never_entered() {
        let counts = Counts::new(&[Counts::initial_merge(0), Counts::initial_merge(0)]);
        assert_eq!(counts.arrive_at_merge(0, 2, MergeInput::Dead), Arrival::Waiting);
        assert_eq!(counts.arrive_at_merge(0, 2, MergeInput::Dead), READY_DEAD);
        assert_eq!(counts.arrive_at_merge(1, 2, MergeInput::DeadEnter), READY_DEAD);
    }
}
