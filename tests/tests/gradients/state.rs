//! Gradients by variables, and how the engine treats what it is asked for.

use tensorfleet::{Code, DType, Gradient, Graph, Output, Session, Tensor};
use tensorfleet_tests::gradient_check::is_sparse;

fn run(g: &Graph, outputs: Vec<Output>) -> Vec<Tensor> {
    let session = Session::new(g);
    session.run(g.global_variables_initializer().unwrap()).unwrap();
    session.run(outputs).unwrap()
}

fn dense(gradients: Vec<Option<Gradient>>) -> Vec<Output> {
    gradients.into_iter().flatten().map(|gradient| gradient.dense().unwrap()).collect()
}

#[test]
fn a_resource_variable_gets_the_gradients_of_all_its_reads() {
    let g = Graph::new();
    let v = g.new_variable("v").resource().init([1.0f32, 2.0]);
    let y = v.value() * v.value() + &v * 3.0;
    let got = run(&g, dense(g.gradients([y], [&v]).unwrap()));
    assert_eq!(got, [Tensor::vector(&[5.0f32, 7.0]).unwrap()]);
}

#[test]
fn rows_gathered_from_a_resource_variable_give_rows() {
    let g = Graph::new();
    let v = g.new_variable("v").resource().init([[1.0f32, 2.0], [3.0, 4.0], [5.0, 6.0]]);
    let gather = |indices: Output, batch_dims: i64| {
        let node = g.op("ResourceGather").input(v.handle()).input(indices).attr("dtype", DType::Float);
        node.attr("batch_dims", batch_dims).output().unwrap()
    };
    let rows = gather(g.constant([[2, 0], [2, 2]]), 0);
    let gradient = g.gradients([rows], [&v]).unwrap();
    assert!(is_sparse(&gradient[0]));
    let by_batch = gather(g.constant([[1], [0], [0]]), 1).square().unwrap();
    let batched = g.gradients([by_batch], [&v]).unwrap();
    let got = run(&g, dense(gradient.into_iter().chain(batched).collect()));
    assert_eq!(got[0].as_slice::<f32>().unwrap(), [1.0, 1.0, 0.0, 0.0, 3.0, 3.0]);
    assert_eq!(got[1].as_slice::<f32>().unwrap(), [0.0, 4.0, 6.0, 0.0, 10.0, 0.0]);
}

#[test]
fn elements_gathered_from_a_resource_variable_have_gradients() {
    let g = Graph::new();
    let v = g.new_variable("v").resource().init([[1.0f32, 2.0], [3.0, 4.0]]);
    let gather = |indices: Output| {
        let node = g.op("ResourceGatherNd").input(v.handle()).input(indices);
        node.attr("dtype", DType::Float).output().unwrap().square().unwrap()
    };
    let elements = g.gradients([gather(g.constant([[1, 0], [0, 1], [1, 0]]))], [&v]).unwrap();
    let rows = g.gradients([gather(g.constant([[1], [1]]))], [&v]).unwrap();
    assert!(!is_sparse(&elements[0]) && is_sparse(&rows[0]));
    let got = run(&g, dense(elements.into_iter().chain(rows).collect()));
    assert_eq!(got[0].as_slice::<f32>().unwrap(), [0.0, 4.0, 12.0, 0.0]);
    assert_eq!(got[1].as_slice::<f32>().unwrap(), [0.0, 0.0, 12.0, 16.0]);
}

#[test]
fn rows_from_several_gathers_follow_one_another_and_a_dense_gradient_makes_them_dense() {
    let g = Graph::new();
    let v = g.new_variable("v").resource().init([1.0f32, 2.0, 3.0]);
    let gather = |index: i32| {
        let node = g.op("ResourceGather").input(v.handle()).input([index]).attr("dtype", DType::Float);
        node.output().unwrap()
    };
    let rows = g.gradients([gather(1) * 2.0, gather(2), gather(1)], [&v]).unwrap();
    let Some(Gradient::Slices(slices)) = &rows[0] else { panic!("rows") };
    let (indices, values) = (slices.indices.clone(), slices.values.clone());
    let mixed = g.gradients([gather(0), v.value()], [&v]).unwrap();
    assert!(!is_sparse(&mixed[0]));
    let mut wanted = vec![indices, values];
    wanted.extend(dense(mixed));
    let got = run(&g, wanted);
    assert_eq!(got[0].num_elements(), 3);
    assert_eq!(got[1].num_elements(), 3);
    assert_eq!(got[2], Tensor::vector(&[2.0f32, 1.0, 1.0]).unwrap());
}

#[test]
fn a_prevented_gradient_says_why() {
    let g = Graph::new();
    let x = g.constant(1.0f32);
    let y = g.op("PreventGradient").input(&x).attr("message", "not yet").output().unwrap();
    let refused = g.gradients([y], [&x]).unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
    assert!(refused.text().contains("Gradient explicitly disabled") && refused.text().contains("not yet"));
}

/// The numbers are TensorFlow's for the same calls.
#[test]
fn partial_derivatives_repeated_and_unconnected_values_are_those_of_tensorflow() {
    let g = Graph::new();
    let a = g.constant(0.0f32);
    let b = 2.0 * &a;
    let partial = g.new_gradients().stop_gradients([&a, &b]).build([&a + &b], [&a, &b]).unwrap();
    let x = g.constant(3.0f32);
    let y = &x * &x;
    let twice = g.gradients([&y, &y], [&x, &x]).unwrap();
    let itself = g.gradients([&y, &x], [&x, &y]).unwrap();
    let unconnected = g.constant(1.0f32);
    assert!(g.gradients([&y], [&unconnected]).unwrap()[0].is_none());
    let all = partial.into_iter().chain(twice).chain(itself).collect();
    let got: Vec<f32> = run(&g, dense(all)).iter().map(|value| value.to_scalar().unwrap()).collect();
    assert_eq!(got, [1.0, 1.0, 12.0, 12.0, 7.0, 1.0]);
}

#[test]
fn nothing_flows_through_integers() {
    let g = Graph::new();
    let x = g.constant(2.5f32);
    let rounded = x.cast(DType::Int32).unwrap().cast(DType::Float).unwrap();
    assert!(g.gradients([rounded * 2.0], [&x]).unwrap()[0].is_none());
    let count = g.constant(3);
    let scaled = count.cast(DType::Float).unwrap() * &x;
    let gradients = g.gradients([scaled], [&count, &x]).unwrap();
    assert!(gradients[0].is_none() && gradients[1].is_some());
}

#[test]
fn gradients_stay_where_their_nodes_are_if_asked() {
    let g = Graph::new();
    let x = g.constant(2.0f32);
    let y = g.device("/job:worker/task:1", || x.square()).unwrap();
    let colocated = g.new_gradients().colocate_with_ops(true).build([&y], [&x]).unwrap();
    let placed = dense(colocated).remove(0);
    assert_eq!(placed.device(), y.device());
    let free = dense(g.gradients([&y], [&x]).unwrap()).remove(0);
    assert_eq!(free.device(), "");
    assert!(placed.name().starts_with("gradients/Square_grad/"), "{}", placed.name());
    assert!(free.name().starts_with("gradients_1/Square_grad/"), "{}", free.name());
}

#[test]
fn a_hundred_thousand_nodes_in_a_row_are_differentiated() {
    let g = Graph::new();
    let x = g.constant(1.0f32);
    let mut y = x.clone();
    for _ in 0..100_000 {
        y = y.neg().unwrap();
    }
    let gradient = dense(g.gradients([&y], [&x]).unwrap()).remove(0);
    assert!(gradient.name().starts_with("gradients/Neg_grad/"));
}

#[test]
fn the_same_program_builds_the_same_gradient_nodes() {
    let build = || {
        let g = Graph::new();
        let x = g.constant([1.0f32, 2.0]);
        let mut sum = x.clone();
        for _ in 0..20 {
            sum = &sum + &x * &x;
        }
        let rows = sum.gather([0, 1, 1]).unwrap();
        g.gradients([rows, sum], [&x]).unwrap();
        g.to_graph_def()
    };
    assert_eq!(build(), build());
}

#[test]
fn samples_of_gamma_distributions_move_with_their_shapes() {
    let g = Graph::new();
    let alpha = g.constant([0.7f64, 3.0, 12.0]);
    let node =
        g.op("RandomGamma").input(g.constant([2i32, 2])).input(&alpha).attr("seed", 3i64).attr("seed2", 1i64);
    let samples = node.output().unwrap();
    let weighted = &samples * &g.constant([1.0f64, 2.0, -1.5]);
    let gradient = g.gradients([&weighted], [&alpha]).unwrap().remove(0).unwrap().dense().unwrap();
    let values = Session::new(&g).run([&samples, &gradient]).unwrap();
    let (samples, found) = (values[0].as_slice::<f64>().unwrap(), values[1].as_slice::<f64>().unwrap());
    for (index, (&alpha, weight)) in [0.7f64, 3.0, 12.0].iter().zip([1.0, 2.0, -1.5]).enumerate() {
        // By the definition: the quantile stays, P(alpha, sample) = const.
        let g = Graph::new();
        let quantile = |a: f64, x: f64| {
            let value = g.op("Igamma").input(g.constant(a)).input(g.constant(x)).output().unwrap();
            Session::new(&g).run(&value).unwrap().to_scalar::<f64>().unwrap()
        };
        let slope = |x: f64| {
            let h = 1e-5;
            let by_alpha = quantile(alpha + h, x) - quantile(alpha - h, x);
            -by_alpha / (quantile(alpha, x + h) - quantile(alpha, x - h))
        };
        let want: f64 = samples.iter().skip(index).step_by(3).map(|&x| slope(x) * weight).sum();
        assert!(
            (found[index] - want).abs() < 1e-5 * want.abs().max(1.0),
            "{} instead of {want}",
            found[index]
        );
    }
}
