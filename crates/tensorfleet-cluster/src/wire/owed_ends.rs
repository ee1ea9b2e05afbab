//! [`OwedEnds`]: sessions and steps that are over and that a task has not acknowledged the end of.
//!
//! A task that is frozen or cut off cannot be told that a session has ended, and goes on with its steps when it is back: they
//! take what is meant for the steps of the next session. So an end stays owed until the task has acknowledged it, and is told
//! before the task hears of anything new.

use std::collections::VecDeque;

/// At most so many of each are owed to a task; the oldest are given up, and swept away there in time.
const MAX_OWED: usize = 4096;

/// Ends that a task has not acknowledged.
#[derive(Debug, Default)]
pub(crate) struct OwedEnds {
    sessions: VecDeque<String>,
    steps: VecDeque<i64>,
}

impl OwedEnds {
    /// Notes that a session is over.
    pub(crate) fn owe_session(&mut self, handle: &str) {
        if !self.sessions.iter().any(|owed| owed == handle) {
            push(&mut self.sessions, handle.to_string());
        }
    }

    /// Notes that a step is over that may still run there.
    pub(crate) fn owe_step(&mut self, step: i64) {
        push(&mut self.steps, step);
    }

    /// The task knows that a session is over.
    pub(crate) fn settle_session(&mut self, handle: &str) {
        self.sessions.retain(|owed| owed != handle);
    }

    /// What must be told before a new session is made. Sessions stay owed until they are settled.
    pub(crate) fn sessions(&self) -> Vec<String> {
        self.sessions.iter().cloned().collect()
    }

    /// Takes the steps that must be told with the next message. Whoever cannot deliver them owes them again.
    pub(crate) fn take_steps(&mut self) -> Vec<i64> {
        self.steps.drain(..).collect()
    }
}

fn push<T>(owed: &mut VecDeque<T>, one: T) {
    if owed.len() >= MAX_OWED {
        owed.pop_front();
    }
    owed.push_back(one);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_owed_until_it_is_settled() {
        let mut owed = OwedEnds::default();
        owed.owe_session("a");
        owed.owe_session("b");
        owed.owe_session("a");
        assert_eq!(owed.sessions(), ["a", "b"]);
        owed.settle_session("a");
        assert_eq!(owed.sessions(), ["b"], "telling it is not enough, it must be acknowledged");
        owed.owe_step(7);
        assert_eq!(owed.take_steps(), [7]);
        assert!(owed.take_steps().is_empty());
    }

    #[test]
    fn a_task_that_never_comes_back_costs_bounded_memory() {
        let mut owed = OwedEnds::default();
        (0..2 * MAX_OWED as i64).for_each(|step| owed.owe_step(step));
        assert_eq!(owed.take_steps().first(), Some(&(MAX_OWED as i64)));
    }
}
