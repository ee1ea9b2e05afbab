//! Where nodes run that could run in several places: the same as on the servers of the client's own TensorFlow, for a table of device
//! requests, session targets and filters, and where the flag `--default-placement` says.

use std::collections::BTreeMap;
use std::time::Duration;

use tensorfleet_tests::cluster::{Cluster, Server};
use tensorfleet_tests::python::{Interpreter, Program};

/// Ten times what the program takes on an idle machine.
const LIMIT: Duration = Duration::from_secs(300);

/// For each request and target, where the nodes ran.
fn table(cluster: &Cluster, client: &Interpreter) -> BTreeMap<String, String> {
    let program = Program::start(client, "placement.py", cluster.flags(), LIMIT);
    let rows = program.and_then(|program| program.finish(|_| Err("nothing to ask for".to_string())));
    let rows = rows.unwrap_or_else(|reason| panic!("{reason}\n{}", cluster.logs()));
    rows.into_iter()
        .map(|row| {
            assert!(row.passed, "{}: {}\n{}", row.name, row.detail, cluster.logs());
            (row.name, row.detail)
        })
        .collect()
}

fn start(server: &Server, flags: &[&str]) -> Cluster {
    let cluster = match server {
        Server::Tensorfleet => Cluster::start_ours(1, 2, flags),
        other => Cluster::start(std::slice::from_ref(other), &[other.clone(), other.clone()]),
    };
    cluster.unwrap_or_else(|reason| panic!("{reason}"))
}

/// Compares row by row, and shows all that differ.
fn assert_same(theirs: &BTreeMap<String, String>, ours: &BTreeMap<String, String>) {
    assert!(theirs.len() > 100, "{}", theirs.len());
    let differ = |(name, row): (&String, &String)| match ours.get(name) {
        Some(own) if own == row => None,
        own => Some(format!("{name}: theirs {row}, ours {own:?}")),
    };
    let differences: Vec<String> = theirs.iter().filter_map(differ).collect();
    assert!(differences.is_empty(), "{} rows differ:\n{}", differences.len(), differences.join("\n"));
}

fn is_as_with_its_own_servers(client: &Interpreter) -> BTreeMap<String, String> {
    let theirs = table(&start(&Server::TensorFlow(client.clone()), &[]), client);
    assert_same(&theirs, &table(&start(&Server::Tensorfleet, &[]), client));
    theirs
}

#[test]
fn tensorflow_1_programs_find_their_nodes_where_tensorflow_1_puts_them() {
    let Some(client) = Interpreter::with_tensorflow_1() else { return };
    let table = is_as_with_its_own_servers(&client);
    assert_eq!(table["'' @ worker:1"], "v_here ps:0, y ps:0");
}

#[test]
fn tensorflow_2_programs_find_their_nodes_where_tensorflow_2_puts_them() {
    let client = Interpreter::with_tensorflow_2().unwrap_or_else(|reason| panic!("{reason}"));
    let table = is_as_with_its_own_servers(&client);
    assert_eq!(table["'' @ worker:1"], "v_here worker:1, y worker:1");
}

#[test]
fn a_server_may_be_told_otherwise() {
    let client = Interpreter::with_tensorflow_2().unwrap_or_else(|reason| panic!("{reason}"));
    let table = table(&start(&Server::Tensorfleet, &["--default-placement=first-task"]), &client);
    assert_eq!(table["'' @ worker:1"], "v_here ps:0, y ps:0");
    assert_eq!(table["'/job:worker' @ worker:1"], "v_here worker:0, y worker:0");
    assert_eq!(table["'/job:worker/task:1' @ worker:0"], "v_here worker:1, y worker:1");
}
