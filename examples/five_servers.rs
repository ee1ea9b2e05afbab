//! Five servers in one process: nodes are bound to tasks by hand, then variables by `replica_device_setter`, and the places
//! are shown.

use clap::Parser;
use tensorfleet::{ClusterSpec, Graph, Result, Session, SessionOptions, replica_device_setter};
use tensorfleet_examples::{devices_of_nodes, local_addresses, say, start_local};

/// Two parameter servers and three workers in one process, and where nodes are placed among them.
#[derive(Parser)]
#[command(rename_all = "snake_case")]
struct Flags {
    /// The port of the first task, e.g. 2221; the others follow. Free ports, if nothing is said.
    #[arg(long)]
    base_port: Option<u16>,
}

fn main() -> Result<()> {
    let flags: Flags = tensorfleet::flags::parse();
    // The cluster, made of jobs.
    let addresses = local_addresses(5, flags.base_port)?;
    let (ps, workers) = addresses.split_at(2);
    let cluster = ClusterSpec::new([("ps", ps), ("worker", workers)])?;
    // Its servers.
    let task_ps0 = start_local(&cluster, "ps", 0)?;
    let _task_ps1 = start_local(&cluster, "ps", 1)?;
    let _task_worker0 = start_local(&cluster, "worker", 0)?;
    let _task_worker1 = start_local(&cluster, "worker", 1)?;
    let _task_worker2 = start_local(&cluster, "worker", 2)?;

    bind_by_hand(&task_ps0.target())?;
    bind_by_setter(&task_ps0.target())
}

/// The first example: each node is bound to a job, or to a task of it.
fn bind_by_hand(master: &str) -> Result<()> {
    let g = Graph::new();
    // The variable to the job ps.
    let a = g.device("/job:ps", || g.variable("a", 1.0f32));
    // What is computed to the workers.
    let b = g.device("/job:worker", || &a + 2.0);
    let c = g.device("/job:worker/task:1", || &a + &b);
    let session = Session::connect(master, &g)?;
    session.run(a.initializer())?;
    say!("c = {:?}", session.run(&c)?.to_scalar::<f32>()?);
    session.close()
}

/// The second example: as there are many variables in a model, they are given to the parameter servers in turn.
fn bind_by_setter(master: &str) -> Result<()> {
    let g = Graph::new();
    // For other nodes the scopes say where they belong; what these leave open has a default.
    let setter = replica_device_setter().ps_tasks(2).ps_device("/job:ps").worker_device("/job:worker");
    let (variables, s, p1, p2) = g.device(setter, || {
        let v1 = g.variable("v1", 1.0f32); // to /job:ps/task:0 (by default /cpu:0)
        let v2 = g.variable("v2", 2.0f32); // to /job:ps/task:1 (by default /cpu:0)
        let v3 = g.variable("v3", 3.0f32); // to /job:ps/task:0 (by default /cpu:0)
        let s = &v1 + &v2; // to /job:worker (by default task:0/cpu:0)
        let (p1, p2) = g.device("/task:1", || {
            let p1 = 2.0 * &s; // to /job:worker/task:1 (by default /cpu:0)
            let p2 = g.device("/cpu:0", || 3.0 * &s); // to /job:worker/task:1/cpu:0
            (p1, p2)
        });
        ([v1, v2, v3], s, p1, p2)
    });
    // The master, which is in this process, prints the place of every node.
    let config = SessionOptions { log_device_placement: true, ..SessionOptions::default() };
    let session = Session::connect_with(master, &g, config)?;
    for variable in &variables {
        session.run(variable.initializer())?;
    }

    // The record of a step tells where its nodes really ran.
    let [v1, v2, v3] = &variables;
    let (_, record) = session.step().run_traced((v1, v2, v3, &s, &p1, &p2))?;
    let devices = devices_of_nodes(&record);
    let outputs = [v1.handle(), v2.handle(), v3.handle(), s, p1, p2];
    for (name, output) in ["v1", "v2", "v3", "s", "p1", "p2"].into_iter().zip(&outputs) {
        let device = devices.get(&output.operation().name()).map_or("nowhere", String::as_str);
        say!("{name} asked for {}, ran on {device}", output.device());
    }
    session.close()
}
