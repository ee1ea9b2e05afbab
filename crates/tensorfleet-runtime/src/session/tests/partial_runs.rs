//! Stories of partial runs: what comes when, what is refused, and how they end.

use super::*;
use crate::session::PartialRun;

/// `first` is twice `a`, `second` is `first` and `b`; `count` counts how often it ran.
fn model() -> DirectSession {
    let session = session(vec![
        placeholder("a", DType::Int32),
        placeholder("b", DType::Int32),
        typed("first", "Add", &["a", "a"], DType::Int32),
        typed("second", "Add", &["first", "b"], DType::Int32),
        constant("one", 1i32),
        node(
            "v",
            "VariableV2",
            &[],
            vec![
                ("dtype", DType::Int32.into_attr()),
                ("shape", tensorfleet_core::PartialShape::scalar().into_attr()),
            ],
        ),
        typed("init", "Assign", &["v", "one"], DType::Int32),
        typed("count", "AssignAdd", &["v", "one", "^a"], DType::Int32),
        typed("failing", "FloorDiv", &["a", "b"], DType::Int32),
        never_received("stuck"),
        typed("waiting", "Add", &["stuck", "a"], DType::Int32),
    ]);
    session.run(&[], &[], &["init"], &RunOptions::default()).unwrap();
    session
}

fn int(value: i32) -> Tensor {
    Tensor::scalar(value)
}

fn part(run: &PartialRun, feeds: &[(&str, i32)], fetches: &[&str]) -> Result<Vec<i32>> {
    let feeds: Vec<(&str, Tensor)> = feeds.iter().map(|&(name, value)| (name, int(value))).collect();
    let results = run.run(&feeds, fetches, &RunOptions::default())?;
    Ok(results.iter().map(|result| result.to_scalar().unwrap()).collect())
}

#[track_caller]
fn refused(result: Result<Vec<i32>>, text: &str) {
    let status = result.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    assert!(status.message().contains(text), "{status} should say: {text}");
}

#[test]
fn feeds_arrive_in_parts_and_nothing_runs_twice() {
    let session = model();
    let run = session.begin_partial_run(&["a", "b:0"], &["first", "second", "first:0"], &["count"]).unwrap();
    assert_eq!(part(&run, &[("a:0", 3)], &["first"]).unwrap(), [6]);
    assert_eq!(part(&run, &[], &[]).unwrap(), []);
    assert_eq!(part(&run, &[("b", 10)], &["second:0"]).unwrap(), [16]);
    refused(part(&run, &[], &[]), "Must run 'setup' before performing partial runs");
    assert_eq!(fetch(&session, "v").unwrap(), int(2), "the target ran once");
}

#[test]
fn all_at_once_is_a_partial_run_too() {
    let run = model().begin_partial_run(&["a", "b"], &["second", "first"], &[]).unwrap();
    assert_eq!(part(&run, &[("b", 1), ("a", 2)], &["first", "second"]).unwrap(), [4, 5]);
}

#[test]
fn calls_that_contradict_the_setup_change_nothing() {
    let session = model();
    let run = session.begin_partial_run(&["a", "b"], &["first", "second"], &[]).unwrap();
    refused(part(&run, &[], &["first"]), "Fetch first can't be computed from the feeds");
    refused(part(&run, &[("a", 1), ("c", 1)], &[]), "The feed c was not specified in partial_run_setup.");
    refused(part(&run, &[("a", 1)], &["a"]), "The fetch a was not specified in partial_run_setup.");
    assert_eq!(part(&run, &[("a", 1)], &["first"]).unwrap(), [2], "a has not been fed by a call that failed");
    refused(part(&run, &[("a", 1)], &[]), "The feed a has already been fed.");
    refused(part(&run, &[], &["first"]), "The fetch first has already been fetched.");
    refused(part(&run, &[], &["second"]), "b is missing.");
    assert_eq!(part(&run, &[("b", 1)], &["second"]).unwrap(), [3]);
    for (feeds, fetches) in [(["x"], ["first"]), (["a"], ["x"])] {
        let status = session.begin_partial_run(&feeds, &fetches, &[]).map(drop).unwrap_err();
        assert_eq!(status.code(), Code::NotFound, "{status}");
    }
}

#[test]
fn a_wrong_dtype_has_one_text_however_the_step_runs() {
    let session = model();
    let wrong = [("a", Tensor::scalar(1.0f32))];
    let options = RunOptions::default();
    let whole = session.run(&wrong, &["first"], &[], &options).unwrap_err();
    let callable = session.make_callable(&["a"], &["first"], &[]).unwrap();
    let called = callable.run(vec![wrong[0].1.clone()], &options).unwrap_err();
    let run = session.begin_partial_run(&["a"], &["first"], &[]).unwrap();
    let partial = run.run(&wrong, &["first"], &options).unwrap_err();
    assert!(whole.message().contains("'a' is a float tensor, but the graph expects int32"), "{whole}");
    assert_eq!((whole.message(), whole.message()), (called.message(), partial.message()));
}

#[test]
fn a_step_that_fails_ends_its_run_with_the_cause() {
    let session = model();
    let run = session.begin_partial_run(&["a", "b"], &["failing", "first"], &[]).unwrap();
    assert_eq!(part(&run, &[("a", 1)], &["first"]).unwrap(), [2]);
    refused(part(&run, &[("b", 0)], &["failing"]), "failing");
    refused(part(&run, &[], &[]), "Must run 'setup'");
}

#[test]
fn a_part_that_waits_too_long_has_the_text_of_a_whole_run() {
    let session = model();
    let options = RunOptions { timeout: Some(Duration::from_millis(20)) };
    let whole = session.run(&[("a", int(1))], &["waiting"], &[], &options).unwrap_err();
    let run = session.begin_partial_run(&["a"], &["waiting", "first"], &[]).unwrap();
    assert_eq!(part(&run, &[("a", 1)], &["first"]).unwrap(), [2]);
    let partial = run.run(&[], &["waiting"], &options).unwrap_err();
    let text = "Deadline Exceeded: the step did not finish within 20 ms";
    for status in [whole, partial] {
        assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
        assert!(status.message().contains(text), "{status}");
    }
}

#[test]
fn closing_the_session_ends_runs_that_wait_for_feeds() {
    let session = model();
    let begun = session.begin_partial_run(&["a", "b"], &["first", "second"], &[]).unwrap();
    assert_eq!(part(&begun, &[("a", 1)], &["first"]).unwrap(), [2]);
    let not_begun = session.begin_partial_run(&["a"], &["first"], &[]).unwrap();
    session.close().unwrap();
    for run in [begun, not_begun] {
        assert_eq!(part(&run, &[("b", 1)], &[]).unwrap_err().code(), Code::Cancelled);
    }
    let status = session.begin_partial_run(&["a"], &["first"], &[]).map(drop).unwrap_err();
    assert_eq!(status.code(), Code::Cancelled);
}

#[test]
fn a_run_that_is_given_up_leaves_nothing_behind() {
    let session = model();
    let state = Arc::downgrade(&session.state);
    let run = session.begin_partial_run(&["a", "b"], &["first", "second"], &[]).unwrap();
    assert_eq!(part(&run, &[("a", 1)], &["first"]).unwrap(), [2]);
    assert!(!session.state.running.is_empty());
    drop(run);
    // Its step ends on whichever thread finds out.
    while !session.state.running.is_empty() {
        std::thread::yield_now();
    }
    drop(session);
    while state.upgrade().is_some() {
        std::thread::yield_now();
    }
}
