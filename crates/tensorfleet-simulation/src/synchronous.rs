//! Synchronous training: clients make rounds together, with the optimizer, accumulators and tokens of the front end.
//!
//! The gradient of each variable is 1 whatever happens, and the learning rate is 1, so every round takes 1 from every
//! variable and adds 1 to the global step: rounds that were lost or applied twice show in the sums. What
//! [`SyncReplicasHook`](tensorfleet::train::SyncReplicasHook) does with a session that blocks is done here without.

use std::sync::Arc;

use parking_lot::Mutex;
use tensorfleet::train::{GradientDescent, MinimizeOptions, Optimizer, SyncReplicasOptimizer};
use tensorfleet::{DType, Graph, Tensor};
use tensorfleet_core::{Code, Result, Status};
use tensorfleet_proto::tensorflow::GraphDef;
use tensorfleet_rpc::Network;

use crate::program::Client;
use crate::schedule::Schedule;
use crate::session::{Run, Session};

/// How many rounds follow once somebody has done enough, so that all see the same last one.
const LAST_ROUNDS: i64 = 5;
/// The chief saves with every so many steps.
const SAVE_EVERY: u64 = 7;

/// What is known about the rounds.
pub(crate) struct Rounds {
    schedule: Arc<Schedule>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The variables and the global step, as the chief last saved them.
    saved: (Vec<f32>, i64),
    /// The global step with which the training ends, once it is known.
    last: Option<i64>,
    doubts: Doubts,
    is_over: bool,
}

/// How far variables and global step may be apart.
///
/// A round writes its variables, each where it is, and after all of them the global step. If its chief loses its session, or its
/// life, in between, some variables are a round ahead of the step; the next session makes a round of that step again. So each
/// round that was begun and never answered may put every variable one further ahead, and none behind.
#[derive(Clone, Copy, Debug, Default)]
struct Doubts {
    /// Rounds that were begun and not answered.
    unanswered: u64,
    /// How often the variables were set to values that may have been read in the middle of a round.
    torn: u64,
}

impl Doubts {
    /// A round is about to be sent.
    fn begin_round(&mut self) {
        self.unanswered += 1;
    }

    /// A round was answered, or is known to have been applied wholly or not at all.
    fn settle_round(&mut self) {
        self.unanswered -= 1;
    }

    /// Whether variables and global step can be what they are.
    fn check(self, variables: &[f32], step: i64) -> Result<(), String> {
        let Doubts { unanswered, torn } = self;
        let (least, most) = (-(torn as f64), (unanswered + torn) as f64);
        for variable in variables {
            let ahead = -f64::from(*variable) - step as f64;
            if !(least..=most).contains(&ahead) {
                return Err(format!(
                    "after {step} rounds the variables are {variables:?}: one is {ahead} ahead, but {unanswered} rounds were not \
                     answered, and {torn} times values of the middle of a round were set"
                ));
            }
        }
        Ok(())
    }
}

/// A graph, and the names in it.
struct Model {
    graph: GraphDef,
    missing: String,
    variables: Vec<String>,
    global_step: String,
    set: Vec<String>,
    set_values: Vec<String>,
    set_step: String,
    gradient: String,
    train: String,
    local_step: String,
    init_local_step: String,
    init_chief: String,
    init_tokens: String,
    round: Vec<String>,
    close_tokens: String,
}

fn model(schedule: &Schedule, worker: usize) -> Result<Model> {
    let graph = Graph::new();
    let scalar: [i64; 0] = [];
    let on_worker = format!("/job:worker/task:{worker}");
    graph.device(&*on_worker, || {
        let places = [0, schedule.ps - 1];
        let variables = places.iter().enumerate().map(|(index, place)| {
            let device = format!("/job:ps/task:{place}");
            graph.device(&*device, || graph.variable(&format!("w{index}"), 0.0f32).check())
        });
        let variables = variables.collect::<Result<Vec<_>>>()?;
        let global_step = graph.device("/job:ps/task:0", || graph.get_or_create_global_step())?;
        let gradient = graph.placeholder_named("gradient", DType::Float, scalar);
        let loss = &(&variables[0] * &gradient) + &(&variables[1] * &gradient);
        let optimizer =
            SyncReplicasOptimizer::new(GradientDescent::new(1.0), schedule.workers - schedule.backups);
        let optimizer = optimizer.total_num_replicas(schedule.workers);
        let train = optimizer.minimize_with(&loss, &MinimizeOptions::counting(&global_step))?;
        let (mut set, mut set_values) = (Vec::new(), Vec::new());
        for variable in &variables {
            let value = graph.device(variable.device(), || graph.placeholder(DType::Float, scalar));
            set.push(variable.assign(&value)?.operation().name());
            set_values.push(value.name());
        }
        let step = graph.device(global_step.device(), || graph.placeholder(DType::Int64, scalar));
        set.push(global_step.assign(&step)?.operation().name());
        let rounds = optimizer.get_chief_queue_runner()?.enqueue_ops();
        let mut model = Model {
            graph: GraphDef::default(),
            missing: optimizer.ready_for_local_init_op()?.name(),
            variables: variables.iter().map(|variable| variable.value().name()).collect(),
            global_step: global_step.value().name(),
            set,
            set_values,
            set_step: step.name(),
            gradient: gradient.name(),
            train: train.name(),
            local_step: optimizer.local_step()?.value().name(),
            init_local_step: optimizer.local_step_init_op()?.name(),
            init_chief: optimizer.chief_init_op()?.name(),
            init_tokens: optimizer.get_init_tokens_op(None)?.name(),
            round: rounds.iter().map(|round| round.name()).collect(),
            close_tokens: optimizer.close_tokens_op()?.name(),
        };
        model.graph = graph.to_graph_def();
        Ok(model)
    })
}

impl Rounds {
    /// No round has been made.
    pub(crate) fn new(schedule: Arc<Schedule>) -> Rounds {
        let state = State { saved: (vec![0.0; 2], 0), ..State::default() };
        Rounds { schedule, state: Mutex::new(state) }
    }

    /// Whether a client whose local step this is has come to the end; decides where the end is if it has done enough.
    fn is_last(&self, client: &Client, local_step: i64) -> bool {
        let mut state = self.state.lock();
        if client.has_done_enough() {
            let last = *state.last.get_or_insert(local_step + LAST_ROUNDS);
            return local_step >= last;
        }
        state.last.is_some_and(|last| local_step >= last)
    }

    /// Reads variables and global step, in a session of its own, and compares them with each other.
    pub(crate) async fn audit(&self, network: &Arc<dyn Network>, address: &str) -> Result<(), String> {
        let read = async {
            let model = model(&self.schedule, 0)?;
            let session = Session::create(network, address, model.graph.clone()).await?;
            let values = read(&session, &model).await?;
            session.close().await?;
            Ok(values)
        };
        let (variables, step) =
            read.await.map_err(|status: Status| format!("the variables cannot be read: {status}"))?;
        let doubts = self.state.lock().doubts;
        doubts.check(&variables, step)
    }
}

async fn read(session: &Session, model: &Model) -> Result<(Vec<f32>, i64)> {
    let fetches: Vec<String> = model.variables.iter().chain([&model.global_step]).cloned().collect();
    let values = session.run(Run { fetches: &fetches, ..Run::default() }).await?;
    let (step, variables) = values.split_last().ok_or_else(|| Status::internal("nothing was read"))?;
    let variables = variables.iter().map(|value| value.to_scalar::<f32>()).collect::<Result<_>>()?;
    Ok((variables, step.to_scalar::<i64>()?))
}

/// A client's life.
pub(crate) async fn train(client: Client, rounds: Arc<Rounds>) {
    loop {
        match one_session(&client, &rounds).await {
            Ok(()) => return client.done(),
            Err(status) => client.lost_session(&status).await,
        }
    }
}

fn only(target: &String) -> Run<'_> {
    Run { targets: std::slice::from_ref(target), ..Run::default() }
}

/// Trains until the last round, or until the session is lost.
async fn one_session(client: &Client, rounds: &Rounds) -> Result<()> {
    let model = model(&client.schedule, client.index)?;
    let session = client.open_session(model.graph.clone()).await?;
    let set = || {
        let (variables, step) = {
            let mut state = rounds.state.lock();
            // The chief saves between two of its steps: only a round that can do without it may be under way then.
            state.doubts.torn += u64::from(client.schedule.backups > 0 && state.saved.1 > 0);
            state.saved.clone()
        };
        client.note(&format!("sets the variables to {variables:?} and the step to {step}"));
        let values = variables.into_iter().map(Tensor::scalar);
        let feeds = model.set_values.iter().cloned().zip(values);
        feeds.chain([(model.set_step.clone(), Tensor::scalar(step))]).collect()
    };
    client.make_ready(&session, std::slice::from_ref(&model.missing), &model.set, set).await?;
    if !client.is_chief() {
        client.run(&session, "its local step", only(&model.init_local_step)).await?;
        make_steps(client, rounds, &session, &model).await?;
    } else {
        client.run(&session, "the accumulators to be set", only(&model.init_chief)).await?;
        client.run(&session, "the first tokens", only(&model.init_tokens)).await?;
        tokio::select! {
            biased;
            made = make_steps(client, rounds, &session, &model) => made?,
            status = make_rounds(client, rounds, &session, &model) => return Err(status),
        }
        if client.schedule.backups == 0 {
            // The round that was left alone has given its tokens, or it lacks the chief's gradient.
            rounds.state.lock().doubts.settle_round();
        }
        client.run(&session, "the tokens to be closed", only(&model.close_tokens)).await?;
        rounds.state.lock().is_over = true;
    }
    client.close_session(session).await;
    Ok(())
}

async fn make_steps(client: &Client, rounds: &Rounds, session: &Session, model: &Model) -> Result<()> {
    let feeds = [(model.gradient.clone(), Tensor::scalar(1.0f32))];
    let fetches = std::slice::from_ref(&model.local_step);
    let targets = std::slice::from_ref(&model.train);
    loop {
        client.pause(client.schedule.pause).await;
        let step = Run { feeds: &feeds, fetches: &[], targets, twice: client.sends_twice() };
        let made = client.waiting("a step", session.run(step)).await;
        if let Err(status) = &made
            && status.code() == Code::OutOfRange
            && rounds.state.lock().is_over
        {
            client.note("the chief has ended the training");
            return Ok(());
        }
        client.made_step(made)?;
        let values = client.run(session, "its local step", Run { fetches, ..Run::default() }).await?;
        let local_step = values.first().map_or(Ok(0), |value| value.to_scalar::<i64>())?;
        client.note(&format!("is at step {local_step}"));
        if rounds.is_last(client, local_step) {
            return Ok(());
        }
        if client.is_chief() && client.tally.of(client.index).answered.is_multiple_of(SAVE_EVERY) {
            let saved = client.waiting("the variables", read(session, model)).await?;
            client.note(&format!("saved {saved:?}"));
            rounds.state.lock().saved = saved;
        }
    }
}

/// Applies rounds until something ends it.
async fn make_rounds(client: &Client, rounds: &Rounds, session: &Session, model: &Model) -> Status {
    let round = Run { targets: &model.round, ..Run::default() };
    loop {
        // Whatever ends this in the middle of a round leaves it unanswered, also the loss of a step of the same session.
        rounds.state.lock().doubts.begin_round();
        if let Err(status) = client.run(session, "a round", round).await {
            return status;
        }
        rounds.state.lock().doubts.settle_round();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_without_an_answer_may_be_ahead_of_the_step_and_none_may_be_lost() {
        let mut doubts = Doubts::default();
        for _ in 0..2 {
            doubts.begin_round();
            doubts.settle_round();
        }
        assert!(doubts.check(&[-2.0, -2.0], 2).is_ok());
        assert!(doubts.check(&[-2.0, -3.0], 2).is_err(), "applied twice");
        assert!(doubts.check(&[-2.0, -1.0], 2).is_err(), "lost");
        for _ in 0..2 {
            doubts.begin_round();
        }
        assert!(
            doubts.check(&[-4.0, -3.0], 2).is_ok(),
            "two sessions were lost, each in the middle of a round"
        );
        assert!(doubts.check(&[-5.0, -3.0], 2).is_err(), "applied twice");
        assert!(doubts.check(&[-2.0, -1.0], 2).is_err(), "lost");
    }
}
