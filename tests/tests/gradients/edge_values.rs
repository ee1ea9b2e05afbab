//! Gradients where functions have none, or several: at ties, kinks, poles, and zeros of products.
//!
//! What is right there is a matter of convention; the numbers are those of TensorFlow 2.21 (`tf.gradients` of the raw op,
//! with 1, 2, 3 … arriving at the elements of the output).

use tensorfleet::{Graph, Session, Tensor};

const NAN: f64 = f64::NAN;
const INF: f64 = f64::INFINITY;

/// An op at points of interest.
struct Edge {
    op: &'static str,
    /// The shape of the inputs that are differentiated.
    dims: &'static [usize],
    /// Their values.
    at: &'static [&'static [f64]],
    /// Inputs after these: axes, segment ids, the number of segments (a scalar where it is one number).
    then: &'static [&'static [i32]],
    /// TensorFlow's gradients; empty where there is none.
    gradients: &'static [&'static [f64]],
}

#[rustfmt::skip]
const EDGES: &[Edge] = &[
    Edge { op: "Maximum", dims: &[4], at: &[&[1.0, 2.0, 3.0, NAN], &[2.0, 2.0, 2.0, 2.0]], then: &[], gradients: &[&[0.0, 2.0, 3.0, 0.0], &[1.0, 0.0, 0.0, 4.0]] },
    Edge { op: "Minimum", dims: &[4], at: &[&[1.0, 2.0, 3.0, NAN], &[2.0, 2.0, 2.0, 2.0]], then: &[], gradients: &[&[1.0, 2.0, 0.0, 0.0], &[0.0, 0.0, 3.0, 4.0]] },
    Edge { op: "Pow", dims: &[6], at: &[&[0.0, 0.0, 0.0, -2.0, -2.0, 0.0], &[2.0, 0.0, -1.0, 2.0, 3.0, 1.0]], then: &[], gradients: &[&[0.0, NAN, -INF, -16.0, 60.0, 6.0], &[0.0, 0.0, NAN, 0.0, -0.0, 0.0]] },
    Edge { op: "DivNoNan", dims: &[3], at: &[&[1.0, 0.0, 2.0], &[0.0, 0.0, 4.0]], then: &[], gradients: &[&[0.0, 0.0, 0.75], &[0.0, 0.0, -0.375]] },
    Edge { op: "MulNoNan", dims: &[3], at: &[&[1.0, INF, NAN], &[0.0, 0.0, 0.0]], then: &[], gradients: &[&[0.0, 0.0, 0.0], &[1.0, INF, NAN]] },
    Edge { op: "Xlogy", dims: &[3], at: &[&[0.0, 0.0, 2.0], &[0.0, 2.0, 2.0]], then: &[], gradients: &[&[0.0, 0.0, 2.0794415416798357], &[0.0, 0.0, 3.0]] },
    Edge { op: "Xdivy", dims: &[3], at: &[&[0.0, 0.0, 2.0], &[0.0, 2.0, 2.0]], then: &[], gradients: &[&[0.0, 0.0, 1.5], &[0.0, 0.0, -1.5]] },
    Edge { op: "Xlog1py", dims: &[3], at: &[&[0.0, 0.0, 2.0], &[-1.0, 2.0, 2.0]], then: &[], gradients: &[&[0.0, 0.0, 3.2958368660043287], &[0.0, 0.0, 2.0]] },
    Edge { op: "Atan2", dims: &[3], at: &[&[0.0, 0.0, 1.0], &[0.0, 1.0, 0.0]], then: &[], gradients: &[&[NAN, 2.0, 0.0], &[NAN, -0.0, -3.0]] },
    Edge { op: "SquaredDifference", dims: &[2], at: &[&[1.0, 2.0], &[1.0, 3.0]], then: &[], gradients: &[&[0.0, -4.0], &[-0.0, 4.0]] },
    Edge { op: "RealDiv", dims: &[2], at: &[&[1.0, 0.0], &[0.0, 0.0]], then: &[], gradients: &[&[INF, INF], &[-INF, NAN]] },
    Edge { op: "Div", dims: &[2], at: &[&[1.0, 0.0], &[0.0, 2.0]], then: &[], gradients: &[&[INF, 1.0], &[-INF, -0.0]] },
    Edge { op: "FloorMod", dims: &[2], at: &[&[7.0, -7.0], &[3.0, 3.0]], then: &[], gradients: &[&[1.0, 2.0], &[-2.0, 6.0]] },
    Edge { op: "Abs", dims: &[3], at: &[&[-1.0, 0.0, 1.0]], then: &[], gradients: &[&[-1.0, 0.0, 3.0]] },
    Edge { op: "Sign", dims: &[3], at: &[&[-1.0, 0.0, 1.0]], then: &[], gradients: &[&[0.0, 0.0, 0.0]] },
    Edge { op: "Sqrt", dims: &[3], at: &[&[-1.0, 0.0, 1.0]], then: &[], gradients: &[&[NAN, INF, 1.5]] },
    Edge { op: "Rsqrt", dims: &[3], at: &[&[-1.0, 0.0, 1.0]], then: &[], gradients: &[&[NAN, -INF, -1.5]] },
    Edge { op: "Reciprocal", dims: &[3], at: &[&[-1.0, 0.0, 1.0]], then: &[], gradients: &[&[-1.0, -INF, -3.0]] },
    Edge { op: "Log", dims: &[3], at: &[&[-1.0, 0.0, 1.0]], then: &[], gradients: &[&[-1.0, INF, 3.0]] },
    Edge { op: "Log1p", dims: &[3], at: &[&[-1.0, 0.0, 1.0]], then: &[], gradients: &[&[INF, 2.0, 1.5]] },
    Edge { op: "Square", dims: &[3], at: &[&[-1.0, 0.0, 1.0]], then: &[], gradients: &[&[-2.0, 0.0, 6.0]] },
    Edge { op: "Asin", dims: &[3], at: &[&[-1.0, 0.0, 1.0]], then: &[], gradients: &[&[INF, 2.0, INF]] },
    Edge { op: "Acosh", dims: &[3], at: &[&[-1.0, 0.0, 1.0]], then: &[], gradients: &[&[NAN, NAN, INF]] },
    Edge { op: "Exp", dims: &[3], at: &[&[-1.0, 0.0, 1.0]], then: &[], gradients: &[&[0.36787944117144233, 2.0, 8.154845485377136]] },
    Edge { op: "Floor", dims: &[3], at: &[&[-1.0, 0.0, 1.0]], then: &[], gradients: &[&[]] },
    Edge { op: "Relu", dims: &[5], at: &[&[-1.0, 0.0, 6.0, 1000.0, -1000.0]], then: &[], gradients: &[&[0.0, 0.0, 3.0, 4.0, 0.0]] },
    Edge { op: "Relu6", dims: &[5], at: &[&[-1.0, 0.0, 6.0, 1000.0, -1000.0]], then: &[], gradients: &[&[0.0, 0.0, 0.0, 0.0, 0.0]] },
    Edge { op: "LeakyRelu", dims: &[5], at: &[&[-1.0, 0.0, 6.0, 1000.0, -1000.0]], then: &[], gradients: &[&[0.20000000298023224, 0.4000000059604645, 3.0, 4.0, 1.0000000149011612]] },
    Edge { op: "Elu", dims: &[5], at: &[&[-1.0, 0.0, 6.0, 1000.0, -1000.0]], then: &[], gradients: &[&[0.36787944117144233, 2.0, 3.0, 4.0, 0.0]] },
    Edge { op: "Selu", dims: &[5], at: &[&[-1.0, 0.0, 6.0, 1000.0, -1000.0]], then: &[], gradients: &[&[0.6467686030348141, 2.101401974710961, 3.1521029620664414, 4.202803949421922, 0.0]] },
    Edge { op: "Softplus", dims: &[5], at: &[&[-1.0, 0.0, 6.0, 1000.0, -1000.0]], then: &[], gradients: &[&[0.2689414213699951, 1.0, 2.9925821305300957, 4.0, 0.0]] },
    Edge { op: "Softsign", dims: &[5], at: &[&[-1.0, 0.0, 6.0, 1000.0, -1000.0]], then: &[], gradients: &[&[0.25, 2.0, 0.061224489795918366, 3.992011984019976e-06, 4.99001498002497e-06]] },
    Edge { op: "SqrtGrad", dims: &[2], at: &[&[0.0, 2.0], &[0.0, 1.0]], then: &[], gradients: &[&[NAN, -0.25], &[INF, 0.5]] },
    Edge { op: "SigmoidGrad", dims: &[2], at: &[&[0.0, 1.0], &[1.0, 1.0]], then: &[], gradients: &[&[1.0, -2.0], &[0.0, 0.0]] },
    Edge { op: "Max", dims: &[3, 3], at: &[&[1.0, 3.0, 3.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0]], then: &[&[1]], gradients: &[&[0.0, 0.5, 0.5, 0.0, 0.0, 2.0, 1.0, 1.0, 1.0]] },
    Edge { op: "Min", dims: &[3, 3], at: &[&[1.0, 3.0, 3.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0]], then: &[&[1]], gradients: &[&[1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0]] },
    Edge { op: "Prod", dims: &[3, 3], at: &[&[1.0, 3.0, 3.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0]], then: &[&[1]], gradients: &[&[9.0, 3.0, 3.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]] },
    Edge { op: "EuclideanNorm", dims: &[3, 3], at: &[&[1.0, 3.0, 3.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0]], then: &[&[1]], gradients: &[&[0.22941573387056174, 0.6882472016116852, 0.6882472016116852, 0.0, 0.0, 2.0, NAN, NAN, NAN]] },
    Edge { op: "Mean", dims: &[3, 3], at: &[&[1.0, 3.0, 3.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0]], then: &[&[1]], gradients: &[&[0.3333333333333333, 0.3333333333333333, 0.3333333333333333, 0.6666666666666666, 0.6666666666666666, 0.6666666666666666, 1.0, 1.0, 1.0]] },
    Edge { op: "Sum", dims: &[3, 3], at: &[&[1.0, 3.0, 3.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0]], then: &[&[1]], gradients: &[&[1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 3.0, 3.0, 3.0]] },
    Edge { op: "Cumprod", dims: &[4], at: &[&[2.0, 0.0, 3.0, 4.0]], then: &[&[0]], gradients: &[&[1.0, 0.0, 0.0, 0.0]] },
    Edge { op: "SegmentMax", dims: &[6], at: &[&[0.0, 2.0, 2.0, 0.0, 0.0, 3.0]], then: &[&[0, 0, 0, 1, 1, 1]], gradients: &[&[0.0, 0.5, 0.5, 0.0, 0.0, 2.0]] },
    Edge { op: "SegmentMin", dims: &[6], at: &[&[0.0, 2.0, 2.0, 0.0, 0.0, 3.0]], then: &[&[0, 0, 0, 1, 1, 1]], gradients: &[&[1.0, 0.0, 0.0, 1.0, 1.0, 0.0]] },
    Edge { op: "SegmentMean", dims: &[6], at: &[&[0.0, 2.0, 2.0, 0.0, 0.0, 3.0]], then: &[&[0, 0, 0, 1, 1, 1]], gradients: &[&[0.3333333333333333, 0.3333333333333333, 0.3333333333333333, 0.6666666666666666, 0.6666666666666666, 0.6666666666666666]] },
    Edge { op: "SegmentProd", dims: &[6], at: &[&[0.0, 2.0, 2.0, 0.0, 0.0, 3.0]], then: &[&[0, 0, 0, 1, 1, 1]], gradients: &[&[4.0, 0.0, 0.0, 0.0, 0.0, 0.0]] },
    Edge { op: "UnsortedSegmentMax", dims: &[6], at: &[&[0.0, 2.0, 2.0, 0.0, 0.0, 3.0]], then: &[&[0, -1, 0, 1, 1, 1], &[3]], gradients: &[&[0.0, 0.0, 1.0, 0.0, 0.0, 2.0]] },
    Edge { op: "UnsortedSegmentMin", dims: &[6], at: &[&[0.0, 2.0, 2.0, 0.0, 0.0, 3.0]], then: &[&[0, -1, 0, 1, 1, 1], &[3]], gradients: &[&[1.0, 0.0, 0.0, 1.0, 1.0, 0.0]] },
    Edge { op: "UnsortedSegmentProd", dims: &[6], at: &[&[0.0, 2.0, 2.0, 0.0, 0.0, 3.0]], then: &[&[0, -1, 0, 1, 1, 1], &[3]], gradients: &[&[2.0, 0.0, 0.0, 0.0, 0.0, 0.0]] },
    Edge { op: "UnsortedSegmentSum", dims: &[6], at: &[&[0.0, 2.0, 2.0, 0.0, 0.0, 3.0]], then: &[&[0, -1, 0, 1, 1, 1], &[3]], gradients: &[&[1.0, 0.0, 1.0, 2.0, 2.0, 2.0]] },
    Edge { op: "ClipByValue", dims: &[5], at: &[&[1.0, 2.0, 3.0, 0.0, 4.0], &[1.0, 1.0, 1.0, 1.0, 1.0], &[3.0, 3.0, 3.0, 3.0, 3.0]], then: &[], gradients: &[&[1.0, 2.0, 3.0, 0.0, 0.0], &[0.0, 0.0, 0.0, 4.0, 0.0], &[0.0, 0.0, 0.0, 0.0, 5.0]] },
    Edge { op: "Softmax", dims: &[2, 2], at: &[&[0.0, 0.0, 1000.0, 0.0]], then: &[], gradients: &[&[-0.25, 0.25, 0.0, 0.0]] },
    Edge { op: "LogSoftmax", dims: &[2, 2], at: &[&[0.0, 0.0, 1000.0, 0.0]], then: &[], gradients: &[&[-0.5, 0.5, -4.0, 4.0]] },
];

#[test]
fn gradients_at_edges_are_tensorflows() {
    for edge in EDGES {
        let g = Graph::new();
        let xs: Vec<_> =
            edge.at.iter().map(|values| g.constant(Tensor::from_slice(values, edge.dims).unwrap())).collect();
        let op = xs.iter().fold(g.op(edge.op), |op, x| op.input(x));
        let op = edge.then.iter().fold(op, |op, then| match then {
            [number] => op.input(Tensor::scalar(*number)),
            numbers => op.input(Tensor::vector(numbers).unwrap()),
        });
        let y = op.output().unwrap();
        let session = Session::new(&g);
        let value = session.run(&y).unwrap();
        let counting: Vec<f64> = (1..=value.num_elements()).map(|i| i as f64).collect();
        let arriving = Tensor::from_slice(&counting, value.shape().dims()).unwrap();
        let gradients = g.new_gradients().grad_ys([g.constant(arriving)]).build([&y], xs).unwrap();
        for (which, (gradient, want)) in gradients.iter().zip(edge.gradients).enumerate() {
            let got = match gradient {
                Some(gradient) => session.run(gradient.dense().unwrap()).unwrap(),
                None => Tensor::vector::<f64>(&[]).unwrap(),
            };
            let got = got.as_slice::<f64>().unwrap();
            assert_eq!(got.len(), want.len(), "{}: gradient {which}", edge.op);
            let same = |(&got, &want): (&f64, &f64)| {
                got == want || got.is_nan() && want.is_nan() || (got - want).abs() <= 1e-9 * want.abs()
            };
            assert!(
                got.iter().zip(want.iter()).all(same),
                "{}: gradient {which} is {got:?}, TensorFlow's {want:?}",
                edge.op
            );
        }
    }
}
