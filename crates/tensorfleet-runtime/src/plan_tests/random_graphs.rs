//! Random graphs with random placements: partitions, simplified or not, compute what the whole graph computes.

use proptest::prelude::*;
use tensorfleet_core::Tensor;

use super::fleet::{Fleet, run_whole, signature};
use crate::plan::DeviceIndex;
use crate::plan::testing::graph;

/// A piece of a random graph; numbers choose among the values made so far.
#[derive(Clone, Debug)]
enum Piece {
    Constant(i32),
    Unary(&'static str, usize),
    Binary(&'static str, usize, usize),
    /// A value that waits for another.
    After(usize, usize),
    /// An effect-free node that only has control edges.
    Barrier(usize, usize),
    /// `predicate ? -value : value * value`.
    Condition(usize),
    /// Adds to a value until it exceeds a limit.
    Loop {
        start: usize,
        step: usize,
        limit: i32,
    },
    /// A loop around a loop, the inner one in a condition.
    Nested {
        start: usize,
        times: i32,
    },
}

fn piece() -> impl Strategy<Value = Piece> {
    let number = || 0..1000usize;
    prop_oneof![
        2 => (-3..4i32).prop_map(Piece::Constant),
        3 => (prop::sample::select(vec!["Neg", "Identity", "Square"]), number())
            .prop_map(|(op, x)| Piece::Unary(op, x)),
        4 => (prop::sample::select(vec!["AddV2", "Mul", "Sub"]), number(), number())
            .prop_map(|(op, x, y)| Piece::Binary(op, x, y)),
        2 => (number(), number()).prop_map(|(x, y)| Piece::After(x, y)),
        1 => (number(), number()).prop_map(|(x, y)| Piece::Barrier(x, y)),
        2 => number().prop_map(Piece::Condition),
        2 => (number(), number(), -5..6i32).prop_map(|(start, step, limit)| Piece::Loop { start, step, limit }),
        1 => (number(), 0..4i32).prop_map(|(start, times)| Piece::Nested { start, times }),
    ]
}

/// The graph as text, and its values.
fn write(pieces: &[Piece]) -> (String, Vec<String>) {
    let mut text = String::from("x = Placeholder<int32>\np = Placeholder<bool>\n");
    let mut values = vec!["x".to_string()];
    for (i, piece) in pieces.iter().enumerate() {
        let pick = |number: &usize| values[number % values.len()].clone();
        let (nodes, value) = match piece {
            Piece::Constant(value) => (format!("n{i} = Const<int32> | value={value}\n"), format!("n{i}")),
            Piece::Unary(op, x) => (format!("n{i} = {op}<int32>({})\n", pick(x)), format!("n{i}")),
            Piece::Binary(op, x, y) => {
                (format!("n{i} = {op}<int32>({}, {})\n", pick(x), pick(y)), format!("n{i}"))
            }
            Piece::After(x, y) => {
                (format!("n{i} = Identity<int32>({}, ^{})\n", pick(x), pick(y)), format!("n{i}"))
            }
            Piece::Barrier(x, y) => (
                format!(
                    "b{i} = NoOp(^{}, ^{y})\nn{i} = Const<int32>(^b{i}) | value={i}\n",
                    pick(x),
                    y = pick(y)
                ),
                format!("n{i}"),
            ),
            Piece::Condition(x) => (condition(i, &pick(x)), format!("m{i}")),
            Piece::Loop { start, step, limit } => {
                (simple_loop(i, &pick(start), &pick(step), *limit), format!("exit{i}"))
            }
            Piece::Nested { start, times } => (nested_loop(i, &pick(start), *times), format!("ox{i}")),
        };
        text += &nodes;
        values.push(value);
    }
    (text, values)
}

fn condition(i: usize, value: &str) -> String {
    format!(
        "s{i} = Switch<int32>({value}, p)
        sp{i} = Switch<bool>(p, p)
        t{i} = Identity<bool>(sp{i}:1)
        no{i} = Neg<int32>(s{i}:0)
        c{i} = Const<int32>(^t{i}) | value=2
        sq{i} = Square<int32>(s{i}:1)
        yes{i} = AddV2<int32>(sq{i}, c{i})
        m{i} = Merge<int32>(no{i}, yes{i})
        "
    )
}

/// Adds a number between 1 and 3, given by `step`, so that the loop ends.
fn simple_loop(i: usize, start: &str, step: &str, limit: i32) -> String {
    format!(
        "three{i} = Const<int32> | value=3
        one{i} = Const<int32> | value=1
        mod{i} = FloorMod<int32>({step}, three{i})
        by{i} = AddV2<int32>(mod{i}, one{i})
        base{i} = FloorMod<int32>({start}, three{i})
        enter{i} = Enter<int32>(base{i}) | frame_name=loop{i} parallel_iterations={parallel}
        inv{i} = Enter<int32>(by{i}) | frame_name=loop{i} is_constant=true parallel_iterations={parallel}
        merge{i} = Merge<int32>(enter{i}, next{i})
        limit{i} = Const<int32>(^merge{i}) | value={limit}
        less{i} = Less<int32>(merge{i}, limit{i})
        cond{i} = LoopCond(less{i})
        switch{i} = Switch<int32>(merge{i}, cond{i})
        body{i} = Identity<int32>(switch{i}:1)
        zero{i} = Const<int32>(^body{i}) | value=0
        same{i} = AddV2<int32>(body{i}, zero{i})
        add{i} = AddV2<int32>(same{i}, inv{i})
        next{i} = NextIteration<int32>(add{i})
        exit{i} = Exit<int32>(switch{i})
        ",
        parallel = 1 + i % 3
    )
}

/// Counts to `times`; in every second round an inner loop adds the round's number in steps of one to a total.
fn nested_loop(i: usize, start: &str, times: i32) -> String {
    format!(
        "oz{i} = Const<int32> | value=0
        oe{i} = Enter<int32>(oz{i}) | frame_name=outer{i}
        ot{i} = Enter<int32>({start}) | frame_name=outer{i}
        om{i} = Merge<int32>(oe{i}, on{i})
        otm{i} = Merge<int32>(ot{i}, otn{i})
        ol{i} = Const<int32>(^om{i}) | value={times}
        oless{i} = Less<int32>(om{i}, ol{i})
        oc{i} = LoopCond(oless{i})
        os{i} = Switch<int32>(om{i}, oc{i})
        ots{i} = Switch<int32>(otm{i}, oc{i})
        ob{i} = Identity<int32>(os{i}:1)
        one{i} = Const<int32>(^ob{i}) | value=1
        two{i} = Const<int32>(^ob{i}) | value=2
        oadd{i} = AddV2<int32>(ob{i}, one{i})
        on{i} = NextIteration<int32>(oadd{i})
        odd{i} = FloorMod<int32>(ob{i}, two{i})
        isodd{i} = Less<int32>(odd{i}, one{i})
        cs{i} = Switch<int32>(ots{i}:1, isodd{i})
        cb{i} = Switch<int32>(ob{i}, isodd{i})
        ie{i} = Enter<int32>(cs{i}:1) | frame_name=inner{i}
        iz{i} = Const<int32>(^cb{i}) | value=0
        izs{i} = Switch<int32>(iz{i}, isodd{i})
        ic{i} = Enter<int32>(izs{i}:1) | frame_name=inner{i}
        iinv{i} = Enter<int32>(cb{i}:1) | frame_name=inner{i} is_constant=true
        im{i} = Merge<int32>(ie{i}, in{i})
        icm{i} = Merge<int32>(ic{i}, icn{i})
        il{i} = Less<int32>(icm{i}, iinv{i})
        icond{i} = LoopCond(il{i})
        is{i} = Switch<int32>(im{i}, icond{i})
        ics{i} = Switch<int32>(icm{i}, icond{i})
        i1{i} = Const<int32>(^ics{i}) | value=1
        iadd{i} = AddV2<int32>(is{i}:1, i1{i})
        icadd{i} = AddV2<int32>(ics{i}:1, i1{i})
        in{i} = NextIteration<int32>(iadd{i})
        icn{i} = NextIteration<int32>(icadd{i})
        ix{i} = Exit<int32>(is{i})
        cm{i} = Merge<int32>(cs{i}:0, ix{i})
        otn{i} = NextIteration<int32>(cm{i})
        ox{i} = Exit<int32>(ots{i})
        "
    )
}

const TASKS: &[&str] = &["ps:0", "ps:1", "worker:0"];

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn partitions_compute_what_the_whole_graph_computes(
        pieces in prop::collection::vec(piece(), 1..9),
        places in prop::collection::vec(0..TASKS.len(), 64),
        salt in 0..1000usize,
        x in -4..5i32,
        predicate: bool,
    ) {
        let (text, values) = write(&pieces);
        let checked = graph(&text);
        let placement: Vec<DeviceIndex> = (0..checked.graph().len())
            .map(|node| DeviceIndex::from_index(places[(node * 7 + salt * (node + 1)) % places.len()]))
            .collect();
        let wanted = signature("x p", &values[1..].join(" "), "");
        let feeds = [Tensor::scalar(x), Tensor::scalar(predicate)];
        let expected = run_whole(&checked, &wanted, &feeds).unwrap();
        let mut fleet = Fleet::new(TASKS);
        for simplify in [false, true] {
            let plan = fleet.plan_placed(&checked, &placement, &wanted, simplify).unwrap();
            let results = fleet.execute(&plan, &feeds, wanted.fetches.len()).unwrap();
            prop_assert_eq!(&results, &expected, "simplified: {}", simplify);
        }
    }
}
