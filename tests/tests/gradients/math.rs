//! Cases of arithmetic, functions and reductions.

use tensorfleet::{Graph, Output, Result, Tensor};
use tensorfleet_tests::gradient_check::{GradientCase, doubles, spread};

/// Functions of one operand, and where they are smooth.
const UNARY: &[(&str, f64, f64)] = &[
    ("Neg", -2.0, 2.0),
    ("Square", -2.0, 2.0),
    ("Abs", 0.3, 2.0),
    ("Abs", -2.0, -0.3),
    ("Sign", 0.3, 2.0),
    ("Reciprocal", 0.5, 2.0),
    ("Inv", -2.0, -0.5),
    ("Exp", -2.0, 2.0),
    ("Expm1", -2.0, 2.0),
    ("Log", 0.3, 3.0),
    ("Log1p", -0.5, 2.0),
    ("Sqrt", 0.5, 4.0),
    ("Rsqrt", 0.5, 4.0),
    ("Sigmoid", -3.0, 3.0),
    ("Tanh", -2.0, 2.0),
    ("Sin", -3.0, 3.0),
    ("Cos", -3.0, 3.0),
    ("Tan", -1.0, 1.0),
    ("Asin", -0.8, 0.8),
    ("Acos", -0.8, 0.8),
    ("Atan", -3.0, 3.0),
    ("Sinh", -2.0, 2.0),
    ("Cosh", -2.0, 2.0),
    ("Asinh", -2.0, 2.0),
    ("Acosh", 1.3, 3.0),
    ("Atanh", -0.8, 0.8),
    ("Erf", -2.0, 2.0),
    ("Erfc", -2.0, 2.0),
    ("Lgamma", 0.5, 4.0),
    ("Digamma", 0.7, 4.0),
];

/// Gradients that are ops themselves, so that they have gradients again: of `y` and `dy`.
const UNARY_GRADIENTS: &[&str] =
    &["SqrtGrad", "RsqrtGrad", "ReciprocalGrad", "InvGrad", "SigmoidGrad", "TanhGrad"];

/// Ops that broadcast two operands, and where they are smooth.
const BINARY: &[(&str, (f64, f64), (f64, f64))] = &[
    ("Add", (-2.0, 2.0), (-2.0, 2.0)),
    ("AddV2", (-2.0, 2.0), (-2.0, 2.0)),
    ("Sub", (-2.0, 2.0), (-2.0, 2.0)),
    ("Mul", (-2.0, 2.0), (-2.0, 2.0)),
    ("Div", (-2.0, 2.0), (0.5, 2.0)),
    ("RealDiv", (-2.0, 2.0), (0.5, 2.0)),
    ("Pow", (0.5, 2.0), (-2.0, 2.0)),
    ("Maximum", (-2.0, 2.0), (-2.1, 1.9)),
    ("Minimum", (-2.0, 2.0), (-2.1, 1.9)),
    ("SquaredDifference", (-2.0, 2.0), (-1.0, 3.0)),
    ("DivNoNan", (-2.0, 2.0), (0.5, 2.0)),
    ("MulNoNan", (-2.0, 2.0), (0.5, 2.0)),
    ("Xdivy", (0.5, 2.0), (0.5, 2.0)),
    ("Xlogy", (0.5, 2.0), (0.5, 2.0)),
    ("Xlog1py", (0.5, 2.0), (0.5, 2.0)),
    ("Atan2", (0.5, 2.0), (-2.0, -0.5)),
    ("FloorMod", (5.1, 5.9), (2.1, 2.4)),
];

/// Shapes of two operands: equal, stretched along axes, of other ranks, scalars.
const BROADCASTS: &[(&[usize], &[usize])] = &[
    (&[2, 3], &[2, 3]),
    (&[2, 3], &[3]),
    (&[2, 1], &[1, 3]),
    (&[], &[4]),
    (&[3], &[2, 1, 3]),
    (&[1, 2], &[2, 2, 1]),
];

fn op(op: &'static str) -> impl Fn(&Graph, &[Output]) -> Result<Vec<Output>> + Clone + 'static {
    move |g, x| Ok(vec![x.iter().fold(g.op(op), |op, x| op.input(x)).output()?])
}

/// The op with constant inputs after those that are differentiated, and attributes.
fn reduction(
    name: &'static str,
    axes: Tensor,
    keep_dims: bool,
) -> impl Fn(&Graph, &[Output]) -> Result<Vec<Output>> + 'static {
    move |g, x| Ok(vec![g.op(name).input(&x[0]).input(axes.clone()).attr("keep_dims", keep_dims).output()?])
}

/// Makes the shape of a value unknown to the graph, so that gradients have to find out in the step.
fn of_unknown_shape(g: &Graph, x: &Output) -> Result<Output> {
    let anything = tensorfleet::PartialShape::unknown();
    g.op("PlaceholderWithDefault").input(x).attr("shape", anything).output()
}

pub(crate) fn cases() -> Vec<GradientCase> {
    let mut cases = Vec::new();
    for &(name, low, high) in UNARY {
        cases.push(GradientCase::new(name, [spread(&[2, 3], low, high)], op(name)));
    }
    for &name in UNARY_GRADIENTS {
        cases.push(GradientCase::new(name, [spread(&[4], 0.3, 0.8), spread(&[4], -1.0, 1.0)], op(name)));
    }
    for &(name, (low_x, high_x), (low_y, high_y)) in BINARY {
        for &(x, y) in BROADCASTS {
            let at = [spread(x, low_x, high_x), spread(y, low_y, high_y)];
            cases.push(GradientCase::new(name, at, op(name)));
        }
    }
    cases.extend(reductions());
    cases.extend(sums());
    cases
}

fn sums() -> Vec<GradientCase> {
    let add_n = |g: &Graph, x: &[Output]| {
        let terms = vec![x[0].clone(), x[1].clone(), x[0].clone()];
        Ok(vec![g.op("AddN").inputs(terms).output()?])
    };
    let accumulate = |g: &Graph, x: &[Output]| {
        let terms = vec![x[0].clone(), x[1].clone()];
        let shape = tensorfleet::PartialShape::new([Some(2), Some(2)]);
        Ok(vec![g.op("AccumulateNV2").inputs(terms).attr("shape", shape).output()?])
    };
    let cast = |g: &Graph, x: &[Output]| {
        let single = g.op("Cast").input(&x[0]).attr("DstT", tensorfleet::DType::Float).output()?;
        let back = g.op("Cast").input(single).attr("DstT", tensorfleet::DType::Double).output()?;
        Ok(vec![back])
    };
    let two = || [spread(&[2, 2], -1.0, 1.0), spread(&[2, 2], 0.0, 2.0)];
    let mut cast = GradientCase::new("Cast", [spread(&[2, 2], -1.0, 1.0)], cast);
    (cast.step, cast.tolerance) = (1e-2, 1e-3);
    vec![GradientCase::new("AddN", two(), add_n), GradientCase::new("AccumulateNV2", two(), accumulate), cast]
}

fn reductions() -> Vec<GradientCase> {
    let mut cases = Vec::new();
    let axes: &[&[i32]] = &[&[0], &[1], &[-1], &[0, 1], &[0, 2], &[0, 1, 2], &[], &[1, 2]];
    for name in ["Sum", "Mean", "Prod", "Max", "Min", "EuclideanNorm"] {
        for axes in axes {
            for keep_dims in [false, true] {
                let x = || [spread(&[2, 3, 2], 0.4, 1.6)];
                let axes = Tensor::vector(axes).unwrap();
                cases.push(GradientCase::new(name, x(), reduction(name, axes.clone(), keep_dims)));
                let (of_unknown_axes, of_known_axes) = (axes.clone(), axes);
                // The shape is unknown, and with it the axes or their place.
                cases.push(GradientCase::new(name, x(), move |g, x| {
                    let axes = of_known_axes.clone();
                    reduction(name, axes, keep_dims)(g, &[of_unknown_shape(g, &x[0])?])
                }));
                cases.push(GradientCase::new(name, x(), move |g, x| {
                    let axes = of_unknown_shape(g, &g.constant(of_unknown_axes.clone()))?;
                    let reduced = g.op(name).input(&x[0]).input(axes).attr("keep_dims", keep_dims);
                    Ok(vec![reduced.output()?])
                }));
            }
        }
    }
    let scalar_axis = reduction("Sum", Tensor::scalar(1i64), false);
    cases.push(GradientCase::new("Sum", [doubles(&[1, 2], &[1.0, 2.0])], scalar_axis));
    cases
}
