//! Embedding tables over parameter servers that are processes: what memory they take, and what travels.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use tensorfleet::train::{Adagrad, Optimizer};
use tensorfleet::{
    ClusterSpec, Code, DType, Graph, Initializer, PartitionStrategy, Partitioner, Session, SessionOptions,
    Tensor, replica_device_setter,
};
use tensorfleet_tests::cluster::{Cluster, Job};

const PS: usize = 2;
/// 200 MiB of embeddings, and as much again of accumulators.
const ROWS: usize = 800 << 10;
const COLUMNS: usize = 64;
/// Rows of a lookup.
const BATCH: usize = 2000;

/// Bytes of a line of a ps's status, such as `VmRSS` (resident now) or `VmHWM` (at most so far), of all ps.
fn memory_of_ps(cluster: &Cluster, line: &str) -> usize {
    let of = |index| {
        let pid = cluster.pid(Job::Ps, index).unwrap();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let kilobytes = status.lines().find_map(|text| text.strip_prefix(line)?.strip_prefix(':')).unwrap();
        kilobytes.split_whitespace().next().unwrap().parse::<usize>().unwrap() * 1024
    };
    (0..PS).map(of).sum()
}

/// Bytes that the worker and the ps have exchanged so far.
fn traffic(cluster: &Cluster) -> u64 {
    let totals = cluster.status(Job::Worker, 0).unwrap().totals;
    totals.bytes_sent + totals.bytes_received
}

/// Ids all over the table, none twice.
fn ids(seed: usize) -> Tensor {
    let ids: Vec<i64> = (0..BATCH).map(|i| ((i * 397 + seed * 7) % ROWS) as i64).collect();
    Tensor::vector(&ids).unwrap()
}

#[test]
fn a_table_takes_its_own_memory_once_and_a_lookup_moves_its_rows() {
    let cluster = Cluster::start_ours(PS, 1, &[]).unwrap();
    // What the processes take by themselves, which is much in a build for tests.
    let idle = memory_of_ps(&cluster, "VmRSS");
    let flags = cluster.flags();
    let hosts: Vec<&str> = flags.iter().map(|flag| flag.split_once('=').unwrap().1).collect();
    let spec = ClusterSpec::from_hosts(hosts[0], hosts[1]).unwrap();
    let g = Graph::new();
    g.set_random_seed(1);
    let setter = replica_device_setter().cluster(&spec).worker_device("/job:worker/task:0");
    let (wanted, sum, train) = g
        .device(setter, || {
            let table = g.get_variable("table").shape([ROWS, COLUMNS]);
            let table = table.initializer(Initializer::truncated_normal(0.0, 0.1));
            let table = table.partitioner(Partitioner::fixed_size(PS)).build()?;
            let wanted = g.placeholder(DType::Int64, [-1]);
            let rows = g.embedding_lookup(&table, &wanted, PartitionStrategy::Div)?;
            // Fetched is a number: what travels to the client is not what is measured.
            let sum = rows.square()?.reduce_sum(..)?;
            let train = Adagrad::new(0.1).minimize(&sum)?;
            Ok::<_, tensorfleet::Status>((wanted, sum, train))
        })
        .unwrap();
    let options = SessionOptions { connect_timeout: Duration::from_secs(120), ..SessionOptions::default() };
    let session = Session::connect_with(&cluster.target(Job::Worker, 0).unwrap(), &g, options).unwrap();
    session.run(g.global_variables_initializer().unwrap()).unwrap();

    let first = session.feed(&wanted, ids(0)).run(&sum).unwrap().to_scalar::<f32>().unwrap();
    assert!(first > 0.0, "{first}");
    let rows = (BATCH * COLUMNS * size_of::<f32>()) as u64;
    let before = traffic(&cluster);
    session.feed(&wanted, ids(1)).run(&sum).unwrap();
    let moved = traffic(&cluster) - before;
    // Ids go there and rows come back; the rest is what messages cost.
    assert!(moved >= rows && moved < rows + rows / 5, "{moved} bytes moved for {rows} bytes of rows");

    for step in 0..20 {
        session.feed(&wanted, ids(step)).run(&train).unwrap();
    }
    let after = session.feed(&wanted, ids(0)).run(&sum).unwrap().to_scalar::<f32>().unwrap();
    assert!(after < first, "training does not reach the table: {first} became {after}");

    let error = session.feed(&wanted, Tensor::vector(&[ROWS as i64]).unwrap()).run(&sum).unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument, "{error}");
    let error = session.feed(&wanted, Tensor::vector(&[-1i64]).unwrap()).run(&train).unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument, "{error}");

    let table_and_slots = 2 * ROWS * COLUMNS * size_of::<f32>();
    for line in ["VmRSS", "VmHWM"] {
        let memory = memory_of_ps(&cluster, line) - idle;
        assert!(
            memory >= table_and_slots && memory <= table_and_slots / 100 * 115,
            "{line}: {memory} bytes for {table_and_slots} bytes of table and slots"
        );
    }
    session.close().unwrap();
}
