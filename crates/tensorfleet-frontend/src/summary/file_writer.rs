//! [`FileWriter`]: writes summaries and what else a run tells into an event file.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tensorfleet_core::attr::IntoAttr;
use tensorfleet_core::{Endpoint, NodeId, PartialShape, Result, Status, Tensor, clock, ensure};
use tensorfleet_files::FileAccess;
use tensorfleet_files::event_file::EventFile;
use tensorfleet_files::io_status;
use tensorfleet_proto::Message;
use tensorfleet_proto::tensorflow::event::What;
use tensorfleet_proto::tensorflow::session_log::SessionStatus;
use tensorfleet_proto::tensorflow::summary::{Value, value};
use tensorfleet_proto::tensorflow::{
    Event, GraphDef, MetaGraphDef, RunMetadata, SessionLog, Summary, TaggedRunMetadata,
};

use super::event_queue::{EventQueue, Limits, closed};
use crate::graph::Graph;

/// TensorFlow's queue: enough that a step need not wait, little enough to notice a disk that does not keep up.
const MAX_QUEUE: usize = 10;
/// TensorFlow's flush interval.
const FLUSH_INTERVAL: Duration = Duration::from_secs(120);
/// No healthy disk needs so long for an event; a training is worth more than its summaries.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Writes events into a file `events.out.tfevents.SECONDS.HOST` of a directory, where TensorBoard finds them.
///
/// A handle: clones write to the same file, from any thread. Events are queued and written by a thread of their own;
/// what goes wrong there is reported by the next call. The last clone that goes writes what is left.
///
/// ```
/// # use tensorfleet::summary::{FileWriter, SessionStatus};
/// # let scratch = tempfile::tempdir().map_err(|error| tensorfleet::Status::internal(error.to_string()))?;
/// # let directory = scratch.path().display().to_string();
/// let writer = FileWriter::new(&directory)?;
/// writer.add_session_log(SessionStatus::Start, "", 0)?;
/// writer.add_scalar("loss", 0.25, 1)?;
/// writer.close()?;
/// assert!(writer.add_scalar("loss", 0.125, 2).is_err());
/// writer.reopen()?;
/// writer.add_scalar("loss", 0.125, 2)?;
/// # Ok::<(), tensorfleet::Status>(())
/// ```
#[derive(Clone)]
pub struct FileWriter(Arc<Shared>);

struct Shared {
    directory: PathBuf,
    options: FileWriterOptions,
    /// Adders hold it to read, so that they wait for the disk side by side; closing and reopening hold it to write.
    open: RwLock<Option<Open>>,
    /// TensorBoard lists run metadata by tag, so each may be used once.
    run_tags: Mutex<HashSet<String>>,
}

struct Open {
    path: PathBuf,
    queue: EventQueue,
}

/// How a [`FileWriter`] writes.
///
/// ```
/// # use tensorfleet::summary::FileWriterOptions;
/// # let scratch = tempfile::tempdir().map_err(|error| tensorfleet::Status::internal(error.to_string()))?;
/// # let directory = scratch.path().display().to_string();
/// let writer = FileWriterOptions::new().filename_suffix(".eval").open(&directory)?;
/// assert!(writer.path().is_some_and(|path| path.to_string_lossy().ends_with(".eval")));
/// # Ok::<(), tensorfleet::Status>(())
/// ```
#[derive(Clone, Debug)]
pub struct FileWriterOptions {
    limits: Limits,
    suffix: String,
}

impl Default for FileWriterOptions {
    fn default() -> FileWriterOptions {
        let limits =
            Limits { max_queue: MAX_QUEUE, flush_interval: FLUSH_INTERVAL, stall_limit: STALL_TIMEOUT };
        FileWriterOptions { limits, suffix: String::new() }
    }
}

impl FileWriterOptions {
    /// TensorFlow's defaults: a queue of 10 events, flushed at least every 120 seconds, no suffix.
    pub fn new() -> FileWriterOptions {
        FileWriterOptions::default()
    }

    /// How many events may wait for the disk before those who add more have to wait.
    pub fn max_queue(mut self, events: usize) -> FileWriterOptions {
        self.limits.max_queue = events;
        self
    }

    /// How long an event may stay in memory.
    pub fn flush_secs(mut self, seconds: u64) -> FileWriterOptions {
        self.limits.flush_interval = Duration::from_secs(seconds);
        self
    }

    /// How long a call waits for a disk that takes nothing before it gives up; 60 seconds.
    pub fn stall_limit(mut self, limit: Duration) -> FileWriterOptions {
        self.limits.stall_limit = limit;
        self
    }

    /// What the file's name ends with.
    pub fn filename_suffix(mut self, suffix: &str) -> FileWriterOptions {
        self.suffix = suffix.to_string();
        self
    }

    /// Starts an event file in `directory`, which is made if it is missing.
    pub fn open(self, directory: &str) -> Result<FileWriter> {
        let directory = PathBuf::from(directory);
        let open = RwLock::new(Some(Open::start(&directory, &self)?));
        Ok(FileWriter(Arc::new(Shared { directory, options: self, open, run_tags: Mutex::default() })))
    }
}

impl Open {
    fn start(directory: &Path, options: &FileWriterOptions) -> Result<Open> {
        let file =
            EventFile::create(&FileAccess::EVERYWHERE, directory, &host_name(), &options.suffix, now())?;
        let path = file.path().to_path_buf();
        let queue = EventQueue::start(file, path.display().to_string(), options.limits)?;
        Ok(Open { path, queue })
    }
}

/// The writers of [`FileWriter::shared`] by the directory's canonical path. They are held by their users alone: what
/// nobody uses any more is flushed and closed, which a process-wide owner would never do.
static SHARED: Mutex<BTreeMap<PathBuf, Weak<Shared>>> = Mutex::new(BTreeMap::new());

impl FileWriter {
    /// Starts an event file in `directory`, which is made if it is missing. [`FileWriterOptions`] has more to choose.
    pub fn new(directory: &str) -> Result<FileWriter> {
        FileWriterOptions::new().open(directory)
    }

    /// The writer of this directory that others in this process use as well, or a new one if there is none: so hooks
    /// and supervisors write into one file. One that was closed or failed is reopened.
    pub fn shared(directory: &str) -> Result<FileWriter> {
        let made = std::fs::create_dir_all(directory).and_then(|()| std::fs::canonicalize(directory));
        let canonical = made.map_err(|error| {
            io_status(Path::new(directory), &error).context("the directory of event files cannot be used")
        })?;
        let mut writers = SHARED.lock();
        writers.retain(|_, writer| writer.strong_count() > 0);
        if let Some(shared) = writers.get(&canonical).and_then(Weak::upgrade) {
            let writer = FileWriter(shared);
            writer.reopen()?;
            return Ok(writer);
        }
        let writer = FileWriter::new(directory)?;
        writers.insert(canonical, Arc::downgrade(&writer.0));
        Ok(writer)
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.0.directory
    }

    /// The event file; `None` while the writer is closed.
    pub fn path(&self) -> Option<PathBuf> {
        self.0.open.read().as_ref().map(|open| open.path.clone())
    }

    /// Adds what a summary op gave: a scalar string, or several, of serialized summaries.
    pub fn add_summary(&self, summary: &Tensor, global_step: i64) -> Result<()> {
        for bytes in summary.as_strings()? {
            let summary = Summary::decode(bytes.clone()).map_err(|error| {
                Status::invalid_argument(format!(
                    "the tensor holds no serialized Summary ({error}); add_summary takes what a summary op gave"
                ))
            })?;
            self.add_summary_proto(summary, global_step)?;
        }
        Ok(())
    }

    /// Adds a summary made by hand.
    pub fn add_summary_proto(&self, summary: Summary, global_step: i64) -> Result<()> {
        self.add(global_step, What::Summary(summary))
    }

    /// Adds one number under a tag, without a summary op.
    pub fn add_scalar(&self, tag: &str, value: impl Into<f64>, global_step: i64) -> Result<()> {
        let value = Some(value::Value::SimpleValue(value.into() as f32));
        let value = Value { tag: tag.to_string(), value, ..Default::default() };
        self.add_summary_proto(Summary { value: vec![value] }, global_step)
    }

    /// Adds a graph, with the shapes that are known, for TensorBoard to draw.
    pub fn add_graph(&self, graph: &Graph) -> Result<()> {
        self.add_graph_def(&with_shapes(graph))
    }

    /// Adds a graph from its definition.
    pub fn add_graph_def(&self, graph: &GraphDef) -> Result<()> {
        self.add(0, What::GraphDef(graph.encode_to_vec().into()))
    }

    /// Adds a meta graph: a graph with its collections and how to save it.
    pub fn add_meta_graph(&self, meta_graph: &MetaGraphDef, global_step: i64) -> Result<()> {
        self.add(global_step, What::MetaGraphDef(meta_graph.encode_to_vec().into()))
    }

    /// Tells that a session starts, stops, or that a checkpoint was written. TensorBoard forgets what an earlier run
    /// wrote for steps from that of a start on.
    pub fn add_session_log(
        &self,
        status: SessionStatus,
        checkpoint_path: &str,
        global_step: i64,
    ) -> Result<()> {
        let checkpoint_path = checkpoint_path.to_string();
        let log = SessionLog { status: status.into(), checkpoint_path, ..Default::default() };
        self.add(global_step, What::SessionLog(log))
    }

    /// Adds the record of one run, under a tag that no other has.
    pub fn add_run_metadata(&self, metadata: &RunMetadata, tag: &str, global_step: i64) -> Result<()> {
        ensure!(
            self.0.run_tags.lock().insert(tag.to_string()),
            InvalidArgument,
            "The provided tag was already used for this event type: '{tag}'"
        );
        let run_metadata = metadata.encode_to_vec().into();
        self.add(
            global_step,
            What::TaggedRunMetadata(TaggedRunMetadata { tag: tag.to_string(), run_metadata }),
        )
    }

    /// Adds any event as it is.
    pub fn add_event(&self, event: Event) -> Result<()> {
        self.with_queue(|queue| queue.add(event))
    }

    /// Waits until everything added so far can be read from the file.
    pub fn flush(&self) -> Result<()> {
        self.with_queue(EventQueue::flush)
    }

    /// Writes everything and closes the file. Closing again does nothing.
    pub fn close(&self) -> Result<()> {
        let open = self.0.open.write().take();
        match open {
            Some(mut open) => open.queue.close(),
            None => Ok(()),
        }
    }

    /// Starts a new file in the same directory if the writer was closed, or failed.
    pub fn reopen(&self) -> Result<()> {
        let mut open = self.0.open.write();
        if open.as_ref().is_none_or(|open| open.queue.has_failed()) {
            *open = Some(Open::start(&self.0.directory, &self.0.options)?);
        }
        Ok(())
    }

    fn add(&self, step: i64, what: What) -> Result<()> {
        self.add_event(Event { wall_time: now(), step, what: Some(what), ..Default::default() })
    }

    fn with_queue(&self, work: impl FnOnce(&EventQueue) -> Result<()>) -> Result<()> {
        match &*self.0.open.read() {
            Some(open) => work(&open.queue),
            None => Err(closed(&format!("the event writer of {}", self.0.directory.display()))),
        }
    }
}

impl fmt::Debug for FileWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileWriter({})", self.0.directory.display())
    }
}

/// The graph with `_output_shapes` at every node, by which TensorBoard labels its edges.
pub(crate) fn with_shapes(graph: &Graph) -> GraphDef {
    graph.build(|builder| {
        let mut def = builder.graph().to_graph_def();
        for (index, node) in def.node.iter_mut().enumerate() {
            let id = NodeId::from_index(index);
            let slots = 0..builder.num_outputs(id) as u32;
            let shapes = slots.map(|slot| builder.shape(Endpoint { node: id, slot }).cloned());
            if let Ok(shapes) = shapes.collect::<Result<Vec<PartialShape>>>() {
                node.attr.insert("_output_shapes".to_string(), shapes.into_attr());
            }
        }
        def
    })
}

fn now() -> f64 {
    // A clock before 1970 only makes the dates wrong.
    clock::since_epoch().as_secs_f64()
}

/// This machine's name, which is part of a file's name; the standard library does not know it.
fn host_name() -> String {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = kernel.or_else(|| std::env::var("HOSTNAME").ok()).unwrap_or_default();
    let name = name.trim();
    if name.is_empty() || name.contains('/') { "localhost".to_string() } else { name.to_string() }
}
