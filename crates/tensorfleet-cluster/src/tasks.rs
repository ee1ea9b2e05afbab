//! [`TaskOwner`] and [`Spawner`]: who ends the futures that run by themselves, and where work goes that takes long.
//!
//! A server sends cleanups, goodbyes and acknowledgements that nobody waits for, and drives runs that outlive the calls
//! they came with. All of these belong to the server: it owns them, hands a [`Spawner`] down to whoever starts them, and
//! what is left of them is cancelled when the server goes.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tensorfleet_core::{Result, Status};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

/// Owns futures that run by themselves. Dropping it cancels them.
pub(crate) struct TaskOwner {
    tasks: Arc<Mutex<JoinSet<()>>>,
    runtime: Handle,
    long_work: LongWork,
}

/// Where work is done that takes long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LongWork {
    /// On a thread that may be busy for long.
    #[default]
    OnThreads,
    /// Where it comes up: for those whose time does not pass meanwhile.
    InPlace,
}

/// Starts futures for a [`TaskOwner`]. Does nothing once the owner is gone.
#[derive(Clone)]
pub(crate) struct Spawner {
    tasks: Weak<Mutex<JoinSet<()>>>,
    runtime: Handle,
    long_work: LongWork,
}

impl TaskOwner {
    /// Owns nothing yet. Futures will run on `runtime`.
    pub(crate) fn new(runtime: Handle) -> TaskOwner {
        TaskOwner { tasks: Arc::default(), runtime, long_work: LongWork::default() }
    }

    /// Work that takes long is done there.
    pub(crate) fn with_long_work(self, long_work: LongWork) -> TaskOwner {
        TaskOwner { long_work, ..self }
    }

    /// What starts futures that belong to this owner.
    pub(crate) fn spawner(&self) -> Spawner {
        let (runtime, long_work) = (self.runtime.clone(), self.long_work);
        Spawner { tasks: Arc::downgrade(&self.tasks), runtime, long_work }
    }
}

impl Spawner {
    /// Runs a future to its end, or to its owner's.
    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        let Some(tasks) = self.tasks.upgrade() else { return };
        let mut tasks = tasks.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn_on(future, &self.runtime);
    }

    /// Runs a future to its end even if nobody waits for what this gives: its result.
    pub(crate) fn run<T, F>(&self, future: F) -> impl Future<Output = Result<T>> + use<T, F>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let (sender, result) = oneshot::channel();
        self.spawn(async move {
            // Whoever asked may have gone.
            let _ = sender.send(future.await);
        });
        async move {
            let gone = || Err(Status::internal("a task of this server ended without a result"));
            result.await.unwrap_or_else(|_| gone())
        }
    }

    /// Does work that takes long, so that other futures need not wait for it.
    pub(crate) async fn do_long_work<T: Send + 'static>(
        &self,
        what: &str,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        match self.long_work {
            LongWork::InPlace => work(),
            LongWork::OnThreads => self.runtime.spawn_blocking(work).await.unwrap_or_else(|error| {
                Err(Status::internal(format!("{what} failed: {error}: this is a bug in Tensorfleet")))
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_an_owner_started_ends_with_it_and_nothing_starts_after_it() {
        let owner = TaskOwner::new(Handle::current());
        let spawner = owner.spawner();
        assert_eq!(spawner.run(async { Ok(7) }).await.unwrap(), 7);
        let (held, ended) = oneshot::channel::<()>();
        spawner.spawn(async move {
            std::future::pending::<()>().await;
            drop(held);
        });
        drop(owner);
        assert!(ended.await.is_err(), "the future was dropped, and what it held with it");
        assert!(spawner.run(async { Ok(7) }).await.is_err());
    }

    #[tokio::test]
    async fn a_result_that_nobody_waits_for_is_still_made() {
        let owner = TaskOwner::new(Handle::current());
        let (sender, done) = oneshot::channel();
        drop(owner.spawner().run(async move {
            let _ = sender.send(7);
            Ok(())
        }));
        assert_eq!(done.await.unwrap(), 7);
    }
}
