//! [`start_thread`]: the one place of this crate that starts threads.

use std::io;

use tensorfleet_core::memory;

/// Starts a thread of a pool. It is not joined: it ends by itself once its pool is dropped and it has done what was given
/// to it before, and what it works on it owns or shares.
pub(crate) fn start_thread(name: String, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    #[expect(clippy::disallowed_methods, reason = "the pools of this crate are the owners of threads")]
    let thread = std::thread::Builder::new().name(name).spawn(move || {
        memory::mark_heap_of_thread();
        work();
    });
    thread.map(drop)
}
