//! Gradients through branches and loops. Where numbers are given, they are those of `tf.gradients` of TensorFlow 2.21 for
//! the same graph built of the same primitives (`disable_control_flow_v2`); the cases are checked numerically.

use tensorfleet::{Code, DType, Graph, Output, PartialShape, Result, Session, Tensor};
use tensorfleet_tests::gradient_check::{GradientCase, doubles, is_sparse, spread};

fn sin(x: &Output) -> Result<Output> {
    x.graph().op("Sin").input(x).output()
}

/// The gradients of `ys` by `xs` as numbers; a missing one is empty.
fn evaluate(g: &Graph, ys: &[Output], xs: &[Output]) -> Vec<Vec<f32>> {
    let gradients = g.gradients(ys, xs).unwrap();
    let session = Session::new(g);
    session.run(g.global_variables_initializer().unwrap()).unwrap();
    let value = |gradient: tensorfleet::Gradient| {
        session.run(gradient.dense().unwrap()).unwrap().as_slice::<f32>().unwrap().to_vec()
    };
    gradients.into_iter().map(|gradient| gradient.map_or_else(Vec::new, value)).collect()
}

#[track_caller]
fn assert_close(got: &[Vec<f32>], want: &[&[f32]]) {
    let far = |(got, want): (&f32, &f32)| (got - want).abs() > 1e-4 * want.abs().max(1.0);
    let differs =
        |(got, want): (&Vec<f32>, &&[f32])| got.len() != want.len() || got.iter().zip(*want).any(far);
    assert!(got.len() == want.len() && !got.iter().zip(want).any(differs), "got {got:?}, want {want:?}");
}

#[test]
fn the_branch_that_ran_has_the_gradient_and_the_other_gives_zeros() {
    for (at, want) in [(-3.0f32, [5.0, -3.0]), (2.0, [4.0, 0.0])] {
        let g = Graph::new();
        let (x, w) = (g.constant(at), g.constant(5.0f32));
        let y = g.cond(x.less(0.0).unwrap(), || Ok(&x * &w), || Ok(&x * &x)).unwrap();
        assert_close(&evaluate(&g, &[y], &[x, w]), &[&want[..1], &want[1..]]);
    }
}

#[test]
fn branches_in_branches_have_gradients() {
    for (at, want) in [(-3.0f32, [5.0, -3.0]), (2.0, [20.0, 4.0]), (20.0, [0.0, 10.0])] {
        let g = Graph::new();
        let (x, w) = (g.constant(at), g.constant(5.0f32));
        let inner = || g.cond(x.less(10.0)?, || Ok(&x * &x * &w), || Ok(&w * &w));
        let y = g.cond(x.less(0.0).unwrap(), || Ok(&x * &w), inner).unwrap();
        assert_close(&evaluate(&g, &[y], &[x, w]), &[&want[..1], &want[1..]]);
    }
}

#[test]
fn a_branch_may_have_second_derivatives() {
    let g = Graph::new();
    let x = g.constant(2.0f32);
    let y = g.cond(x.greater(0.0).unwrap(), || Ok(&x * &x * &x), || Ok(-&x)).unwrap();
    let first = g.gradients([&y], [&x]).unwrap().remove(0).unwrap().dense().unwrap();
    assert_close(&evaluate(&g, &[first], &[x]), &[&[12.0]]);
}

/// `h = tanh(h w + b)` four times, and the sum of all squares of `h`.
fn recurrent(g: &Graph) -> ([Output; 3], [Output; 2]) {
    let w = g.constant([[0.5f32, -0.3], [0.2, 0.8]]);
    let b = g.constant([[0.1f32, -0.2]]);
    let h = g.constant([[1.0f32, 2.0]]);
    let start = [g.constant(0), h.clone(), g.constant(0.0f32)];
    let body = |[i, h, sum]: [Output; 3]| {
        let h = (h.matmul(&w)? + &b).tanh()?;
        Ok([i + 1, h.clone(), sum + (&h * &h).reduce_sum(..)?])
    };
    let [_, last, sum] = g.while_loop(start, |[i, _, _]| i.less(4), body).unwrap();
    ([w, b, h], [sum, last])
}

#[test]
fn a_recurrent_loop_has_the_gradients_of_its_weights_and_its_first_state() {
    let g = Graph::new();
    let (xs, [sum, _]) = recurrent(&g);
    let want: [&[f32]; 3] =
        [&[2.6933784, -0.13895148, 3.000254, 1.2448871], &[3.7458735, -0.94315153], &[0.2621323, 0.70841795]];
    assert_close(&evaluate(&g, &[sum], &xs), &want);
}

#[test]
fn several_results_of_a_loop_add_up() {
    let g = Graph::new();
    let (xs, ys) = recurrent(&g);
    let want: [&[f32]; 3] =
        [&[3.0003643, 1.3003088, 2.5721097, 2.1230376], &[4.6730013, 1.474874], &[0.1578627, 0.8306596]];
    assert_close(&evaluate(&g, &ys, &xs), &want);
}

#[test]
fn a_loop_goes_back_as_often_as_it_went_forward() {
    for (at, want) in [(0.3f32, 4856.541f32), (3.0, 343.0)] {
        let g = Graph::new();
        let x = g.constant(at);
        let y = g.while_loop(&x + 1.0, |a| a.less(100.0), |a| Ok(&a * &a + &x)).unwrap();
        assert_close(&evaluate(&g, &[y], &[x]), &[&[want]]);
    }
}

#[test]
fn a_loop_that_does_not_run_passes_gradients_through() {
    let g = Graph::new();
    let (x, w) = (g.constant(3.0f32), g.constant(2.0f32));
    let y = g.while_loop(x.clone(), |a| a.less(1.0), |a| Ok(a * &w)).unwrap();
    assert_close(&evaluate(&g, &[y], &[x, w]), &[&[1.0], &[0.0]]);
}

#[test]
fn one_iteration_at_a_time_gives_the_same() {
    for parallel in [1, 2, 32] {
        let g = Graph::new();
        let x = g.constant(1.5f32);
        let start = [g.constant(0), g.constant(2.0f32)];
        let loops = g.new_loop().parallel_iterations(parallel);
        let [_, y] = loops.build(start, |[i, _]| i.less(5), |[i, a]| Ok([i + 1, a * &x])).unwrap();
        assert_close(&evaluate(&g, &[y], &[x]), &[&[50.625]]);
    }
}

#[test]
fn loops_in_loops_recall_their_own_iterations() {
    let g = Graph::new();
    let (x, w) = (g.constant(1.1f32), g.constant(0.9f32));
    let outer = |[i, a]: [Output; 2]| {
        let start = [g.constant(0), a.clone()];
        let inner = |[j, b]: [Output; 2]| Ok([j + 1, b * &w + sin(&a)?]);
        let [_, b] = g.while_loop(start, |[j, _]| j.less(&i + 1), inner)?;
        Ok([&i + 1, b * &x])
    };
    let [_, y] = g.while_loop([g.constant(0), x.clone()], |[i, _]| i.less(3), outer).unwrap();
    assert_close(&evaluate(&g, &[y], &[x, w]), &[&[-3.945455], &[-0.41524342]]);
}

#[test]
fn branches_in_loops_recall_what_they_saw_when_they_were_taken() {
    let g = Graph::new();
    let (x, w) = (g.constant(1.2f32), g.constant(0.7f32));
    let body = |[i, a]: [Output; 2]| {
        let even = i.floor_mod(2)?.equal(0)?;
        let next = g.cond(even, || Ok(&a * &w), || Ok(sin(&a)? * &x))?;
        Ok([i + 1, next])
    };
    let [_, y] = g.while_loop([g.constant(0), x.clone()], |[i, _]| i.less(5), body).unwrap();
    assert_close(&evaluate(&g, &[y], &[x, w]), &[&[1.0320605], &[1.7692466]]);
}

#[test]
fn a_loop_in_a_branch_goes_back_only_if_it_ran() {
    for (at, want) in [(1.2f32, [2.360723, 3.5410845]), (-1.2, [0.7, -1.2])] {
        let g = Graph::new();
        let (x, w) = (g.constant(at), g.constant(0.7f32));
        let looped = || {
            let start = [g.constant(0), x.clone()];
            let [_, y] = g.while_loop(start, |[i, _]| i.less(3), |[i, a]| Ok([i + 1, &a * &a * &w]))?;
            Ok(y)
        };
        let y = g.cond(x.greater(0.0).unwrap(), looped, || Ok(&x * &w)).unwrap();
        assert_close(&evaluate(&g, &[y], &[x, w]), &[&want[..1], &want[1..]]);
    }
}

#[test]
fn rows_gathered_in_a_loop_are_gathered_up_over_its_iterations() {
    for resource in [true, false] {
        let g = Graph::new();
        let new = g.new_variable("embedding");
        let new = if resource { new.resource() } else { new };
        let e = new.init([[1.0f32, 2.0], [3.0, 4.0], [5.0, 6.0]]);
        let body = |[i, a]: [Output; 2]| {
            let indices = g.stack([i.floor_mod(3)?, g.constant(2)])?;
            let rows = match resource {
                true => {
                    let gather = g.op("ResourceGather").input(e.handle()).input(indices);
                    gather.attr("dtype", DType::Float).output()?
                }
                false => e.value().gather(indices)?,
            };
            Ok([i + 1, a * 0.5 + rows.square()?.reduce_sum(..)?])
        };
        let [_, y] = g.while_loop([g.constant(0), g.constant(0.0f32)], |[i, _]| i.less(4), body).unwrap();
        let gradient = g.gradients([&y], [&e]).unwrap().remove(0);
        assert!(is_sparse(&gradient));
        let session = Session::new(&g);
        session.run(g.global_variables_initializer().unwrap()).unwrap();
        let dense = session.run(gradient.unwrap().dense().unwrap()).unwrap();
        assert_close(&[dense.as_slice::<f32>().unwrap().to_vec()], &[&[2.25, 4.5, 1.5, 2.0, 23.75, 28.5]]);
    }
}

#[test]
fn rows_gathered_in_a_branch_stay_rows() {
    for (at, want) in [(1.0f32, [2.0, 2.0, 0.0]), (-1.0, [0.0, 0.0, 0.0])] {
        let g = Graph::new();
        let e = g.new_variable("e").resource().init([1.0f32, 1.0, 4.0]);
        let x = g.constant(at);
        let gathered = || {
            let gather = g.op("ResourceGather").input(e.handle()).input([0, 1]);
            Ok(gather.attr("dtype", DType::Float).output()?.square()?.reduce_sum(..)? * &x)
        };
        let y = g.cond(x.greater(0.0).unwrap(), gathered, || Ok(x.clone())).unwrap();
        let gradient = g.gradients([&y], [&e]).unwrap().remove(0);
        assert!(is_sparse(&gradient));
        let session = Session::new(&g);
        session.run(g.global_variables_initializer().unwrap()).unwrap();
        let dense = session.run(gradient.unwrap().dense().unwrap()).unwrap();
        assert_close(&[dense.as_slice::<f32>().unwrap().to_vec()], &[&want]);
    }
}

#[test]
fn variables_read_in_branches_and_loops_have_gradients() {
    for resource in [true, false] {
        let g = Graph::new();
        let new = g.new_variable("w");
        let w = if resource { new.resource() } else { new }.init(1.5f32);
        let x = g.constant(2.0f32);
        let read = || match resource {
            true => g.op("ReadVariableOp").input(w.handle()).attr("dtype", DType::Float).output(),
            false => w.handle().identity(),
        };
        let body = |[i, a]: [Output; 2]| Ok([i + 1, a * read()?]);
        let [_, cubed] = g.while_loop([g.constant(0), x.clone()], |[i, _]| i.less(3), body).unwrap();
        let y = g.cond(x.greater(0.0).unwrap(), || Ok(cubed.clone() * read()?), || Ok(x.clone())).unwrap();
        let gradient = g.gradients([&y], [&w]).unwrap().remove(0).unwrap().dense().unwrap();
        let session = Session::new(&g);
        session.run(g.global_variables_initializer().unwrap()).unwrap();
        // The derivative of 2 w⁴.
        assert_eq!(session.run(gradient).unwrap().to_scalar::<f32>().unwrap(), 27.0);
    }
}

#[test]
fn tensor_arrays_in_loops_have_gradients() {
    let g = Graph::new();
    let x = g.constant([0.5f32, 1.5, -2.0, 3.0]);
    let array = |name: &str, clear: bool| {
        let node = g.op("TensorArrayV3").input(4).attr("dtype", DType::Float).name(name);
        node.attr("clear_after_read", clear).attr("element_shape", PartialShape::scalar()).build().unwrap()
    };
    let (input, output) = (array("input", false), array("output", true));
    let all = g.constant([0, 1, 2, 3]);
    let unstacked = g.op("TensorArrayScatterV3").input(input.output(0)).input(&all).input(&x);
    let unstacked = unstacked.input(input.output(1)).output().unwrap();
    let body = |[i, a, flow]: [Output; 3]| {
        let read = |index: &Output| {
            let read = g.op("TensorArrayReadV3").input(input.output(0)).input(index).input(&unstacked);
            let read = read.attr("dtype", DType::Float).output()?;
            read.set_shape(())?;
            Ok::<Output, tensorfleet::Status>(read)
        };
        let write = g.op("TensorArrayWriteV3").input(output.output(0)).input(&i);
        let flow = write.input(&a * &a).input(flow).output()?;
        let mirrored = 3 - &i;
        Ok([&i + 1, &a * read(&i)? + read(&mirrored)?, flow])
    };
    let start = [g.constant(0), g.constant(1.0f32), output.output(1)];
    let [_, a, flow] = g.while_loop(start, |[i, _, _]| i.less(4), body).unwrap();
    let stacked = g.op("TensorArrayGatherV3").input(output.output(0)).input(&all).input(flow);
    let stacked = stacked.attr("dtype", DType::Float).output().unwrap();
    assert_close(&evaluate(&g, &[a, stacked], &[x]), &[&[38.75, 64.75, -2.25, 32.75]]);
}

#[test]
fn a_tensor_array_split_and_joined_passes_gradients_through() {
    let g = Graph::new();
    let x = g.constant([1.0f32, 2.0, 3.0]);
    let node = g.op("TensorArrayV3").input(2).attr("dtype", DType::Float);
    let array = node.attr("clear_after_read", false).build().unwrap();
    let split = g.op("TensorArraySplitV3").input(array.output(0)).input(&x).input(g.constant([1i64, 2]));
    let flow = split.input(array.output(1)).output().unwrap();
    let joined = g.op("TensorArrayConcatV3").input(array.output(0)).input(&flow);
    let joined = joined.attr("dtype", DType::Float).build().unwrap().output(0);
    let second = g.op("TensorArrayReadV3").input(array.output(0)).input(1).input(&flow);
    let second = second.attr("dtype", DType::Float).output().unwrap();
    // Both uses of the second piece add up.
    let ys = [joined.square().unwrap(), second];
    assert_close(&evaluate(&g, &ys, &[x]), &[&[2.0, 5.0, 7.0]]);
}

#[test]
fn second_derivatives_through_loops_are_refused() {
    let g = Graph::new();
    let (x, start) = (g.constant(1.5f32), [g.constant(0), g.constant(2.0f32)]);
    let [_, y] = g.while_loop(start, |[i, _]| i.less(5), |[i, a]| Ok([i + 1, a * &x])).unwrap();
    let first = g.gradients([&y], [&x]).unwrap().remove(0).unwrap().dense().unwrap();
    let refused = g.gradients([first], [&x]).unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented);
    assert!(refused.text().contains("Second-order gradient for while loops not supported"), "{refused}");
}

#[test]
fn gradients_may_be_taken_twice_of_one_loop_and_inside_its_body() {
    let g = Graph::new();
    let (x, w) = (g.constant(1.5f32), g.constant(3.0f32));
    // Each iteration goes one step down the slope of (w a - 6)².
    let body = |[i, a]: [Output; 2]| {
        let loss = (&a * &w - 6.0).square()?;
        let slope = g.gradients([loss], [&a])?.remove(0).unwrap().dense()?;
        Ok([i + 1, a - slope * 0.01])
    };
    let [_, y] = g.while_loop([g.constant(0), x.clone()], |[i, _]| i.less(2), body).unwrap();
    let value = Session::new(&g).run(&y).unwrap().to_scalar::<f32>().unwrap();
    // a ← a - 0.06 (3 a - 6): 1.5, 1.59, 1.6638… towards 2.
    assert!((value - 1.6638).abs() < 1e-4, "{value}");
    // Each step multiplies the distance to the minimum by 0.82.
    let once = evaluate(&g, std::slice::from_ref(&y), std::slice::from_ref(&x));
    assert_close(&once, &[&[0.6724]]);
    assert_close(&evaluate(&g, &[y], &[x]), &[&[0.6724]]);
}

#[test]
fn values_of_a_loops_body_have_no_gradients_outside_of_it() {
    let g = Graph::new();
    let x = g.constant(1.5f32);
    let mut inside = None;
    let body = |a: Output| {
        inside = Some(&a * &x);
        Ok(&a * &x)
    };
    g.while_loop(g.constant(1.0f32), |a| a.less(9.0), body).unwrap();
    let refused = g.gradients([inside.unwrap()], [&x]).unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.text().contains("inside a while loop"), "{refused}");
}

#[test]
fn imported_branches_have_gradients_and_imported_loops_say_why_not() {
    for (at, want) in [(-3.0f32, [5.0, -3.0]), (2.0, [4.0, 0.0])] {
        let g = Graph::new();
        let (x, w) = (g.constant(at), g.constant(5.0f32));
        let y = g.cond(x.less(0.0).unwrap(), || Ok(&x * &w), || Ok(&x * &x)).unwrap();
        let copy = Graph::from_graph_def(g.to_graph_def()).unwrap();
        let same = |output: &Output| copy.output(&output.name()).unwrap();
        assert_close(&evaluate(&copy, &[same(&y)], &[same(&x), same(&w)]), &[&want[..1], &want[1..]]);
    }
    let g = Graph::new();
    let x = g.constant(1.5f32);
    let y = g.while_loop(x.clone(), |a| a.less(9.0), |a| Ok(&a * &a)).unwrap();
    let copy = Graph::from_graph_def(g.to_graph_def()).unwrap();
    let (y, x) = (copy.output(&y.name()).unwrap(), copy.output(&x.name()).unwrap());
    let refused = copy.gradients([y], [x]).unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented);
    assert!(refused.text().contains("imported"), "{refused}");
}

#[test]
fn a_session_that_has_run_a_loop_may_run_its_gradient_later() {
    let g = Graph::new();
    let x = g.placeholder(DType::Float, ());
    let start = [g.constant(0), g.constant(2.0f32)];
    let [_, y] = g.while_loop(start, |[i, _]| i.less(5), |[i, a]| Ok([i + 1, a * &x])).unwrap();
    let session = Session::new(&g);
    assert_eq!(session.feed(&x, 2.0f32).run(&y).unwrap().to_scalar::<f32>().unwrap(), 64.0);
    let slope = g.gradients([&y], [&x]).unwrap().remove(0).unwrap().dense().unwrap();
    assert_eq!(session.feed(&x, 1.5f32).run(&slope).unwrap().to_scalar::<f32>().unwrap(), 50.625);
}

/// Functions with branches and loops, checked numerically.
pub(crate) fn cases() -> Vec<GradientCase> {
    let at = || [spread(&[2, 2], -0.9, 1.1), doubles(&[], &[0.8])];
    vec![
        GradientCase::new("Switch", at(), |g, x| {
            let big = x[0].reduce_sum(..)?.greater(100.0)?;
            Ok(vec![g.cond(big, || Ok(x[0].clone()), || Ok(&x[0] * &x[1]))?])
        }),
        GradientCase::new("Merge", at(), |g, x| {
            let positive = x[1].greater(0.0)?;
            let [a, b] = g.cond(
                positive,
                || Ok([&x[0] * &x[0], x[1].clone()]),
                || Ok([x[0].clone(), x[0].reduce_sum(..)?]),
            )?;
            Ok(vec![a * &b, b])
        }),
        // Shapes that change from iteration to iteration.
        GradientCase::new("Enter", at(), |g, x| {
            let start = [g.constant(0), x[0].clone()];
            let wide = PartialShape::new([None, Some(2)]);
            let loops = g.new_loop().shape_invariants(vec![PartialShape::scalar(), wide]);
            let body = |[i, a]: [Output; 2]| Ok([i + 1, g.concat([&a * &x[1], x[0].clone()], 0)?]);
            let [_, y] = loops.build(start, |[i, _]| i.less(3), body)?;
            Ok(vec![y])
        }),
        // Variables that exchange their places, one that nothing uses, and a branch that is taken now and then.
        GradientCase::new("Exit", at(), |g, x| {
            let start = [g.constant(0), x[0].clone(), &x[0] * 0.5, x[1].clone()];
            let body = |[i, a, b, c]: [Output; 4]| {
                let third = i.floor_mod(3)?.equal(0)?;
                let mixed = g.cond(third, || Ok(&a * &b), || Ok(&b + &x[1]))?;
                Ok([i + 1, mixed, a, &c * &c])
            };
            let [_, a, b, _] = g.while_loop(start, |[i, _, _, _]| i.less(5), body)?;
            Ok(vec![a, b])
        }),
        // A branch inside a loop inside a branch inside a loop.
        GradientCase::new("Switch", at(), |g, x| {
            let outer = |[i, a]: [Output; 2]| {
                let odd = i.floor_mod(2)?.equal(1)?;
                let looped = || {
                    let inner = |[j, b]: [Output; 2]| {
                        let first = j.equal(0)?;
                        let next = g.cond(first, || Ok(&b * &a), || Ok(&b * &x[1] + &a))?;
                        Ok([j + 1, next])
                    };
                    let [_, b] = g.while_loop([g.constant(0), &a + 1.0], |[j, _]| j.less(&i + 1), inner)?;
                    Ok(b)
                };
                let next = g.cond(odd, looped, || Ok(&a * &x[1]))?;
                Ok([&i + 1, next])
            };
            let [_, y] = g.while_loop([g.constant(0), x[0].clone()], |[i, _]| i.less(4), outer)?;
            Ok(vec![y])
        }),
    ]
}

#[test]
fn references_to_variables_pass_gradients_through() {
    let g = Graph::new();
    let v = g.new_variable("v").init([2.0f32, 3.0]);
    let taken = g.op("RefIdentity").input(&v).output().unwrap();
    let entered = g.op("RefEnter").input(taken).attr("frame_name", "once").output().unwrap();
    let left = g.op("RefExit").input(entered).output().unwrap();
    let gradient = g.gradients([left.square().unwrap()], [&v]).unwrap().remove(0).unwrap();
    let session = Session::new(&g);
    session.run(g.global_variables_initializer().unwrap()).unwrap();
    assert_eq!(session.run(gradient.dense().unwrap()).unwrap(), Tensor::vector(&[4.0f32, 6.0]).unwrap());
}
