//! Tasks that die, freeze or vanish, and clients that do: a clear error in bounded time, and nothing left behind.
#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tensorfleet_cluster::{RemoteRunOptions, RemoteSession, TaskStatus};
use tensorfleet_core::{Code, Status, Tensor};
use tensorfleet_proto::tensorflow::RunStepRequest;
use tensorfleet_rpc::{CallOptions, Channel, ChannelOptions, Parts};
use tensorfleet_tests::cluster::{self, Cluster, Job};
use tensorfleet_tests::network::Network;
use tensorfleet_tests::raw_http2::greeting_and_call;
use tensorfleet_tests::skipping::skip;
use tensorfleet_tests::stuck::{self, connect, eventually, fetch, fetch_in_background, run};

/// What waits for nobody's time-out is done by then, however busy the machine is: servers wait a minute for each other unless
/// told otherwise.
const SOON: Duration = Duration::from_secs(25);
const CONNECT_LIMIT: Duration = Duration::from_secs(30);

fn target(cluster: &Cluster, job: Job, index: usize) -> String {
    cluster.target(job, index).unwrap()
}

fn session_on(cluster: &Cluster, holder: &str) -> Arc<RemoteSession> {
    let graph = stuck::graph(holder, "/job:worker/task:0");
    connect(&target(cluster, Job::Worker, 0), graph, CONNECT_LIMIT).unwrap()
}

/// Waits until a step on the task waits for `node`.
#[track_caller]
fn wait_until_stuck(cluster: &Cluster, job: Job, index: usize, node: &str) {
    eventually("a step that waits", SOON, || {
        let status = cluster.status(job, index)?;
        let waits = status.steps.iter().flat_map(|step| &step.waiting_for).any(|what| what.contains(node));
        if waits { Ok(()) } else { Err(format!("{:?}", status.steps)) }
    });
}

/// Waits until no task has a step.
#[track_caller]
fn wait_until_no_steps(cluster: &Cluster) -> Vec<TaskStatus> {
    eventually("no steps anywhere", Duration::from_secs(20), || {
        let statuses = cluster.statuses()?;
        let steps: Vec<_> = statuses.iter().flat_map(|status| &status.steps).collect();
        let running = statuses.iter().flat_map(|status| &status.master_sessions).map(|s| s.running_steps);
        if steps.is_empty() && running.sum::<usize>() == 0 { Ok(()) } else { Err(format!("{steps:?}")) }?;
        Ok(statuses)
    })
}

#[track_caller]
fn assert_unavailable(result: Result<Tensor, Status>, words: &[&str]) {
    let status = result.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    for word in words {
        assert!(status.text().contains(word), "'{word}' is not in: {status}");
    }
}

/// The whole story of a task that dies in mid step and comes back.
fn kill_and_restart(job: Job, index: usize, holder: &str) {
    let mut cluster = Cluster::start_ours(1, 2, &[]).unwrap();
    let address = cluster.address(job, index).unwrap().to_string();
    let session = session_on(&cluster, holder);
    run(&session, "init").unwrap();
    assert_eq!(fetch(&session, "read:0").unwrap(), Tensor::scalar(7.0f32));
    let stuck = fetch_in_background(&session, "result:0");
    wait_until_stuck(&cluster, job, index, "taken");

    let killed = Instant::now();
    cluster.kill(job, index).unwrap();
    let (result, ended) = stuck.outcome(SOON);
    assert_unavailable(result, &[holder.split_once("/task").unwrap().0, &address]);
    assert!(ended - killed < SOON, "it took {:?}", ended - killed);

    let asked = Instant::now();
    assert_unavailable(fetch(&session, "read:0"), &[&address]);
    assert!(asked.elapsed() < SOON, "it took {:?}", asked.elapsed());

    cluster.restart(job, index).unwrap();
    // Whoever has failed to connect a few times looks again within a second.
    eventually("a look at the restarted task", Duration::from_secs(3), || match fetch(&session, "read:0") {
        Err(status) if status.code() == Code::Unavailable => Err(status.to_string()),
        _ => Ok(()),
    });
    for _ in 0..3 {
        let status = fetch(&session, "read:0").unwrap_err();
        assert_eq!(status.code(), Code::Aborted, "{status}");
    }
    let new = session_on(&cluster, holder);
    assert_eq!(fetch(&new, "read:0").unwrap_err().code(), Code::FailedPrecondition);
    run(&new, "init").unwrap();
    assert_eq!(fetch(&new, "read:0").unwrap(), Tensor::scalar(7.0f32));
    assert_eq!(fetch(&session, "read:0").unwrap_err().code(), Code::Aborted, "a broken session stays broken");
    session.close().unwrap();
    new.close().unwrap();
    let statuses = wait_until_no_steps(&cluster);
    assert!(statuses.iter().all(|status| status.worker_sessions.is_empty()), "{statuses:?}");
}

#[test]
fn a_killed_ps_ends_its_steps_and_a_new_session_works() {
    kill_and_restart(Job::Ps, 0, "/job:ps/task:0");
}

#[test]
fn a_killed_worker_ends_its_steps_and_a_new_session_works() {
    kill_and_restart(Job::Worker, 1, "/job:worker/task:1");
}

#[test]
fn a_killed_master_ends_its_sessions_everywhere() {
    let mut cluster = Cluster::start_ours(1, 1, &[]).unwrap();
    let session = session_on(&cluster, "/job:ps/task:0");
    run(&session, "init").unwrap();
    let stuck = fetch_in_background(&session, "result:0");
    wait_until_stuck(&cluster, Job::Ps, 0, "taken");
    cluster.kill(Job::Worker, 0).unwrap();
    let (result, _) = stuck.outcome(SOON);
    assert_unavailable(result, &[]);
    // The other task has noticed too, without having been told.
    eventually("the end of the step on the ps", SOON, || {
        let steps = cluster.status(Job::Ps, 0)?.steps;
        if steps.iter().any(|step| step.state == "running") { Err(format!("{steps:?}")) } else { Ok(()) }
    });
    cluster.restart(Job::Worker, 0).unwrap();
    for _ in 0..2 {
        assert_eq!(fetch(&session, "read:0").unwrap_err().code(), Code::Aborted);
    }
    // Variables on the ps have survived; the dead master's session there goes when the master's new life shows up.
    let new = session_on(&cluster, "/job:ps/task:0");
    assert_eq!(fetch(&new, "read:0").unwrap(), Tensor::scalar(7.0f32));
    assert_eq!(cluster.status(Job::Ps, 0).unwrap().worker_sessions.len(), 1);
}

#[test]
fn a_frozen_ps_is_given_up_and_welcome_again_when_it_thaws() {
    let cluster = Cluster::start_ours(1, 1, &["--peer-timeout=3", "--session-timeout=2"]).unwrap();
    let address = cluster.address(Job::Ps, 0).unwrap().to_string();
    let session = session_on(&cluster, "/job:ps/task:0");
    run(&session, "init").unwrap();
    let stuck = fetch_in_background(&session, "result:0");
    wait_until_stuck(&cluster, Job::Ps, 0, "taken");
    let frozen = Instant::now();
    cluster.signal(Job::Ps, 0, "STOP").unwrap();
    let (result, ended) = stuck.outcome(Duration::from_secs(20));
    assert_unavailable(result, &["/job:ps", &address]);
    assert!(ended - frozen < SOON, "it took {:?}", ended - frozen);
    // A new session says what is the matter instead of hanging.
    let started = Instant::now();
    let graph = stuck::graph("/job:ps/task:0", "/job:worker/task:0");
    let status = connect(&target(&cluster, Job::Worker, 0), graph, CONNECT_LIMIT).map(|_| ()).unwrap_err();
    assert!(status.text().contains("silent") && status.text().contains(&address), "{status}");
    assert!(started.elapsed() < SOON, "it took {:?}", started.elapsed());
    cluster.signal(Job::Ps, 0, "CONT").unwrap();
    let new = session_on(&cluster, "/job:ps/task:0");
    assert_eq!(fetch(&new, "read:0").unwrap(), Tensor::scalar(7.0f32), "it was frozen, not dead");
    wait_until_no_steps(&cluster);
}

/// Not a test of its own: the client that other tests start as a process, to kill it. It gets stuck.
#[test]
#[ignore = "started as a process by other tests"]
fn client_process() {
    let Ok(target) = std::env::var("TENSORFLEET_TEST_TARGET") else { return };
    let holder = std::env::var("TENSORFLEET_TEST_HOLDER").unwrap();
    let session = connect(&target, stuck::graph(&holder, "/job:worker/task:0"), CONNECT_LIMIT).unwrap();
    let _ = fetch(&session, "result:0");
}

/// A client process that is killed with the value.
struct Client(Child);

impl Client {
    fn start(mut command: Command, target: &str, holder: &str) -> Client {
        let child = command
            .args(["--ignored", "--exact", "client_process", "--nocapture"])
            .env("TENSORFLEET_TEST_TARGET", target)
            .env("TENSORFLEET_TEST_HOLDER", holder)
            .stdout(Stdio::null())
            .spawn();
        Client(child.unwrap())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_killed_client_takes_its_steps_along_on_all_tasks() {
    let cluster = Cluster::start_ours(1, 1, &[]).unwrap();
    let command = Command::new(std::env::current_exe().unwrap());
    let client = Client::start(command, &target(&cluster, Job::Worker, 0), "/job:ps/task:0");
    wait_until_stuck(&cluster, Job::Ps, 0, "taken");
    wait_until_stuck(&cluster, Job::Worker, 0, "tensor");
    drop(client);
    wait_until_no_steps(&cluster);
}

#[test]
fn a_client_that_drops_a_partial_run_takes_it_along_on_all_tasks() {
    use tensorfleet_proto::tensorflow::{PartialRunSetupRequest, PartialRunSetupResponse};
    let cluster = Cluster::start_ours(1, 1, &[]).unwrap();
    let session = session_on(&cluster, "/job:ps/task:0");
    let address = cluster.address(Job::Worker, 0).unwrap().to_string();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let channel = Channel::new(&address, ChannelOptions::default()).unwrap();
        let setup = PartialRunSetupRequest {
            session_handle: session.handle().to_string(),
            fetch: vec!["result:0".into(), "here:0".into()],
            ..Default::default()
        };
        let method = "/tensorflow.MasterService/PartialRunSetup";
        let answer = channel.call(method, Parts::from_message(&setup), CallOptions::default()).await.unwrap();
        let answer: PartialRunSetupResponse = answer.message.decode().unwrap();
        let step = RunStepRequest {
            session_handle: session.handle().to_string(),
            partial_run_handle: answer.partial_run_handle,
            fetch: vec!["result:0".into()],
            ..Default::default()
        };
        let method = "/tensorflow.MasterService/RunStep";
        let call = channel.call(method, Parts::from_message(&step), CallOptions::default());
        let stuck = async {
            tokio::task::block_in_place(|| wait_until_stuck(&cluster, Job::Ps, 0, "taken"));
        };
        // The call is sent before the other future blocks the thread, and dropped unfinished.
        tokio::select! {
            biased;
            _ = call => panic!("the queue is empty"),
            () = async { tokio::time::sleep(Duration::from_millis(1)).await; stuck.await } => {}
        }
    });
    wait_until_no_steps(&cluster);
    session.close().unwrap();
    assert!(cluster.statuses().unwrap().iter().all(|status| status.worker_sessions.is_empty()));
}

#[test]
fn a_peer_that_accepts_and_never_answers_is_called_silent() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent_address = silent.local_addr().unwrap().to_string();
    let worker = cluster::free_addresses(1).unwrap()[0].to_string();
    let command = Command::new(cluster::tensorfleet_program().unwrap());
    let _server = Serve::start(command, &silent_address, &worker, "worker", &["--session-timeout=2"]);
    let started = Instant::now();
    let graph = stuck::graph("/job:ps/task:0", "/job:worker/task:0");
    let status = connect(&format!("grpc://{worker}"), graph, CONNECT_LIMIT).map(|_| ()).unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    for word in ["/job:ps/task:0", &silent_address, "silent", "answered: /job:worker/task:0"] {
        assert!(status.text().contains(word), "'{word}' is not in: {status}");
    }
    assert!(started.elapsed() < SOON);
}

/// A `tensorfleet serve` with a cluster of one ps and one worker.
struct Serve(Child);

impl Serve {
    /// `command` runs the program, wherever it is to run.
    fn start(mut command: Command, ps: &str, worker: &str, job: &str, flags: &[&str]) -> Serve {
        command
            .arg("serve")
            .args([format!("--ps_hosts={ps}"), format!("--worker_hosts={worker}")])
            .args([format!("--job_name={job}"), "--task_index=0".to_string()])
            .args(flags);
        Serve(command.stdout(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn half_a_message_and_then_silence_harms_nobody_else() {
    let cluster = Cluster::start_ours(1, 1, &[]).unwrap();
    let address = cluster.address(Job::Worker, 0).unwrap();
    let whole = greeting_and_call("/tensorflow.MasterService/RunStep", 1000, &[10; 10]);
    let mut halves = Vec::new();
    for length in [0, 10, 24, 30, 40, whole.len()] {
        for _ in 0..20 {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(&whole[..length]).unwrap();
            halves.push(stream);
        }
    }
    let mut http1 = TcpStream::connect(address).unwrap();
    http1.write_all(b"GET /sta").unwrap();
    let session = session_on(&cluster, "/job:ps/task:0");
    run(&session, "init").unwrap();
    for _ in 0..50 {
        assert_eq!(fetch(&session, "read:0").unwrap(), Tensor::scalar(7.0f32));
    }
    drop((halves, http1));
    session.close().unwrap();
    let statuses = wait_until_no_steps(&cluster);
    assert!(statuses.iter().all(|status| status.master_sessions.is_empty()));
}

/// Runs `count` steps that get stuck and are given up, half by a time-out, half by dropping the call.
fn abort_steps(session: &RemoteSession, address: &str, count: usize) {
    let options = RemoteRunOptions { timeout: Some(Duration::from_millis(3)), ..Default::default() };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..count / 4 {
                    let status = session.run(&[], &["result:0"], &[], &options).unwrap_err();
                    assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
                }
            });
        }
        scope.spawn(|| {
            tokio::runtime::Runtime::new().unwrap().block_on(async {
                let channel = Channel::new(address, ChannelOptions::default()).unwrap();
                for _ in 0..count / 2 {
                    let step = RunStepRequest {
                        session_handle: session.handle().to_string(),
                        fetch: vec!["result:0".into()],
                        ..Default::default()
                    };
                    let method = "/tensorflow.MasterService/RunStep";
                    let call = channel.call(method, Parts::from_message(&step), CallOptions::default());
                    let given_up = tokio::time::timeout(Duration::from_millis(3), call).await;
                    assert!(given_up.is_err());
                }
            });
        });
    });
}

#[test]
fn a_thousand_aborted_steps_leave_nothing() {
    let cluster = Cluster::start_ours(1, 1, &[]).unwrap();
    let address = cluster.address(Job::Worker, 0).unwrap().to_string();
    let session = session_on(&cluster, "/job:ps/task:0");
    run(&session, "init").unwrap();
    abort_steps(&session, &address, 200);
    let resident = |statuses: &[TaskStatus]| -> Vec<u64> {
        statuses.iter().map(|status| status.resident_bytes).collect()
    };
    let before = resident(&wait_until_no_steps(&cluster));
    abort_steps(&session, &address, 1000);
    let statuses = wait_until_no_steps(&cluster);
    assert!(statuses.iter().any(|status| status.totals.failed_steps >= 500));
    for (before, status) in before.iter().zip(&statuses) {
        let grown = status.resident_bytes.saturating_sub(*before);
        println!("{}: {} KB, grown by {} KB", status.task, before >> 10, grown >> 10);
        assert!(grown < 6 << 20, "{} has grown by {grown} bytes", status.task);
        let graphs: usize = status.worker_sessions.iter().map(|session| session.graphs).sum();
        assert!(graphs <= 2, "{:?}", status.worker_sessions);
    }
    // Nothing that was given up has taken a value: the queue still hands out the next one.
    run(&session, "put").unwrap();
    assert_eq!(fetch(&session, "result:0").unwrap(), Tensor::scalar(7.0f32));
    session.close().unwrap();
    let statuses = wait_until_no_steps(&cluster);
    for status in statuses {
        assert!(status.worker_sessions.is_empty() && status.master_sessions.is_empty(), "{status:?}");
    }
}

#[test]
fn a_partitioned_link_ends_steps_on_both_sides() {
    let Ok(network) = Network::with_this_machine(1) else {
        skip("this user may not make network namespaces", "be root and have `ip` (iproute2)");
        return;
    };
    let port = |index: usize| cluster::free_addresses(2).unwrap()[index].port();
    let ps = format!("{}:{}", network.address(0), port(0));
    let worker = format!("{}:{}", network.own_address(), port(1));
    let flags = ["--peer-timeout=3", "--session-timeout=10"];
    let program = cluster::tensorfleet_program().unwrap();
    let _ps = Serve::start(network.command(0, &program), &ps, &worker, "ps", &flags);
    let _worker = Serve::start(Command::new(program), &ps, &worker, "worker", &flags);
    let status = |address: &str| cluster::status_of(address.parse().unwrap());
    let graph = || stuck::graph("/job:ps/task:0", "/job:worker/task:0");
    let session = connect(&format!("grpc://{worker}"), graph(), CONNECT_LIMIT).unwrap();
    run(&session, "init").unwrap();
    let stuck = fetch_in_background(&session, "result:0");
    // A client beyond the link, stuck on a task on this side.
    let command = network.command(0, std::env::current_exe().unwrap());
    let client = Client::start(command, &format!("grpc://{worker}"), "/job:worker/task:0");
    eventually("two steps on the worker and one on the ps", SOON, || {
        let steps = [status(&ps)?.steps.len(), status(&worker)?.steps.len()];
        if steps == [1, 2] { Ok(()) } else { Err(format!("{steps:?}")) }
    });

    let cut = Instant::now();
    network.cut(0).unwrap();
    let (result, ended) = stuck.outcome(Duration::from_secs(20));
    assert_unavailable(result, &["/job:ps", &ps]);
    assert!(ended - cut < SOON, "it took {:?}", ended - cut);
    eventually("the end of the unreachable client's step", Duration::from_secs(60), || {
        let steps = status(&worker)?.steps;
        if steps.is_empty() { Ok(()) } else { Err(format!("{steps:?}")) }
    });
    println!("the unreachable client's step ended after {:?}", cut.elapsed());
    drop(client);

    network.heal(0).unwrap();
    let new = connect(&format!("grpc://{worker}"), graph(), CONNECT_LIMIT).unwrap();
    assert_eq!(fetch(&new, "read:0").unwrap(), Tensor::scalar(7.0f32));
    eventually("no steps on the ps", Duration::from_secs(60), || {
        let steps = status(&ps)?.steps;
        if steps.is_empty() { Ok(()) } else { Err(format!("{steps:?}")) }
    });
}
