//! Whatever order the session runs nodes in, the result is the sequential one.

// A helper that fails is a failed test.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use tensorfleet::{Graph, Output, Session};

const SIDE: usize = 3;
type Matrix = [i64; SIDE * SIDE];

/// One node: what it does to two earlier ones, and which nodes it waits for besides.
#[derive(Clone, Debug)]
struct Step {
    kind: u8,
    left: prop::sample::Index,
    right: prop::sample::Index,
    after: Vec<prop::sample::Index>,
    constant: i64,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (
        0..5u8,
        any::<prop::sample::Index>(),
        any::<prop::sample::Index>(),
        prop::collection::vec(any::<prop::sample::Index>(), 0..3),
        -3..4i64,
    )
        .prop_map(|(kind, left, right, after, constant)| Step { kind, left, right, after, constant });
    prop::collection::vec(step, 1..60)
}

fn interpret(kind: u8, a: &Matrix, b: &Matrix, constant: i64) -> Matrix {
    let each = |f: fn(i64, i64) -> i64| std::array::from_fn(|i| f(a[i], b[i]));
    match kind {
        0 => each(i64::wrapping_add),
        1 => each(i64::wrapping_mul),
        2 => each(i64::wrapping_sub),
        3 => std::array::from_fn(|i| a[i].wrapping_mul(constant)),
        _ => std::array::from_fn(|i| {
            let (row, column) = (i / SIDE, i % SIDE);
            (0..SIDE)
                .fold(0i64, |sum, k| sum.wrapping_add(a[row * SIDE + k].wrapping_mul(b[k * SIDE + column])))
        }),
    }
}

fn build(kind: u8, a: &Output, b: &Output, constant: i64) -> Output {
    match kind {
        0 => a + b,
        1 => a * b,
        2 => a - b,
        3 => a * constant,
        _ => a.matmul(b).unwrap(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn parallel_runs_give_the_sequential_result(
        first in prop::array::uniform9(-2..3i64),
        steps in steps(),
        fetched in prop::collection::vec(any::<prop::sample::Index>(), 1..5),
    ) {
        let g = Graph::new();
        let start: Vec<Vec<i64>> = first.chunks(SIDE).map(<[i64]>::to_vec).collect();
        let mut outputs = vec![g.constant(start)];
        let mut values: Vec<Matrix> = vec![first];
        for step in &steps {
            let (left, right) = (step.left.index(values.len()), step.right.index(values.len()));
            let after: Vec<&Output> = step.after.iter().map(|index| &outputs[index.index(outputs.len())]).collect();
            let output = g.control_dependencies(after, || {
                build(step.kind, &outputs[left], &outputs[right], step.constant)
            });
            values.push(interpret(step.kind, &values[left], &values[right], step.constant));
            outputs.push(output);
        }
        let indices: Vec<usize> = fetched.iter().map(|index| index.index(values.len())).collect();
        let fetches: Vec<&Output> = indices.iter().map(|&index| &outputs[index]).collect();
        let session = Session::new(&g);
        for _ in 0..2 {
            let results = session.run(&fetches).unwrap();
            for (result, &index) in results.iter().zip(&indices) {
                prop_assert_eq!(result.as_slice::<i64>().unwrap(), &values[index]);
            }
        }
    }
}
