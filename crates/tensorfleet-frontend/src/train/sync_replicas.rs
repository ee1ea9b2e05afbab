//! [`SyncReplicasOptimizer`]: many workers, one update per round.
//!
//! Every worker sends its gradients to accumulators beside the variables, and then waits for a token. The chief takes the
//! mean of `replicas_to_aggregate` gradients per variable, applies it, raises the global step and hands out tokens, one
//! per worker, each the number of the new step. A worker remembers the token it got as its local step and sends it along
//! with its next gradients; accumulators drop gradients of an older step than their own, so that a slow worker cannot
//! pull the model back. With fewer replicas to aggregate than there are, the others are backups: a round waits for
//! the fastest only.
//!
//! A chief that starts, be it the first or one that takes the place of another, begins its round: accumulators stand at the global
//! step, the token queue is open and empty, and workers whose gradients may be gone with the round of the chief before are told to
//! give them again. Each worker counts once in a round, also if it gives its gradient again after a failure. Attributes of the nodes
//! say so to servers of ours; those of TensorFlow pass them over, and behave as they do for TensorFlow's own optimizer.
//!
//! The names of accumulators, token queue and nodes are TensorFlow's, so that workers of both kinds can take part in the
//! same training. The accumulators are those with reference handles, which servers of TensorFlow 1.x know as well.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tensorfleet_core::{Code, DType, Result, Status, ensure};

use super::backoff::Backoff;
use super::moving_average::ExponentialMovingAverage;
use super::optimizer::{GradientsAndVariables, Optimizer};
use super::session_hook::SessionHook;
use crate::coordinator::Coordinator;
use crate::graph::{Gradient, Graph, Operation, Output, Variable};
use crate::input::Queue;
use crate::input::QueueRunner;
use crate::session::Session;

/// Wraps an optimizer so that the gradients of several workers make one update.
///
/// After [`Optimizer::minimize`] or [`Optimizer::apply_gradients`], which must get a global step, the other methods give what a
/// training program needs; a [`MonitoredTrainingSession`](super::MonitoredTrainingSession) only needs
/// [`SyncReplicasOptimizer::make_session_hook`] among its hooks.
///
/// ```
/// use tensorfleet::train::{GradientDescent, MinimizeOptions, Optimizer, SyncReplicasOptimizer};
/// use tensorfleet::Graph;
///
/// let g = Graph::new();
/// let w = g.variable("w", 1.0f32);
/// let options = MinimizeOptions::counting(&g.get_or_create_global_step()?);
/// let optimizer = SyncReplicasOptimizer::new(GradientDescent::new(0.1), 2).total_num_replicas(3);
/// let train = optimizer.minimize_with(&(&w * 2.0), &options)?;
/// let hook = optimizer.make_session_hook(true)?;
/// # let _ = (train, hook);
/// # Ok::<(), tensorfleet::Status>(())
/// ```
pub struct SyncReplicasOptimizer {
    inner: Box<dyn Optimizer>,
    replicas_to_aggregate: usize,
    total_num_replicas: usize,
    /// How many workers are enough, after they have waited so long for the others.
    min_replicas: Option<(usize, Duration)>,
    /// Builds what follows a round.
    after_round: Option<AfterRound>,
    ready_for: Option<Vec<Variable>>,
    name: String,
    built: Mutex<Option<Built>>,
}

/// Builds an operation that is run with every round, after its update.
type AfterRound = Box<dyn Fn(&Graph) -> Result<Operation> + Send + Sync>;

/// What [`Optimizer::apply_gradients`] has added to the graph.
#[derive(Clone)]
struct Built {
    graph: Graph,
    global_step: Variable,
    token_queue: Queue,
    chief_queue_runner: QueueRunner,
    local_step: Variable,
    local_step_init_op: Operation,
    chief_init_op: Operation,
    ready_for_local_init_op: Output,
    /// Ends the waits of all workers.
    close_tokens_op: Operation,
    /// Whether that has happened.
    is_closed: Output,
}

impl SyncReplicasOptimizer {
    /// Makes one update of `inner` from `replicas_to_aggregate` gradients. There are as many workers, unless
    /// [`SyncReplicasOptimizer::total_num_replicas`] says otherwise.
    pub fn new(inner: impl Optimizer + 'static, replicas_to_aggregate: usize) -> SyncReplicasOptimizer {
        SyncReplicasOptimizer {
            inner: Box::new(inner),
            replicas_to_aggregate,
            total_num_replicas: replicas_to_aggregate,
            min_replicas: None,
            after_round: None,
            ready_for: None,
            name: "sync_replicas".to_string(),
            built: Mutex::new(None),
        }
    }

    /// How many workers there are: more than are aggregated, and the rest are backups; fewer, and each gives several
    /// gradients to a round.
    pub fn total_num_replicas(mut self, count: usize) -> SyncReplicasOptimizer {
        self.total_num_replicas = count;
        self
    }

    /// Lets a round go on with the gradients of at least `count` workers once they have waited for `patience` for the others. Who
    /// was missing is not waited for again until it is back. On servers of TensorFlow a round waits for all.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tensorfleet::train::{GradientDescent, SyncReplicasOptimizer};
    /// // Three workers; if one is gone for more than ten seconds, two go on.
    /// let optimizer = SyncReplicasOptimizer::new(GradientDescent::new(0.1), 3).min_replicas(2, Duration::from_secs(10));
    /// # let _ = optimizer;
    /// ```
    pub fn min_replicas(mut self, count: usize, patience: Duration) -> SyncReplicasOptimizer {
        self.min_replicas = Some((count, patience));
        self
    }

    /// Which variables must have values before workers make their own; the global ones of the graph, if nothing is said.
    pub fn ready_for(mut self, variables: Vec<Variable>) -> SyncReplicasOptimizer {
        self.ready_for = Some(variables);
        self
    }

    /// Names the nodes.
    pub fn name(mut self, name: &str) -> SyncReplicasOptimizer {
        self.name = name.to_string();
        self
    }

    /// Keeps moving averages of `variables`, updated with every round.
    pub fn variable_averages(
        self,
        averages: ExponentialMovingAverage,
        variables: Vec<Variable>,
    ) -> SyncReplicasOptimizer {
        self.after_round(move |_| averages.apply(&variables))
    }

    /// Runs what `build` builds with every round, after its update.
    pub fn after_round(
        mut self,
        build: impl Fn(&Graph) -> Result<Operation> + Send + Sync + 'static,
    ) -> SyncReplicasOptimizer {
        self.after_round = Some(Box::new(build));
        self
    }

    fn built(&self) -> Result<Built> {
        self.built.lock().clone().ok_or_else(|| {
            Status::failed_precondition(format!(
                "the synchronous optimizer '{}' has no nodes yet: call minimize or apply_gradients first",
                self.name
            ))
        })
    }

    /// Applies the rounds: the chief starts it once variables are initialised.
    pub fn get_chief_queue_runner(&self) -> Result<QueueRunner> {
        Ok(self.built()?.chief_queue_runner)
    }

    /// Begins the token queue: open, with the first tokens, so that workers may start: as many as are missing to a round, or
    /// `num_tokens` of the chief's choice. The chief runs it in each of its sessions, after [`SyncReplicasOptimizer::chief_init_op`].
    pub fn get_init_tokens_op(&self, num_tokens: Option<usize>) -> Result<Operation> {
        let built = self.built()?;
        let needed = self.replicas_to_aggregate.saturating_sub(self.total_num_replicas);
        let num_tokens = num_tokens.unwrap_or(needed);
        ensure!(
            num_tokens >= needed,
            InvalidArgument,
            "'{}' aggregates {} gradients of {} workers, so it needs at least {needed} tokens to start with, not {num_tokens}",
            self.name,
            self.replicas_to_aggregate,
            self.total_num_replicas
        );
        let graph = &built.graph;
        graph.device(built.global_step.device(), || {
            let tokens = graph.fill([count(num_tokens)?], &built.global_step)?;
            built.token_queue.enqueue_tokens([&tokens], "begin")
        })
    }

    /// The global step as this worker knows it: each train step sets it to the one that its round led to. It lies on the
    /// worker, so that to read it after a train step costs no trip to a parameter server, and all workers see the same number
    /// after the same round.
    pub fn local_step(&self) -> Result<Variable> {
        Ok(self.built()?.local_step)
    }

    /// Sets a worker's local step to the global one: the `local_init_op` of all but the chief.
    pub fn local_step_init_op(&self) -> Result<Operation> {
        Ok(self.built()?.local_step_init_op)
    }

    /// The same, and brings the accumulators to the global step: the chief's `local_init_op`.
    pub fn chief_init_op(&self) -> Result<Operation> {
        Ok(self.built()?.chief_init_op)
    }

    /// The names of variables that must have values before the operations above can run.
    pub fn ready_for_local_init_op(&self) -> Result<Output> {
        Ok(self.built()?.ready_for_local_init_op)
    }

    /// Ends the waits of all workers for a token: the chief runs it when the training is over. (The hook does.)
    pub fn close_tokens_op(&self) -> Result<Operation> {
        Ok(self.built()?.close_tokens_op)
    }

    /// Whether the token queue has been closed: the training on these parameter servers is over.
    pub fn is_closed(&self) -> Result<Output> {
        Ok(self.built()?.is_closed)
    }

    /// A hook for monitored sessions that does all of it: the local steps, the accumulators, and on the chief the
    /// tokens and the queue runner. When the chief has ended without an error, workers that wait for a token end, too.
    pub fn make_session_hook(&self, is_chief: bool) -> Result<SyncReplicasHook> {
        let built = self.built()?;
        let init_tokens_op = match is_chief {
            true => Some(self.get_init_tokens_op(None)?),
            false => None,
        };
        Ok(SyncReplicasHook { built, init_tokens_op, has_begun: false })
    }

    /// Adds the accumulators, one per variable, beside it: gives the operations that send them gradients, the operations
    /// that bring them to the global step, and the means of a round.
    fn accumulate(
        &self,
        graph: &Graph,
        suffix: &str,
        local_step: &Variable,
        global_step: &Variable,
        gradients: &[(Option<Gradient>, Variable)],
    ) -> Result<Accumulated> {
        let required = count(self.replicas_to_aggregate)?;
        let counts_once = self.counts_once();
        let mut accumulated = Accumulated::default();
        let mut accumulators = Vec::new();
        for (gradient, variable) in gradients {
            let Some(gradient) = gradient else {
                accumulated.means.push((None, variable.clone()));
                continue;
            };
            graph.device(variable.device(), || -> Result<()> {
                let shared_name = format!("{}:0/grad_accum{suffix}", variable.name());
                let (dtype, shape) = (variable.dtype()?, variable.shape()?);
                let accumulator = match gradient {
                    Gradient::Dense(_) => graph.conditional_accumulator(dtype, shape, &shared_name)?,
                    Gradient::Slices(_) => {
                        graph.sparse_conditional_accumulator(dtype, shape, &shared_name)?
                    }
                };
                let step = local_step.value().cast(DType::Int64)?;
                accumulated.sends.push(match counts_once {
                    true => accumulator.apply_members_gradient(gradient, &step)?,
                    false => accumulator.apply_gradient(gradient, &step)?,
                });
                let mean = accumulator.take_impatiently(required, self.min_replicas)?;
                accumulated.means.push((Some(mean), variable.clone()));
                accumulators.push((accumulator, variable.device()));
                Ok(())
            })?;
        }
        for (accumulator, device) in accumulators {
            accumulated.inits.push(
                graph
                    .device(&device, || accumulator.begin_round(&global_step.value().cast(DType::Int64)?))?,
            );
        }
        Ok(accumulated)
    }

    /// Whether each worker gives one gradient to a round. Where there are fewer workers than gradients, some give several.
    fn counts_once(&self) -> bool {
        self.replicas_to_aggregate <= self.total_num_replicas
    }

    fn check_counts(&self) -> Result<()> {
        ensure!(
            self.replicas_to_aggregate > 0 && self.total_num_replicas > 0,
            InvalidArgument,
            "'{}' aggregates {} gradients of {} workers; both must be at least 1",
            self.name,
            self.replicas_to_aggregate,
            self.total_num_replicas
        );
        if let Some((min_replicas, _)) = self.min_replicas {
            ensure!(
                (1..=self.replicas_to_aggregate).contains(&min_replicas) && self.counts_once(),
                InvalidArgument,
                "'{}' aggregates {} gradients of {} workers; a round cannot go on with those of {min_replicas}",
                self.name,
                self.replicas_to_aggregate,
                self.total_num_replicas
            );
        }
        Ok(())
    }
}

/// What [`SyncReplicasOptimizer::accumulate`] adds.
#[derive(Default)]
struct Accumulated {
    sends: Vec<Operation>,
    inits: Vec<Operation>,
    means: GradientsAndVariables,
}

/// The token queue of the first synchronous optimizer of a graph, as TensorFlow names it.
const TOKEN_QUEUE: &str = "sync_token_q";

impl Optimizer for SyncReplicasOptimizer {
    fn get_name(&self) -> &str {
        &self.name
    }

    fn apply_gradients_named(
        &self,
        gradients: &[(Option<Gradient>, Variable)],
        global_step: Option<&Variable>,
        name: Option<&str>,
    ) -> Result<Operation> {
        self.check_counts()?;
        let global_step = global_step.ok_or_else(|| {
            Status::invalid_argument(format!(
                "'{}' counts rounds, so apply_gradients and minimize need a global step",
                self.name
            ))
        })?;
        ensure!(
            gradients.iter().any(|(gradient, _)| gradient.is_some()),
            InvalidArgument,
            "'{}' was given no gradient",
            self.name
        );
        let graph = global_step.graph();
        let ready_for = self.ready_for.clone().unwrap_or_else(|| graph.global_variables());
        // A second optimizer must not share gradients and tokens with the first.
        let suffix = match graph.operation(TOKEN_QUEUE) {
            Ok(_) => format!("_{}", self.name),
            Err(_) => String::new(),
        };

        // The local step belongs to the worker, where an operation without variables is placed.
        let anchor = graph.no_op()?;
        let local_step = graph.colocate_with(&anchor, || {
            let local_step = graph.new_variable("sync_rep_local_step").local().dtype(global_step.dtype()?);
            local_step.init(0).check()
        })?;
        let local_step_init_op = local_step.assign(global_step)?.operation();
        let ready_for_local_init_op = graph.report_uninitialized_variables_of(&ready_for)?;

        let (accumulated, chief_init_op) = graph.name_scope(&self.name, || -> Result<_> {
            let accumulated = self.accumulate(graph, &suffix, &local_step, global_step, gradients)?;
            let inits = accumulated.inits.iter().chain([&local_step_init_op]);
            let chief_init_op = graph.group(inits)?;
            Ok((accumulated, chief_init_op))
        })?;

        let device = global_step.device();
        graph.device(&device, || {
            let update = self.inner.apply_gradients_named(&accumulated.means, Some(global_step), name)?;
            let name = format!("{TOKEN_QUEUE}{suffix}");
            let no_shape: [i64; 0] = [];
            let token_queue = graph
                .new_queue(&[global_step.dtype()?])
                .shapes([no_shape])
                .name(&name)
                .shared_name(&name)
                .fifo()?;
            let token = graph.control_dependencies(&accumulated.sends, || match self.counts_once() {
                true => token_queue.dequeue_token(),
                false => token_queue.dequeue(),
            })?;
            let token = token.first().ok_or_else(|| Status::internal("a token has one component"))?.clone();
            let train = local_step.assign(&token)?.operation();

            let tokens_per_round = count(self.replicas_to_aggregate.max(self.total_num_replicas))?;
            let mut round = graph.control_dependencies([&update], || {
                let tokens = graph.fill([tokens_per_round], global_step.value())?;
                match self.counts_once() {
                    true => token_queue.enqueue_tokens([&tokens], "round"),
                    false => token_queue.enqueue_many([&tokens]),
                }
            })?;
            if let Some(build) = &self.after_round {
                round = graph.control_dependencies([&round], || build(graph))?;
            }
            let close_tokens_op = token_queue.close(false)?;
            let is_closed = token_queue.is_closed()?;
            let nothing = graph.no_op()?;
            // A session that is replaced after a failure must leave the queue open for the next one, so the runner closes
            // nothing by itself; `close_tokens_op` is for the end of the training.
            let chief_queue_runner = QueueRunner::from_operations(
                &name,
                &[round],
                &nothing,
                &nothing,
                &[Code::OutOfRange, Code::Cancelled],
            )?;
            *self.built.lock() = Some(Built {
                graph: graph.clone(),
                global_step: global_step.clone(),
                token_queue,
                chief_queue_runner,
                local_step,
                local_step_init_op,
                chief_init_op,
                ready_for_local_init_op,
                close_tokens_op,
                is_closed,
            });
            Ok(train)
        })
    }

    fn get_slot(&self, variable: &Variable, name: &str) -> Option<Variable> {
        self.inner.get_slot(variable, name)
    }

    fn get_slot_names(&self) -> Vec<String> {
        self.inner.get_slot_names()
    }

    fn variables(&self) -> Vec<Variable> {
        self.inner.variables()
    }
}

/// The hook of synchronous training; see the example of [`SyncReplicasOptimizer`].
pub struct SyncReplicasHook {
    built: Built,
    init_tokens_op: Option<Operation>,
    /// Whether this process has taken part in the training.
    has_begun: bool,
}

/// How long a worker waits for a chief to begin, where a training before this one has ended.
const CHIEF_TIMEOUT: Duration = Duration::from_secs(60);
/// The longest time between two looks.
const CHIEF_POLL: Duration = Duration::from_millis(500);

impl SyncReplicasHook {
    fn is_closed(&self, session: &Session) -> Result<bool> {
        session.run(&self.built.is_closed)?.to_scalar()
    }

    /// Puts accumulators and tokens into the state that a round begins with, and starts to apply rounds.
    fn begin_as_chief(
        &self,
        init_tokens_op: &Operation,
        session: &Arc<Session>,
        coordinator: &Coordinator,
    ) -> Result<()> {
        // In this order: a worker that is not told to give its gradients again finds accumulators that keep them.
        session.run(&self.built.chief_init_op)?;
        session.run(init_tokens_op)?;
        ensure!(
            !self.is_closed(session)?,
            FailedPrecondition,
            "the token queue '{}' was closed by a training before this one, and its server, which is not one of Tensorfleet, \
             cannot open it again. Restart the parameter servers, or reset them (Session::reset); the model is in the newest \
             checkpoint",
            self.built.token_queue.name()
        );
        self.built.chief_queue_runner.create_threads(session, coordinator)
    }

    /// A worker that is there before the chief of a second training must not take the end of the first one for its own.
    fn wait_for_chief(&self, session: &Session) -> Result<()> {
        let mut backoff = Backoff::new(CHIEF_TIMEOUT, CHIEF_POLL);
        while self.is_closed(session)? {
            backoff.pause(|| {
                "the chief to begin: the last training on these parameter servers has ended".to_string()
            })?;
        }
        Ok(())
    }
}

impl SessionHook for SyncReplicasHook {
    fn after_create_session(&mut self, session: &Arc<Session>, coordinator: &Coordinator) -> Result<()> {
        let missing = session.run(&self.built.ready_for_local_init_op)?;
        ensure!(
            missing.num_elements() == 0,
            FailedPrecondition,
            "synchronous training cannot start: these variables are not initialised: {missing}"
        );
        match &self.init_tokens_op {
            Some(init_tokens_op) => self.begin_as_chief(init_tokens_op, session, coordinator)?,
            None => {
                if !self.has_begun {
                    self.wait_for_chief(session)?;
                }
                session.run(&self.built.local_step_init_op)?;
            }
        }
        self.has_begun = true;
        Ok(())
    }

    fn end(&mut self, session: &Arc<Session>) -> Result<()> {
        match self.init_tokens_op {
            Some(_) => session.run(&self.built.close_tokens_op),
            None => Ok(()),
        }
    }
}

fn count(number: usize) -> Result<i32> {
    i32::try_from(number)
        .map_err(|_| Status::invalid_argument(format!("{number} replicas are more than there can be")))
}
