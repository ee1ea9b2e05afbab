//! Supervisors: managed sessions, services beside the training loop, restarts.

#![expect(clippy::disallowed_methods, reason = "tests wait in real time and start threads")]
#![allow(clippy::unwrap_used)]

use std::sync::mpsc;
use std::time::{Duration, Instant};

use tensorfleet::train::{QueueRunner, Saver, Supervisor, latest_checkpoint};
use tensorfleet::{Code, DType, Graph, Result, Status};

#[test]
fn a_restart_prints_the_restored_step_as_seed_000_does() -> Result<()> {
    let directory = tempfile::tempdir().unwrap();
    let logdir = directory.path().to_str().unwrap();
    let mut printed = Vec::new();
    for _ in 0..3 {
        let g = Graph::new();
        let global_step = g.get_or_create_global_step()?;
        let train = global_step.assign_add(1i64)?;
        let saver = Saver::builder(&g).max_to_keep(1).build()?;
        let init = g.global_variables_initializer()?;
        let supervisor = Supervisor::builder(&g)
            .is_chief(true)
            .logdir(logdir)
            .init_op(&init)
            .saver(&saver)
            .global_step(&global_step)
            .save_model_secs(5)
            .build()?;
        supervisor.managed_session("", |session| {
            printed.push(session.run(&global_step)?.to_scalar::<i64>()?);
            let mut step = 0;
            for _ in 0..10 {
                step = session.run(&train)?.to_scalar::<i64>()?;
            }
            supervisor.saver().unwrap().save(session, supervisor.save_path().unwrap(), Some(step))?;
            Ok(())
        })?;
        supervisor.stop()?;
    }
    assert_eq!(printed, [0, 10, 20]);
    Ok(())
}

/// The tags of the summaries in a directory's event files.
fn summary_tags(logdir: &str) -> Result<Vec<String>> {
    let mut tags = Vec::new();
    for entry in std::fs::read_dir(logdir).unwrap() {
        let path = entry.unwrap().path();
        if !path.to_string_lossy().contains("tfevents") {
            continue;
        }
        for event in tensorfleet::summary::events(path)? {
            if let Some(tensorfleet::summary::What::Summary(summary)) = event?.what {
                tags.extend(summary.value.into_iter().map(|value| value.tag));
            }
        }
    }
    Ok(tags)
}

#[test]
fn the_chief_saves_while_training_goes_on() -> Result<()> {
    let directory = tempfile::tempdir().unwrap();
    let logdir = directory.path().to_str().unwrap();
    let g = Graph::new();
    let global_step = g.get_or_create_global_step()?;
    g.scalar_summary("seen", global_step.value().cast(DType::Float)?)?;
    let train = global_step.assign_add(1i64)?;
    let supervisor = Supervisor::builder(&g)
        .logdir(logdir)
        .save_model_every(Duration::from_millis(5))
        .save_summaries_every(Duration::from_millis(5))
        .build()?;
    let has_saved = || latest_checkpoint(logdir).unwrap().is_some_and(|path| !path.ends_with("-0"));
    supervisor.managed_session("", |session| {
        // Checkpoints and summaries have a thread each; either may be first.
        // A file that is being written may end in half an event.
        let is_done = || {
            let tags = summary_tags(logdir).unwrap_or_default();
            has_saved() && tags.contains(&"seen".to_string())
        };
        while !supervisor.should_stop() && !is_done() {
            session.run(&train)?;
        }
        Ok(())
    })?;
    assert!(has_saved());
    assert!(directory.path().join("graph.pbtxt").exists());
    let tags = summary_tags(logdir)?;
    assert!(tags.contains(&"seen".to_string()), "{tags:?}");
    Ok(())
}

#[test]
fn an_error_of_the_body_or_of_a_thread_is_reported_and_all_threads_end() -> Result<()> {
    let g = Graph::new();
    g.get_or_create_global_step()?;
    let supervisor = Supervisor::builder(&g).build()?;
    let error = supervisor.managed_session("", |_| Err(Status::internal("of the body"))).unwrap_err();
    assert_eq!(error.text(), "of the body");
    let error = supervisor.managed_session("", |_| {
        supervisor.loop_every(Duration::ZERO, || Err(Status::internal("of a thread")))?;
        supervisor.wait_for_stop();
        Err(Status::internal("because of that"))
    });
    assert_eq!(error.unwrap_err().text(), "of a thread");
    // The end of an input is no error, and the supervisor can be used again.
    supervisor.managed_session("", |_| Err(Status::out_of_range("no more input")))?;
    supervisor.managed_session("", |_| Ok(()))
}

#[test]
fn queue_runners_of_a_blocked_queue_end_with_the_session() -> Result<()> {
    let g = Graph::new();
    g.get_or_create_global_step()?;
    let queue = g.fifo_queue(1, &[DType::Float])?;
    let enqueue = queue.enqueue([g.constant(1.0f32)])?;
    g.add_queue_runner(&QueueRunner::new(&queue, [&enqueue, &enqueue])?);
    let size = queue.size()?;
    let supervisor = Supervisor::builder(&g).build()?;
    supervisor.managed_session("", |session| {
        while session.run(&size)?.to_scalar::<i32>()? < 1 {
            std::thread::yield_now();
        }
        Ok(())
    })?;
    Ok(())
}

/// The chief's thread of synchronous replicas waits for gradients, and they no longer come when training is over.
#[test]
fn a_stop_closes_the_session_under_a_thread_that_waits_for_ever() -> Result<()> {
    let g = Graph::new();
    g.get_or_create_global_step()?;
    let never = g.fifo_queue(1, &[DType::Float])?.dequeue()?[0].operation();
    let nothing = g.no_op()?;
    let runner = QueueRunner::from_operations("never", &[never], &nothing, &nothing, &[Code::Cancelled])?;
    let grace = Duration::from_secs(100);
    let supervisor = Supervisor::builder(&g).stop_grace_secs(grace.as_secs()).build()?;
    let session = supervisor.prepare_or_wait_for_session("")?;
    supervisor.start_queue_runners(&session, &[runner])?;
    let asked = Instant::now();
    supervisor.stop()?;
    assert!(asked.elapsed() < grace / 2);
    Ok(())
}

#[test]
fn a_loop_runs_beside_training_until_it_stops() -> Result<()> {
    let g = Graph::new();
    g.get_or_create_global_step()?;
    let supervisor = Supervisor::builder(&g).build()?;
    let (sender, receiver) = mpsc::channel();
    supervisor.managed_session("", |_| {
        supervisor.loop_every(Duration::from_millis(1), move || {
            let _ = sender.send(());
            Ok(())
        })?;
        assert_eq!(receiver.iter().take(5).count(), 5);
        Ok(())
    })?;
    while receiver.try_recv().is_ok() {}
    assert_eq!(receiver.try_recv(), Err(mpsc::TryRecvError::Disconnected), "the thread has ended");
    assert!(supervisor.should_stop());
    Ok(())
}

#[test]
fn a_replica_must_say_where_its_variables_are() -> Result<()> {
    let g = Graph::new();
    g.variable("nowhere", 1.0f32);
    let error = Supervisor::builder(&g).is_chief(false).build().err().unwrap();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(error.text().contains("must have their device set: 'nowhere'"), "{error}");
    Ok(())
}

#[test]
fn only_a_chief_with_a_directory_writes() -> Result<()> {
    let g = Graph::new();
    let step = g.device("/job:ps/task:0", || g.get_or_create_global_step())?;
    let worker = Supervisor::builder(&g).is_chief(false).logdir("/nowhere").build()?;
    assert!(worker.summary_writer().is_none() && worker.save_path().is_none());
    assert!(worker.global_step().is_some_and(|found| found.name() == step.name()));
    Ok(())
}
