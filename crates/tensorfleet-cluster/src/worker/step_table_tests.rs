//! Tests of the table of steps: who comes first, who goes, and what is left.

use super::*;
use futures_util::FutureExt;
use tensorfleet_core::{Code, Tensor};
use tensorfleet_kernel::rendezvous::Rendezvous;

fn key(name: &str) -> RendezvousKey {
    format!("/job:a;00ff;/job:b;{name};0:0").parse().unwrap()
}

#[test]
fn a_request_may_come_before_the_step_and_leaves_nothing_when_withdrawn() {
    let table = Arc::new(StepTable::new(Clock::system()));
    let mut early = Box::pin(table.receive(7, key("x")));
    assert!(early.as_mut().now_or_never().is_none());
    assert_eq!(table.entries().len(), 1);
    let waits = &table.report()[0].waiting_for;
    assert_eq!(*waits, ["tensor x from /job:a to /job:b, which is still to be made here"]);
    drop(early);
    assert_eq!(table.entries().len(), 0);
}

#[test]
fn values_wait_for_peers_until_the_step_is_cleaned_up() {
    let table = Arc::new(StepTable::new(Clock::system()));
    let entry = table.entry(7).unwrap();
    entry.rendezvous.send(key("x"), Some(Tensor::scalar(1i32)), Resume::OnPool).unwrap();
    entry.end(None);
    let value = table.receive(7, key("x")).now_or_never().unwrap().unwrap();
    assert_eq!(value, Some(Tensor::scalar(1i32)));
    let mut late = Box::pin(table.receive(7, key("x")));
    assert!(late.as_mut().now_or_never().is_none());
    table.remove(7);
    assert_eq!(late.now_or_never().unwrap().unwrap_err().code(), Code::Aborted);
    assert_eq!(table.entries().len(), 0);
}

#[test]
fn of_several_values_each_comes_when_it_is_there() {
    let table = Arc::new(StepTable::new(Clock::system()));
    let keys = ["x", "y", "z"].map(key).to_vec();
    let mut arrivals = table.receive_all(7, keys.clone()).unwrap();
    assert!(arrivals.next_ready().is_none());
    let entry = table.entry(7).unwrap();
    entry.rendezvous.send(keys[2].clone(), Some(Tensor::scalar(1i32)), Resume::OnPool).unwrap();
    entry.rendezvous.send(keys[0].clone(), None, Resume::OnPool).unwrap();
    let two = [arrivals.next_ready(), arrivals.next_ready()].map(|value| value.unwrap().unwrap());
    assert_eq!(two, [(2, Some(Tensor::scalar(1i32))), (0, None)]);
    assert!(arrivals.next_ready().is_none());
    entry.end(Some(&Status::invalid_argument("bad matrix")));
    assert_eq!(arrivals.next().now_or_never().unwrap().unwrap().unwrap_err().text(), "bad matrix");
    assert!(arrivals.next().now_or_never().unwrap().is_none());
}

#[test]
fn what_has_not_come_is_withdrawn_with_the_request() {
    let table = Arc::new(StepTable::new(Clock::system()));
    drop(table.receive_all(7, ["x", "y"].map(key).to_vec()).unwrap());
    assert_eq!(table.entries().len(), 0);
}

#[test]
fn peers_get_the_error_of_a_failed_part() {
    let table = Arc::new(StepTable::new(Clock::system()));
    let waiting = Box::pin(table.receive(7, key("x")));
    let entry = table.entry(7).unwrap();
    entry.end(Some(&Status::invalid_argument("bad matrix")));
    assert_eq!(waiting.now_or_never().unwrap().unwrap_err().text(), "bad matrix");
}

/// The count of references was read while two requests still held theirs, so neither removed the entry.
#[test]
fn the_last_of_several_requests_takes_the_entry_along() {
    let table = Arc::new(StepTable::new(Clock::system()));
    let mut requests: Vec<_> = (0..3).map(|_| Box::pin(table.receive(7, key("x")))).collect();
    requests.iter_mut().for_each(|request| assert!(request.as_mut().now_or_never().is_none()));
    let seen_by_status = table.entries();
    drop(requests);
    assert_eq!(table.entries().len(), 1);
    drop(seen_by_status);
    table.sweep(|_| true);
    assert_eq!(table.entries().len(), 0);
}

#[test]
fn steps_that_nobody_cleans_up_are_forgotten_in_time_failed_ones_sooner() {
    let hand = Clock::manual();
    let table = Arc::new(StepTable::new(hand.clock()));
    table.entry(1).unwrap().end(None);
    table.entry(2).unwrap().end(Some(&Status::invalid_argument("bad matrix")));
    hand.advance(KEEP_TIMEOUT);
    table.sweep(|_| true);
    assert_eq!(table.report().len(), 2, "not yet");
    hand.advance(Duration::from_millis(1));
    table.sweep(|_| true);
    let report = table.report();
    assert_eq!((report.len(), report[0].id), (1, 1), "peers may still come for what went well");
    assert_eq!(report[0].age, KEEP_TIMEOUT + Duration::from_millis(1));
    hand.advance(KEEP_FINISHED_TIMEOUT);
    table.sweep(|_| true);
    assert_eq!(table.report().len(), 0);
}

/// A run that was overtaken by its own cleanup left an entry until the master's connection closed.
#[test]
fn a_run_that_comes_after_its_cleanup_is_refused() {
    let table = Arc::new(StepTable::new(Clock::system()));
    table.remove(7);
    let refused = table.entry(7).map(|_| ()).unwrap_err();
    assert!(refused.code() == Code::Aborted && refused.is_derived());
    assert_eq!(table.entries().len(), 0);
    // It is remembered for a while, not for ever.
    (0..EARLY_CLEANUPS as i64).for_each(|number| table.remove(7 + (number + 1) * SHARDS as i64));
    assert!(table.entry(7).is_ok());
}

fn running(session: &str) -> RunningStep {
    RunningStep {
        session: session.into(),
        cancellation: Arc::new(Cancellation::new()),
        connection: None,
        step: Weak::new(),
        awaited: Arc::new(Awaited::new(false)),
        outcome: None,
    }
}

/// What a step had made stayed for an hour after its session, if its master had died before it could clean up.
#[test]
fn a_step_that_is_over_goes_with_its_session() {
    let hand = Clock::manual();
    let table = Arc::new(StepTable::new(hand.clock()));
    for (id, session) in [(1, "closed"), (2, "open"), (3, "closed")] {
        table.entry(id).unwrap().begin(running(session)).unwrap();
    }
    for id in [1, 2] {
        let entry = table.entry(id).unwrap();
        entry.rendezvous.send(key("x"), Some(Tensor::scalar(1i32)), Resume::OnPool).unwrap();
        entry.end(None);
    }
    let sessions: Vec<String> = table.report().into_iter().map(|step| step.session).collect();
    assert_eq!(sessions.iter().filter(|session| *session == "closed").count(), 2, "{sessions:?}");
    let ids = || {
        let mut ids: Vec<i64> = table.report().iter().map(|step| step.id).collect();
        ids.sort_unstable();
        ids
    };
    hand.advance(KEEP_LOST_TIMEOUT);
    table.sweep(|session| session == "open");
    assert_eq!(ids(), [1, 2, 3], "peers may still come for the error");
    hand.advance(Duration::from_millis(1));
    table.sweep(|session| session == "open");
    assert_eq!(ids(), [2, 3], "what runs is cancelled with its session, and ends by itself");
}
