//! Conditions and loops give the results a program would.

// A helper that fails is a failed test.
#![allow(clippy::unwrap_used)]

use tensorfleet::{Code, DType, Graph, PartialShape, Result, Session};

#[test]
fn only_the_branch_that_is_taken_runs() -> Result<()> {
    let g = Graph::new();
    let x = g.placeholder(DType::Float, ());
    let (ups, downs) = (g.variable("ups", 0), g.variable("downs", 0));
    let [moved, count] = g.cond(
        x.greater(0.0)?,
        || Ok([&x * 2.0, ups.assign_add(1)?.identity()?]),
        || Ok([-&x, downs.assign_add(1)?.identity()?]),
    )?;
    let session = Session::new(&g);
    session.run(g.global_variables_initializer()?)?;
    for (fed, expected) in [(3.0f32, 6.0f32), (-4.0, 4.0), (5.0, 10.0)] {
        let (moved, _) = session.feed(&x, fed).run((&moved, &count))?;
        assert_eq!(moved.to_scalar::<f32>()?, expected);
    }
    let (ups, downs) = session.run((&ups, &downs))?;
    assert_eq!((ups.to_scalar::<i32>()?, downs.to_scalar::<i32>()?), (2, 1));
    Ok(())
}

#[test]
fn loops_conditions_in_loops_and_loops_in_loops() -> Result<()> {
    let g = Graph::new();
    let n = g.placeholder(DType::Int32, ());
    // The number of steps of the Collatz sequence.
    let [_, steps] = g.while_loop(
        [n.clone(), g.constant(0)],
        |[n, _]| n.greater(1),
        |[n, steps]| {
            let even = n.floor_mod(2)?.equal(0)?;
            let next = g.cond(even, || n.floor_div(2), || Ok(3 * &n + 1))?;
            Ok([next, steps + 1])
        },
    )?;
    // The sum over i < n of i², by adding.
    let [_, squares] = g.while_loop(
        [g.constant(0), g.constant(0)],
        |[i, _]| i.less(&n),
        |[i, sum]| {
            let [_, square] = g.while_loop(
                [g.constant(0), g.constant(0)],
                |[j, _]| j.less(&i),
                |[j, square]| Ok([j + 1, square + &i]),
            )?;
            Ok([i + 1, sum + square])
        },
    )?;
    let session = Session::new(&g);
    let (steps, squares) = session.feed(&n, 27).run((&steps, &squares))?;
    assert_eq!(steps.to_scalar::<i32>()?, 111);
    assert_eq!(squares.to_scalar::<i32>()?, (0..27).map(|i| i * i).sum::<i32>());
    Ok(())
}

#[test]
fn a_loop_never_entered_gives_its_first_values() -> Result<()> {
    let g = Graph::new();
    let x = g.constant(7);
    let out = g.while_loop(x, |x| x.less(0), |x| Ok(x - 1))?;
    assert_eq!(Session::new(&g).run(&out)?.to_scalar::<i32>()?, 7);
    Ok(())
}

#[test]
fn a_shape_may_change_only_where_an_invariant_allows_it() -> Result<()> {
    let g = Graph::new();
    let (i, v) = (g.constant(0), g.constant([1.0f32]));
    let double = |g: &Graph, v: &tensorfleet::Output| g.concat([v, v], 0);
    let refused =
        g.while_loop([i.clone(), v.clone()], |[i, _]| i.less(3), |[i, v]| Ok([i + 1, double(&g, &v)?]));
    let status = refused.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().contains("enters the loop with shape [1], but has shape [2]"), "{status}");
    let invariants = vec![PartialShape::scalar(), PartialShape::of_rank(1)];
    let [_, grown] = g.new_loop().shape_invariants(invariants).build(
        [i, v],
        |[i, _]| i.less(3),
        |[i, v]| Ok([i + 1, double(&g, &v)?]),
    )?;
    assert_eq!(grown.shape()?.to_string(), "[?]");
    assert_eq!(Session::new(&g).run(&grown)?.as_slice::<f32>()?, [1.0; 8]);
    Ok(())
}

#[test]
fn what_is_inside_a_loop_stays_there() -> Result<()> {
    let g = Graph::new();
    let mut inside = None;
    let out = g.while_loop(
        g.constant(0),
        |i| i.less(3),
        |i| {
            inside = Some(i.clone());
            Ok(i + 1)
        },
    )?;
    let inside = inside.unwrap();
    let status = (&inside + 1).check().unwrap_err();
    assert!(status.message().contains("is in a while loop"), "{status}");
    let session = Session::new(&g);
    assert!(session.run(&inside).unwrap_err().message().contains("not fetchable"));
    assert_eq!(session.run(&out)?.to_scalar::<i32>()?, 3);
    Ok(())
}

#[test]
fn a_failed_body_leaves_the_graph_usable() -> Result<()> {
    let g = Graph::new();
    let failed = g.while_loop(g.constant(0), |i| i.less(3), |i| i.relu()?.matmul(&i));
    assert!(failed.is_err());
    let fine = g.constant(2) * 3;
    assert_eq!(Session::new(&g).run(&fine)?.to_scalar::<i32>()?, 6);
    Ok(())
}

#[test]
fn a_loop_waits_for_the_control_dependencies_around_it() -> Result<()> {
    let g = Graph::new();
    let v = g.new_variable("v").resource().init(0);
    let set = v.assign(5)?;
    let out = g.control_dependencies([&set], || {
        g.while_loop(
            [g.constant(0), g.constant(0)],
            |[i, _]| i.less(3),
            |[i, sum]| Ok([i + 1, sum + v.value()]),
        )
    })?;
    let session = Session::new(&g);
    session.run(v.initializer())?;
    assert_eq!(session.run(&out[1])?.to_scalar::<i32>()?, 15);
    Ok(())
}
