//! Numeric differentiation: the measure of every gradient.
//!
//! A case is a function of some tensors. Its gradients are compared with central differences of the same graph, in double
//! precision where the op has it, along every element of every input that is differentiated.

use tensorfleet::{DType, Gradient, Graph, Output, Result, Session, Tensor};

/// Builds a function of some values of a graph.
pub type BuildFn = Box<dyn Fn(&Graph, &[Output]) -> Result<Vec<Output>>>;

/// A function to differentiate.
pub struct GradientCase {
    /// The op under test.
    pub op: &'static str,
    /// Where to differentiate: values of the inputs, all of one floating dtype.
    pub at: Vec<Tensor>,
    /// The step of the differences.
    pub step: f64,
    /// How far gradient and difference may be apart, relative to the larger of 1 and the value.
    pub tolerance: f64,
    /// Builds the function.
    pub build: BuildFn,
}

impl GradientCase {
    /// A case in double precision.
    pub fn new(
        op: &'static str,
        at: impl IntoIterator<Item = Tensor>,
        build: impl Fn(&Graph, &[Output]) -> Result<Vec<Output>> + 'static,
    ) -> GradientCase {
        let at = at.into_iter().collect();
        GradientCase { op, at, step: 1e-6, tolerance: 1e-6, build: Box::new(build) }
    }

    /// The same in single precision, for ops that have no other; the inputs are converted.
    pub fn single_precision(mut self) -> GradientCase {
        self.at =
            self.at.iter().map(|tensor| of(DType::Float, tensor.shape().dims(), &numbers(tensor))).collect();
        self.step = 1e-2;
        self.tolerance = 2e-2;
        self
    }

    /// Compares; panics with the first element that differs.
    pub fn check(&self) {
        if let Err(status) = self.compare() {
            panic!("{}: {status}", self.op);
        }
    }

    fn compare(&self) -> Result<()> {
        let g = Graph::new();
        let inputs: Vec<Output> = self
            .at
            .iter()
            .map(|value| {
                g.placeholder(
                    value.dtype(),
                    value.shape().dims().iter().map(|&d| d as i64).collect::<Vec<_>>(),
                )
            })
            .collect();
        let outputs = (self.build)(&g, &inputs)?;
        let session = Session::new(&g);
        let feed = |values: &[Tensor]| {
            let mut step = session.step();
            for (input, value) in inputs.iter().zip(values) {
                step = step.feed(input, value.clone());
            }
            step
        };
        // Different weights for each element of the outputs, so that no two errors cancel.
        let shapes = feed(&self.at).run(outputs.clone())?;
        let weights: Vec<Tensor> = shapes
            .iter()
            .map(|value| {
                let count = value.num_elements();
                let weights: Vec<f64> = (0..count).map(|i| 0.5 + ((i * 7 + 3) % 11) as f64 / 7.0).collect();
                of(value.dtype(), value.shape().dims(), &weights)
            })
            .collect();
        let gradients = g.new_gradients().grad_ys(weights.clone()).build(outputs.clone(), inputs.clone())?;
        let total = |values: &[Tensor]| -> Result<f64> {
            let outputs = feed(values).run(outputs.clone())?;
            let terms = outputs.iter().zip(&weights).flat_map(|(value, weight)| {
                numbers(value).into_iter().zip(numbers(weight)).map(|(value, weight)| value * weight)
            });
            Ok(terms.sum())
        };
        let mut differentiated = 0;
        for (which, gradient) in gradients.iter().enumerate() {
            let size = self.at[which].num_elements();
            let got = match gradient {
                Some(gradient) => {
                    let value = feed(&self.at).run(gradient.dense()?)?;
                    assert_eq!(value.shape(), self.at[which].shape(), "{}: gradient {which}", self.op);
                    differentiated += 1;
                    numbers(&value)
                }
                None => vec![0.0; size],
            };
            for element in 0..size {
                let moved = |by: f64| {
                    let mut values = self.at.clone();
                    let mut elements = numbers(&values[which]);
                    elements[element] += by;
                    values[which] = of(values[which].dtype(), values[which].shape().dims(), &elements);
                    total(&values)
                };
                let want = (moved(self.step)? - moved(-self.step)?) / (2.0 * self.step);
                let error = (got[element] - want).abs() / want.abs().max(1.0);
                assert!(
                    error <= self.tolerance,
                    "{}: gradient {which} at element {element} is {}, differences give {want}",
                    self.op,
                    got[element]
                );
            }
        }
        assert!(differentiated > 0, "{}: no input has a gradient", self.op);
        Ok(())
    }
}

/// A tensor of doubles.
pub fn doubles(dims: &[usize], values: &[f64]) -> Tensor {
    of(DType::Double, dims, values)
}

/// Numbers that are irregular, distinct, and between `low` and `high`; the same in every run.
pub fn spread(dims: &[usize], low: f64, high: f64) -> Tensor {
    let count: usize = dims.iter().product();
    let golden = 0.618_033_988_749_895;
    let values: Vec<f64> =
        (0..count).map(|i| low + (high - low) * ((0.37 + i as f64 * golden) % 1.0)).collect();
    doubles(dims, &values)
}

/// Whether a gradient is made of rows.
pub fn is_sparse(gradient: &Option<Gradient>) -> bool {
    matches!(gradient, Some(Gradient::Slices(_)))
}

fn of(dtype: DType, dims: &[usize], values: &[f64]) -> Tensor {
    let tensor = match dtype {
        DType::Double => Tensor::from_slice(values, dims),
        DType::Float => Tensor::from_slice(&values.iter().map(|&v| v as f32).collect::<Vec<f32>>(), dims),
        other => panic!("gradients of {other} are not checked"),
    };
    tensor.expect("as many elements as the shape has")
}

fn numbers(tensor: &Tensor) -> Vec<f64> {
    match tensor.dtype() {
        DType::Double => tensor.as_slice::<f64>().expect("doubles").to_vec(),
        DType::Float => tensor.as_slice::<f32>().expect("floats").iter().map(|&v| f64::from(v)).collect(),
        other => panic!("{other} is not differentiated"),
    }
}
