//! The threads that serve sockets: one set for all servers of the process; clients serve their own while they wait.

use std::pin::pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use tensorfleet_core::{Result, Status};
use tokio::runtime::{Builder, Handle, Runtime};

/// More threads than this would wait for the same sockets.
const MAX_THREADS: usize = 8;

/// The process's runtime for sockets and timers. Nodes run elsewhere, except cheap ones.
pub(crate) fn handle() -> &'static Handle {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
        // Half the cores: a call that wakes a second thread takes longer than one that does not, and nodes need cores, too.
        let cores = std::thread::available_parallelism().map_or(2, |cores| cores.get());
        let threads = (cores / 2).clamp(1, MAX_THREADS);
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("tensorfleet-io")
            .enable_all()
            .build();
        // Without threads and sockets there is nobody to report to.
        runtime.unwrap_or_else(|error| panic!("cannot start the threads that serve sockets: {error}"))
    });
    RUNTIME.handle()
}

/// Waits for a client's call, and serves the client's connections meanwhile: no other thread need be woken to send it or to
/// bring the answer. All calls of a client must be made here, since its connections are served nowhere else.
pub(crate) fn block_on_call<F: Future<Output: Send> + Send>(future: F) -> F::Output {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
        let runtime = Builder::new_current_thread().enable_all().build();
        // Without sockets there is nobody to report to.
        runtime.unwrap_or_else(|error| panic!("cannot serve sockets: {error}"))
    });
    let call = async {
        // What has happened to the connection since the last call is noticed first.
        tokio::task::yield_now().await;
        future.await
    };
    if Handle::try_current().is_err() {
        return RUNTIME.block_on(call);
    }
    // A thread of some runtime must not wait in another; one of its own may.
    let joined = std::thread::scope(|scope| scope.spawn(|| RUNTIME.block_on(call)).join());
    joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Waits for `future`, which is polled on the calling thread. Must not be called on one of the threads above. A thread of
/// some other runtime may call it, though it would better not: tokio's own way to wait panics there, and a program whose
/// `main` is async should find its session slow rather than broken.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let _in_runtime = handle().enter();
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Runs `work` on the threads above and waits for it.
pub(crate) fn run<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Result<T> {
    let done = block_on(handle().spawn(work));
    done.map_err(|error| Status::internal(format!("a call inside the process failed: {error}")))
}

/// Wakes the thread that waits.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Unpark>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Unpark>) {
        self.0.unpark();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn answer() -> u32 {
        tokio::time::sleep(Duration::from_millis(1)).await;
        handle().spawn(async { 42 }).await.unwrap_or_default()
    }

    #[test]
    fn calls_are_served_by_the_threads_that_make_them() {
        let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(|| block_on_call(answer()))).collect();
        assert!(threads.into_iter().all(|thread| thread.join().unwrap() == 42));
        let other = Builder::new_current_thread().build().unwrap();
        assert_eq!(other.block_on(async { block_on_call(answer()) }), 42);
    }

    #[test]
    fn a_thread_waits_whether_it_belongs_to_a_runtime_or_not() {
        assert_eq!(block_on(answer()), 42);
        let other = Builder::new_current_thread().build().unwrap();
        assert_eq!(other.block_on(async { block_on(answer()) }), 42);
    }
}
