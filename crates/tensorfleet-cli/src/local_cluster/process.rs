//! One process of a local cluster, with everything it starts itself.
//!
//! Each process leads a process group of its own: a signal to the group also reaches what the program has started, and
//! Ctrl-C at the terminal reaches nobody but the launcher, which decides about the order of the end. A leader that has ended
//! is not reaped before its group was killed: as long as it is a zombie, its number belongs to nobody else, so a signal can
//! never hit a stranger.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, channel};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::lines::read_lines;
use super::{End, Event, Stream};

/// How long the last words of a process may take after its end; whoever else holds its output open is not waited for.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// The process groups that are alive or not reaped, for those who must end all at once.
#[derive(Clone, Default)]
pub(crate) struct Groups {
    leaders: Arc<Mutex<Vec<Pid>>>,
}

impl Groups {
    /// Kills everything; what is killed already does not mind.
    pub(crate) fn kill_all(&self) {
        for &leader in &*self.leaders.lock() {
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

/// A process and its group; killed and reaped with the value.
pub(super) struct Process {
    child: Child,
    leader: Pid,
    groups: Groups,
    pub(super) started: Instant,
}

impl Process {
    /// Starts `command`, whose lines and whose end are sent as events of task number `task`.
    ///
    /// The calling thread must live as long as the cluster: with it the kernel ends the process, see [`die_with_parent`].
    pub(super) fn start(
        mut command: Command,
        task: usize,
        run: u32,
        groups: &Groups,
        events: &SyncSender<Event>,
    ) -> std::io::Result<Process> {
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        die_with_parent(&mut command);
        let mut child = command.spawn()?;
        // The numbers of processes are positive.
        let leader = Pid::from_child(&child);
        groups.leaders.lock().push(leader);
        let (reading, all_read) = channel();
        let outputs: [(Stream, Option<Box<dyn Read + Send>>); 2] = [
            (Stream::Out, child.stdout.take().map(|pipe| Box::new(pipe) as _)),
            (Stream::Err, child.stderr.take().map(|pipe| Box::new(pipe) as _)),
        ];
        for (stream, pipe) in outputs {
            let (events, reading) = (events.clone(), reading.clone());
            let Some(pipe) = pipe else { continue };
            // Ends with the output of the process, or when nobody listens to the events any more.
            std::thread::spawn(move || {
                read_lines(pipe, |text| events.send(Event::Line { task, stream, text }));
                drop(reading);
            });
        }
        let events = events.clone();
        // Ends with the process, which `Drop` ends at the latest.
        std::thread::spawn(move || {
            let Some(end) = wait_for_end(leader) else { return };
            wait_for_last_words(&all_read);
            let _ = events.send(Event::Ended { task, run, end });
        });
        Ok(Process { child, leader, groups: groups.clone(), started: Instant::now() })
    }

    /// Sends a signal to the process and everything in its group.
    pub(super) fn signal(&self, signal: Signal) {
        // Fails only if nobody is left in the group.
        let _ = kill_process_group(self.leader, signal);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        let mut leaders = self.groups.leaders.lock();
        leaders.retain(|&leader| leader != self.leader);
        // Nothing survives SIGKILL, so this wait is short.
        let _ = self.child.wait();
    }
}

/// Waits without reaping; none if the process is gone, which only its `Process` can bring about.
fn wait_for_end(leader: Pid) -> Option<End> {
    loop {
        match waitid(WaitId::Pid(leader), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            Ok(Some(status)) => {
                return Some(match (status.exit_status(), status.terminating_signal()) {
                    (Some(code), _) => End::Code(code),
                    (None, Some(signal)) => End::Signal(signal),
                    (None, None) => continue,
                });
            }
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return None,
        }
    }
}

fn wait_for_last_words(all_read: &Receiver<()>) {
    let deadline = Instant::now() + LAST_WORDS;
    loop {
        match all_read.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(()) => {}
            Err(RecvTimeoutError::Disconnected | RecvTimeoutError::Timeout) => return,
        }
    }
}

/// Makes the kernel kill the process when the launcher is killed in a way that leaves it no time for anything.
#[cfg(target_os = "linux")]
fn die_with_parent(command: &mut Command) {
    let parent = rustix::process::getpid();
    let prepare = move || {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have ended before the line above.
        match rustix::process::getppid() == Some(parent) {
            true => Ok(()),
            false => Err(std::io::ErrorKind::Interrupted.into()),
        }
    };
    // SAFETY: between fork and exec, in a process that may have had other threads, only what is safe in a signal handler is
    // allowed: another thread may have held any lock. The closure makes two system calls through thin wrappers and
    // compares numbers; it allocates nothing, takes no lock and does not unwind.
    unsafe {
        command.pre_exec(prepare);
    }
}

#[cfg(not(target_os = "linux"))]
fn die_with_parent(_: &mut Command) {}
