//! Stories of simplification: what goes, and what must stay.

use tensorfleet_core::Tensor;

use super::fleet::{Fleet, run_whole, signature};
use crate::plan::testing::{graph, show};

fn fleet() -> Fleet {
    Fleet::new(&["worker:0", "ps:0"])
}

/// The nodes of a simplified step, partition by partition, without feeds and fetches.
fn simplified(text: &str, feeds: &str, fetches: &str, targets: &str) -> Vec<String> {
    let plan = fleet().plan(&graph(text), &signature(feeds, fetches, targets), true).unwrap();
    let nodes = plan.partitions.iter().flat_map(|partition| show(&partition.graph));
    nodes.filter(|line| !line.starts_with("_send_") && !line.starts_with("_recv_")).collect()
}

/// Fetches of a simplified step, which must be those of the whole graph.
fn results(text: &str, feeds: &[(&str, Tensor)], fetches: &str) -> Vec<Option<Tensor>> {
    let names: Vec<&str> = feeds.iter().map(|(name, _)| *name).collect();
    let values: Vec<Tensor> = feeds.iter().map(|(_, value)| value.clone()).collect();
    let (checked, wanted) = (graph(text), signature(&names.join(" "), fetches, ""));
    let results = fleet().run(&checked, &wanted, &values, true).unwrap();
    assert_eq!(results, run_whole(&checked, &wanted, &values).unwrap());
    results
}

#[test]
fn constant_expressions_are_computed_in_advance_and_save_transfers() {
    let text = "
        a = Const @ /job:ps | value=2
        b = Const @ /job:ps | value=3
        c = AddV2(a, b) @ /job:ps
        d = Mul(c, a) @ /job:worker
        x = Placeholder @ /job:worker
        y = AddV2(d, x) @ /job:worker";
    assert_eq!(simplified(text, "x", "y", ""), ["d = Const()", "y = AddV2(d, _recv_x_0)"]);
    let x = [("x", Tensor::scalar(1.0f32))];
    assert_eq!(results(text, &x, "y d"), [Some(Tensor::scalar(11.0f32)), Some(Tensor::scalar(10.0f32))]);
}

#[test]
fn several_outputs_become_several_constants() {
    let text = "
        one = Const<int32> | value=1
        n = ExpandDims<int32>(one, zero)
        zero = Const<int32> | value=0
        both = BroadcastGradientArgs<int32>(n, n)
        x = Placeholder<int32>
        y = ConcatV2<int32>(both, both:1, x, zero) | N=3";
    let nodes = simplified(text, "x", "y", "");
    assert!(nodes.iter().filter(|line| line.contains("= Const()")).count() == 3, "{nodes:?}");
    assert!(nodes.iter().any(|line| line.starts_with("both/folded_1 = ")), "{nodes:?}");
    results(text, &[("x", Tensor::vector(&[4i32]).unwrap())], "y both:1");
}

#[test]
fn what_is_fed_is_not_constant() {
    let text = "a = Const | value=2\nb = AddV2(a, a)\nc = AddV2(b, a)";
    assert_eq!(
        simplified(text, "a", "c", ""),
        ["b = AddV2(_recv_a_0, _recv_a_0)", "c = AddV2(b, _recv_a_0)"]
    );
    assert_eq!(results(text, &[("b", Tensor::scalar(0.0f32))], "c"), [Some(Tensor::scalar(2.0f32))]);
}

#[test]
fn what_is_big_or_fails_is_left_to_the_step() {
    let text = "
        n = Const<int32> | value=1000000
        zero = Const<int32> | value=0
        n1 = ExpandDims<int32>(n, zero)
        one = Const | value=1
        big = Fill(n1, one) | index_type=int32
        sum = Sum(big, zero)";
    let text =
        &text.replace(" | index_type=int32", "").replace("sum = Sum(big, zero)", "sum = Identity(big)");
    assert!(simplified(text, "", "sum", "").iter().any(|line| line.starts_with("big = Fill(")));
    let text = "a = Const<int32> | value=1\nb = Const<int32> | value=0\nc = FloorDiv<int32>(a, b)";
    assert!(simplified(text, "", "c", "").contains(&"c = FloorDiv(a, b)".to_string()));
    let status = fleet().run(&graph(text), &signature("", "c", ""), &[], true).unwrap_err();
    assert!(
        status.message().contains("{{node c}}"),
        "the error comes from the step, with its node: {status}"
    );
}

#[test]
fn equal_nodes_become_one_but_not_those_with_state_or_on_other_devices() {
    let text = "
        x = Placeholder
        a = Neg(x) @ /job:ps | _class=loc:@a
        b = Neg(x) @ /job:ps
        c = AddV2(a, b) @ /job:ps
        d = Neg(x) @ /job:worker
        e = AddV2(c, d) @ /job:worker";
    let nodes = simplified(text, "x", "e", "");
    assert!(nodes.contains(&"c = AddV2(a, a)".to_string()), "{nodes:?}");
    assert!(nodes.iter().any(|line| line.starts_with("d = Neg(")), "{nodes:?}");
    results(text, &[("x", Tensor::scalar(3.0f32))], "e b a");
    let nodes = simplified("u = VariableV2\nv = VariableV2\nw = AddV2(u, v)", "", "w", "");
    assert!(nodes.contains(&"w = AddV2(u, v)".to_string()), "two variables stay two: {nodes:?}");
}

#[test]
fn control_edges_that_order_nothing_go() {
    let text = "
        a = Const | value=1
        x = Placeholder
        n = Neg(x)
        i = Identity(n)
        j = StopGradient(i)
        y = Square(x, ^a, ^x) @ /job:worker
        z = Square(n, ^j, ^n) @ /job:worker
        w = Square(y, ^j) @ /job:worker";
    assert_eq!(
        simplified(text, "x", "z w", ""),
        ["n = Neg(_recv_x_0)", "y = Square(_recv_x_0)", "z = Square(n)", "w = Square(y, ^n)"]
    );
}

#[test]
fn an_effect_that_something_waits_for_is_kept() {
    let text = "
        one = Const | value=1
        v = VariableV2
        set = Assign(v, one)
        read = Identity(v, ^set)
        after = Identity(read)
        other = Const | value=5
        last = Identity(other, ^after)
        r = Identity(v)
        add = AssignAdd(v, one, ^r)";
    let nodes = simplified(text, "", "last", "");
    assert!(
        nodes.contains(&"last = Identity(other, ^after)".to_string()),
        "reads of variables stay: {nodes:?}"
    );
    assert!(nodes.contains(&"read = Identity(v, ^set)".to_string()), "{nodes:?}");
    let nodes = simplified(text, "", "", "add");
    assert!(nodes.contains(&"add = AssignAdd(v, one, ^r)".to_string()), "{nodes:?}");
    let mut fleet = fleet();
    let checked = graph(text);
    let results = fleet.run(&checked, &signature("", "last read", ""), &[], true).unwrap();
    assert_eq!(results, [Some(Tensor::scalar(5.0f32)), Some(Tensor::scalar(1.0f32))]);
}

#[test]
fn one_side_of_a_switch_still_decides_who_is_dead() {
    let text = "
        p = Placeholder<bool>
        s = Switch<bool>(p, p)
        t = Identity<bool>(s:1)
        only_then = Const(^t) | value=5
        x = Const | value=1
        d = Switch(x, p)
        no = Identity(d)
        m = Merge(no, only_then)";
    for taken in [false, true] {
        let value = if taken { 5.0f32 } else { 1.0 };
        let p = [("p", Tensor::scalar(taken))];
        assert_eq!(results(text, &p, "m only_then")[0], Some(Tensor::scalar(value)));
    }
}

/// How many nodes the partitions have together for two chains of `length` nodes that change sides every thousand: one of what
/// is fed, and one of constants that each node of the first waits for.
fn nodes_of_chains(length: usize, simplify: bool) -> usize {
    let mut text = String::from("x0 = Placeholder<int32>\nc0 = Const<int32> | value=1\n");
    for i in 1..length {
        let device = ["/job:worker", "/job:ps"][i / 1000 % 2];
        text += &format!("x{i} = Neg<int32>(x{}, ^c{}) @ {device}\n", i - 1, i - 1);
        text += &format!("c{i} = Neg<int32>(c{}) @ {device}\n", i - 1);
    }
    let wanted = signature("x0", &format!("x{} c9000", length - 1), "");
    let plan = fleet().plan(&graph(&text), &wanted, simplify).unwrap();
    plan.partitions.iter().map(|partition| partition.graph.len()).sum()
}

#[test]
fn a_hundred_thousand_nodes_are_planned_without_one_too_many() {
    let [half, whole] = [25_000, 50_000].map(|length| nodes_of_chains(length, false));
    // The last of the second chain is not asked for, and where the chains change sides a few transfers are added.
    assert!((99_998..100_500).contains(&whole), "{whole}");
    assert!((50_000..50_300).contains(&(whole - half)), "{half} and then {whole}: growth is linear");
    // Ten thousand constants are folded, which is the most for one step; the rest stays.
    let [half, simplified] = [25_000, 50_000].map(|length| nodes_of_chains(length, true));
    assert!((9_900..10_500).contains(&(whole - simplified)), "{simplified} of {whole} are left");
    assert!(
        (50_000..50_300).contains(&(simplified - half)),
        "{half} and then {simplified}: growth is linear"
    );
}

#[test]
fn small_constants_stand_where_they_are_used() {
    let text = "
        rate = Const @ /job:worker | value=2
        x = Placeholder @ /job:worker
        y = Mul(rate, x) @ /job:ps
        z = Sub(y, rate) @ /job:ps
        w = Mul(x, rate) @ /job:worker";
    let nodes = simplified(text, "x", "z w", "");
    assert!(!nodes.iter().any(|line| line.contains("_Send") || line.contains("_Recv")), "{nodes:?}");
    assert_eq!(nodes.iter().filter(|line| line.contains("= Const()")).count(), 2, "{nodes:?}");
    results(text, &[("x", Tensor::scalar(5.0f32))], "z w rate");
    // One that is fed is no constant, and one that waits for something must wait for it.
    let fed = [("x", Tensor::scalar(5.0f32)), ("rate", Tensor::scalar(7.0f32))];
    assert_eq!(results(text, &fed, "z"), [Some(Tensor::scalar(28.0f32))]);
    let waiting = "
        x = Placeholder @ /job:worker
        late = Const(^x2) @ /job:worker | value=2
        x2 = Neg(x) @ /job:worker
        y = Mul(late, late) @ /job:ps";
    let nodes = simplified(waiting, "x", "y", "");
    assert!(nodes.iter().any(|line| line.contains("_Recv")), "{nodes:?}");
}
