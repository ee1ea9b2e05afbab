//! [`Rendezvous`]: where the sends of a step meet its receives, as kernels see it. The runtime implements it.

use std::sync::Arc;

use tensorfleet_core::{RendezvousKey, Result, Tensor};

use crate::variable::Variable;

/// What a send hands to a receive; `None` is a dead tensor.
pub type Transfer = Option<Tensor>;

/// The continuation of a receive.
pub type OnReceived = Box<dyn FnOnce(Result<Transfer>) + Send>;

/// A table of key → value or waiting receiver.
pub trait Rendezvous: Send + Sync {
    /// Puts a value under a key. Never waits.
    fn send(&self, key: RendezvousKey, value: Transfer) -> Result<()>;

    /// Puts a variable under a key: whoever takes it gets the value it has then. A receive that is ordered after an update
    /// sees the update, although the send was not.
    fn send_variable(&self, key: RendezvousKey, variable: Arc<Variable>) -> Result<()> {
        self.send(key, Some(variable.read()?))
    }

    /// Takes the value under a key, now or as soon as it is sent. `received` is called exactly once; aborting
    /// the rendezvous calls it with the reason.
    fn receive(&self, key: RendezvousKey, received: OnReceived);
}
