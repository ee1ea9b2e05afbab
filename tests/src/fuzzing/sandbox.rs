//! Where hostile inputs run: with little memory, and with no files but those of a directory of their own.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Once};
use std::time::Duration;

use tempfile::TempDir;
use tensorfleet_core::memory;
use tensorfleet_kernel::file_access::FileAccess;
use tensorfleet_runtime::{DirectSession, RunOptions, SessionOptions, Task};
use tensorfleet_threads::{ThreadCounts, Threads};

/// Enough for every real input of this size, and far below what a hostile shape asks for.
const MEMORY_LIMIT_BYTES: usize = 128 << 20;
/// A step that waits for something is cancelled after this time.
const STEP_TIMEOUT: Duration = Duration::from_millis(50);

/// Tensors of this process take no more than a hostile input needs to be refused quickly.
pub(super) fn bound_memory() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| memory::set_limit_bytes(MEMORY_LIMIT_BYTES));
}

/// A directory of this thread's own, for formats that are read from files.
pub(super) fn with_directory<T>(work: impl FnOnce(&Path) -> T) -> T {
    thread_local! {
        static DIRECTORY: TempDir = tempfile::tempdir().unwrap();
    }
    DIRECTORY.with(|directory| work(directory.path()))
}

/// The only files that graphs may touch.
pub(super) fn graph_directory() -> PathBuf {
    static DIRECTORY: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().unwrap());
    DIRECTORY.path().to_path_buf()
}

/// A session on a task of its own: nothing is left of what an earlier input did. One thread runs its nodes, so that the same
/// input takes the same way.
pub(super) fn session() -> DirectSession {
    static THREADS: LazyLock<Arc<Threads>> =
        LazyLock::new(|| Threads::with_counts(ThreadCounts::new(1, 1).unwrap()));
    static FILES: LazyLock<FileAccess> = LazyLock::new(|| FileAccess::below(&[graph_directory()]).unwrap());
    bound_memory();
    let task = Task::new("localhost", 0, FILES.clone(), THREADS.clone());
    DirectSession::new(task, SessionOptions::default())
}

/// How steps of such a session run.
pub(super) fn run_options() -> RunOptions {
    RunOptions { timeout: Some(STEP_TIMEOUT) }
}
