//! [`Names`]: names for the nodes that planning adds.

use tensorfleet_core::Graph;

/// Gives names that are in no graph of the session and are never given twice.
pub(super) struct Names<'a> {
    taken: &'a Graph,
    counter: &'a mut u64,
}

impl<'a> Names<'a> {
    /// Names beside those of `taken`, numbered on from `counter`.
    pub(super) fn new(taken: &'a Graph, counter: &'a mut u64) -> Names<'a> {
        Names { taken, counter }
    }

    /// A number that has not been given before.
    pub(super) fn next_number(&mut self) -> u64 {
        let number = *self.counter;
        *self.counter += 1;
        number
    }

    /// A name that has not been given before: `<prefix>_S<number>`.
    pub(super) fn fresh(&mut self, prefix: &str) -> String {
        loop {
            let name = format!("{prefix}_S{}", self.next_number());
            if self.taken.find(&name).is_none() {
                return name;
            }
        }
    }

    /// This very name, or one like it if the client uses it for a node of its own.
    pub(super) fn reserved(&self, mut name: String) -> String {
        while self.taken.find(&name).is_some() {
            name.push('.');
        }
        name
    }
}
