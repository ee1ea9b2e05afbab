//! [`EventQueue`]: the bounded queue between a trainer and the thread that writes its events.
//!
//! The thread is the only one that touches the file. Callers wait only while the queue is full or while they flush,
//! and never longer than the stall limit: a disk that hangs must not stop a training for ever. The first error of the
//! file ends the thread; every later call reports it.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use tensorfleet_core::clock::Clock;
use tensorfleet_core::{Result, Status};
use tensorfleet_files::event_file::EventFile;
use tensorfleet_proto::tensorflow::Event;
use tensorfleet_proto::tensorflow::event::What;

/// Where events go: an event file, or what a test puts in its place.
pub(super) trait EventSink: Send + 'static {
    fn write(&mut self, event: &Event) -> Result<()>;
    fn flush(&mut self) -> Result<()>;
}

impl EventSink for EventFile {
    fn write(&mut self, event: &Event) -> Result<()> {
        EventFile::write(self, event)
    }

    fn flush(&mut self) -> Result<()> {
        EventFile::flush(self)
    }
}

/// Bounds of a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Events that may wait.
    pub(super) max_queue: usize,
    /// The longest time between an event and its flush.
    pub(super) flush_interval: Duration,
    /// The longest time that a caller waits.
    pub(super) stall_limit: Duration,
}

/// The callers' end of the queue. Dropping it writes what is waiting and ends the thread.
pub(super) struct EventQueue {
    shared: Arc<Shared>,
    limits: Limits,
    /// What is written to, for messages.
    target: String,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    /// There is something to do for the thread.
    work: Condvar,
    /// The thread has done something.
    progress: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Item>,
    /// How many of `waiting` are events.
    events: usize,
    flushes_asked: u64,
    flushes_done: u64,
    /// No more items will come.
    closing: bool,
    /// The thread is gone, with this result.
    ended: Option<Result<()>>,
}

enum Item {
    Event(Box<Event>),
    Flush,
}

impl EventQueue {
    /// Starts the thread that writes to `sink`.
    pub(super) fn start(sink: impl EventSink, target: String, limits: Limits) -> Result<EventQueue> {
        let shared =
            Arc::new(Shared { state: Mutex::default(), work: Condvar::new(), progress: Condvar::new() });
        let writer = Writer { sink, shared: shared.clone(), flush_interval: limits.flush_interval };
        #[expect(clippy::disallowed_methods, reason = "the queue owns the thread: `close` ends and joins it")]
        let thread = std::thread::Builder::new().name("event-writer".to_string()).spawn(|| writer.run());
        let thread = thread
            .map_err(|error| Status::resource_exhausted(format!("no thread to write {target}: {error}")))?;
        Ok(EventQueue { shared, limits, target, thread: Some(thread) })
    }

    /// Queues an event; waits while the queue is full.
    pub(super) fn add(&self, event: Event) -> Result<()> {
        let room = self.limits.max_queue.max(1);
        let mut state = self.wait("to take an event", |state| state.events < room)?;
        state.waiting.push_back(Item::Event(Box::new(event)));
        state.events += 1;
        drop(state);
        self.shared.work.notify_one();
        Ok(())
    }

    /// Waits until everything added so far is with the operating system.
    pub(super) fn flush(&self) -> Result<()> {
        // Refused at once if the thread is gone, so that nothing piles up that nobody takes.
        let mut state = self.wait("to be flushed", |_| true)?;
        state.waiting.push_back(Item::Flush);
        state.flushes_asked += 1;
        let number = state.flushes_asked;
        drop(state);
        self.shared.work.notify_one();
        self.wait("to be flushed", |state| state.flushes_done >= number).map(drop)
    }

    /// Writes what is waiting, ends the thread and reports the first thing that went wrong.
    pub(super) fn close(&mut self) -> Result<()> {
        self.shared.state.lock().closing = true;
        self.shared.work.notify_one();
        // A thread that hangs in the disk cannot be ended; it is left to itself, and ends when the disk answers.
        let thread = self.thread.take();
        let deadline = Clock::system().now() + self.limits.stall_limit;
        let mut state = self.shared.state.lock();
        let result = loop {
            if let Some(result) = state.ended.clone() {
                break result;
            }
            if self.shared.progress.wait_until(&mut state, deadline).timed_out() && state.ended.is_none() {
                return Err(self.stalled("to be closed"));
            }
        };
        drop(state);
        if let Some(thread) = thread {
            // The thread said that it ended; it has nothing left that could panic.
            let _ = thread.join();
        }
        result
    }

    /// Whether the thread has met an error; nothing can be added any more.
    pub(super) fn has_failed(&self) -> bool {
        matches!(self.shared.state.lock().ended, Some(Err(_)))
    }

    /// The state, once `ready` holds.
    fn wait(&self, what: &str, ready: impl Fn(&State) -> bool) -> Result<MutexGuard<'_, State>> {
        let deadline = Clock::system().now() + self.limits.stall_limit;
        let mut state = self.shared.state.lock();
        loop {
            match &state.ended {
                Some(Err(status)) => return Err(status.clone()),
                Some(Ok(())) => return Err(closed(&self.target)),
                None if ready(&state) => return Ok(state),
                None => {}
            }
            if self.shared.progress.wait_until(&mut state, deadline).timed_out()
                && state.ended.is_none()
                && !ready(&state)
            {
                return Err(self.stalled(what));
            }
        }
    }

    #[cold]
    fn stalled(&self, what: &str) -> Status {
        Status::deadline_exceeded(format!(
            "{} was given {:?} {what} and did not: the disk hangs or is too slow for the summaries",
            self.target, self.limits.stall_limit
        ))
    }
}

/// The error of an event for a writer that was closed.
#[cold]
pub(super) fn closed(target: &str) -> Status {
    Status::failed_precondition(format!("{target} is closed; reopen() starts a new event file"))
}

impl Drop for EventQueue {
    fn drop(&mut self) {
        if self.thread.is_some() {
            // Whoever wants to know the result closes the writer.
            let _ = self.close();
        }
    }
}

/// The thread's end.
struct Writer<S> {
    sink: S,
    shared: Arc<Shared>,
    flush_interval: Duration,
}

impl<S: EventSink> Writer<S> {
    fn run(mut self) {
        let result = self.write_all();
        let mut state = self.shared.state.lock();
        state.ended = Some(result);
        state.waiting.clear();
        self.shared.progress.notify_all();
    }

    fn write_all(&mut self) -> Result<()> {
        // Tags whose metadata the file has: readers expect it with the first value only, as TensorFlow writes it.
        let mut described: HashSet<String> = HashSet::new();
        // Set while there is something to flush. The first event is flushed at once, so that TensorBoard sees a run
        // when it begins.
        let (mut flush_at, mut flushed) = (None, None);
        let clock = Clock::system();
        loop {
            if flush_at.is_some_and(|at| at <= clock.now()) {
                self.sink.flush()?;
                (flush_at, flushed) = (None, Some(clock.now()));
            }
            match self.next(flush_at) {
                Next::Event(mut event) => {
                    drop_known_metadata(&mut event, &mut described);
                    self.sink.write(&event)?;
                    flush_at = match flushed {
                        Some(last) => last.checked_add(self.flush_interval),
                        None => Some(clock.now()),
                    };
                }
                Next::Flush => {
                    self.sink.flush()?;
                    (flush_at, flushed) = (None, Some(clock.now()));
                    self.shared.state.lock().flushes_done += 1;
                    self.shared.progress.notify_all();
                }
                Next::Nothing => {}
                Next::End => return self.sink.flush(),
            }
        }
    }

    /// The next thing to do; nothing if it is time to flush.
    fn next(&self, flush_at: Option<Instant>) -> Next {
        let mut state = self.shared.state.lock();
        loop {
            match state.waiting.pop_front() {
                Some(Item::Event(event)) => {
                    state.events -= 1;
                    self.shared.progress.notify_all();
                    return Next::Event(event);
                }
                Some(Item::Flush) => return Next::Flush,
                None if state.closing => return Next::End,
                None => {}
            }
            match flush_at {
                None => self.shared.work.wait(&mut state),
                Some(at) => {
                    if self.shared.work.wait_until(&mut state, at).timed_out() && state.waiting.is_empty() {
                        return Next::Nothing;
                    }
                }
            }
        }
    }
}

enum Next {
    Event(Box<Event>),
    Flush,
    Nothing,
    End,
}

fn drop_known_metadata(event: &mut Event, described: &mut HashSet<String>) {
    let Some(What::Summary(summary)) = &mut event.what else { return };
    for value in &mut summary.value {
        if value.metadata.is_some() && !described.insert(value.tag.clone()) {
            value.metadata = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use tensorfleet_core::Code;

    const LIMITS: Limits = Limits {
        max_queue: 2,
        flush_interval: Duration::from_secs(1000),
        stall_limit: Duration::from_secs(60),
    };

    /// Waits for a permission before every write, and notes what it does.
    struct Guarded {
        permissions: Receiver<Result<()>>,
        log: Sender<String>,
    }

    impl EventSink for Guarded {
        fn write(&mut self, event: &Event) -> Result<()> {
            // Without permissions left the test is over.
            self.permissions.recv().unwrap_or(Ok(()))?;
            let _ = self.log.send(format!("write {}", event.step));
            Ok(())
        }

        fn flush(&mut self) -> Result<()> {
            let _ = self.log.send("flush".to_string());
            Ok(())
        }
    }

    fn start(limits: Limits) -> (EventQueue, Sender<Result<()>>, Receiver<String>) {
        let (permit, permissions) = channel();
        let (log, noted) = channel();
        (EventQueue::start(Guarded { permissions, log }, "the file".into(), limits).unwrap(), permit, noted)
    }

    fn event(step: i64) -> Event {
        Event { step, ..Default::default() }
    }

    #[test]
    fn the_first_event_is_flushed_at_once_and_the_rest_when_asked() {
        let (mut queue, permit, noted) = start(LIMITS);
        (0..3).for_each(|_| permit.send(Ok(())).unwrap());
        (0..3).for_each(|step| queue.add(event(step)).unwrap());
        queue.flush().unwrap();
        queue.close().unwrap();
        drop(queue);
        let log: Vec<String> = noted.iter().collect();
        assert_eq!(log, ["write 0", "flush", "write 1", "write 2", "flush", "flush"]);
    }

    #[test]
    fn an_old_event_is_flushed_without_another_one() {
        let (queue, permit, noted) = start(Limits { flush_interval: Duration::from_millis(20), ..LIMITS });
        (0..2).for_each(|_| permit.send(Ok(())).unwrap());
        (0..2).for_each(|step| queue.add(event(step)).unwrap());
        let log: Vec<String> = noted.iter().take(4).collect();
        assert_eq!(log, ["write 0", "flush", "write 1", "flush"]);
    }

    #[test]
    fn an_error_is_reported_by_every_later_call() {
        let (mut queue, permit, _noted) = start(LIMITS);
        permit.send(Err(Status::resource_exhausted("disk full"))).unwrap();
        queue.add(event(0)).unwrap();
        assert_eq!(queue.flush().unwrap_err().code(), Code::ResourceExhausted);
        assert!(queue.has_failed());
        assert_eq!(queue.add(event(1)).unwrap_err().code(), Code::ResourceExhausted);
        assert!(queue.close().unwrap_err().message().contains("disk full"));
    }

    #[test]
    fn a_disk_that_hangs_holds_nobody_for_ever() {
        let (mut queue, permit, noted) = start(Limits { stall_limit: Duration::from_millis(50), ..LIMITS });
        let mut accepted = 0;
        let refused = loop {
            match queue.add(event(accepted)) {
                Ok(()) => accepted += 1,
                Err(status) => break status,
            }
        };
        // Two wait, and one more is with the thread if it has come so far.
        assert!((2..=3).contains(&accepted), "{accepted}");
        assert_eq!(refused.code(), Code::DeadlineExceeded);
        assert!(refused.message().contains("the file"), "{refused}");
        assert_eq!(queue.flush().unwrap_err().code(), Code::DeadlineExceeded);
        assert_eq!(queue.close().unwrap_err().code(), Code::DeadlineExceeded);
        drop(queue);
        // The disk answers at last: nothing that was accepted is lost.
        drop(permit);
        let written = noted.iter().filter(|line| line.starts_with("write")).count();
        assert_eq!(written as i64, accepted);
    }
}
