//! The signals that ask a command to end: the first is a wish to be heard, the second ends the process at once.
//!
//! The first is only noted, so that the program can end in its own order wherever it is. Someone who asks a second time, or
//! a program that is stuck where it does not look, is served by the thread that waits for signals.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use tensorfleet::{Result, Status};
use tokio::signal::unix::{SignalKind, signal};

/// SIGINT (Ctrl-C), SIGTERM and SIGHUP (the terminal was closed), caught.
pub(crate) struct Signals {
    /// The signal that was not taken yet, or 0.
    pending: Arc<AtomicI32>,
}

impl Signals {
    /// Catches them from now on. The second calls `before_exit` and ends the process with the exit code a shell would give.
    pub(crate) fn catch(before_exit: impl Fn() + Send + 'static) -> Result<Signals> {
        let failed = |error: std::io::Error| Status::internal(format!("cannot catch signals: {error}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let caught = {
            let _in_runtime = runtime.enter();
            kinds.map(signal)
        };
        let [interrupt, terminate, hangup] = caught;
        let (mut interrupt, mut terminate, mut hangup) =
            (interrupt.map_err(failed)?, terminate.map_err(failed)?, hangup.map_err(failed)?);
        let pending = Arc::new(AtomicI32::new(0));
        let noted = pending.clone();
        let mut next = move || {
            let number = runtime.block_on(async {
                tokio::select! {
                    _ = interrupt.recv() => SignalKind::interrupt(),
                    _ = terminate.recv() => SignalKind::terminate(),
                    _ = hangup.recv() => SignalKind::hangup(),
                }
            });
            number.as_raw_value()
        };
        // Lives as long as the process, which catches signals from here on.
        std::thread::spawn(move || {
            noted.store(next(), Ordering::Release);
            let second = next();
            before_exit();
            std::process::exit(128 + second);
        });
        Ok(Signals { pending })
    }

    /// The signal that came, once.
    pub(crate) fn take(&self) -> Option<i32> {
        // The loop that asks runs thousands of times a second, so the usual answer is only a load.
        match self.pending.load(Ordering::Acquire) {
            0 => None,
            _ => Some(self.pending.swap(0, Ordering::AcqRel)).filter(|&signal| signal != 0),
        }
    }
}
