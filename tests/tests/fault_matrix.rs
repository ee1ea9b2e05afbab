//! The recovery matrix in a hurry: cells of every row, with shorter faults and a shorter peer timeout. All of it, in full
//! length and many times, is `cargo xtask matrix`.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use tensorfleet_tests::matrix::{Cell, Client, Fault, Faults, Mode, Role, run};
use tensorfleet_tests::network::Network;
use tensorfleet_tests::skipping::skip;

const FAULTS: Faults = Faults {
    restart_after: Duration::from_secs(1),
    frozen: Duration::from_secs(6),
    cut_off: Duration::from_secs(7),
    peer_timeout: Duration::from_secs(3),
};

/// Tries cells side by side, since they mostly wait.
#[track_caller]
fn check(cells: &[Cell]) {
    if let Err(reason) = Network::new(2) {
        skip(&format!("no network namespaces: {reason}"), "be root and have `ip` (iproute2)");
        return;
    }
    let outcomes = std::thread::scope(|scope| {
        let running: Vec<_> =
            cells.iter().map(|&cell| (cell, scope.spawn(move || run(cell, &FAULTS, 7)))).collect();
        running.into_iter().map(|(cell, run)| (cell, run.join().unwrap())).collect::<Vec<_>>()
    });
    let broken: Vec<String> = outcomes
        .into_iter()
        .filter_map(|(cell, outcome)| {
            outcome.and_then(|outcome| cell.verdict(&outcome)).err().map(|reason| format!("{cell}: {reason}"))
        })
        .collect();
    assert!(broken.is_empty(), "{broken:#?}");
}

fn cell(mode: Mode, role: Role, fault: Fault) -> Cell {
    Cell { client: Client::Rust, mode, role, fault }
}

#[test]
fn a_synchronous_training_survives_a_ps_that_froze_or_was_cut_off_and_a_chief_that_was_killed() {
    check(&[
        cell(Mode::Synchronous, Role::Ps, Fault::Frozen),
        cell(Mode::Synchronous, Role::Ps, Fault::CutOff),
        cell(Mode::Synchronous, Role::Chief, Fault::Restarted),
    ]);
}

#[test]
fn whoever_waits_for_a_dead_task_says_so() {
    check(&[
        cell(Mode::Asynchronous, Role::Ps, Fault::StaysDead),
        cell(Mode::Synchronous, Role::Chief, Fault::StaysDead),
        cell(Mode::Synchronous, Role::Worker, Fault::StaysDead),
    ]);
}

#[test]
fn an_asynchronous_training_loses_nothing_with_a_chief_that_was_cut_off_or_a_worker_that_was_killed() {
    check(&[
        cell(Mode::Asynchronous, Role::Chief, Fault::CutOff),
        cell(Mode::Asynchronous, Role::Worker, Fault::Restarted),
        cell(Mode::Synchronous, Role::Backup, Fault::StaysDead),
    ]);
}
