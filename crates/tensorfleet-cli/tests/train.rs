//! `tensorfleet train mnist` with real processes: it learns, stops when asked, goes on, and says what is wrong in one sentence.
#![allow(clippy::unwrap_used)]

mod command;

use std::net::TcpListener;
use std::process::Command;
use std::time::{Duration, Instant};

use command::{Outcome, Running, assert_gone, tensorfleet};
use serde_json::Value;

/// A training that logs into `log_dir`.
fn training(log_dir: &str, arguments: &[&str]) -> Command {
    let mut command = tensorfleet(&["train", "mnist", "--log_dir", log_dir]);
    command.args(arguments);
    command
}

fn trained(log_dir: &str, arguments: &[&str]) -> Outcome {
    Running::start(training(log_dir, arguments)).finish()
}

/// A directory for a run, and its name.
fn log_dir() -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run").to_str().unwrap().to_string();
    (directory, path)
}

/// The step of the newest checkpoint.
fn saved_step(log_dir: &str) -> Option<i64> {
    let newest = tensorfleet::train::latest_checkpoint(log_dir).unwrap()?;
    let reader = tensorfleet::checkpoint::CheckpointReader::open(&newest).unwrap();
    reader.verify().unwrap();
    Some(reader.tensor("global_step").unwrap().to_scalar::<i64>().unwrap())
}

/// Steps and values that the event files have under a tag.
fn curve_of(log_dir: &str, tag: &str) -> Vec<(i64, f32)> {
    use tensorfleet::summary::{What, events};
    let mut curve = Vec::new();
    for event in events(log_dir).unwrap().map(Result::unwrap) {
        let Some(What::Summary(summary)) = event.what else { continue };
        for value in summary.value.iter().filter(|value| value.tag == tag) {
            curve.extend(simple_value(value).map(|number| (event.step, number)));
        }
    }
    curve
}

fn simple_value(value: &tensorfleet_proto::tensorflow::summary::Value) -> Option<f32> {
    match value.value {
        Some(tensorfleet_proto::tensorflow::summary::value::Value::SimpleValue(number)) => Some(number),
        _ => None,
    }
}

#[track_caller]
fn json(outcome: &Outcome) -> Value {
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {}", outcome.stdout))
}

/// One line that begins as errors do and has these words.
#[track_caller]
fn assert_error(outcome: &Outcome, code: i32, words: &str) {
    assert_eq!(outcome.code(), Some(code), "{}\n{}", outcome.stdout, outcome.stderr);
    let errors: Vec<&str> = outcome.stderr.lines().filter(|line| line.starts_with("error: ")).collect();
    assert!(errors.len() == 1 && errors[0].contains(words), "{words} is not in {}", outcome.stderr);
}

#[test]
fn a_cluster_learns_digits_and_a_second_run_goes_on() {
    let (_directory, dir) = log_dir();
    let outcome = trained(&dir, &["--steps", "300"]);
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    for tag in ["accuracy", "validation/loss", "validation/accuracy"] {
        let curve = curve_of(&dir, tag);
        assert!(curve.len() > 1 && curve.last().unwrap().0 >= 280, "{tag}: {curve:?}");
    }
    let losses = curve_of(&dir, "validation/loss");
    assert!(losses.last().unwrap().1 < losses[0].1 / 2.0, "{losses:?}");
    let first = outcome.stdout.lines().next().unwrap();
    let percent: f64 = first
        .strip_suffix(" test digits recognised")
        .unwrap()
        .split_once(" % of ")
        .unwrap()
        .0
        .parse()
        .unwrap();
    assert!(percent > 85.0, "{first}");
    for words in
        ["recognised as", "most often mistaken: ", "Files in ", "tensorboard --logdir ", "--steps 600"]
    {
        assert!(outcome.stdout.contains(words), "{words} is not in {}", outcome.stdout);
    }
    assert!(
        outcome.stderr.starts_with("Training on 1 ps and 2 workers, asynchronous\n"),
        "{}",
        outcome.stderr
    );
    assert!(
        !outcome.stdout.contains('\x1b') && !outcome.stderr.contains('\x1b'),
        "no colours without a terminal"
    );
    let saved = saved_step(&dir).unwrap();
    assert!((300..310).contains(&saved), "{saved}");

    let outcome = trained(&dir, &["--steps", "400", "--json"]);
    let result = json(&outcome);
    assert_eq!(result["first_step"], saved, "{}", outcome.stderr);
    assert!(outcome.stderr.contains(&format!("; resuming at step {saved}\n")), "{}", outcome.stderr);
    assert!(result["steps"].as_i64().unwrap() >= 400 && result["accuracy"].as_f64().unwrap() > 0.85);
    assert_eq!(result["log_dir"], dir.as_str());
    assert!(result["steps_per_second"].as_f64().unwrap() > 0.0 && result["seconds"].as_f64().unwrap() > 0.0);
    let checkpoint = result["checkpoint"].as_str().unwrap();
    assert!(checkpoint.starts_with(&format!("{dir}/model.ckpt-4")), "{checkpoint}");
    let counts = result["confusion"].as_array().unwrap().iter().flat_map(|row| row.as_array().unwrap());
    assert_eq!(
        counts.map(|count| count.as_i64().unwrap()).sum::<i64>(),
        result["test_digits"].as_i64().unwrap()
    );

    // The steps are made, so it is only judged, and nothing is trained or saved.
    let saved = saved_step(&dir).unwrap();
    let outcome = trained(&dir, &["--steps", "400", "--json"]);
    let result = json(&outcome);
    assert!(outcome.stderr.contains("already, so the model is only judged"), "{}", outcome.stderr);
    assert_eq!((&result["steps"], saved_step(&dir)), (&saved.into(), Some(saved)));
}

#[test]
fn synchronous_training_counts_rounds_on_several_parameter_servers() {
    let (_directory, dir) = log_dir();
    let arguments = ["--sync", "--ps", "2", "--workers", "2", "--steps", "150", "--json"];
    let result = json(&trained(&dir, &arguments));
    assert_eq!((&result["steps"], saved_step(&dir)), (&150.into(), Some(150)));
    assert!(result["accuracy"].as_f64().unwrap() > 0.8, "{result}");
}

#[test]
fn a_worker_more_than_a_round_waits_for_is_a_backup() {
    let (_directory, dir) = log_dir();
    let result =
        json(&trained(&dir, &["--sync", "--workers", "3", "--backup", "1", "--steps", "50", "--json"]));
    assert!(result["steps"].as_i64().unwrap() >= 50, "{result}");
}

/// The processes of the cluster that a launcher has started.
fn children(parent: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parent_of = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse::<u32>().ok()
    };
    numbers.filter(|&pid| parent_of(pid) == Some(parent)).collect()
}

/// Waits until a training has made a step.
#[track_caller]
fn wait_for_steps(running: &mut Running) {
    running.wait_for_error_line(|line| line.starts_with("step ").then_some(()));
}

#[test]
fn ctrl_c_saves_the_model_and_leaves_nothing_running() {
    for mode in [&[][..], &["--sync"]] {
        let (_directory, dir) = log_dir();
        let mut running = Running::start(training(&dir, &[&["--steps", "1000000"], mode].concat()));
        wait_for_steps(&mut running);
        let tasks = children(running.id());
        assert_eq!(tasks.len(), 3);
        let asked = Instant::now();
        running.signal("INT");
        let outcome = running.finish();
        assert_eq!(outcome.code(), Some(130), "{}", outcome.stderr);
        assert!(asked.elapsed() < Duration::from_secs(30), "{:?}", asked.elapsed());
        assert_gone(&tasks);
        let saved = saved_step(&dir).unwrap();
        assert!(saved > 0);
        let last = outcome.stderr.lines().last().unwrap();
        assert!(
            last.starts_with(&format!("Stopped at step {saved} of 1000000; the model is saved. To resume: ")),
            "{last}"
        );
        assert!(last.contains(&format!(" train mnist --log_dir {dir} --steps 1000000")), "{last}");
        assert_eq!(outcome.stdout, "");
    }
}

#[test]
fn tasks_do_not_outlive_a_launcher_that_is_killed() {
    let (_directory, dir) = log_dir();
    let mut running = Running::start(training(&dir, &["--steps", "1000000"]));
    wait_for_steps(&mut running);
    let tasks = children(running.id());
    running.signal("KILL");
    running.finish();
    assert_gone(&tasks);
}

/// Kills the task whose arguments have these words.
fn kill_task(launcher: u32, words: &str) {
    signal_task(launcher, words, "-KILL");
}

fn signal_task(launcher: u32, words: &str, signal: &str) {
    let is_meant = |pid: &&u32| {
        std::fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains(words))
    };
    let tasks = children(launcher);
    let task = tasks.iter().find(is_meant).unwrap();
    assert!(Command::new("kill").args([signal, &task.to_string()]).status().unwrap().success());
}

#[test]
fn the_loss_of_a_parameter_server_is_one_sentence_and_that_of_a_worker_holds_nobody_up() {
    let (_directory, dir) = log_dir();
    let mut running = Running::start(training(&dir, &["--steps", "1000000"]));
    wait_for_steps(&mut running);
    let launcher = running.id();
    kill_task(launcher, "--task_index=1");
    running.wait_for_error_line(|line| {
        let words = "was killed by SIGKILL after";
        (line.contains(words) && line.ends_with("the others continue without it")).then_some(())
    });
    wait_for_steps(&mut running);
    kill_task(launcher, "--job_name=ps");
    let outcome = running.finish();
    assert_error(&outcome, 1, "ps/0 was killed by SIGKILL after ");
    let last = outcome.stderr.lines().last().unwrap();
    assert!(last.contains("; the model is saved up to step ") && last.contains(&dir), "{last}");
}

#[test]
fn synchronous_rounds_go_on_without_a_backup_worker_and_end_without_one_more() {
    let (_directory, dir) = log_dir();
    let flags = ["--sync", "--workers", "3", "--backup", "1", "--steps", "1000000"];
    let mut running = Running::start(training(&dir, &flags));
    wait_for_steps(&mut running);
    let launcher = running.id();
    kill_task(launcher, "--task_index=2");
    running.wait_for_error_line(|line| line.ends_with("the others continue without it").then_some(()));
    wait_for_steps(&mut running);
    kill_task(launcher, "--task_index=1");
    assert_error(&running.finish(), 1, "worker/1 was killed by SIGKILL after ");
}

/// It was shown with the speed it had had, and at the end said to be saved.
#[test]
fn a_frozen_task_is_named_and_what_it_could_not_save_is_not_said_to_be_saved() {
    let (_directory, dir) = log_dir();
    let mut running = Running::start(training(&dir, &["--steps", "1000000"]));
    wait_for_steps(&mut running);
    signal_task(running.id(), "--job_name=ps", "-STOP");
    running.wait_for_error_line(|line| line.starts_with("ps/0 has not answered for ").then_some(()));
    running.wait_for_error_line(|line| line.contains(", 0 steps/s (").then_some(()));
    running.signal("INT");
    let outcome = running.finish();
    assert_eq!(outcome.code(), Some(130), "{}", outcome.stderr);
    let last = outcome.stderr.lines().last().unwrap();
    let saved = saved_step(&dir).unwrap();
    assert!(last.starts_with("Stopped at about step "), "{last}");
    assert!(
        last.contains(&format!(
            "which the chief could not save any more; the newest checkpoint is of step {saved}. "
        )),
        "{last}"
    );
}

/// One plain warning, and numbers of what was restored.
#[track_caller]
fn assert_goes_on(dir: &str, steps: &str, first_step: i64, warning: Option<&str>) {
    let outcome = trained(dir, &["--steps", steps, "--json"]);
    let result = json(&outcome);
    assert_eq!(result["first_step"], first_step, "{}", outcome.stderr);
    let says_where = outcome.stderr.contains(&format!("; resuming at step {first_step}\n"));
    assert_eq!(says_where, first_step > 0, "{}", outcome.stderr);
    let warnings: Vec<&str> =
        outcome.stderr.lines().filter(|line| line.to_lowercase().contains("warn")).collect();
    match warning {
        Some(words) => {
            assert!(
                warnings.len() == 1 && warnings[0].starts_with("warning: ") && warnings[0].contains(words),
                "{words} is not in {}",
                outcome.stderr
            );
        }
        None => assert!(warnings.is_empty(), "{}", outcome.stderr),
    }
}

#[test]
fn damage_costs_one_warning_and_the_steps_since_the_checkpoint_before() {
    let (directory, dir) = log_dir();
    json(&trained(&dir, &["--steps", "20", "--json"]));
    let older = saved_step(&dir).unwrap();
    json(&trained(&dir, &["--steps", "40", "--json"]));
    // Of the right length, so only its checksums tell.
    let newest = saved_step(&dir).unwrap();
    let data = format!("{dir}/model.ckpt-{newest}.data-00000-of-00001");
    let length = std::fs::metadata(&data).unwrap().len();
    std::fs::write(&data, vec![0x55; usize::try_from(length).unwrap()]).unwrap();
    assert_goes_on(&dir, "60", older, Some(&format!("model.ckpt-{newest} cannot be used: ")));

    let saved = saved_step(&dir).unwrap();
    std::fs::write(format!("{dir}/checkpoint"), "").unwrap();
    assert_goes_on(&dir, "80", saved, Some("checkpoint does not tell the state of checkpoints: it is empty"));

    let saved = saved_step(&dir).unwrap();
    let moved = directory.path().join("moved").to_str().unwrap().to_string();
    std::fs::rename(&dir, &moved).unwrap();
    assert_goes_on(&moved, "100", saved, None);

    // That is how one asks for a fresh start.
    std::fs::remove_file(format!("{moved}/checkpoint")).unwrap();
    assert_goes_on(&moved, "20", 0, Some("but no file 'checkpoint' that names one, so nothing is restored"));
}

#[test]
fn a_checkpoint_of_another_model_is_named() {
    let (_directory, dir) = log_dir();
    json(&trained(&dir, &["--hidden_units", "16", "--steps", "20", "--json"]));
    let outcome = trained(&dir, &["--steps", "40"]);
    assert_error(
        &outcome,
        1,
        "has a checkpoint of a network with 16 hidden units, not 100: resume it with --hidden_units=16",
    );

    let (_directory, dir) = log_dir();
    std::fs::create_dir(&dir).unwrap();
    let g = tensorfleet::Graph::new();
    let v = g.variable("v", 1.0f32);
    let session = tensorfleet::Session::new(&g);
    session.run(v.initializer()).unwrap();
    let saver = tensorfleet::train::Saver::new(&g).unwrap();
    saver.save(&session, &format!("{dir}/model.ckpt"), Some(7)).unwrap();
    assert_error(&trained(&dir, &[]), 1, "has a checkpoint of another model: choose another --log_dir");
}

#[test]
fn files_that_are_not_what_they_should_be_are_named_once() {
    let (directory, dir) = log_dir();
    let data = directory.path().join("data");
    std::fs::create_dir(&data).unwrap();
    for name in [
        "train-images-idx3-ubyte",
        "train-labels-idx1-ubyte",
        "t10k-images-idx3-ubyte",
        "t10k-labels-idx1-ubyte",
    ] {
        std::fs::write(data.join(name), "this is no idx file at all").unwrap();
    }
    assert_error(&trained(&dir, &["--data_dir", data.to_str().unwrap()]), 1, "train-images-idx3-ubyte");
    assert_error(&trained(&dir, &["--data_dir", "/no/such/directory"]), 1, "/no/such/directory");
    let file = data.join("train-images-idx3-ubyte/below");
    assert_error(&trained(file.to_str().unwrap(), &[]), 1, "choose another --log_dir");
}

#[test]
fn mistakes_in_the_arguments_are_explained() {
    let (_directory, dir) = log_dir();
    for (arguments, words) in [
        (&["--workers", "0"][..], "use --workers 1 or more"),
        (&["--ps", "0"], "use --ps 1 or more"),
        (&["--steps", "0"], "--steps"),
        (&["--steps=-5"], "--steps"),
        (&["--hidden_units", "2000000000"], "--hidden_units"),
        (&["--learning_rate", "nan"], "--learning_rate"),
        (&["--seed", "1.5"], "expected a whole number from 0 to"),
        (&["--save-every", "0"], "expected 0.1 seconds or more"),
        (&["--backup", "1"], "add --sync"),
        (&["--sync", "--backup", "2"], "more --workers"),
        (&["--download_only"], "add --data_dir=DIR"),
        (&["--job_name=worker", "--task_index=0"], "no cluster is given"),
        (&["--ps_hosts=a:1", "--worker_hosts=b:1", "--task_index=0"], "--job_name is missing"),
        (&["--ps_hosts=a:1", "--worker_hosts=b:1", "--job_name=worker"], "--task_index is missing"),
        (
            &["--ps_hosts=a:1", "--worker_hosts=b:1", "--job_name=worker", "--task_index=1"],
            "No task with index 1",
        ),
        (&["--ps_hosts=a", "--worker_hosts=b:1", "--job_name=ps", "--task_index=0"], "malformed address 'a'"),
        (&["--worker_hosts=b:1", "--job_name=worker", "--task_index=0"], "--ps_hosts"),
        (
            &["--ps_hosts=a:1", "--worker_hosts=b:1", "--job_name=worker", "--task_index=0", "--workers=3"],
            "give either",
        ),
    ] {
        let outcome = trained(&dir, arguments);
        assert_error(&outcome, 2, words);
        assert!(outcome.stderr.contains("--help"), "{}", outcome.stderr);
    }
}

#[test]
fn tasks_on_their_own_wait_for_each_other_and_tell_the_result() {
    let listeners = [0, 1].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    let [ps, worker] = listeners.map(|listener| listener.local_addr().unwrap().to_string());
    let (_directory, dir) = log_dir();
    let task = |job: &str, more: &[&str]| {
        let flags = [
            format!("--ps_hosts={ps}"),
            format!("--worker_hosts={worker}"),
            format!("--job_name={job}"),
            "--task_index=0".to_string(),
        ];
        let mut command = training(&dir, &flags.iter().map(String::as_str).collect::<Vec<_>>());
        command.args(more);
        command
    };
    // Nobody is there.
    let outcome = Running::start(task("worker", &["--wait", "0.3"])).finish();
    assert_error(
        &outcome,
        1,
        &format!("ps/0 at {ps} does not answer after 0 s (connection refused): start it there"),
    );

    let mut chief = Running::start(task("worker", &["--steps", "100"]));
    chief
        .wait_for(|line| line.contains(&format!("waits for ps/0 at {ps}: connection refused")).then_some(()));
    let mut server = Running::start(task("ps", &[]));
    server.wait_for(|line| line.contains("/job:ps/task:0 is ready").then_some(()));
    let outcome = chief.finish();
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    assert!(outcome.stdout.contains("worker/0: starts at step 0 of 100\n"), "{}", outcome.stdout);
    assert!(outcome.stdout.contains(" test digits recognised\n"), "{}", outcome.stdout);
    server.signal("TERM");
    assert_eq!(server.finish().code(), Some(0));
}

#[test]
fn a_task_whose_port_is_taken_says_so() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (_directory, dir) = log_dir();
    let hosts = format!("--worker_hosts={address}");
    let flags = ["--ps_hosts=127.0.0.1:1", &hosts, "--job_name=worker", "--task_index=0", "--bind=127.0.0.1"];
    assert_error(&trained(&dir, &flags), 1, "is in use");
}

#[test]
fn a_training_that_diverges_says_so() {
    let (_directory, dir) = log_dir();
    let outcome = trained(&dir, &["--steps", "20", "--workers", "1", "--learning_rate", "1e30"]);
    assert_error(
        &outcome,
        1,
        "the loss is not a number any more: train afresh, with a lower --learning_rate",
    );
    // There is nothing to go on from, so nothing says so, and the ruined model is not the newest.
    assert!(!outcome.stderr.contains("to resume"), "{}", outcome.stderr);
    assert_eq!(saved_step(&dir), Some(0));
}
