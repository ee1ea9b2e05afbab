//! Running a partition as part of a step: `RunGraph`, whole or in parts.

use std::sync::Arc;

use tensorfleet_core::{RendezvousKey, Result, Status, Tensor, clock};
use tensorfleet_kernel::applied_updates::AppliedUpdates;
use tensorfleet_kernel::cancellation::Cancellation;
use tensorfleet_kernel::continuation::Resume;
use tensorfleet_kernel::rendezvous::Rendezvous;
use tensorfleet_proto::tensorflow::{NodeExecStats, StepStats};
use tensorfleet_runtime::executor::{Step, Trace};
use tensorfleet_runtime::step_errors::dead_fetch;
use tensorfleet_runtime::{LocalRendezvous, StepServices};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::{oneshot, watch};

use super::awaited::{Awaited, TransferRecord};
use super::rendezvous::{self, StepRendezvous};
use super::session::{RegisteredGraph, WorkerSession};
use super::step_table::{Outcome, RunningStep, StepEntry};
use crate::io;
use crate::tasks::Spawner;
use crate::worker_api::{Part, RunGraph, RunGraphOutput};

/// A step that has been started.
struct Started {
    step: Arc<Step>,
    cancellation: Arc<Cancellation>,
    awaited: Arc<Awaited>,
    requests: UnboundedReceiver<rendezvous::Request>,
    trace: Option<Arc<Trace>>,
}

/// Runs a partition as a request says. Dropping the future cancels it.
pub(super) async fn run_graph(
    session: Arc<WorkerSession>,
    graph: Arc<RegisteredGraph>,
    entry: Arc<StepEntry>,
    request: RunGraph,
    applied: Option<Arc<AppliedUpdates>>,
    spawner: &Spawner,
) -> Result<RunGraphOutput> {
    match request.part {
        Part::Whole => run_whole(&session, &graph, entry, request, applied).await,
        Part::Some | Part::Last => run_part(&session, &graph, entry, request, spawner).await,
    }
}

async fn run_whole(
    session: &Arc<WorkerSession>,
    graph: &RegisteredGraph,
    entry: Arc<StepEntry>,
    request: RunGraph,
    applied: Option<Arc<AppliedUpdates>>,
) -> Result<RunGraphOutput> {
    let (sender, outcome) = oneshot::channel();
    let on_done = move |result| {
        // The request may have been given up.
        let _ = sender.send(result);
    };
    let started = prepare(session, graph, &entry, request.wants_trace, applied, on_done)?;
    entry.begin(running(session, &started, &request, None))?;
    session.context.background.resume();
    let mut guard = CancelOnDrop { entry: &entry, cancellation: Some(started.cancellation) };
    if session.is_over() {
        return Err(Status::cancelled(format!("Session {} was closed", session.handle)));
    }
    put(&entry.rendezvous, request.sends)?;
    started.step.run(io::caller());
    let comes_from_afar = request.connection.is_some();
    let ask = async {
        if comes_from_afar {
            // Another task drives the step, and has asked for tensors along with it. They leave first: it can begin to
            // compute what this task is about to ask for, and is not woken up before it can.
            tokio::task::yield_now().await;
        }
        rendezvous::drive(entry.id, started.requests, &started.awaited).await
    };
    let result = tokio::select! {
        biased;
        result = outcome => result,
        // Never comes to an end by itself.
        () = ask => return Err(without_result()),
    };
    let result = result.unwrap_or_else(|_| Err(without_result()));
    guard.cancellation = None;
    entry.end(result.as_ref().err());
    result?;
    let mut received = Vec::with_capacity(request.receives.len());
    for key in request.receives {
        // All nodes have run: what is not there now never comes.
        let value = entry.rendezvous.take(&key).unwrap_or_else(|| Err(nobody_sends(&key)))?;
        received.push(live(key, value)?);
    }
    Ok(RunGraphOutput {
        received,
        step_stats: started.trace.map(|trace| stats(&trace, &started.awaited, session, graph)),
        graphs: if request.wants_graph { vec![graph.to_graph_def()] } else { Vec::new() },
    })
}

/// The first part starts the step, every part adds values and waits for those it asks for, the last also waits for
/// the end.
async fn run_part(
    session: &Arc<WorkerSession>,
    graph: &RegisteredGraph,
    entry: Arc<StepEntry>,
    request: RunGraph,
    spawner: &Spawner,
) -> Result<RunGraphOutput> {
    if entry.is_new() {
        let (sender, outcome) = watch::channel(None);
        let ended = entry.clone();
        let on_done = move |result: Result<Vec<Option<Tensor>>>| {
            let result = result.map(|_| ());
            ended.end(result.as_ref().err());
            sender.send_replace(Some(result));
        };
        let started = prepare(session, graph, &entry, false, None, on_done)?;
        let mut ended = outcome.clone();
        entry.begin(running(session, &started, &request, Some(outcome)))?;
        session.context.background.resume();
        put(&entry.rendezvous, request.sends)?;
        started.step.run(io::caller());
        let (id, awaited, requests) = (entry.id, started.awaited, started.requests);
        // The parts of a run come and go; what the step waits for is asked for until it ends.
        spawner.spawn(async move {
            tokio::select! {
                _ = ended.wait_for(Option::is_some) => {}
                () = rendezvous::drive(id, requests, &awaited) => {}
            }
        });
    } else {
        put(&entry.rendezvous, request.sends)?;
    }
    let outcome = entry.outcome();
    let mut received = Vec::with_capacity(request.receives.len());
    for key in request.receives {
        let (sender, receiver) = oneshot::channel();
        let answer = Box::new(move |result, _: Resume<'_>| {
            let _ = sender.send(result);
        });
        entry.rendezvous.receive_withdrawably(key.clone(), answer);
        let given_up = || Err(Status::aborted("the step was given up").derived());
        let value = tokio::select! {
            biased;
            value = receiver => value.unwrap_or_else(|_| given_up())?,
            // All nodes have run: what is not there now never comes.
            () = ended(outcome.clone()) => return Err(nobody_sends(&key)),
        };
        received.push(live(key, value)?);
    }
    if let (Part::Last, Some(mut outcome)) = (request.part, outcome) {
        let ended = outcome.wait_for(Option::is_some).await;
        ended.map_err(|_| without_result())?.clone().unwrap_or(Ok(()))?;
    }
    Ok(RunGraphOutput { received, ..RunGraphOutput::default() })
}

/// Resolves once a partial run has ended.
async fn ended(outcome: Option<Outcome>) {
    if let Some(mut outcome) = outcome {
        // The sender goes only after the result.
        drop(outcome.wait_for(Option::is_some).await);
    }
}

#[cold]
fn nobody_sends(key: &RendezvousKey) -> Status {
    Status::invalid_argument(format!("nothing in the graph sends a tensor under the key {key}"))
}

fn prepare(
    session: &Arc<WorkerSession>,
    graph: &RegisteredGraph,
    entry: &Arc<StepEntry>,
    wants_trace: bool,
    applied: Option<Arc<AppliedUpdates>>,
    on_done: impl FnOnce(Result<Vec<Option<Tensor>>>) + Send + 'static,
) -> Result<Started> {
    let cancellation = Arc::new(Cancellation::new());
    let awaited = Arc::new(Awaited::new(wants_trace));
    let (rendezvous, pending) = (entry.rendezvous.clone(), awaited.clone());
    // Nobody can have cancelled a step that has not begun.
    let _ = cancellation.register(move |reason| {
        let reason = reason.derived();
        pending.cancel(&reason);
        rendezvous.abort(reason);
    });
    let trace = wants_trace.then(Trace::begin);
    let (sender, requests) = unbounded_channel();
    let services = StepServices {
        step_id: entry.id,
        session: session.context.clone(),
        applied,
        rendezvous: Arc::new(StepRendezvous {
            entry: entry.clone(),
            session: session.clone(),
            awaited: awaited.clone(),
            requests: sender,
        }),
        cancellation: cancellation.clone(),
    };
    let step = graph.partition.step(services, Vec::new(), trace.clone(), Box::new(on_done));
    let step = step.ok_or_else(|| Status::internal("a registered graph takes arguments"))?;
    Ok(Started { step, cancellation, awaited, requests, trace })
}

fn running(
    session: &WorkerSession,
    started: &Started,
    request: &RunGraph,
    outcome: Option<Outcome>,
) -> RunningStep {
    RunningStep {
        session: session.handle.clone(),
        cancellation: started.cancellation.clone(),
        connection: request.connection.clone(),
        step: Arc::downgrade(&started.step),
        awaited: started.awaited.clone(),
        outcome,
    }
}

fn put(rendezvous: &LocalRendezvous, values: Vec<(RendezvousKey, Tensor)>) -> Result<()> {
    values.into_iter().try_for_each(|(key, tensor)| rendezvous.send(key, Some(tensor), Resume::OnPool))
}

fn live(key: RendezvousKey, value: Option<Tensor>) -> Result<(RendezvousKey, Tensor)> {
    let tensor = value.ok_or_else(|| dead_fetch(key.edge_name()))?;
    Ok((key, tensor))
}

/// Cancels a step whose request is given up: its caller has gone away, cancelled, or run out of time.
struct CancelOnDrop<'a> {
    entry: &'a StepEntry,
    cancellation: Option<Arc<Cancellation>>,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(cancellation) = self.cancellation.take() {
            let reason =
                Status::cancelled("the step was cancelled by its master, or its connection broke").derived();
            cancellation.cancel(reason.clone());
            self.entry.end(Some(&reason));
        }
    }
}

fn stats(trace: &Trace, awaited: &Awaited, session: &WorkerSession, graph: &RegisteredGraph) -> StepStats {
    let mut device = graph.partition.step_stats(trace, &session.context.device);
    device.node_stats.extend(awaited.take_transfers().into_iter().map(transfer_stats));
    StepStats { dev_stats: vec![device] }
}

#[cold]
fn without_result() -> Status {
    Status::internal("the step ended without a result")
}

/// A transfer as timelines show it.
fn transfer_stats(record: TransferRecord) -> NodeExecStats {
    let (from, to, name) = (record.key.sender_text(), record.key.receiver_text(), record.key.edge_name());
    let micros = record.took.as_micros().max(1) as i64;
    let megabits = record.bytes as f64 * 8.0 / micros as f64;
    let start = clock::since_epoch().saturating_sub(record.asked.elapsed());
    NodeExecStats {
        node_name: "RecvTensor".to_string(),
        timeline_label: format!("[{}B] [{megabits:.1}Mb/s] {name} from {from} to {to}", record.bytes),
        all_start_micros: start.as_micros() as i64,
        all_start_nanos: start.as_nanos() as i64,
        op_end_rel_micros: micros,
        op_end_rel_nanos: record.took.as_nanos() as i64,
        all_end_rel_micros: micros,
        all_end_rel_nanos: record.took.as_nanos() as i64,
        ..Default::default()
    }
}
