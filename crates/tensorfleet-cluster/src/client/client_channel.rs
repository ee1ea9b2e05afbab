//! [`ClientChannel`]: a client's connection to its server, served by the threads that make calls on it.

use std::sync::LazyLock;
use std::time::Duration;

use tensorfleet_core::{Result, clock};
use tensorfleet_rpc::{CallOptions, Channel, ChannelOptions, Parts, Response};
use tokio::runtime::{Builder, Handle, Runtime};

use super::waiting;
use crate::io::interruptible;

/// A channel whose calls block. A connection is served by the runtime it was made in, and this one only runs while somebody
/// waits for a call: so the channel inside is not to be had, and all its calls are made here.
pub(super) struct ClientChannel(Channel);

impl ClientChannel {
    /// A channel to `address`, not connected yet.
    pub(super) fn new(address: &str) -> Result<ClientChannel> {
        Channel::new(address, ChannelOptions::default()).map(ClientChannel)
    }

    /// Whom it calls.
    pub(super) fn address(&self) -> &str {
        self.0.address()
    }

    /// Makes a call and waits for its answer.
    pub(super) fn call(&self, method: &str, message: Parts, options: CallOptions<'_>) -> Result<Response> {
        block_on_call(self.0.call(method, message, options))
    }

    /// The same for a run in the session `handle`: if it takes long, says for whom it waits.
    pub(super) fn call_for_run(
        &self,
        handle: &str,
        method: &str,
        message: Parts,
        options: CallOptions<'_>,
    ) -> Result<Response> {
        block_on_call(waiting::with_waits(&self.0, handle, self.0.call(method, message, options)))
    }

    /// Makes a call for `what` that waits for a server that is not there yet, and says so every few seconds.
    pub(super) fn call_when_ready(
        &self,
        what: &str,
        method: &str,
        message: Parts,
        timeout: Duration,
        metadata: &[(&str, &str)],
    ) -> Result<Response> {
        let deadline = clock::deadline_in(timeout);
        let options = CallOptions { deadline, wait_for_ready: true, metadata, ..CallOptions::default() };
        block_on_call(waiting::with_reports(&self.0, what, self.0.call(method, message, options)))
    }
}

/// Waits for a call, and serves the connections of all clients meanwhile: no other thread need be woken to send it or to bring
/// the answer.
fn block_on_call<T: Send>(future: impl Future<Output = Result<T>> + Send) -> Result<T> {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
        let runtime = Builder::new_current_thread().enable_all().build();
        // Without sockets there is nobody to report to.
        runtime.unwrap_or_else(|error| panic!("cannot serve sockets: {error}"))
    });
    let call = async {
        // What has happened to the connection since the last call is noticed first.
        tokio::task::yield_now().await;
        interruptible(future).await
    };
    if Handle::try_current().is_err() {
        return RUNTIME.block_on(call);
    }
    // A thread of some runtime must not wait in another; one of its own may.
    let joined = std::thread::scope(|scope| scope.spawn(|| RUNTIME.block_on(call)).join());
    joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn answer() -> Result<u32> {
        tokio::time::sleep(Duration::from_millis(1)).await;
        Ok(42)
    }

    #[test]
    fn calls_are_served_by_the_threads_that_make_them() {
        let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(|| block_on_call(answer()))).collect();
        assert!(threads.into_iter().all(|thread| thread.join().unwrap() == Ok(42)));
        let other = Builder::new_current_thread().build().unwrap();
        assert_eq!(other.block_on(async { block_on_call(answer()) }), Ok(42));
    }
}
