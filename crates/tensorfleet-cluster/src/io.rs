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

use tensorfleet_core::{Result, Status, interrupt, memory};
use tensorfleet_kernel::continuation::Resume;
use tensorfleet_runtime::executor::{Caller, on_io_thread};
use tokio::runtime::{Builder, Handle, Runtime};

use crate::relief::{self, Relief};

/// More threads than this would wait for the same sockets.
const MAX_THREADS: usize = 8;

static RELIEF: LazyLock<Relief> = LazyLock::new(Relief::default);

/// The process's runtime for sockets and timers. Nodes run elsewhere, except those known to be short. There is one for all
/// servers of a process: it is the kernel that wakes these threads, and more of them would be woken for the same sockets.
pub(crate) fn handle() -> &'static Handle {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
        // Half the cores: a call that wakes a second thread takes longer than one that does not, and nodes need cores, too.
        let threads = (tensorfleet_threads::cores() / 2).clamp(1, MAX_THREADS);
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads + relief::THREADS)
            .thread_name("tensorfleet-io")
            .on_thread_start(memory::mark_heap_of_thread)
            .on_thread_park(|| RELIEF.thread_comes_round())
            .enable_all()
            .build();
        // Without threads and sockets there is nobody to report to.
        let runtime =
            runtime.unwrap_or_else(|error| panic!("cannot start the threads that serve sockets: {error}"));
        RELIEF.begin(runtime.handle());
        runtime
    });
    RUNTIME.handle()
}

/// Whose thread this is, for a step that is started on one of the I/O threads.
pub(crate) fn caller() -> Caller {
    if RELIEF.may_run_nodes() { Caller::IoThread } else { Caller::OnPool }
}

/// Delivers, on one of the I/O threads, what nodes wait for. Their steps go on on this thread with what is known to be short,
/// unless it has to be there for all sockets.
pub(crate) fn deliver(deliver: impl FnOnce(Resume<'_>)) {
    if RELIEF.may_run_nodes() { on_io_thread(deliver) } else { deliver(Resume::OnPool) }
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
    let spawned = handle().spawn(work);
    let abort = spawned.abort_handle();
    let done = block_on(interruptible(async { Ok(spawned.await) })).inspect_err(|_| abort.abort())?;
    done.map_err(|error| Status::internal(format!("a call inside the process failed: {error}")))
}

/// Waits for `future`, unless the thread that waits is interrupted. It is polled on that thread, in a runtime with a clock.
pub(crate) async fn interruptible<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    let Some(interval) = interrupt::interval() else { return future.await };
    let mut future = pin!(future);
    loop {
        tokio::select! {
            biased;
            result = &mut future => return result,
            () = tokio::time::sleep(interval) => interrupt::check()?,
        }
    }
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
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::sync::mpsc::RecvTimeoutError;
    use std::time::Duration;

    use tensorfleet_core::clock::Stopwatch;

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

    /// Answers come, one after the other, for as long.
    fn assert_served_for(time: Duration) {
        let (sender, answers) = std::sync::mpsc::channel();
        let asking = std::thread::spawn(move || {
            let begin = Stopwatch::start();
            while begin.elapsed() < time && sender.send(block_on(answer())).is_ok() {}
        });
        while !asking.is_finished() {
            match answers.recv_timeout(Duration::from_secs(60)) {
                Ok(answer) => assert_eq!(answer, 42),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("nobody answers"),
            }
        }
    }

    fn wait_until_nodes_run_here() {
        let begin = Stopwatch::start();
        while caller() != Caller::IoThread {
            assert!(begin.elapsed() < Duration::from_secs(60), "the others are back");
            assert_eq!(block_on(answer()), 42);
        }
    }

    #[test]
    fn sockets_and_timers_are_served_while_all_threads_are_kept_from_them() {
        let (release, held) = std::sync::mpsc::channel::<()>();
        let held = Arc::new(parking_lot::Mutex::new(held));
        // As many as serve sockets, and one of those that stand by.
        let threads = (tensorfleet_threads::cores() / 2).clamp(1, MAX_THREADS) + 1;
        for _ in 0..threads {
            let held = held.clone();
            handle().spawn(async move { _ = held.lock().recv() });
        }
        assert_served_for(Duration::from_secs(2));
        assert_eq!(caller(), Caller::OnPool, "the thread that is left runs no nodes");
        drop(release);
        wait_until_nodes_run_here();
        // Nobody stands by any more. Nodes that take long keep all threads that run nodes, but not the last.
        let (release, held) = std::sync::mpsc::channel::<()>();
        let held = Arc::new(parking_lot::Mutex::new(held));
        let stuck = Arc::new(AtomicUsize::new(0));
        let run_node = move |stuck: &AtomicUsize| {
            if caller() == Caller::IoThread {
                stuck.fetch_add(1, Relaxed);
                _ = held.lock().recv();
            }
        };
        let run_node = Arc::new(run_node);
        let begin = Stopwatch::start();
        while stuck.load(Relaxed) < threads {
            assert!(begin.elapsed() < Duration::from_secs(60), "{stuck:?} of {threads} threads run nodes");
            // Many, since the last thread may take some of them, and is done with them at once.
            for _ in 0..64 {
                let (run_node, stuck) = (run_node.clone(), stuck.clone());
                handle().spawn(async move { run_node(&stuck) });
            }
            assert_served_for(Duration::from_millis(10));
        }
        assert_served_for(Duration::from_secs(2));
        assert_eq!(stuck.load(Relaxed), threads, "all but one");
        drop(release);
        wait_until_nodes_run_here();
    }
}
