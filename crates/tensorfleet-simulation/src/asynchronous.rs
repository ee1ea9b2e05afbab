//! Asynchronous training: each client adds to counters of its own on the parameter servers, through its worker.
//!
//! A step takes a number from the client to its worker, from there to two parameter servers (or twice to the same), which
//! add it to a counter each, and brings both sums back: tensors travel in all directions, and every sum can be checked. The
//! chief saves the counters now and then, and sets all of them to what it saved when a parameter server has lost its own.

use std::sync::Arc;

use parking_lot::Mutex;
use tensorfleet::{DType, Graph, Tensor, Variable};
use tensorfleet_core::{Result, Status};
use tensorfleet_proto::tensorflow::GraphDef;
use tensorfleet_rpc::Network;

use crate::counter::Counter;
use crate::program::Client;
use crate::schedule::Schedule;
use crate::session::{Run, Session};

/// The chief saves with every so many steps.
const SAVE_EVERY: u64 = 7;

/// What is known about the counters.
pub(crate) struct Counters {
    state: Mutex<State>,
    /// On which parameter server each is.
    places: Vec<usize>,
}

struct State {
    counters: Vec<Counter>,
    saved: Vec<i64>,
    /// How often each parameter server has been started, and when the counters were last set.
    lives: Vec<u64>,
    lives_when_set: Vec<u64>,
}

/// A graph, and the names in it.
struct Model {
    graph: GraphDef,
    missing: String,
    set: Vec<String>,
    set_values: Vec<String>,
    read: Vec<String>,
    /// Present unless it is the auditor's.
    step: Option<Step>,
}

struct Step {
    amount: String,
    sums: Vec<String>,
}

impl Counters {
    /// Two for each client, on the first and on the last parameter server.
    pub(crate) fn new(schedule: &Schedule) -> Counters {
        let places: Vec<usize> = (0..schedule.workers).flat_map(|_| [0, schedule.ps - 1]).collect();
        Counters {
            state: Mutex::new(State {
                counters: places.iter().map(|_| Counter::default()).collect(),
                saved: places.iter().map(|_| 0).collect(),
                lives: vec![0; schedule.ps],
                lives_when_set: vec![0; schedule.ps],
            }),
            places,
        }
    }

    /// A parameter server has been started anew and knows nothing.
    pub(crate) fn lost(&self, ps: usize) {
        self.state.lock().lives[ps] += 1;
    }

    /// The counters are about to be set to what was saved; the values.
    fn setting(&self) -> Vec<i64> {
        let state = &mut *self.state.lock();
        for ((counter, &value), &place) in state.counters.iter_mut().zip(&state.saved).zip(&self.places) {
            counter.set(value, state.lives[place] == state.lives_when_set[place]);
        }
        state.lives_when_set.clone_from(&state.lives);
        state.saved.clone()
    }

    fn of(client: usize) -> [usize; 2] {
        [2 * client, 2 * client + 1]
    }

    fn sent(&self, client: usize) {
        let state = &mut *self.state.lock();
        Counters::of(client).iter().for_each(|&index| state.counters[index].sent());
    }

    fn answered(&self, client: usize, sums: &[i64]) -> Result<(), String> {
        let state = &mut *self.state.lock();
        let mut both = Counters::of(client).into_iter().zip(sums);
        both.try_for_each(|(index, &sum)| state.counters[index].answered(sum))
    }

    fn model(&self, client: Option<usize>) -> Result<Model> {
        let graph = Graph::new();
        let mut counters: Vec<Variable> = Vec::new();
        for (index, place) in self.places.iter().enumerate() {
            let device = format!("/job:ps/task:{place}");
            let counter = graph.device(&*device, || {
                graph
                    .new_variable(&format!("counter{index}"))
                    .dtype(DType::Int64)
                    .untrainable()
                    .init(0)
                    .check()
            })?;
            counters.push(counter);
        }
        let mut model = Model {
            graph: GraphDef::default(),
            missing: graph.report_uninitialized_variables()?.name(),
            set: Vec::new(),
            set_values: Vec::new(),
            read: counters.iter().map(|counter| counter.value().name()).collect(),
            step: None,
        };
        let scalar: [i64; 0] = [];
        for counter in &counters {
            let value = graph.device(counter.device(), || graph.placeholder(DType::Int64, scalar));
            model.set_values.push(value.name());
            model.set.push(counter.assign(&value)?.operation().name());
        }
        if let Some(client) = client {
            let amount = graph.placeholder_named("amount", DType::Int64, scalar);
            let on_worker = format!("/job:worker/task:{client}");
            let travels = graph.device(&*on_worker, || &amount + 0i64);
            let mut sums = Vec::new();
            for index in Counters::of(client) {
                let sum = graph.device(counters[index].device(), || counters[index].assign_add(&travels))?;
                sums.push(graph.device(&*on_worker, || &sum + 0i64).name());
            }
            model.step = Some(Step { amount: amount.name(), sums });
        }
        model.graph = graph.to_graph_def();
        Ok(model)
    }

    /// Reads all counters, in a session of its own, and compares them with what was done.
    pub(crate) async fn audit(&self, network: &Arc<dyn Network>, address: &str) -> Result<(), String> {
        let read = async {
            let model = self.model(None)?;
            let session = Session::create(network, address, model.graph).await?;
            let values = session.run(Run { fetches: &model.read, ..Run::default() }).await?;
            session.close().await?;
            numbers(&values)
        };
        let values = read.await.map_err(|status: Status| format!("the counters cannot be read: {status}"))?;
        let state = &mut *self.state.lock();
        state.counters.iter_mut().zip(values).try_for_each(|(counter, value)| counter.read(value))
    }
}

fn numbers(values: &[Tensor]) -> Result<Vec<i64>> {
    values.iter().map(|value| value.to_scalar::<i64>()).collect()
}

/// A client's life.
pub(crate) async fn train(client: Client, counters: Arc<Counters>) {
    loop {
        match one_session(&client, &counters).await {
            Ok(()) => return client.done(),
            Err(status) => client.lost_session(&status).await,
        }
    }
}

/// Trains until all steps are done, or the session is lost.
async fn one_session(client: &Client, counters: &Counters) -> Result<()> {
    let model = counters.model(Some(client.index))?;
    let session = client.open_session(model.graph.clone()).await?;
    let set = || {
        let values = counters.setting();
        client.note(&format!("sets the counters to {values:?}"));
        model.set_values.iter().cloned().zip(values.into_iter().map(Tensor::scalar)).collect()
    };
    client.make_ready(&session, std::slice::from_ref(&model.missing), &model.set, set).await?;
    let Some(step) = &model.step else { return Ok(()) };
    while !client.has_done_enough() {
        client.pause(client.schedule.pause).await;
        one_step(client, counters, &session, step).await?;
        if client.is_chief() && client.tally.of(client.index).answered.is_multiple_of(SAVE_EVERY) {
            save(client, counters, &session, &model).await?;
        }
    }
    client.close_session(session).await;
    Ok(())
}

async fn one_step(client: &Client, counters: &Counters, session: &Session, step: &Step) -> Result<()> {
    let feeds = [(step.amount.clone(), Tensor::scalar(1i64))];
    let twice = client.sends_twice();
    let request = Run { feeds: &feeds, fetches: &step.sums, twice, ..Run::default() };
    counters.sent(client.index);
    let sums = numbers(&client.step(session, request).await?)?;
    client.note(&format!("step answered: {sums:?}"));
    if let Err(reason) = counters.answered(client.index, &sums) {
        client.fail(&reason);
    }
    Ok(())
}

async fn save(client: &Client, counters: &Counters, session: &Session, model: &Model) -> Result<()> {
    let lives = counters.state.lock().lives.clone();
    let values = client.run(session, "the counters", Run { fetches: &model.read, ..Run::default() }).await?;
    let values = numbers(&values)?;
    let state = &mut *counters.state.lock();
    // What was read from a parameter server that is gone meanwhile is as good as any other.
    if state.lives == lives {
        client.note(&format!("saved {values:?}"));
    }
    state.saved = values;
    Ok(())
}
