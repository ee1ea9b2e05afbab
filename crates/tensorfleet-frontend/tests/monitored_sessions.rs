//! Monitored sessions: hooks, recovery, checkpoints, who waits for whom.

#![expect(clippy::disallowed_methods, reason = "tests wait in real time and start threads")]
#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tensorfleet::train::{
    CheckpointSaverHook, CheckpointSaverListener, ChiefSessionCreator, Coordinator, Every, FeedFnHook,
    GlobalStepWaiterHook, Initialization, LoggingTensorHook, MonitoredSession, MonitoredTrainingSession,
    NanTensorHook, RunArgs, RunContext, RunValues, Scaffold, SessionHook, SessionManager, StepCounterHook,
    StopAtStepHook, SummarySaverHook, WorkerSessionCreator, get_checkpoint_state, latest_checkpoint,
    restore_point, update_checkpoint_state,
};
use tensorfleet::{Code, DType, Graph, Output, Result, Server, Session, SessionOptions, Status, Variable};

type Log = Arc<Mutex<Vec<String>>>;

/// Writes down what it is called for.
struct Witness {
    name: &'static str,
    log: Log,
    extra: Option<Output>,
}

impl Witness {
    fn note(&self, what: String) {
        self.log.lock().unwrap().push(format!("{} {what}", self.name));
    }
}

impl SessionHook for Witness {
    fn begin(&mut self, _: &Graph) -> Result<()> {
        self.note("begin".into());
        Ok(())
    }

    fn after_create_session(&mut self, _: &Arc<Session>, _: &Coordinator) -> Result<()> {
        self.note("session".into());
        Ok(())
    }

    fn before_run(&mut self, _: &RunContext) -> Result<RunArgs> {
        self.note("before".into());
        Ok(RunArgs::new().fetch_all(&self.extra))
    }

    fn after_run(&mut self, _: &RunContext, values: &RunValues) -> Result<()> {
        let values: Vec<i64> = values.tensors().iter().map(|value| value.to_scalar().unwrap()).collect();
        self.note(format!("after {values:?}"));
        Ok(())
    }

    fn end(&mut self, _: &Arc<Session>) -> Result<()> {
        self.note("end".into());
        Ok(())
    }
}

/// Fails before the run of this number, once.
struct FailsOnce {
    at: usize,
    status: Status,
    runs: usize,
}

impl FailsOnce {
    fn new(at: usize, status: Status) -> FailsOnce {
        FailsOnce { at, status, runs: 0 }
    }
}

impl SessionHook for FailsOnce {
    fn before_run(&mut self, _: &RunContext) -> Result<RunArgs> {
        self.runs += 1;
        if self.runs == self.at { Err(self.status.clone()) } else { Ok(RunArgs::new()) }
    }
}

/// A graph whose training only counts.
fn counting() -> Result<(Graph, Variable, Output)> {
    let g = Graph::new();
    let step = g.get_or_create_global_step()?;
    let train = step.assign_add(1i64)?;
    Ok((g, step, train))
}

fn number(session: &MonitoredSession, variable: &Variable) -> i64 {
    session.session().unwrap().run(variable).unwrap().to_scalar().unwrap()
}

#[test]
fn hooks_see_every_run_and_their_fetches_join_it() -> Result<()> {
    let (g, step, train) = counting()?;
    let log = Log::default();
    let hooks: Vec<Box<dyn SessionHook>> = vec![
        Box::new(Witness { name: "a", log: log.clone(), extra: Some(train.clone()) }),
        Box::new(Witness { name: "b", log: log.clone(), extra: None }),
    ];
    let mut session = MonitoredSession::new(ChiefSessionCreator::new(&g), hooks)?;
    assert_eq!(session.run(&train)?.to_scalar::<i64>()?, 1);
    assert_eq!(number(&session, &step), 1, "what the hook and the program fetch was computed once");
    session.close()?;
    let expected = [
        "a begin",
        "b begin",
        "a session",
        "b session",
        "a before",
        "b before",
        "a after [1]",
        "b after []",
        "a end",
        "b end",
    ];
    assert_eq!(*log.lock().unwrap(), expected);
    Ok(())
}

#[test]
fn training_ends_at_its_step() -> Result<()> {
    let (g, step, train) = counting()?;
    let mut session =
        MonitoredSession::new(ChiefSessionCreator::new(&g), vec![Box::new(StopAtStepHook::num_steps(4))])?;
    while !session.should_stop() {
        session.run(&train)?;
    }
    assert_eq!(number(&session, &step), 4);
    let error = session.run(&train).unwrap_err();
    assert!(error.text().contains("even after should_stop"), "{error}");
    session.close()
}

#[test]
fn a_lost_task_is_made_good_from_the_checkpoint_and_the_caller_just_waits() -> Result<()> {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path().to_str().unwrap();
    for code in [Code::Aborted, Code::Unavailable] {
        let (g, step, train) = counting()?;
        let log = Log::default();
        let dir = format!("{dir}/{code:?}");
        let mut session = MonitoredTrainingSession::new(&g)
            .checkpoint_dir(&dir)
            .save_checkpoint_steps(2)
            .hook(Witness { name: "a", log: log.clone(), extra: None })
            .hook(FailsOnce::new(6, Status::new(code, "the ps is gone")))
            .create()?;
        for expected in [1, 2, 3, 4, 5] {
            assert_eq!(session.run(&train)?.to_scalar::<i64>()?, expected);
        }
        // A session of this process has variables of its own, so the step after 4 shows the checkpoint.
        assert_eq!(session.run(&train)?.to_scalar::<i64>()?, 5);
        assert_eq!(number(&session, &step), 5);
        session.close()?;
        let sessions = log.lock().unwrap().iter().filter(|line| *line == "a session").count();
        assert_eq!(sessions, 2);
    }
    Ok(())
}

#[test]
fn other_errors_are_the_callers_and_harm_nothing() -> Result<()> {
    let (g, step, train) = counting()?;
    let hook = FailsOnce::new(2, Status::internal("a bug"));
    let mut session = MonitoredSession::new(ChiefSessionCreator::new(&g), vec![Box::new(hook)])?;
    session.run(&train)?;
    assert_eq!(session.run(&train).unwrap_err().text(), "a bug");
    assert!(!session.should_stop());
    session.run(&train)?;
    assert_eq!(number(&session, &step), 2);
    session.close()
}

#[test]
fn a_singular_session_reports_the_loss() -> Result<()> {
    let (g, _, train) = counting()?;
    let hook = FailsOnce::new(1, Status::aborted("the ps is gone"));
    let mut session = MonitoredSession::singular(ChiefSessionCreator::new(&g), vec![Box::new(hook)])?;
    assert_eq!(session.run(&train).unwrap_err().code(), Code::Aborted);
    Ok(())
}

#[test]
fn recovery_does_not_go_on_for_ever() -> Result<()> {
    struct AlwaysLost;
    impl SessionHook for AlwaysLost {
        fn before_run(&mut self, _: &RunContext) -> Result<RunArgs> {
            Err(Status::unavailable("ps 0 does not answer"))
        }
    }
    let (g, _, train) = counting()?;
    let limit = Duration::from_millis(300);
    let mut session = MonitoredTrainingSession::new(&g).hook(AlwaysLost).max_wait(limit).create()?;
    let error = session.run(&train).unwrap_err();
    assert_eq!(error.code(), Code::DeadlineExceeded);
    assert!(error.text().contains("ps 0 does not answer"), "{error}");
    Ok(())
}

#[derive(Clone, Default)]
struct Listener(Log);

impl CheckpointSaverListener for Listener {
    fn before_save(&mut self, _: &Arc<Session>, step: i64) -> Result<()> {
        self.0.lock().unwrap().push(format!("before {step}"));
        Ok(())
    }

    fn after_save(&mut self, _: &Arc<Session>, step: i64) -> Result<bool> {
        self.0.lock().unwrap().push(format!("after {step}"));
        Ok(step == 20)
    }

    fn end(&mut self, _: &Arc<Session>, step: i64) -> Result<()> {
        self.0.lock().unwrap().push(format!("end {step}"));
        Ok(())
    }
}

#[test]
fn checkpoints_are_written_first_last_and_in_between() -> Result<()> {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path().to_str().unwrap();
    let (g, _, train) = counting()?;
    let listener = Listener::default();
    let scaffold = Scaffold::new();
    let saver_hook =
        CheckpointSaverHook::with_scaffold(dir, Every::Steps(10), &scaffold)?.listener(listener.clone());
    let mut session = MonitoredTrainingSession::new(&g).scaffold(&scaffold).hook(saver_hook).create()?;
    while !session.should_stop() {
        session.run(&train)?;
    }
    session.close()?;
    let expected = ["before 0", "after 0", "before 10", "after 10", "before 20", "after 20", "end 20"];
    assert_eq!(*listener.0.lock().unwrap(), expected, "a listener ends training at 20");
    let state = get_checkpoint_state(dir)?.unwrap();
    assert_eq!(state.all_model_checkpoint_paths.len(), 3);
    for file in ["graph.pbtxt", "model.ckpt-20.meta", "model.ckpt-20.index", "checkpoint"] {
        assert!(directory.path().join(file).exists(), "{file}");
    }
    // A session that begins with a state that is saved does not write it again.
    let listener = Listener::default();
    let (g, _, _) = counting()?;
    let scaffold = Scaffold::new();
    let saver_hook =
        CheckpointSaverHook::with_scaffold(dir, Every::Steps(10), &scaffold)?.listener(listener.clone());
    let mut creator = ChiefSessionCreator::new(&g);
    creator.scaffold = scaffold;
    creator.checkpoint_dir = Some(dir.to_string());
    MonitoredSession::new(creator, vec![Box::new(saver_hook)])?.close()?;
    assert_eq!(*listener.0.lock().unwrap(), ["end 20"]);
    Ok(())
}

#[test]
fn a_damaged_newest_checkpoint_is_passed_over() -> Result<()> {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path().to_str().unwrap();
    let (g, _, train) = counting()?;
    let session = MonitoredTrainingSession::new(&g)
        .checkpoint_dir(dir)
        .save_checkpoint_steps(5)
        .hook(StopAtStepHook::last_step(10))
        .create()?;
    session.train(|session| session.run(&train).map(|_| ()))?;
    let newest = latest_checkpoint(dir)?.unwrap();
    assert!(newest.ends_with("model.ckpt-10"), "{newest}");
    std::fs::remove_file(format!("{newest}.data-00000-of-00001")).unwrap();
    let (g, step, _) = counting()?;
    let session = MonitoredTrainingSession::new(&g).checkpoint_dir(dir).create()?;
    assert_eq!(number(&session, &step), 5);
    Ok(())
}

/// Trains to step 10 in `dir`, with checkpoints at 0, 5 and 10.
fn trained_to_ten(dir: &str) -> Result<()> {
    let (g, _, train) = counting()?;
    let session = MonitoredTrainingSession::new(&g)
        .checkpoint_dir(dir)
        .save_checkpoint_steps(5)
        .hook(StopAtStepHook::last_step(10))
        .create()?;
    session.train(|session| session.run(&train).map(|_| ()))
}

/// The step at which another session begins in `dir`.
#[track_caller]
fn step_of_next(dir: &str) -> i64 {
    let (g, step, _) = counting().unwrap();
    number(&MonitoredTrainingSession::new(&g).checkpoint_dir(dir).create().unwrap(), &step)
}

/// The chief looked only where the state file pointed, which stopped it when the directory had been moved.
#[test]
fn a_directory_that_was_moved_is_gone_on_with() -> Result<()> {
    let directory = tempfile::tempdir().unwrap();
    let [before, after] = ["before", "after"].map(|name| directory.path().join(name).display().to_string());
    trained_to_ten(&before)?;
    std::fs::rename(&before, &after).unwrap();
    assert_eq!(step_of_next(&after), 10);
    // With the absolute paths that TensorFlow writes.
    let all = [0, 5, 10].map(|step| format!("{before}/model.ckpt-{step}"));
    update_checkpoint_state(&after, &all[2], &all)?;
    let point = restore_point(&after)?;
    assert_eq!(point.checkpoint, Some(format!("{after}/model.ckpt-10")));
    let warning = point.warning.unwrap();
    assert!(warning.starts_with(&format!("checkpoint {} cannot be used: its files are missing", all[2])));
    assert_eq!(step_of_next(&after), 10);
    Ok(())
}

#[test]
fn a_damaged_state_file_costs_a_warning() -> Result<()> {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path().to_str().unwrap();
    trained_to_ten(dir)?;
    let state = std::fs::read(directory.path().join("checkpoint")).unwrap();
    for damaged in [&b""[..], b"\xff\x00\x7f", &state[..30], b"model_checkpoint_path: \"/etc/passwd\"\n"] {
        std::fs::write(directory.path().join("checkpoint"), damaged).unwrap();
        let point = restore_point(dir)?;
        assert_eq!(point.checkpoint, Some(format!("{dir}/model.ckpt-10")));
        assert!(point.warning.is_some());
        assert_eq!(step_of_next(dir), 10);
    }
    // Without one there is nothing to go on from, as in TensorFlow; but it is said what is there.
    std::fs::remove_file(directory.path().join("checkpoint")).unwrap();
    let point = restore_point(dir)?;
    assert_eq!(point.checkpoint, None);
    let warning = point.warning.unwrap();
    assert!(warning.contains("the newest of them model.ckpt-10, but no file 'checkpoint'"), "{warning}");
    assert_eq!(step_of_next(dir), 0);
    Ok(())
}

#[test]
fn what_a_state_file_names_must_be_there_or_something_else() -> Result<()> {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path().to_str().unwrap();
    update_checkpoint_state(dir, "model.ckpt-7", &[])?;
    let (g, ..) = counting()?;
    let error = MonitoredTrainingSession::new(&g).checkpoint_dir(dir).create().err().unwrap();
    let words = format!("checkpoint {dir}/model.ckpt-7 cannot be used: its files are missing. ");
    assert!(error.text().starts_with(&words), "{error}");
    assert!(error.text().ends_with(&format!("by deleting {dir}/checkpoint")), "{error}");
    Ok(())
}

/// The length of a file does not tell that it is damaged; the session went back, and then rewrote the good checkpoint.
#[test]
fn the_checkpoint_gone_back_to_is_not_written_again() -> Result<()> {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path().to_str().unwrap();
    trained_to_ten(dir)?;
    let data = format!("{dir}/model.ckpt-10.data-00000-of-00001");
    let mut bytes = std::fs::read(&data).unwrap();
    bytes.iter_mut().for_each(|byte| *byte ^= 0x55);
    std::fs::write(&data, bytes).unwrap();
    let point = restore_point(dir)?;
    assert_eq!(point.checkpoint, Some(format!("{dir}/model.ckpt-5")));
    let (g, step, _) = counting()?;
    let (scaffold, listener) = (Scaffold::new(), Listener::default());
    let hook =
        CheckpointSaverHook::with_scaffold(dir, Every::Steps(10), &scaffold)?.listener(listener.clone());
    let mut creator = ChiefSessionCreator::new(&g);
    creator.scaffold = scaffold;
    creator.checkpoint_dir = Some(dir.to_string());
    let session = MonitoredSession::new(creator, vec![Box::new(hook)])?;
    assert_eq!(number(&session, &step), 5);
    assert_eq!(*listener.0.lock().unwrap(), [""; 0]);
    Ok(())
}

#[test]
fn summaries_and_speed_land_in_the_event_file() -> Result<()> {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path().to_str().unwrap();
    let (g, step, train) = counting()?;
    let summary = g.scalar_summary("seen", step.value().cast(DType::Float)?)?;
    let hooks: Vec<Box<dyn SessionHook>> = vec![
        Box::new(SummarySaverHook::new(Every::Steps(2), dir, &summary)?),
        Box::new(StepCounterHook::new(Every::Steps(3))?.output_dir(dir)),
        Box::new(StopAtStepHook::last_step(7)),
    ];
    let session = MonitoredSession::new(ChiefSessionCreator::new(&g), hooks)?;
    session.train(|session| session.run(&train).map(|_| ()))?;
    let mut tags = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        for event in tensorfleet::summary::events(entry.unwrap().path())? {
            let event = event?;
            let Some(tensorfleet::summary::What::Summary(summary)) = event.what else { continue };
            tags.extend(summary.value.into_iter().map(|value| (value.tag, event.step)));
        }
    }
    let steps_of = |wanted: &str| -> Vec<i64> {
        tags.iter().filter(|(tag, _)| tag == wanted).map(|(_, step)| *step).collect()
    };
    assert_eq!(steps_of("seen"), [1, 3, 5, 7]);
    assert_eq!(steps_of("global_step/sec"), [4, 7]);
    Ok(())
}

#[test]
fn a_loss_that_is_not_a_number_ends_training() -> Result<()> {
    let (g, _, train) = counting()?;
    let loss = g.placeholder(DType::Float, ());
    let mut session =
        MonitoredSession::new(ChiefSessionCreator::new(&g), vec![Box::new(NanTensorHook::new(&loss))])?;
    session.feed(&loss, 1.0).run(&train)?;
    let error = session.feed(&loss, f32::NAN).run(&train).unwrap_err();
    assert!(error.text().contains("Model diverged with loss = NaN"), "{error}");
    let quiet = NanTensorHook::new(&loss).stop_quietly();
    let mut session = MonitoredSession::new(ChiefSessionCreator::new(&g), vec![Box::new(quiet)])?;
    session.feed(&loss, f32::NAN).run(&train)?;
    assert!(session.should_stop());
    session.close()
}

#[test]
fn a_tensor_is_fed_by_one_alone() -> Result<()> {
    let g = Graph::new();
    let x = g.placeholder(DType::Int32, ());
    let fed = x.clone();
    let hook = FeedFnHook::new(move || Ok(RunArgs::new().feed(&fed, 1)));
    let mut session = MonitoredSession::new(ChiefSessionCreator::new(&g), vec![Box::new(hook)])?;
    assert_eq!(session.run(&x + 1)?.to_scalar::<i32>()?, 2);
    let error = session.feed(&x, 3).run(&x + 1).unwrap_err();
    assert!(error.text().contains("fed twice"), "{error}");
    session.close()
}

#[test]
fn values_are_logged_at_their_time_and_in_their_words() -> Result<()> {
    let (g, _, train) = counting()?;
    let lines = Log::default();
    let said = lines.clone();
    let logging =
        LoggingTensorHook::new(&[("step", &train)], Every::Steps(3))?.at_end().formatter(move |values| {
            let text = format!("step is {}", values[0].to_scalar::<i64>().unwrap());
            said.lock().unwrap().push(text.clone());
            text
        });
    let mut session = MonitoredSession::new(ChiefSessionCreator::new(&g), vec![Box::new(logging)])?;
    for _ in 0..5 {
        session.run(&train)?;
    }
    session.close()?;
    assert_eq!(*lines.lock().unwrap(), ["step is 1", "step is 4", "step is 6"], "the last one is of the end");
    Ok(())
}

#[test]
fn the_end_of_an_input_ends_training_and_leaves_no_thread() -> Result<()> {
    let g = Graph::new();
    let number = g.input_producer().num_epochs(1).in_order().range(6)?.dequeue()?.remove(0);
    let batch = g.batch(&[number], 2).build()?.remove(0);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let session = MonitoredTrainingSession::new(&g).create()?;
    session.train(|session| {
        seen.lock().unwrap().extend_from_slice(session.run(&batch)?.as_slice::<i32>()?);
        Ok(())
    })?;
    assert_eq!(*seen.lock().unwrap(), [0, 1, 2, 3, 4, 5]);
    let threads = || -> Vec<String> {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
        names.filter(|name| name.starts_with("QueueRunnerThre")).collect()
    };
    // Other tests of this process have threads of their own, which end as well.
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while !threads().is_empty() && std::time::Instant::now() < deadline {
        std::thread::yield_now();
    }
    assert_eq!(threads(), Vec::<String>::new());
    Ok(())
}

#[test]
fn a_worker_waits_for_the_chief_with_one_session() -> Result<()> {
    let server = Server::local()?;
    let target = server.target();
    let worker = {
        let target = target.clone();
        std::thread::spawn(move || -> Result<i64> {
            let (g, step, train) = counting()?;
            let mut session = MonitoredTrainingSession::new(&g).master(&target).is_chief(false).create()?;
            session.run(&train)?;
            let seen = number(&session, &step);
            session.close()?;
            Ok(seen)
        })
    };
    // The worker has looked several times, always in the same session.
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while server.status().totals.steps < 6 {
        assert!(std::time::Instant::now() < deadline && !worker.is_finished());
        std::thread::yield_now();
    }
    assert_eq!(server.status().master_sessions.len(), 1);
    let (g, step, train) = counting()?;
    let mut chief = MonitoredTrainingSession::new(&g).master(&target).create()?;
    chief.run(&train)?;
    let seen = worker.join().unwrap()?;
    assert!((1..=2).contains(&seen), "{seen}");
    assert_eq!(number(&chief, &step), 2);
    chief.close()?;
    assert!(server.status().master_sessions.is_empty());
    Ok(())
}

#[test]
fn a_worker_that_waits_in_vain_says_for_whom() -> Result<()> {
    let server = Server::local()?;
    let g = Graph::new();
    for index in 0..8 {
        g.variable(&format!("v{index}"), 1.0f32);
    }
    let mut creator = WorkerSessionCreator::new(&g, &server.target());
    creator.max_wait = Duration::from_millis(200);
    let error = MonitoredSession::new(creator, vec![]).err().unwrap();
    assert_eq!(error.code(), Code::DeadlineExceeded);
    for word in
        ["not ready after waiting", "the chief must", "Variables not initialized (8): v0, v1", "and 3 more"]
    {
        assert!(error.text().contains(word), "'{word}' is not in: {error}");
    }
    Ok(())
}

#[test]
fn a_worker_may_start_when_others_have_got_somewhere() -> Result<()> {
    let server = Server::local()?;
    let target = server.target();
    let (g, _, train) = counting()?;
    let mut chief = MonitoredTrainingSession::new(&g).master(&target).create()?;
    let worker = std::thread::spawn(move || -> Result<i64> {
        let (g, _, train) = counting()?;
        let session = MonitoredTrainingSession::new(&g).master(&target).is_chief(false);
        let mut session = session.hook(GlobalStepWaiterHook::new(5)).create()?;
        let first = session.run(&train)?.to_scalar::<i64>()?;
        session.close()?;
        Ok(first)
    });
    for _ in 0..5 {
        chief.run(&train)?;
    }
    assert_eq!(worker.join().unwrap()?, 6);
    chief.close()
}

#[test]
fn a_restarted_chief_without_checkpoints_keeps_what_lives() -> Result<()> {
    let server = Server::local()?;
    let target = server.target();
    let (g, step, train) = counting()?;
    let mut first = MonitoredTrainingSession::new(&g).master(&target).create()?;
    first.run(&train)?;
    // It ends without a word, as if it were killed.
    drop(first);
    let (g2, step2, _) = counting()?;
    let second = MonitoredTrainingSession::new(&g2).master(&target).create()?;
    assert_eq!(number(&second, &step2), 1);
    second.close()?;

    // A model that is lost in part is lost: it begins anew as a whole.
    let more = g.variable("more", 5.0f32);
    let third = MonitoredTrainingSession::new(&g).master(&target).create()?;
    assert_eq!(number(&third, &step), 0);
    assert_eq!(third.session()?.run(&more)?.to_scalar::<f32>()?, 5.0);
    third.session()?.run(&train)?;
    third.close()?;

    // Who wants what TensorFlow does can have it.
    let scaffold = Scaffold::new().overwrite();
    let fourth = MonitoredTrainingSession::new(&g).master(&target).scaffold(&scaffold).create()?;
    assert_eq!(number(&fourth, &step), 0);
    fourth.close()
}

#[test]
fn a_model_that_initialisation_leaves_unready_is_an_error_that_names_what_is_missing() -> Result<()> {
    let g = Graph::new();
    let initialised = g.variable("initialised", 1.0f32);
    g.variable("forgotten", 1.0f32);
    let manager = SessionManager::new(&g)?;
    let init = Initialization { init_op: Some(initialised.initializer()), ..Initialization::default() };
    let error = manager.prepare_session("", &init, &SessionOptions::default()).err().unwrap();
    assert!(error.text().contains("did not make model ready"), "{error}");
    assert!(error.text().contains("(1): forgotten"), "{error}");
    Ok(())
}

#[test]
fn local_variables_are_initialised_in_every_new_session() -> Result<()> {
    let directory = tempfile::tempdir().unwrap();
    let (g, _, train) = counting()?;
    let local = g.new_variable("seen_here").local().init(7i64);
    let mut session = MonitoredTrainingSession::new(&g)
        .checkpoint_dir(directory.path().to_str().unwrap())
        .hook(FailsOnce::new(2, Status::aborted("gone")))
        .create()?;
    for _ in 0..2 {
        session.run(&train)?;
        assert_eq!(number(&session, &local), 7);
    }
    session.close()
}
