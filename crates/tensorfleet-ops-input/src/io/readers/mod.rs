//! [`Reader`]: records of files whose names come from a queue.
//!
//! A read that finds no file open asks the queue for the next name, which may take long; no thread waits for it.
//! Reads of one reader are served one after the other, in order of arrival, since they share the open file.

mod formats;
mod ops;

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tensorfleet_core::{Result, Status, ensure};

use self::formats::{Format, Records};
use tensorfleet_kernel::cancellation::Cancellation;
use tensorfleet_kernel::continuation::Resume;
use tensorfleet_kernel::file_access::FileAccess;
use tensorfleet_kernel::resource::Resource;
use tensorfleet_ops_state::state::queue::{Amount, Queue, Tuple};

pub(crate) use self::ops::OPS;

/// A record: a key that says where it stands, and its content.
struct Record {
    key: String,
    value: Bytes,
}

/// The continuation of a read; gets at least one record.
type OnRead = Box<dyn FnOnce(Result<Vec<Record>>, Resume<'_>) + Send>;

/// A reader of one format.
struct Reader {
    format: Format,
    access: FileAccess,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The open file.
    records: Option<Box<dyn Records>>,
    records_produced: i64,
    files_finished: i64,
    /// Reads that have not been served.
    reads: VecDeque<Read>,
    /// Whether a thread, or a request that waits in a queue, will see to them; there is never more than one.
    is_serving: bool,
}

/// A read that has not been served.
struct Read {
    count: usize,
    queue: Arc<Queue>,
    cancellation: Arc<Cancellation>,
    done: OnRead,
}

impl Resource for Reader {
    fn kind() -> &'static str {
        "N10tensorflow15ReaderInterfaceE"
    }
}

/// What serving the first read came to.
enum Progress {
    Served(Read, Result<Vec<Record>>),
    NeedsFile(Arc<Queue>, Arc<Cancellation>),
    AllServed,
}

/// A dequeue that may be answered before its caller looks, or after it has gone.
enum Answer {
    Awaited,
    Given(Result<Vec<Tuple>>),
    CallerLeft,
}

impl Reader {
    fn new(format: Format, access: FileAccess) -> Reader {
        Reader { format, access, state: Mutex::default() }
    }

    fn records_produced(&self) -> i64 {
        self.state.lock().records_produced
    }

    fn files_finished(&self) -> i64 {
        self.state.lock().files_finished
    }

    /// Forgets the open file and the counts.
    fn reset(&self) {
        let mut state = self.state.lock();
        (state.records, state.records_produced, state.files_finished) = (None, 0, 0);
    }

    /// Reads up to `count` records of one file, at least one.
    fn read(
        self: &Arc<Self>,
        count: usize,
        queue: Arc<Queue>,
        cancellation: Arc<Cancellation>,
        done: OnRead,
        resume: Resume<'_>,
    ) {
        let others_serve = {
            let mut state = self.state.lock();
            state.reads.push_back(Read { count, queue, cancellation, done });
            std::mem::replace(&mut state.is_serving, true)
        };
        if !others_serve {
            self.serve(resume);
        }
    }

    /// Serves reads until there are none, or the first has to wait for a file. The caller has `is_serving`.
    fn serve(self: &Arc<Self>, resume: Resume<'_>) {
        loop {
            match self.advance() {
                Progress::AllServed => return,
                Progress::Served(read, result) => (read.done)(result, resume),
                Progress::NeedsFile(queue, cancellation) => {
                    let Some(result) = self.next_file(&queue, &cancellation, resume) else { return };
                    self.take_file(result, resume);
                }
            }
        }
    }

    /// Asks the queue for a file name. `None`: the answer will come later, and serving goes on then.
    fn next_file(
        self: &Arc<Self>,
        queue: &Arc<Queue>,
        cancellation: &Arc<Cancellation>,
        resume: Resume<'_>,
    ) -> Option<Result<Vec<Tuple>>> {
        let answer = Arc::new(Mutex::new(Answer::Awaited));
        let (reader, slot) = (self.clone(), answer.clone());
        let dequeued = move |result, resume: Resume<'_>| {
            let mut answer = slot.lock();
            if let Answer::CallerLeft = *answer {
                drop(answer);
                reader.take_file(result, resume);
                reader.serve(resume);
            } else {
                *answer = Answer::Given(result);
            }
        };
        queue.dequeue(Amount { count: 1, or_fewer: false }, cancellation, Box::new(dequeued), resume);
        match std::mem::replace(&mut *answer.lock(), Answer::CallerLeft) {
            Answer::Given(result) => Some(result),
            _ => None,
        }
    }

    /// Opens the file the queue gave; if that fails, the first read fails.
    fn take_file(self: &Arc<Self>, dequeued: Result<Vec<Tuple>>, resume: Resume<'_>) {
        let opened = dequeued.and_then(|elements| self.format.open(&self.access, &file_name(&elements)?));
        let failed = {
            let mut state = self.state.lock();
            match opened {
                Ok(records) => {
                    state.records = Some(records);
                    None
                }
                Err(status) => state.reads.pop_front().map(|read| (read, status)),
            }
        };
        if let Some((read, status)) = failed {
            (read.done)(Err(status), resume);
        }
    }

    fn advance(&self) -> Progress {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let Some(first) = state.reads.front() else {
            state.is_serving = false;
            return Progress::AllServed;
        };
        let Some(records) = &mut state.records else {
            return Progress::NeedsFile(first.queue.clone(), first.cancellation.clone());
        };
        let mut found = Vec::new();
        let mut failure = None;
        while found.len() < first.count {
            match records.next_record() {
                Ok(Some(record)) => found.push(record),
                Ok(None) => {
                    state.records = None;
                    state.files_finished += 1;
                    break;
                }
                Err(status) => {
                    state.records = None;
                    failure = Some(status);
                    break;
                }
            }
        }
        state.records_produced += found.len() as i64;
        let result = match failure {
            Some(status) if found.is_empty() => Err(status),
            None if found.is_empty() => {
                return Progress::NeedsFile(first.queue.clone(), first.cancellation.clone());
            }
            _ => Ok(found),
        };
        match state.reads.pop_front() {
            Some(read) => Progress::Served(read, result),
            None => {
                state.is_serving = false;
                Progress::AllServed
            }
        }
    }
}

/// The only string of the only component of an element.
fn file_name(elements: &[Tuple]) -> Result<String> {
    let [element] = elements else {
        return Err(Status::internal("a queue gave more or less than one element"));
    };
    ensure!(
        element.len() == 1,
        InvalidArgument,
        "Expected single component queue, got {} components",
        element.len()
    );
    let name = element[0].to_string_scalar()?;
    String::from_utf8(name.to_vec()).map_err(|_| Status::invalid_argument("a file name is not valid UTF-8"))
}

#[cfg(test)]
mod tests;
