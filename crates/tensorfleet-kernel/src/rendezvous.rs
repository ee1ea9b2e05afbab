//! [`Rendezvous`]: where the sends of a step meet its receives, as kernels see it. The runtime implements it.

use std::sync::Arc;

use tensorfleet_core::{RendezvousKey, Result, Status, Tensor};

use crate::continuation::Resume;
use crate::variable::Variable;

/// What a send hands to a receive; `None` is a dead tensor.
pub type Transfer = Option<Tensor>;

/// Takes what a receive waited for. Its step goes on where whoever calls this says.
pub type OnReceived = Box<dyn FnOnce(Result<Transfer>, Resume<'_>) + Send>;

/// A table of key → value or waiting receiver.
pub trait Rendezvous: Send + Sync {
    /// Puts a value under a key. Never waits. The step that receives it goes on where `resume` says.
    fn send(&self, key: RendezvousKey, value: Transfer, resume: Resume<'_>) -> Result<()>;

    /// Puts a variable under a key: whoever takes it gets the value it has then. A receive that is ordered after an update
    /// sees the update, although the send was not.
    fn send_variable(&self, key: RendezvousKey, variable: Arc<Variable>, resume: Resume<'_>) -> Result<()> {
        self.send(key, Some(variable.read()?), resume)
    }

    /// Takes the value under a key, now or as soon as it is sent. `received` is called exactly once; aborting
    /// the rendezvous calls it with the reason.
    fn receive(&self, key: RendezvousKey, received: OnReceived);
}

/// For steps that neither send nor receive.
pub struct NoRendezvous;

impl Rendezvous for NoRendezvous {
    fn send(&self, key: RendezvousKey, _: Transfer, _: Resume<'_>) -> Result<()> {
        Err(without_rendezvous(&key))
    }

    fn receive(&self, key: RendezvousKey, received: OnReceived) {
        received(Err(without_rendezvous(&key)), Resume::OnPool);
    }
}

#[cold]
fn without_rendezvous(key: &RendezvousKey) -> Status {
    Status::unimplemented(format!("this step has no rendezvous, where {key} could be sent or received"))
}
