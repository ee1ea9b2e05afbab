//! Cases of arithmetic, functions and reductions.

use tensorfleet::{DType, Graph, Output, PartialShape, Result, Tensor};
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

/// Where an operand is taken from.
type Interval = (f64, f64);

/// Ops that broadcast two operands, and where they are smooth.
const BINARY: &[(&str, Interval, Interval)] = &[
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
    ("Igamma", (0.5, 4.0), (0.4, 5.0)),
    ("Igammac", (0.5, 4.0), (0.4, 5.0)),
];

/// Functions that complex numbers have too.
const COMPLEX_UNARY: &[&str] = &[
    "Conj",
    "Neg",
    "Square",
    "Reciprocal",
    "Exp",
    "Expm1",
    "Log",
    "Log1p",
    "Sqrt",
    "Rsqrt",
    "Sigmoid",
    "Tanh",
    "Sin",
    "Cos",
    "Tan",
    "Asin",
    "Acos",
    "Atan",
    "Sinh",
    "Cosh",
    "Asinh",
    "Acosh",
    "Atanh",
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
    let anything = PartialShape::unknown();
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
    cases.extend(unknown_shapes());
    cases.extend(scans());
    cases.extend(segments());
    cases.extend(choices());
    cases.extend(complex());
    cases.extend(of_the_second_operand());
    cases
}

/// Broadcasting that only the step knows of.
fn unknown_shapes() -> Vec<GradientCase> {
    let mut cases = Vec::new();
    for &(x, y) in BROADCASTS {
        for (x_is_known, y_is_known) in [(true, false), (false, true), (false, false)] {
            let at = [spread(x, -2.0, 2.0), spread(y, -2.0, 2.0)];
            cases.push(GradientCase::new("Mul", at, move |g, x| {
                let known =
                    |x: &Output, is_known| if is_known { Ok(x.clone()) } else { of_unknown_shape(g, x) };
                Ok(vec![
                    g.op("Mul").input(known(&x[0], x_is_known)?).input(known(&x[1], y_is_known)?).output()?,
                ])
            }));
        }
    }
    cases
}

fn scans() -> Vec<GradientCase> {
    let mut cases = Vec::new();
    for name in ["Cumsum", "Cumprod"] {
        for (exclusive, reverse) in [(false, false), (false, true), (true, false), (true, true)] {
            for axis in [0, 1] {
                cases.push(GradientCase::new(name, [spread(&[3, 4], 0.4, 1.6)], move |g, x| {
                    let scan = g.op(name).input(&x[0]).input(axis);
                    Ok(vec![scan.attr("exclusive", exclusive).attr("reverse", reverse).output()?])
                }));
            }
        }
    }
    cases
}

fn segments() -> Vec<GradientCase> {
    let mut cases = Vec::new();
    for name in ["SegmentSum", "SegmentMean", "SegmentProd", "SegmentMax", "SegmentMin"] {
        cases.push(GradientCase::new(name, [spread(&[5, 2], 0.4, 1.6)], move |g, x| {
            let ids = Tensor::vector(&[0i32, 0, 2, 2, 2]).unwrap();
            Ok(vec![g.op(name).input(&x[0]).input(ids).output()?])
        }));
    }
    for name in ["UnsortedSegmentSum", "UnsortedSegmentProd", "UnsortedSegmentMax", "UnsortedSegmentMin"] {
        let ids = |g: &Graph| g.constant(Tensor::vector(&[1i32, 0, -1, 0, 1]).unwrap());
        cases.push(GradientCase::new(name, [spread(&[5, 2], 0.4, 1.6)], move |g, x| {
            Ok(vec![g.op(name).input(&x[0]).input(ids(g)).input(2).output()?])
        }));
        cases.push(GradientCase::new(name, [spread(&[5, 2], 0.4, 1.6)], move |g, x| {
            let (x, ids) = (of_unknown_shape(g, &x[0])?, of_unknown_shape(g, &ids(g))?);
            Ok(vec![g.op(name).input(x).input(ids).input(2).output()?])
        }));
        cases.push(GradientCase::new(name, [spread(&[2, 2], 0.4, 1.6)], move |g, x| {
            let ids = Tensor::from_slice(&[1i64, 0, -1, 1], &[2, 2]).unwrap();
            Ok(vec![g.op(name).input(&x[0]).input(ids).input(2).output()?])
        }));
    }
    cases
}

fn choices() -> Vec<GradientCase> {
    let two = |x: &[usize], y: &[usize]| [spread(x, -2.0, 2.0), spread(y, -1.0, 1.5)];
    let chosen = |name: &'static str, condition: Tensor| {
        move |g: &Graph, x: &[Output]| {
            Ok(vec![g.op(name).input(condition.clone()).input(&x[0]).input(&x[1]).output()?])
        }
    };
    let rows = || Tensor::vector(&[true, false]).unwrap();
    let elements = || Tensor::from_slice(&[true, false, false, true], &[2, 2]).unwrap();
    let three = |low: Tensor, high: Tensor| [spread(&[2, 3], -2.0, 2.0), low, high];
    vec![
        GradientCase::new("Select", two(&[2, 2], &[2, 2]), chosen("Select", rows())),
        GradientCase::new("Select", two(&[2, 2], &[2, 2]), chosen("Select", elements())),
        GradientCase::new("Select", two(&[2, 2], &[2, 2]), chosen("Select", Tensor::scalar(false))),
        GradientCase::new("SelectV2", two(&[2, 2], &[2, 2]), chosen("SelectV2", elements())),
        GradientCase::new("SelectV2", two(&[], &[2, 1]), chosen("SelectV2", elements())),
        GradientCase::new("SelectV2", two(&[3, 1, 2], &[2]), chosen("SelectV2", rows())),
        GradientCase::new(
            "ClipByValue",
            three(doubles(&[], &[-0.8]), doubles(&[], &[0.9])),
            op("ClipByValue"),
        ),
        GradientCase::new(
            "ClipByValue",
            three(spread(&[2, 3], -1.5, -0.5), spread(&[2, 3], 0.5, 1.5)),
            op("ClipByValue"),
        ),
        GradientCase::new("BroadcastTo", [spread(&[2, 1], -1.0, 1.0)], |g, x| {
            Ok(vec![g.op("BroadcastTo").input(&x[0]).input(vec![3, 2, 2]).output()?])
        }),
    ]
}

/// Complex numbers between real ones: their gradients have the right conjugates, or the real ones are wrong.
fn complex() -> Vec<GradientCase> {
    let complex = |g: &Graph, re: &Output, im: &Output| {
        g.op("Complex").input(re).input(im).attr("Tout", DType::Complex128).output()
    };
    let real = |g: &Graph, name: &str, z: &Output| g.op(name).input(z).attr("Tout", DType::Double).output();
    let parts = move |g: &Graph, z: Output| Ok(vec![real(g, "Real", &z)?, real(g, "Imag", &z)?]);
    let at = || [spread(&[2, 2], 0.4, 1.4), spread(&[2, 2], 0.3, 1.0)];
    let mut cases = Vec::new();
    for name in ["Real", "Imag", "ComplexAbs", "Angle"] {
        cases.push(GradientCase::new(name, at(), move |g, x| {
            Ok(vec![real(g, name, &complex(g, &x[0], &x[1])?)?])
        }));
    }
    cases.push(GradientCase::new(
        "Complex",
        [spread(&[2, 1], 0.4, 1.4), spread(&[3], 0.3, 1.0)],
        move |g, x| parts(g, complex(g, &x[0], &x[1])?),
    ));
    for name in COMPLEX_UNARY.iter().copied() {
        cases.push(GradientCase::new(name, at(), move |g, x| {
            parts(g, g.op(name).input(complex(g, &x[0], &x[1])?).output()?)
        }));
    }
    for name in ["AddV2", "Sub", "Mul", "RealDiv", "Pow", "MatMul"] {
        let four = [&at()[..], &[spread(&[2, 2], 0.6, 1.6), spread(&[2, 2], 0.2, 0.9)]].concat();
        cases.push(GradientCase::new(name, four, move |g, x| {
            let (a, b) = (complex(g, &x[0], &x[1])?, complex(g, &x[2], &x[3])?);
            parts(g, g.op(name).input(a).input(b).output()?)
        }));
    }
    cases
}

/// Ops with a gradient with respect to their second operand only.
fn of_the_second_operand() -> Vec<GradientCase> {
    let of = |name: &'static str, first: Tensor| {
        move |g: &Graph, x: &[Output]| Ok(vec![g.op(name).input(first.clone()).input(&x[0]).output()?])
    };
    let orders = || doubles(&[2, 1], &[1.0, 2.0]);
    let at = || [spread(&[3], 0.8, 3.0)];
    vec![
        GradientCase::new("Polygamma", at(), of("Polygamma", orders())),
        GradientCase::new("Zeta", at(), of("Zeta", doubles(&[2, 1], &[1.5, 3.0]))),
    ]
}

fn sums() -> Vec<GradientCase> {
    let add_n = |g: &Graph, x: &[Output]| {
        let terms = vec![x[0].clone(), x[1].clone(), x[0].clone()];
        Ok(vec![g.op("AddN").inputs(terms).output()?])
    };
    let accumulate = |g: &Graph, x: &[Output]| {
        let terms = vec![x[0].clone(), x[1].clone()];
        let shape = PartialShape::new([Some(2), Some(2)]);
        Ok(vec![g.op("AccumulateNV2").inputs(terms).attr("shape", shape).output()?])
    };
    let cast = |g: &Graph, x: &[Output]| {
        let single = g.op("Cast").input(&x[0]).attr("DstT", DType::Float).output()?;
        let back = g.op("Cast").input(single).attr("DstT", DType::Double).output()?;
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
