//! Cases of neural networks: products, activations, losses, convolutions.

use tensorfleet::{Graph, Output, Result, Tensor};
use tensorfleet_tests::gradient_check::{GradientCase, spread};

fn op(op: &'static str) -> impl Fn(&Graph, &[Output]) -> Result<Vec<Output>> + Clone + 'static {
    move |g, x| Ok(vec![x.iter().fold(g.op(op), |op, x| op.input(x)).output()?])
}

pub(crate) fn cases() -> Vec<GradientCase> {
    let mut cases = products();
    cases.extend(biases());
    cases.extend(losses());
    cases.push(GradientCase::new("Relu", [spread(&[3, 3], -1.0, 1.2)], op("Relu")));
    cases.push(GradientCase::new(
        "ReluGrad",
        [spread(&[5], -1.0, 1.0), spread(&[5], -1.0, 1.2)],
        op("ReluGrad"),
    ));
    cases.push(GradientCase::new("L2Loss", [spread(&[2, 3], -1.0, 1.2)], op("L2Loss")));
    cases
}

fn products() -> Vec<GradientCase> {
    let mut cases = Vec::new();
    for (transpose_a, transpose_b) in [(false, false), (false, true), (true, false), (true, true)] {
        let a = if transpose_a { [3, 2] } else { [2, 3] };
        let b = if transpose_b { [4, 3] } else { [3, 4] };
        let at = [spread(&a, -1.0, 1.0), spread(&b, -1.0, 2.0)];
        cases.push(GradientCase::new("MatMul", at, move |g, x| {
            let product = g.op("MatMul").input(&x[0]).input(&x[1]);
            Ok(vec![product.attr("transpose_a", transpose_a).attr("transpose_b", transpose_b).output()?])
        }));
    }
    cases
}

fn biases() -> Vec<GradientCase> {
    let mut cases = Vec::new();
    for format in ["NHWC", "NCHW"] {
        let with_format = move |name: &'static str| {
            move |g: &Graph, x: &[Output]| {
                let op = x.iter().fold(g.op(name), |op, x| op.input(x));
                Ok(vec![op.attr("data_format", format).output()?])
            }
        };
        let image = spread(&[2, 3, 2, 3], -1.0, 1.0);
        cases.push(GradientCase::new(
            "BiasAdd",
            [image.clone(), spread(&[3], -1.0, 1.0)],
            with_format("BiasAdd"),
        ));
        cases.push(GradientCase::new("BiasAddGrad", [image], with_format("BiasAddGrad")));
    }
    let at = [spread(&[2, 3], -1.0, 1.0), spread(&[3], -1.0, 1.0)];
    cases.push(GradientCase::new("BiasAddV1", at, op("BiasAddV1")));
    cases
}

fn losses() -> Vec<GradientCase> {
    let logits = || spread(&[3, 4], -2.0, 2.0);
    let both = |g: &Graph, x: &[Output]| {
        let loss = g.op("SoftmaxCrossEntropyWithLogits").input(&x[0]).input(&x[1]).build()?;
        Ok(vec![loss.output(0), loss.output(1)])
    };
    let sparse = |g: &Graph, x: &[Output]| {
        let labels = Tensor::vector(&[2i64, 0, 3]).unwrap();
        let loss = g.op("SparseSoftmaxCrossEntropyWithLogits").input(&x[0]).input(labels).build()?;
        Ok(vec![loss.output(0), loss.output(1)])
    };
    let only_loss = move |g: &Graph, x: &[Output]| Ok(vec![sparse(g, x)?.remove(0)]);
    let dense = "SoftmaxCrossEntropyWithLogits";
    vec![
        GradientCase::new("Softmax", [spread(&[2, 2, 3], -2.0, 2.0)], op("Softmax")),
        GradientCase::new("LogSoftmax", [logits()], op("LogSoftmax")),
        GradientCase::new(dense, [logits(), spread(&[3, 4], 0.0, 1.0)], op(dense)),
        GradientCase::new(dense, [logits()], move |g, x| {
            let labels = g.constant(spread(&[3, 4], 0.0, 1.0));
            both(g, &[x[0].clone(), labels])
        }),
        GradientCase::new("SparseSoftmaxCrossEntropyWithLogits", [logits()], sparse),
        GradientCase::new("SparseSoftmaxCrossEntropyWithLogits", [logits()], only_loss),
    ]
}
