//! The threads that serve sockets, one set for all servers and clients of the process.

use std::sync::LazyLock;

use tokio::runtime::{Builder, Handle, Runtime};

/// The process's runtime for sockets and timers. Nodes run elsewhere, except cheap ones.
pub(crate) fn handle() -> &'static Handle {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
        let threads = std::thread::available_parallelism().map_or(2, |cores| cores.get().clamp(2, 8));
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

/// Waits for `future` on a thread that is not one of those.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    handle().block_on(future)
}
