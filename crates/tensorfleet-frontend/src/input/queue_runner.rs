//! [`QueueRunner`]: threads that keep a queue filled.

use std::fmt;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tensorfleet_core::{Code, NodeId, Result, Status, ensure, notice};

use super::queue::Queue;
use crate::coordinator::Coordinator;
use crate::graph::{Graph, Operation};
use crate::session::Session;

/// What fills a queue: operations that are run again and again, each by a thread of its own.
///
/// A thread ends when its operation fails with `OutOfRange` (the input is used up) or `Cancelled` (the queue or the
/// session was closed); the last one of a runner closes the queue, so that its readers get what is left and then
/// `OutOfRange`. Any other error stops the coordinator. When the coordinator stops, the queue is closed and enqueues
/// that wait are cancelled, so no thread is left behind.
///
/// ```
/// use std::sync::Arc;
/// use tensorfleet::train::{Coordinator, QueueRunner};
/// use tensorfleet::{DType, Graph, Session};
///
/// let g = Graph::new();
/// let queue = g.fifo_queue(2, &[DType::Float])?;
/// let enqueue = queue.enqueue([g.constant(1.5f32)])?;
/// g.add_queue_runner(&QueueRunner::new(&queue, [enqueue])?);
///
/// let session = Arc::new(Session::new(&g));
/// let coordinator = Coordinator::new();
/// g.start_queue_runners(&session, &coordinator)?;
/// # let element = queue.dequeue()?;
/// assert_eq!(session.run(&element)?[0].to_scalar::<f32>()?, 1.5);
/// coordinator.request_stop();
/// coordinator.join()?;
/// # Ok::<(), tensorfleet::Status>(())
/// ```
#[derive(Clone)]
pub struct QueueRunner {
    graph: Graph,
    parts: Arc<Parts>,
}

/// What a thread of a [`QueueRunner`] does; see [`QueueRunner::threads`].
pub struct RunnerThread {
    /// What the thread is called.
    pub name: String,
    /// Its work.
    pub work: Box<dyn FnOnce() -> Result<()> + Send>,
}

/// A queue runner without its graph, so that the graph can hold it.
struct Parts {
    queue_name: String,
    enqueue: Vec<NodeId>,
    close: NodeId,
    cancel: NodeId,
    closed_codes: Vec<Code>,
    /// How many threads run in which session.
    runs: Mutex<Vec<(Weak<Session>, usize)>>,
}

/// A queue runner about to be made; see [`QueueRunner::builder`].
#[must_use = "there is no queue runner before `build`"]
pub struct QueueRunnerBuilder {
    queue: Queue,
    enqueue_ops: Vec<Operation>,
    close_op: Option<Operation>,
    cancel_op: Option<Operation>,
    closed_codes: Vec<Code>,
}

impl QueueRunner {
    /// A runner of these operations; one that is given several times gets as many threads.
    pub fn new(queue: &Queue, enqueue_ops: impl IntoIterator<Item: Into<Operation>>) -> Result<QueueRunner> {
        QueueRunner::builder(queue, enqueue_ops).build()
    }

    /// A runner of which more is to be said.
    ///
    /// ```
    /// # use tensorfleet::{Code, DType, Graph, train::QueueRunner};
    /// let g = Graph::new();
    /// let queue = g.fifo_queue(2, &[DType::Float])?;
    /// let enqueue = queue.enqueue([1.5f32])?;
    /// // Two threads, and an input whose end is `NotFound`.
    /// let runner = QueueRunner::builder(&queue, [&enqueue, &enqueue]).closed_codes(&[Code::NotFound]).build()?;
    /// assert_eq!((runner.enqueue_ops().len(), runner.closed_codes()), (2, &[Code::NotFound][..]));
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn builder(
        queue: &Queue,
        enqueue_ops: impl IntoIterator<Item: Into<Operation>>,
    ) -> QueueRunnerBuilder {
        QueueRunnerBuilder {
            queue: queue.clone(),
            enqueue_ops: enqueue_ops.into_iter().map(Into::into).collect(),
            close_op: None,
            cancel_op: None,
            closed_codes: vec![Code::OutOfRange, Code::Cancelled],
        }
    }

    /// A runner of operations of any kind, known by `name`: what [`QueueRunner::new`] is for a queue. `close` is run when
    /// all threads have ended with one of `closed_codes`, `cancel` when the coordinator stops.
    pub fn from_operations(
        name: &str,
        enqueue_ops: &[Operation],
        close: &Operation,
        cancel: &Operation,
        closed_codes: &[Code],
    ) -> Result<QueueRunner> {
        ensure!(
            !enqueue_ops.is_empty(),
            InvalidArgument,
            "the queue runner of '{name}' has no enqueue operation"
        );
        let graph = close.graph();
        let enqueue = enqueue_ops.iter().map(|op| op.node_in(graph)).collect::<Result<_>>()?;
        let parts = Parts {
            queue_name: name.to_string(),
            enqueue,
            close: close.node_in(graph)?,
            cancel: cancel.node_in(graph)?,
            closed_codes: closed_codes.to_vec(),
            runs: Mutex::default(),
        };
        Ok(QueueRunner { graph: graph.clone(), parts: Arc::new(parts) })
    }

    /// The name of the queue.
    pub fn name(&self) -> &str {
        &self.parts.queue_name
    }

    /// The operations that fill the queue.
    pub fn enqueue_ops(&self) -> Vec<Operation> {
        self.parts.enqueue.iter().map(|&node| self.operation(node)).collect()
    }

    /// The operation that closes the queue.
    pub fn close_op(&self) -> Operation {
        self.operation(self.parts.close)
    }

    /// The operation that closes the queue and cancels enqueues that wait.
    pub fn cancel_op(&self) -> Operation {
        self.operation(self.parts.cancel)
    }

    /// The codes that mean that the queue is closed.
    pub fn closed_codes(&self) -> &[Code] {
        &self.parts.closed_codes
    }

    fn operation(&self, node: NodeId) -> Operation {
        Operation::new(&self.graph, Ok(node))
    }

    /// Starts the threads, which the coordinator joins; nothing if they run in this session already.
    pub fn create_threads(&self, session: &Arc<Session>, coordinator: &Coordinator) -> Result<()> {
        let threads = self.threads(session, coordinator);
        let fillers = self.parts.enqueue.len();
        for (started, RunnerThread { name, work }) in threads.into_iter().enumerate() {
            coordinator.spawn(&name, work).inspect_err(|_| {
                self.count_down(session, fillers.saturating_sub(started));
            })?;
        }
        Ok(())
    }

    /// The threads' work, for those who start them by themselves; none if they run in this session already. The last one closes
    /// the queue when the coordinator stops.
    pub fn threads(&self, session: &Arc<Session>, coordinator: &Coordinator) -> Vec<RunnerThread> {
        {
            let mut runs = self.parts.runs.lock();
            runs.retain(|(session, count)| session.strong_count() > 0 && *count > 0);
            if runs.iter().any(|(running, _)| is_of(running, session)) {
                return Vec::new();
            }
            runs.push((Arc::downgrade(session), self.parts.enqueue.len()));
        }
        let mut threads = Vec::with_capacity(self.parts.enqueue.len() + 1);
        for &enqueue in &self.parts.enqueue {
            let enqueue = self.operation(enqueue);
            let name = format!("QueueRunnerThread-{}-{}", self.name(), enqueue.name());
            let (runner, running, coordinated) = (self.clone(), session.clone(), coordinator.clone());
            let work = Box::new(move || runner.keep_filling(&running, &enqueue, &coordinated));
            threads.push(RunnerThread { name, work });
        }
        let name = format!("QueueRunnerThread-{}-close_on_stop", self.name());
        let (runner, session, coordinated) = (self.clone(), session.clone(), coordinator.clone());
        let work = Box::new(move || {
            coordinated.wait_for_stop_or(|| !runner.runs_in(&session));
            if coordinated.should_stop() {
                // The session may be closed, or the cluster gone: then nothing waits there any more.
                let _ = session.run(runner.cancel_op());
            }
            Ok(())
        });
        threads.push(RunnerThread { name, work });
        threads
    }

    fn runs_in(&self, session: &Arc<Session>) -> bool {
        self.parts.runs.lock().iter().any(|(running, count)| is_of(running, session) && *count > 0)
    }

    fn keep_filling(
        &self,
        session: &Arc<Session>,
        enqueue: &Operation,
        coordinator: &Coordinator,
    ) -> Result<()> {
        let ended = loop {
            if coordinator.should_stop() {
                break Ok(());
            }
            if let Err(error) = session.run(enqueue) {
                break Err(error);
            }
        };
        let is_last = self.count_down(session, 1);
        match ended {
            Err(error) if self.parts.closed_codes.contains(&error.code()) => {
                if is_last {
                    // It may be closed already, with all else.
                    let _ = session.run(self.close_op());
                }
                Ok(())
            }
            ended => ended,
        }
    }

    /// Whether none is left.
    fn count_down(&self, session: &Arc<Session>, by: usize) -> bool {
        let mut runs = self.parts.runs.lock();
        let Some((_, count)) = runs.iter_mut().find(|(running, _)| is_of(running, session)) else {
            return true;
        };
        *count = count.saturating_sub(by);
        *count == 0
    }
}

fn is_of(running: &Weak<Session>, session: &Arc<Session>) -> bool {
    std::ptr::eq(running.as_ptr(), Arc::as_ptr(session))
}

impl QueueRunnerBuilder {
    /// Closes the queue; [`Queue::close`] if nothing is said.
    pub fn close_op(mut self, close: &Operation) -> QueueRunnerBuilder {
        self.close_op = Some(close.clone());
        self
    }

    /// Run when the coordinator stops; a close that cancels enqueues that wait, if nothing is said.
    pub fn cancel_op(mut self, cancel: &Operation) -> QueueRunnerBuilder {
        self.cancel_op = Some(cancel.clone());
        self
    }

    /// The codes that mean that the queue is closed; `OutOfRange` and `Cancelled` if nothing is said.
    pub fn closed_codes(mut self, codes: &[Code]) -> QueueRunnerBuilder {
        self.closed_codes = codes.to_vec();
        self
    }

    /// The runner.
    pub fn build(self) -> Result<QueueRunner> {
        let close = match self.close_op {
            Some(close) => close,
            None => self.queue.close(false)?,
        };
        let cancel = match self.cancel_op {
            Some(cancel) => cancel,
            None => self.queue.close(true)?,
        };
        QueueRunner::from_operations(
            self.queue.name(),
            &self.enqueue_ops,
            &close,
            &cancel,
            &self.closed_codes,
        )
    }
}

/// What keeps the queues of a graph filled.
#[derive(Default)]
struct QueueRunners(Vec<Arc<Parts>>);

impl Graph {
    /// Adds a runner to those that [`Graph::start_queue_runners`] starts.
    pub fn add_queue_runner(&self, runner: &QueueRunner) {
        if !self.is_same(&runner.graph) {
            notice::warn(format!("the queue runner of '{}' belongs to another graph", runner.name()));
            return;
        }
        let parts = runner.parts.clone();
        self.registry(|QueueRunners(runners)| runners.push(parts));
    }

    /// The runners of this graph's queues.
    pub fn queue_runners(&self) -> Vec<QueueRunner> {
        let all = self.registry(|QueueRunners(runners)| runners.clone());
        all.into_iter().map(|parts| QueueRunner { graph: self.clone(), parts }).collect()
    }

    /// The runner of the queue called `name`.
    pub fn queue_runner(&self, name: &str) -> Result<QueueRunner> {
        let runner = self.queue_runners().into_iter().find(|runner| runner.name() == name);
        runner
            .ok_or_else(|| Status::not_found(format!("no queue runner of a queue '{name}' is in the graph")))
    }

    /// Starts the threads of all runners.
    pub fn start_queue_runners(&self, session: &Arc<Session>, coordinator: &Coordinator) -> Result<()> {
        self.queue_runners().iter().try_for_each(|runner| runner.create_threads(session, coordinator))
    }
}

impl fmt::Debug for QueueRunner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "QueueRunner({}, {} threads)", self.name(), self.parts.enqueue.len())
    }
}
