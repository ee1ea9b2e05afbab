//! Stories of loops across tasks: they end when they should and give what they give on one task.

use tensorfleet_core::{Code, Tensor};

use super::fleet::{Fleet, run_whole, signature};
use crate::plan::testing::{graph, show};

/// Counts to three; the addition is on ps.
const COUNT: &str = "
    zero = Const<int32> | value=0
    lp/Enter = Enter<int32>(zero) | frame_name=lp/while_context
    lp/Merge = Merge<int32>(lp/Enter, lp/NextIteration)
    lp/Less/y = Const<int32>(^lp/Merge) | value=3
    lp/Less = Less<int32>(lp/Merge, lp/Less/y)
    lp/LoopCond = LoopCond(lp/Less)
    lp/Switch = Switch<int32>(lp/Merge, lp/LoopCond)
    lp/Identity = Identity<int32>(lp/Switch:1)
    lp/inc/y = Const<int32>(^lp/Identity) @ /job:ps | value=1
    lp/inc = AddV2<int32>(lp/Identity, lp/inc/y) @ /job:ps
    lp/NextIteration = NextIteration<int32>(lp/inc)
    lp/Exit = Exit<int32>(lp/Switch)";

/// Fetches `fetches` from partitions and from the whole graph, which must agree.
fn results(text: &str, fetches: &str) -> Vec<i32> {
    let checked = graph(text);
    let wanted = signature("", fetches, "");
    let results = Fleet::new(&["worker:0", "ps:0", "ps:1"]).run(&checked, &wanted, &[], false).unwrap();
    assert_eq!(results, run_whole(&checked, &wanted, &[]).unwrap());
    results.into_iter().map(|result: Option<Tensor>| result.unwrap().to_scalar().unwrap()).collect()
}

#[test]
fn a_task_that_only_runs_the_body_gets_a_control_loop() {
    let mut fleet = Fleet::new(&["worker:0", "ps:0"]);
    let plan = fleet.plan(&graph(COUNT), &signature("", "lp/Exit", ""), false).unwrap();
    let ps = show(&plan.partitions[1].graph);
    let loop_name = |node: &str| {
        let found = ps.iter().find(|line| line.contains(node)).unwrap();
        found.split(" = ").next().unwrap().to_string()
    };
    let merge = loop_name("= Merge(");
    assert!(merge.starts_with("_clooplp/inc/y_S"), "{merge}");
    let receives: Vec<&String> = ps.iter().filter(|line| line.contains("= _Recv(")).collect();
    assert_eq!(receives.len(), 3, "a value, a control edge, the condition: {ps:#?}");
    assert!(receives.iter().all(|line| line.ends_with(&format!("(^{merge})"))), "{receives:?}");
    assert!(ps.iter().any(|line| line.contains(&format!("= Switch({merge}, lp/LoopCond_S"))), "{ps:#?}");
    assert_eq!(results(COUNT, "lp/Exit"), [3]);
}

#[test]
fn the_condition_may_be_computed_elsewhere() {
    let text = COUNT.replace("lp/Less/y)", "lp/Less/y) @ /job:ps/task:1");
    assert_eq!(results(&text, "lp/Exit"), [3]);
    let text = text.replace("LoopCond(lp/Less)", "LoopCond(lp/Less) @ /job:ps/task:0");
    assert_eq!(results(&text, "lp/Exit"), [3]);
}

#[test]
fn a_loop_that_never_runs_its_body_ends_everywhere() {
    assert_eq!(
        results(&COUNT.replace("zero = Const<int32> | value=0", "zero = Const<int32> | value=9"), "lp/Exit"),
        [9]
    );
}

#[test]
fn invariants_reach_every_iteration_of_every_task() {
    let text = COUNT
        .replace("lp/inc = AddV2<int32>(lp/Identity, lp/inc/y)", "lp/inc = AddV2<int32>(lp/Identity, lp/by)")
        + "
        two = Const<int32> @ /job:ps/task:1 | value=2
        lp/by = Enter<int32>(two) | frame_name=lp/while_context is_constant=true
        lp/check = AddV2<int32>(lp/by, lp/Merge) @ /job:ps/task:1";
    assert_eq!(results(&text, "lp/Exit"), [4]);
}

/// `total = sum over i < 3 of (count up to i)`, the inner loop's body on another task than the outer's.
const NESTED: &str = "
    zero = Const<int32> | value=0
    out/i = Enter<int32>(zero) | frame_name=outer
    out/t = Enter<int32>(zero) | frame_name=outer
    out/Mi = Merge<int32>(out/i, out/Ni)
    out/Mt = Merge<int32>(out/t, out/Nt)
    out/limit = Const<int32>(^out/Mi) | value=3
    out/Less = Less<int32>(out/Mi, out/limit)
    out/Cond = LoopCond(out/Less)
    out/Si = Switch<int32>(out/Mi, out/Cond)
    out/St = Switch<int32>(out/Mt, out/Cond) @ /job:ps/task:0
    out/one = Const<int32>(^out/Si) @ /job:ps/task:0 | value=1
    out/inc = AddV2<int32>(out/Si:1, out/one) @ /job:ps/task:0
    out/Ni = NextIteration<int32>(out/inc)
    in/start = Const<int32>(^out/inc) | value=0
    in/e = Enter<int32>(in/start) | frame_name=inner
    in/n = Enter<int32>(out/Si:1) | frame_name=inner is_constant=true
    in/M = Merge<int32>(in/e, in/N)
    in/Less = Less<int32>(in/M, in/n)
    in/Cond = LoopCond(in/Less)
    in/S = Switch<int32>(in/M, in/Cond)
    in/one = Const<int32>(^in/S) @ /job:ps/task:1 | value=1
    in/inc = AddV2<int32>(in/S:1, in/one) @ /job:ps/task:1
    in/N = NextIteration<int32>(in/inc)
    in/X = Exit<int32>(in/S)
    out/add = AddV2<int32>(out/St:1, in/X) @ /job:ps/task:0
    out/Nt = NextIteration<int32>(out/add)
    out/Xt = Exit<int32>(out/St)
    out/Xi = Exit<int32>(out/Si)";

#[test]
fn loops_nest_across_tasks() {
    assert_eq!(results(NESTED, "out/Xt out/Xi"), [3, 3]);
}

#[test]
fn a_loop_that_spans_tasks_needs_a_condition() {
    let text = "
        zero = Const<int32> | value=0
        e = Enter<int32>(zero) | frame_name=f
        a = Neg<int32>(e) @ /job:ps
        x = Exit<int32>(a)";
    let mut fleet = Fleet::new(&["worker:0", "ps:0"]);
    let split =
        text.replace("a = Neg", "b = Neg<int32>(e)\n c = AddV2<int32>(a, b)\n a = Neg").replace("(a)", "(c)");
    let status = fleet.plan(&graph(&split), &signature("", "x", ""), false).unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.text().starts_with("A cross-device loop must have a pivot predicate"), "{status}");
}

#[test]
fn what_is_inside_a_loop_cannot_be_fetched() {
    let mut fleet = Fleet::new(&["worker:0", "ps:0"]);
    let status = fleet.plan(&graph(COUNT), &signature("", "lp/inc", ""), false).unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
}
