//! A program's way to end its own waits, such as Ctrl-C in an interpreter.
//!
//! An interpreter runs the handlers of signals itself, on one thread, between its own steps. A wait inside this library keeps it
//! from that. Therefore it installs a question, and whoever waits on that thread asks it now and then; if the answer is yes,
//! the wait ends with `Cancelled`, and so does the step that was waited for. Programs that install nothing wait as before.

use std::sync::OnceLock;
use std::thread::ThreadId;
use std::time::Duration;

use crate::status::Status;

/// How long a wait goes on without asking: hardly noticed by a person, and nothing for a processor.
pub const ASK_EVERY: Duration = Duration::from_millis(50);

struct Installed {
    thread: ThreadId,
    is_wanted: fn() -> bool,
}

static INSTALLED: OnceLock<Installed> = OnceLock::new();

/// Installs the question for waits on the calling thread; only the first call of a process counts.
pub fn install(is_wanted: fn() -> bool) {
    let _ = INSTALLED.set(Installed { thread: std::thread::current().id(), is_wanted });
}

/// How often a wait on this thread must ask; `None` if nobody would answer.
pub fn interval() -> Option<Duration> {
    let installed = INSTALLED.get()?;
    (installed.thread == std::thread::current().id()).then_some(ASK_EVERY)
}

/// Whether the wait of this thread is to end, and why.
pub fn check() -> Result<(), Status> {
    match INSTALLED.get() {
        Some(installed) if installed.thread == std::thread::current().id() && (installed.is_wanted)() => {
            Err(Status::cancelled("interrupted by a signal"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a thread whose waits are asked")]
mod tests {
    use super::*;

    #[test]
    fn only_the_thread_that_installed_the_question_asks_it() {
        std::thread::spawn(|| {
            install(|| true);
            assert_eq!(interval(), Some(ASK_EVERY));
            assert_eq!(check().unwrap_err().code(), crate::Code::Cancelled);
        })
        .join()
        .unwrap();
        assert_eq!(interval(), None);
        assert!(check().is_ok());
    }
}
