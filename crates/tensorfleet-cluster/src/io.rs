//! The I/O threads: the tokio runtime that serves the sockets of all servers of the process, and how to wait for it.
//!
//! | who waits | for what | how |
//! | --- | --- | --- |
//! | a client | a call of its own | `client::ClientChannel`, which serves its sockets itself meanwhile |
//! | any thread that may block | something that the I/O threads bring about | [`block_on`]: polls on the calling thread |
//! | a client | a server of its own process | [`run`]: polls on the I/O threads |

use std::pin::pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use tensorfleet_core::{Result, Status};
use tokio::runtime::{Builder, Handle, Runtime};

/// More threads than this would wait for the same sockets.
const MAX_THREADS: usize = 8;

/// The process's runtime for sockets and timers. Nodes run elsewhere, except cheap ones. There is one for all servers of a
/// process: it is the kernel that wakes these threads, and more of them would be woken for the same sockets.
pub(crate) fn handle() -> &'static Handle {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
        // Half the cores: a call that wakes a second thread takes longer than one that does not, and nodes need cores, too.
        let threads = (tensorfleet_threads::cores() / 2).clamp(1, MAX_THREADS);
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

/// Waits for `future`, which is polled on the calling thread. Must not be called on one of the I/O threads. A thread of
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

/// Runs `work` on the I/O threads and waits for it.
pub(crate) fn run<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Result<T> {
    #[expect(clippy::disallowed_methods, reason = "the caller waits for it")]
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
    fn a_thread_waits_whether_it_belongs_to_a_runtime_or_not() {
        assert_eq!(block_on(answer()), 42);
        let other = Builder::new_current_thread().build().unwrap();
        assert_eq!(other.block_on(async { block_on(answer()) }), 42);
    }
}
