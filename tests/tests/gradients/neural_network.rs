//! Cases of neural networks: products, activations, losses, convolutions.

use std::collections::BTreeMap;

use tensorfleet::{DType, Graph, Output, PartialShape, Result, Tensor};
use tensorfleet_tests::gradient_check::{GradientCase, doubles, spread};

fn op(op: &'static str) -> impl Fn(&Graph, &[Output]) -> Result<Vec<Output>> + Clone + 'static {
    move |g, x| Ok(vec![x.iter().fold(g.op(op), |op, x| op.input(x)).output()?])
}

/// The op with the same attributes for each of its variants.
fn with<const N: usize>(
    op: &'static str,
    attrs: [(&'static str, Attr); N],
) -> impl Fn(&Graph, &[Output]) -> Result<Vec<Output>> + 'static {
    move |g, x| {
        let op = x.iter().fold(g.op(op), |op, x| op.input(x));
        let op = attrs.iter().fold(op, |op, (name, value)| match value {
            Attr::Ints(value) => op.attr(name, value.to_vec()),
            Attr::Text(value) => op.attr(name, *value),
            Attr::Flag(value) => op.attr(name, *value),
            Attr::Number(value) => op.attr(name, *value),
            Attr::Int(value) => op.attr(name, *value),
        });
        Ok(vec![op.output()?])
    }
}

#[derive(Clone, Copy)]
enum Attr {
    Ints(&'static [i64]),
    Text(&'static str),
    Flag(bool),
    Number(f32),
    Int(i64),
}

pub(crate) fn cases() -> Vec<GradientCase> {
    let mut cases = products();
    cases.extend(biases());
    cases.extend(losses());
    cases.extend(activations());
    cases.extend(convolutions());
    cases.extend(pools());
    cases.extend(norms());
    cases.extend(resizes());
    cases.extend(linear_algebra());
    cases.extend(einsums());
    cases.push(GradientCase::new("L2Loss", [spread(&[2, 3], -1.0, 1.2)], op("L2Loss")));
    cases
}

fn activations() -> Vec<GradientCase> {
    let mut cases = Vec::new();
    for name in ["Relu", "Elu", "Selu", "Softplus", "Softsign", "LeakyRelu"] {
        cases.push(GradientCase::new(name, [spread(&[3, 3], -1.0, 1.2)], op(name)));
    }
    cases.push(GradientCase::new("Relu6", [spread(&[3, 3], -2.0, 9.0)], op("Relu6")));
    let steep = with("LeakyRelu", [("alpha", Attr::Number(0.5))]);
    cases.push(GradientCase::new("LeakyRelu", [spread(&[3, 3], -1.0, 1.2)], steep));
    for name in ["ReluGrad", "Relu6Grad", "EluGrad", "SeluGrad", "SoftplusGrad", "LeakyReluGrad"] {
        cases.push(GradientCase::new(name, [spread(&[5], -1.0, 1.0), spread(&[5], -0.9, 1.2)], op(name)));
    }
    cases
}

fn convolutions() -> Vec<GradientCase> {
    let mut cases = Vec::new();
    let attrs: [&[(&'static str, Attr)]; 3] = [
        &[("strides", Attr::Ints(&[1, 1, 1, 1])), ("padding", Attr::Text("SAME"))],
        &[("strides", Attr::Ints(&[1, 2, 2, 1])), ("padding", Attr::Text("VALID"))],
        &[("strides", Attr::Ints(&[1, 1, 1, 1])), ("padding", Attr::Text("VALID"))],
    ];
    // Sizes of the output for each kind of padding and stride.
    for (attrs, size) in attrs.into_iter().zip([4, 2, 3]) {
        let two: [(&'static str, Attr); 2] = [attrs[0], attrs[1]];
        for (name, channels, filter) in
            [("Conv2D", 3, [2, 2, 2, 3]), ("DepthwiseConv2dNative", 4, [2, 2, 2, 2])]
        {
            let (x, filter) = (spread(&[1, 4, 4, 2], -1.0, 1.0), spread(&filter, -1.0, 1.0));
            let y = spread(&[1, size, size, channels], -1.0, 1.0);
            cases.push(GradientCase::new(name, [x.clone(), filter.clone()], with(name, two)));
            let (of_input, of_filter) = match name {
                "Conv2D" => ("Conv2DBackpropInput", "Conv2DBackpropFilter"),
                _ => ("DepthwiseConv2dNativeBackpropInput", "DepthwiseConv2dNativeBackpropFilter"),
            };
            let dims: Vec<i32> = filter.shape().dims().iter().map(|&dim| dim as i32).collect();
            cases.push(GradientCase::new(of_input, [filter, y.clone()], move |g, x| {
                with(of_input, two)(g, &[g.constant(vec![1, 4, 4, 2]), x[0].clone(), x[1].clone()])
            }));
            cases.push(GradientCase::new(of_filter, [x, y], move |g, x| {
                with(of_filter, two)(g, &[x[0].clone(), g.constant(dims.clone()), x[1].clone()])
            }));
        }
    }
    let dilated = [
        ("strides", Attr::Ints(&[1, 1, 1, 1])),
        ("padding", Attr::Text("EXPLICIT")),
        ("explicit_paddings", Attr::Ints(&[0, 0, 1, 0, 0, 1, 0, 0])),
        ("dilations", Attr::Ints(&[1, 2, 2, 1])),
    ];
    let at = [spread(&[1, 4, 4, 2], -1.0, 1.0), spread(&[2, 2, 2, 1], -1.0, 1.0)];
    cases.push(GradientCase::new("Conv2D", at, with("Conv2D", dilated)));
    cases
}

fn pools() -> Vec<GradientCase> {
    let mut cases = Vec::new();
    for (padding, size) in [("SAME", 2), ("VALID", 1)] {
        let attrs = [
            ("ksize", Attr::Ints(&[1, 2, 2, 1])),
            ("strides", Attr::Ints(&[1, 2, 2, 1])),
            ("padding", Attr::Text(padding)),
        ];
        for name in ["MaxPool", "AvgPool"] {
            cases.push(GradientCase::new(name, [spread(&[2, 3, 3, 2], -1.0, 1.0)], with(name, attrs)));
        }
        cases.push(GradientCase::new(
            "AvgPoolGrad",
            [spread(&[2, size, size, 2], -1.0, 1.0)],
            move |g, x| with("AvgPoolGrad", attrs)(g, &[g.constant(vec![2, 3, 3, 2]), x[0].clone()]),
        ));
        // The picture stays, since a maximum that moves to another pixel has no derivative.
        let picture = || spread(&[2, 3, 3, 2], -1.0, 1.0);
        cases.push(GradientCase::new(
            "MaxPoolGrad",
            [spread(&[2, size, size, 2], -1.0, 1.0)],
            move |g, x| {
                let image = g.constant(picture());
                let pooled = with("MaxPool", attrs)(g, std::slice::from_ref(&image))?.remove(0);
                with("MaxPoolGrad", attrs)(g, &[image, pooled, &x[0] * &x[0]])
            },
        ));
        cases.push(GradientCase::new("MaxPoolGradGrad", [spread(&[2, 3, 3, 2], -1.0, 1.0)], move |g, x| {
            let image = g.constant(picture());
            let pooled = with("MaxPool", attrs)(g, std::slice::from_ref(&image))?.remove(0);
            with("MaxPoolGradGrad", attrs)(g, &[image, pooled, &x[0] * &x[0]])
        }));
        cases.push(GradientCase::new(
            "MaxPoolWithArgmax",
            [spread(&[2, 3, 3, 2], -1.0, 1.0)],
            with("MaxPoolWithArgmax", attrs),
        ));
        cases.extend(pools_by_input(padding, size));
    }
    let radius = [("depth_radius", Attr::Int(1)), ("alpha", Attr::Number(0.5)), ("beta", Attr::Number(0.75))];
    cases.push(
        GradientCase::new("LRN", [spread(&[1, 2, 2, 4], 0.3, 1.5)], with("LRN", radius)).single_precision(),
    );
    cases
}

/// The pools whose window is an input.
fn pools_by_input(padding: &'static str, size: usize) -> Vec<GradientCase> {
    let pool = move |op: &'static str, g: &Graph, x: &[Output]| {
        let window = || g.constant(vec![1, 2, 2, 1]);
        let op = x.iter().fold(g.op(op), |op, x| op.input(x));
        op.input(window()).input(window()).attr("padding", padding).output()
    };
    let image = || spread(&[2, 3, 3, 2], -1.0, 1.0);
    let of_gradient = move |op: &'static str, at: Tensor| {
        GradientCase::new(op, [at], move |g: &Graph, x: &[Output]| {
            let picture = g.constant(image());
            let pooled = pool("MaxPoolV2", g, std::slice::from_ref(&picture))?;
            Ok(vec![pool(op, g, &[picture, pooled, &x[0] * &x[0]])?])
        })
    };
    vec![
        GradientCase::new("MaxPoolV2", [image()], move |g, x| Ok(vec![pool("MaxPoolV2", g, x)?])),
        of_gradient("MaxPoolGradV2", spread(&[2, size, size, 2], -1.0, 1.0)),
        of_gradient("MaxPoolGradGradV2", image()),
    ]
}

fn norms() -> Vec<GradientCase> {
    let mut cases = Vec::new();
    for (name, of_gradient) in [
        ("FusedBatchNorm", "FusedBatchNormGrad"),
        ("FusedBatchNormV2", "FusedBatchNormGradV2"),
        ("FusedBatchNormV3", "FusedBatchNormGradV3"),
    ] {
        for (format, training) in [("NHWC", true), ("NHWC", false), ("NCHW", true), ("NCHW", false)] {
            let norm = move |g: &Graph, name: &str, inputs: &[Output]| {
                let op = inputs.iter().fold(g.op(name), |op, x| op.input(x)).attr("epsilon", 0.01f32);
                op.attr("data_format", format).attr("is_training", training).build()
            };
            // As many channels as rows and columns, so that one shape fits both formats.
            let image = || spread(&[3, 2, 2, 2], -1.0, 2.0);
            let statistics = move |g: &Graph| match training {
                true => [g.constant(Vec::<f32>::new()), g.constant(Vec::<f32>::new())],
                false => [g.constant(vec![0.2f32, 0.5]), g.constant(vec![1.5f32, 0.7])],
            };
            let at = [image(), spread(&[2], 0.5, 1.5), spread(&[2], -0.5, 0.5)];
            let forward = move |g: &Graph, x: &[Output]| {
                Ok(vec![norm(g, name, &[x, &statistics(g)].concat())?.output(0)])
            };
            cases.push(GradientCase::new(name, at, forward).single_precision());
            let at = [spread(&[3, 2, 2, 2], -1.0, 1.0), image(), spread(&[2], 0.5, 1.5)];
            let backward = move |g: &Graph, x: &[Output]| {
                let offset = g.constant(vec![0.0f32; 2]);
                let inputs = [&[x[1].clone(), x[2].clone(), offset], &statistics(g)[..]].concat();
                let forward = norm(g, name, &inputs)?;
                // The kernel reads the batch's statistics where the forward op has left them.
                let mut inputs = x.to_vec();
                match training {
                    true => inputs.extend([forward.output(3), forward.output(4)]),
                    false => inputs.extend(statistics(g)),
                }
                if name == "FusedBatchNormV3" {
                    inputs.push(forward.output(5));
                }
                let gradient = norm(g, of_gradient, &inputs)?;
                Ok(vec![gradient.output(0), gradient.output(1), gradient.output(2)])
            };
            cases.push(GradientCase::new(of_gradient, at, backward).single_precision());
        }
    }
    cases
}

fn resizes() -> Vec<GradientCase> {
    let mut cases = Vec::new();
    for (align, half) in [(false, false), (true, false), (false, true)] {
        let attrs = [("align_corners", Attr::Flag(align)), ("half_pixel_centers", Attr::Flag(half))];
        let image = || [spread(&[1, 2, 3, 2], -1.0, 1.0)];
        let resize = move |name: &'static str| {
            move |g: &Graph, x: &[Output]| with(name, attrs)(g, &[x[0].clone(), g.constant(vec![4, 5])])
        };
        cases.push(GradientCase::new("ResizeBilinear", image(), resize("ResizeBilinear")).single_precision());
        cases.push(GradientCase::new("ResizeNearestNeighbor", image(), resize("ResizeNearestNeighbor")));
    }
    cases
}

fn linear_algebra() -> Vec<GradientCase> {
    let mut cases = Vec::new();
    // Two matrices with a heavy diagonal, far from singular.
    let matrices = || {
        let values: Vec<f64> =
            (0..18).map(|i| if i % 9 % 4 == 0 { 3.0 } else { 0.1 * (i % 7) as f64 }).collect();
        doubles(&[2, 3, 3], &values)
    };
    let symmetric = |g: &Graph, x: &Output| {
        let turned = g.op("Transpose").input(x).input(vec![0, 2, 1]).output()?;
        g.op("AddV2").input(x).input(turned).output()
    };
    cases.push(GradientCase::new("Cholesky", [matrices()], move |g, x| {
        op("Cholesky")(g, &[symmetric(g, &x[0])?])
    }));
    for adjoint in [false, true] {
        let attrs = [("adjoint", Attr::Flag(adjoint))];
        let right = || spread(&[2, 3, 2], -1.0, 1.0);
        cases.push(GradientCase::new("MatrixInverse", [matrices()], with("MatrixInverse", attrs)));
        cases.push(GradientCase::new("MatrixSolve", [matrices(), right()], with("MatrixSolve", attrs)));
        for lower in [false, true] {
            let attrs = [("adjoint", Attr::Flag(adjoint)), ("lower", Attr::Flag(lower))];
            let solve = || with("MatrixTriangularSolve", attrs);
            cases.push(GradientCase::new("MatrixTriangularSolve", [matrices(), right()], solve()));
            cases.push(GradientCase::new(
                "MatrixTriangularSolve",
                [matrices(), spread(&[3, 1], -1.0, 1.0)],
                solve(),
            ));
        }
    }
    cases.push(GradientCase::new("MatrixDeterminant", [matrices()], op("MatrixDeterminant")));
    cases.push(GradientCase::new("LogMatrixDeterminant", [matrices()], |g, x| {
        Ok(vec![g.op("LogMatrixDeterminant").input(&x[0]).build()?.output(1)])
    }));
    cases
}

fn einsums() -> Vec<GradientCase> {
    let case = |equation: &'static str, shapes: &[&[usize]]| {
        let at: Vec<Tensor> = shapes.iter().map(|shape| spread(shape, -1.0, 1.0)).collect();
        GradientCase::new("Einsum", at, move |g, x| {
            Ok(vec![g.op("Einsum").inputs(x.to_vec()).attr("equation", equation).output()?])
        })
    };
    vec![
        case("ij,jk->ik", &[&[2, 3], &[3, 2]]),
        case("bij,bkj->bik", &[&[2, 2, 3], &[2, 4, 3]]),
        case("ij->ji", &[&[2, 3]]),
        case("ij->i", &[&[2, 3]]),
        case("ij->", &[&[2, 3]]),
        case("ii->", &[&[3, 3]]),
        case("ii->i", &[&[3, 3]]),
        case("iij,jk->ik", &[&[2, 2, 3], &[3, 2]]),
        case("ij,k->k", &[&[2, 3], &[4]]),
        case("i,j->ij", &[&[2], &[3]]),
        case("...ij,...jk->...ik", &[&[2, 1, 2, 2], &[3, 2, 2]]),
        case("i...j,j...->...i", &[&[2, 3, 2], &[2, 1]]),
        case("a...b->...a", &[&[2, 3, 2]]),
    ]
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
    for (adj_x, adj_y) in [(false, false), (false, true), (true, false), (true, true)] {
        let x: &[usize] = if adj_x { &[2, 3, 2] } else { &[2, 2, 3] };
        let y: &[usize] = if adj_y { &[4, 3] } else { &[3, 4] };
        let attrs = [("adj_x", Attr::Flag(adj_x)), ("adj_y", Attr::Flag(adj_y))];
        // The same batches; one matrix for all; and two axes that are both stretched.
        let same = [spread(x, -1.0, 1.0), spread(&[&[2], y].concat(), -1.0, 2.0)];
        cases.push(GradientCase::new("BatchMatMul", same, with("BatchMatMul", attrs)));
        let one = [spread(x, -1.0, 1.0), spread(y, -1.0, 2.0)];
        cases.push(GradientCase::new("BatchMatMulV2", one, with("BatchMatMulV2", attrs)));
        let both = [spread(x, -1.0, 1.0), spread(&[&[3, 1], y].concat(), -1.0, 2.0)];
        cases.push(GradientCase::new("BatchMatMulV2", both.clone(), with("BatchMatMulV2", attrs)));
        cases.push(GradientCase::new("BatchMatMulV2", both, move |g, x| {
            let unknown = g.op("PlaceholderWithDefault").input(&x[1]).attr("shape", PartialShape::unknown());
            with("BatchMatMulV2", attrs)(g, &[x[0].clone(), unknown.output()?])
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
        // The kernel takes labels for probabilities: what they sum to is not asked.
        GradientCase::new(dense, [logits(), spread(&[3, 4], 0.0, 1.0)], move |g, x| {
            let labels = g.op("Softmax").input(&x[1]).output()?;
            op(dense)(g, &[x[0].clone(), labels])
        }),
        GradientCase::new(dense, [logits()], move |g, x| {
            let labels = g.op("Softmax").input(spread(&[3, 4], 0.0, 1.0)).output()?;
            both(g, &[x[0].clone(), labels])
        }),
        GradientCase::new("SparseSoftmaxCrossEntropyWithLogits", [logits()], sparse),
        GradientCase::new("SparseSoftmaxCrossEntropyWithLogits", [logits()], only_loss),
    ]
}

/// One hidden layer, softmax, clipped cross entropy, batches of any size: TensorFlow 2.21 builds 33 nodes for the four
/// gradients that are fetched, TensorFlow 1.15 builds 47.
#[test]
fn the_gradients_of_a_classifier_take_no_more_nodes_than_tensorflows() {
    let g = Graph::new();
    let of = |dims: &[Option<usize>]| {
        let shape = PartialShape::new(dims.iter().copied());
        g.op("Placeholder").attr("dtype", DType::Float).attr("shape", shape).output().unwrap()
    };
    let two = |op: &str, x: &Output, y: &Output| g.op(op).input(x).input(y).output().unwrap();
    let one = |op: &str, x: &Output| g.op(op).input(x).output().unwrap();
    let (images, labels) = (of(&[None, Some(784)]), of(&[None, Some(10)]));
    let weights = [of(&[Some(784), Some(100)]), of(&[Some(100), Some(10)])];
    let biases = [of(&[Some(100)]), of(&[Some(10)])];
    let layer = |x: &Output, index: usize| two("BiasAdd", &two("MatMul", x, &weights[index]), &biases[index]);
    let probabilities = one("Softmax", &layer(&one("Relu", &layer(&images, 0)), 1));
    let clipped = two("Minimum", &probabilities, &g.constant(1.0f32));
    let clipped = two("Maximum", &clipped, &g.constant(1e-10f32));
    let terms = two("Mul", &labels, &one("Log", &clipped));
    let total = two("Sum", &terms, &g.constant(vec![0, 1]));
    let sources = [&weights[..], &biases[..]].concat();
    let gradients = g.gradients([one("Neg", &total)], sources).unwrap();

    let def = g.to_graph_def();
    let node = |name: &str| def.node.iter().find(|node| node.name == name).unwrap();
    let mut waiting: Vec<String> = gradients
        .iter()
        .map(|gradient| gradient.as_ref().unwrap().dense().unwrap().operation().name())
        .collect();
    let mut added: BTreeMap<String, String> = BTreeMap::new();
    while let Some(name) = waiting.pop() {
        let node = node(&name);
        if name.starts_with("gradients/") && added.insert(name, node.op.clone()).is_none() {
            let producer =
                |input: &String| input.split(':').next().unwrap().trim_start_matches('^').to_string();
            waiting.extend(node.input.iter().map(producer));
        }
    }
    let count = |op: &str| added.values().filter(|&other| other == op).count();
    assert!(added.len() <= 31, "{} nodes: {added:#?}", added.len());
    assert_eq!((count("MatMul"), count("BiasAddGrad"), count("ReluGrad")), (3, 2, 1));
    // Only the labels' and the logarithms' batches might differ.
    assert_eq!((count("BroadcastGradientArgs"), count("Reshape"), count("Transpose")), (1, 1, 0));
}
