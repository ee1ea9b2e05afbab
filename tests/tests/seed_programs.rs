//! The programs in `examples/`, each as the processes that its seed describes, with few steps: what they print, what they
//! learn, what they survive.
#![allow(clippy::unwrap_used)]

use std::process::Command;

use tensorfleet::checkpoint::CheckpointReader;
use tensorfleet::train::latest_checkpoint;
use tensorfleet_tests::cluster::{Cluster, Job};
use tensorfleet_tests::program::{Program, example};
use tensorfleet_tests::trainer::Hosts;

fn start(name: &str, arguments: &[&str]) -> Program {
    let mut command = Command::new(example(name).unwrap());
    command.args(arguments);
    Program::spawn(command).unwrap()
}

/// All lines of a program that ends well.
#[track_caller]
fn lines_of(name: &str, arguments: &[&str]) -> Vec<String> {
    start(name, arguments).wait_for_success().unwrap()
}

/// A cluster of an example's own processes.
struct Tasks {
    name: &'static str,
    hosts: Hosts,
    flags: Vec<String>,
}

impl Tasks {
    fn new(name: &'static str, ps: usize, workers: usize, flags: &[&str]) -> Tasks {
        let flags = flags.iter().map(|flag| flag.to_string()).collect();
        Tasks { name, hosts: Hosts::new(ps, workers).unwrap(), flags }
    }

    fn start(&self, job: &str, index: usize) -> Program {
        let mut command = Command::new(example(self.name).unwrap());
        command.args(self.hosts.flags()).args(&self.flags);
        command.args([format!("--job_name={job}"), format!("--task_index={index}")]);
        Program::spawn(command).unwrap()
    }
}

/// The number that follows `before` in a line.
fn number_after(line: &str, before: &str) -> Option<f64> {
    let (_, rest) = line.split_once(before)?;
    let end = rest.find(|c: char| !(c.is_ascii_digit() || "-.e".contains(c))).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

#[track_caller]
fn last_number(lines: &[String], before: &str) -> f64 {
    let found = lines.iter().rev().find_map(|line| number_after(line, before));
    found.unwrap_or_else(|| panic!("no line has a number after '{before}': {lines:#?}"))
}

#[test]
fn hello_comes_from_a_local_server() {
    assert_eq!(lines_of("hello", &[]), ["Hello, distributed TensorFlow!"]);
}

#[test]
fn five_servers_compute_4_and_place_six_nodes() {
    let lines = lines_of("five_servers", &[]);
    assert_eq!(lines[0], "c = 4.0");
    let expected = [
        ("v1", "v1: (VariableV2)", "/job:ps/replica:0/task:0/device:CPU:0"),
        ("v2", "v2: (VariableV2)", "/job:ps/replica:0/task:1/device:CPU:0"),
        ("v3", "v3: (VariableV2)", "/job:ps/replica:0/task:0/device:CPU:0"),
        ("s", "add: (AddV2)", "/job:worker/replica:0/task:0/device:CPU:0"),
        ("p1", "mul: (Mul)", "/job:worker/replica:0/task:1/device:CPU:0"),
        ("p2", "mul_1: (Mul)", "/job:worker/replica:0/task:1/device:CPU:0"),
    ];
    for (name, node, device) in expected {
        // Once as the master logs it, once as the step went.
        assert!(lines.contains(&format!("{node}: {device}")), "{node}: {lines:#?}");
        let ran = |line: &&String| line.starts_with(&format!("{name} asked for "));
        let line = lines.iter().find(ran).unwrap_or_else(|| panic!("{name}: {lines:#?}"));
        assert!(line.ends_with(&format!("ran on {device}")), "{line}");
    }
}

#[test]
fn a_model_is_cut_over_two_parameter_servers_and_a_worker() {
    let cluster = Cluster::start_ours(2, 2, &[]).unwrap();
    let master = format!("--master={}", cluster.target(Job::Ps, 1).unwrap());
    for (arguments, worker) in [(vec!["--steps=300"], 0), (vec!["--steps=300", "--worker=1", &master], 1)] {
        let lines = lines_of("placement", &arguments);
        let at = |job: &str, task: usize| format!("/job:{job}/replica:0/task:{task}/device:CPU:0");
        for (node, device) in [
            ("weights_1", at("ps", 0)),
            ("biases_1", at("ps", 0)),
            ("weights_2", at("ps", 1)),
            ("biases_2", at("ps", 1)),
            ("Relu", at("worker", worker)),
        ] {
            assert!(lines.contains(&format!("{node}: {device}")), "{node}: {lines:#?}");
        }
        let loss = last_number(&lines, "loss = ");
        assert!(loss < 0.01, "{lines:#?}");
    }
}

#[test]
fn a_chief_that_was_killed_prints_the_step_that_it_resumes_at() {
    let directory = tempfile::tempdir().unwrap();
    let logdir = directory.path().to_str().unwrap();
    let flag = format!("--logdir={logdir}");
    let mut tasks =
        Tasks::new("linear_regression", 1, 1, &[&flag, "--save_model_secs=1", "--training_epochs=1000000"]);
    let ps = tasks.start("ps", 0);
    assert_eq!(ps.next_line().unwrap(), "Wait");
    let chief = tasks.start("worker", 0);
    assert_eq!(chief.next_line().unwrap(), "0");
    let saved_step = || -> i64 {
        let newest = latest_checkpoint(logdir).unwrap();
        // It may have been replaced by a newer one a moment ago.
        let reader = newest.and_then(|path| CheckpointReader::open(&path).ok());
        let step = reader.and_then(|reader| reader.tensor("global_step").ok());
        step.map_or(0, |step| step.to_scalar().unwrap())
    };
    // A few epochs, until something of them was saved.
    let epoch = chief.wait_for(|line| number_after(line, "Epoch: ").filter(|_| saved_step() > 0)).unwrap();
    chief.kill();
    let saved = saved_step();
    assert!(saved > 0);

    // The second chief has little left to do.
    let epochs = format!("--training_epochs={}", epoch as i64 + 10);
    tasks.flags = vec![flag, epochs];
    let chief = tasks.start("worker", 0);
    // The parameter server still has the model, which may be newer than what was saved.
    let first_step: i64 = chief.next_line().unwrap().parse().unwrap();
    assert!(first_step >= saved, "{first_step} is older than {saved}");
    let lines = chief.wait_for_success().unwrap();
    assert_eq!(lines.last().unwrap(), "Finished");
    assert!((last_number(&lines, "W= ") - 2.0).abs() < 0.15, "{lines:#?}");
    // It has saved its end.
    let newest = latest_checkpoint(logdir).unwrap().unwrap();
    assert!(newest.contains("/sv.cpk-"), "{newest}");
    assert!(saved_step() >= (epoch as i64 + 10) * 100);
}

#[test]
fn both_nodes_report_a_line_that_comes_close() {
    let directory = tempfile::tempdir().unwrap();
    let logdir = format!("--logdir={}", directory.path().display());
    let tasks = Tasks::new("partial_results", 1, 2, &[&logdir, "--rounds=1", "--passes=20"]);
    let mut ps = tasks.start("ps", 0);
    // In the order of the seed's commands but for the chief, who comes last: the other waits for it.
    let workers = [tasks.start("worker", 1), tasks.start("worker", 0)];
    for (worker, index) in workers.into_iter().zip([1, 0]) {
        let lines = worker.wait_for_success().unwrap();
        assert_eq!(lines.len(), 20);
        let prefix = format!("Partial result from node: {index}, w: ");
        assert!(lines.iter().all(|line| line.starts_with(&prefix)), "{lines:#?}");
        let (w, b) = (last_number(&lines, "w: "), last_number(&lines, "b0: "));
        assert!((w - 2.0).abs() < 0.15 && (b - 0.2).abs() < 0.15, "w = {w}, b = {b}");
    }
    assert!(ps.wait_for_end().unwrap().success(), "it ends when the workers are done: {}", ps.log());
}

#[test]
fn a_trainer_stops_at_its_last_step_even_if_a_parameter_server_was_lost() {
    // So many that the chief reports before the end, even if the other worker is much faster.
    const LAST_STEP: i64 = 12_000;
    let directory = tempfile::tempdir().unwrap();
    let flags = [
        format!("--checkpoint_dir={}", directory.path().display()),
        format!("--last_step={LAST_STEP}"),
        "--save_checkpoint_secs=0.2".to_string(),
    ];
    let tasks = Tasks::new("trainer", 2, 2, &flags.each_ref().map(String::as_str));
    let _first_ps = tasks.start("ps", 0);
    let ps = tasks.start("ps", 1);
    let workers = [tasks.start("worker", 0), tasks.start("worker", 1)];
    workers[0].wait_for(|line| number_after(line, "global step ")).unwrap();
    ps.kill();
    let _ps = tasks.start("ps", 1);
    for (index, worker) in workers.into_iter().enumerate() {
        let mut lines = Vec::new();
        let stopped = format!("Worker {index}: stopped at global step ");
        let step = worker.wait_for(|line| {
            lines.push(line.to_string());
            number_after(line, &stopped)
        });
        let step = step.unwrap_or_else(|why| panic!("worker {index}: {lines:#?} {why}")) as i64;
        // The other worker may be in the middle of a step.
        assert!((LAST_STEP..=LAST_STEP + 1).contains(&step), "{lines:#?}");
        let log = worker.log();
        assert!(log.contains("lost"), "the loss was noticed: {log}");
        worker.wait_for_success().unwrap();
    }
    let newest = latest_checkpoint(directory.path().to_str().unwrap()).unwrap().unwrap();
    assert!(newest.ends_with(&format!("-{LAST_STEP}")) || newest.ends_with(&format!("-{}", LAST_STEP + 1)));
}

/// Runs seed 004 to its end, and checks what both workers say.
fn digits_are_learned(tasks: &Tasks, steps: i64, milestones: &[&str]) {
    let workers = [tasks.start("worker", 1), tasks.start("worker", 0)];
    for (worker, index) in workers.into_iter().zip([1, 0]) {
        let lines = worker.wait_for_success().unwrap();
        let begin = match index {
            0 => "Worker 0: Initializing session...".to_string(),
            _ => format!("Worker {index}: Waiting for session to be initialized..."),
        };
        let expected = [
            "job name = worker".to_string(),
            format!("task index = {index}"),
            begin,
            format!("Worker {index}: Session initialization complete."),
        ];
        for line in &expected {
            assert!(lines.contains(line), "{line}: {lines:#?}");
        }
        for milestone in milestones {
            assert_eq!(lines.iter().any(|line| line.contains(milestone)), index == 0, "{milestone}");
        }
        for prefix in ["Training begins @ ", "Training ends @ ", "Training elapsed time: "] {
            last_number(&lines, prefix);
        }
        let step = format!(": Worker {index}: training step 1 done (global step: ");
        assert!(lines.iter().any(|line| number_after(line, &step).is_some_and(|step| step >= 1.0)));
        assert!(last_number(&lines, "done (global step: ") as i64 >= steps);
        let after = format!("After {steps} training step(s), ");
        last_number(&lines, &format!("{after}validation cross entropy = "));
        let accuracy = last_number(&lines, &format!("{after}test accuracy = "));
        assert!(accuracy >= 0.95, "accuracy {accuracy} of worker {index}");
    }
}

#[test]
fn digits_are_learned_asynchronously_and_the_parameter_server_ends() {
    let tasks = Tasks::new("mnist_replica", 1, 2, &["--train_steps=1800", "--learning_rate=0.003"]);
    let mut ps = tasks.start("ps", 0);
    digits_are_learned(&tasks, 1800, &[]);
    assert!(ps.wait_for_end().unwrap().success(), "{}", ps.log());
}

#[test]
fn digits_are_learned_synchronously() {
    let flags = ["--train_steps=700", "--learning_rate=0.005", "--sync_replicas=True"];
    let tasks = Tasks::new("mnist_replica", 1, 2, &flags);
    let _ps = tasks.start("ps", 0);
    digits_are_learned(&tasks, 700, &["Starting chief queue runner and running init_tokens_op"]);
}

#[test]
fn digits_are_learned_on_existing_servers() {
    let cluster = Cluster::start_ours(1, 1, &[]).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let log_dir = format!("--log_dir={}", directory.path().display());
    let [ps_hosts, worker_hosts] = &cluster.flags();
    let lines = lines_of(
        "mnist_replica",
        &[
            ps_hosts,
            worker_hosts,
            "--job_name=worker",
            "--task_index=0",
            "--existing_servers",
            "--num_gpus=1",
            "--train_steps=800",
            "--hidden_units=60",
            "--batch_size=80",
            "--learning_rate=0.008",
            &log_dir,
        ],
    );
    let target = cluster.target(Job::Worker, 0).unwrap();
    assert!(lines.contains(&format!("Using existing server at: {target}")), "{lines:#?}");
    assert!(last_number(&lines, "test accuracy = ") >= 0.94);
    let newest = latest_checkpoint(directory.path().to_str().unwrap()).unwrap().unwrap();
    assert!(newest.ends_with("/model.ckpt-800"), "{newest}");
}

#[test]
fn towers_on_two_workers_share_what_they_learn() {
    let lines = lines_of("towers", &["--train_steps=600"]);
    let accuracies: Vec<f64> =
        (0..2).map(|task| last_number(&lines, &format!("accuracy on /job:worker/task:{task} = "))).collect();
    assert!(accuracies[0] >= 0.94 && accuracies[0] == accuracies[1], "{lines:#?}");
}
