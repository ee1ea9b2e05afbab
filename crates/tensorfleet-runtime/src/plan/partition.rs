//! [`Partition`]: what one task runs of a step, and how values of its caller get in and out.

use tensorfleet_core::{Graph, RendezvousKey};

use super::device::DeviceIndex;

/// How feeds enter a step and fetches leave it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Terminals {
    /// As arguments and results of the graph (`_Arg`, `_Retval`), by position: for a step of one task whose caller has
    /// all feeds at hand and waits for all fetches. No key is made, nobody waits for anything.
    Arguments,
    /// Through the rendezvous, under keys: for steps that several tasks share, and for partial runs, whose feeds and
    /// fetches come and go one by one.
    Rendezvous,
}

/// What one task runs.
#[derive(Debug)]
pub struct Partition {
    /// The first device of the task.
    pub device: DeviceIndex,
    /// The nodes; each has the full name of a device of the task.
    pub graph: Graph,
    /// The feeds the task needs: number in the signature, and the rendezvous key under which it is expected. Empty where
    /// feeds are arguments.
    pub feeds: Vec<(usize, RendezvousKey)>,
    /// The fetches the task makes: number in the signature, and the rendezvous key under which it is left. No key
    /// comes twice. Empty where fetches are results.
    pub fetches: Vec<(usize, RendezvousKey)>,
}
