//! Requests that wait for a resource to change: numbered, in order, and withdrawn when their step is given up.
//!
//! A resource keeps its waiting requests in a [`WaitingList`] under its own lock. Whoever removes a request from
//! the list — the resource that can serve it, or the cancellation of its step — answers it, outside the lock. So
//! every request is answered exactly once.

use std::collections::VecDeque;
use std::sync::Arc;

use tensorfleet_core::Status;

use tensorfleet_kernel::cancellation::{Cancellation, CancellationToken};

/// The number of a request, unique in its list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RequestId(u64);

/// A request that waits, with what is needed to withdraw it from its step's cancellation.
pub(crate) struct Waiting<T> {
    id: RequestId,
    cancellation: Arc<Cancellation>,
    token: Option<CancellationToken>,
    pub(crate) request: T,
}

impl<T> Waiting<T> {
    /// Takes the request out of its step's cancellation. To be called outside the resource's lock.
    pub(crate) fn release(self) -> T {
        if let Some(token) = self.token {
            self.cancellation.deregister(token);
        }
        self.request
    }
}

/// Requests in the order of their arrival.
pub(crate) struct WaitingList<T> {
    queue: VecDeque<Waiting<T>>,
    next: u64,
}

impl<T> Default for WaitingList<T> {
    fn default() -> Self {
        WaitingList { queue: VecDeque::new(), next: 0 }
    }
}

impl<T> WaitingList<T> {
    /// Adds a request at the end.
    pub(crate) fn push(&mut self, cancellation: &Arc<Cancellation>, request: T) -> RequestId {
        let id = RequestId(self.next);
        self.next += 1;
        self.queue.push_back(Waiting { id, cancellation: cancellation.clone(), token: None, request });
        id
    }

    /// The request whose turn it is.
    pub(crate) fn front(&mut self) -> Option<&mut T> {
        self.queue.front_mut().map(|waiting| &mut waiting.request)
    }

    /// Removes the request whose turn it is.
    pub(crate) fn pop(&mut self) -> Option<Waiting<T>> {
        self.queue.pop_front()
    }

    /// The first request that `is_due`.
    pub(crate) fn find(&self, mut is_due: impl FnMut(&T) -> bool) -> Option<RequestId> {
        self.queue.iter().find(|waiting| is_due(&waiting.request)).map(|waiting| waiting.id)
    }

    /// A request that waits.
    pub(crate) fn get_mut(&mut self, id: RequestId) -> Option<&mut T> {
        let position = self.position(id)?;
        self.queue.get_mut(position).map(|waiting| &mut waiting.request)
    }

    /// Removes all requests.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Waiting<T>> + '_ {
        self.queue.drain(..)
    }

    /// Removes a request, wherever it stands.
    pub(crate) fn remove(&mut self, id: RequestId) -> Option<Waiting<T>> {
        let position = self.position(id)?;
        self.queue.remove(position)
    }

    /// Removes the requests that `is_due`, in order.
    pub(crate) fn extract(&mut self, mut is_due: impl FnMut(&T) -> bool) -> Vec<Waiting<T>> {
        let (due, rest) = self.queue.drain(..).partition(|waiting| is_due(&waiting.request));
        self.queue = rest;
        VecDeque::into(due)
    }

    /// Whether the request still waits.
    pub(crate) fn contains(&self, id: RequestId) -> bool {
        self.position(id).is_some()
    }

    /// Remembers the cancellation token of a request; `false` if it does not wait any more.
    fn set_token(&mut self, id: RequestId, token: CancellationToken) -> bool {
        let position = self.position(id);
        let waiting = position.and_then(|position| self.queue.get_mut(position));
        waiting.map(|waiting| waiting.token = Some(token)).is_some()
    }

    /// Numbers rise from front to back.
    fn position(&self, id: RequestId) -> Option<usize> {
        self.queue.binary_search_by_key(&id.0, |waiting| waiting.id.0).ok()
    }
}

/// A resource with waiting requests of type `T`.
pub(crate) trait Waits<T>: Send + Sync + 'static {
    /// Runs `look` on the waiting list, under the lock.
    fn with_list<R>(&self, look: impl FnOnce(&mut WaitingList<T>) -> R) -> R;

    /// Withdraws a request, if it still waits, and answers it with `reason`.
    fn withdraw(&self, id: RequestId, reason: Status);
}

/// Sees to it that a waiting request is withdrawn if its step is given up.
pub(crate) fn watch<T: 'static, W: Waits<T>>(
    resource: &Arc<W>,
    id: RequestId,
    cancellation: &Arc<Cancellation>,
) {
    let waiter = resource.clone();
    match cancellation.register(move |reason| waiter.withdraw(id, reason)) {
        Ok(token) => {
            if !resource.with_list(|list| list.set_token(id, token)) {
                cancellation.deregister(token);
            }
        }
        Err(reason) => resource.withdraw(id, reason),
    }
}
