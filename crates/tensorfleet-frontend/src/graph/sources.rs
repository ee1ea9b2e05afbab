//! Where values come from: constants, placeholders, fills and ranges.

use tensorfleet_core::{DType, Result, Shape, Status, Tensor};
use tensorfleet_kernel::builder::adapt_literal;

use super::graph::Graph;
use super::literal::{IntoTensor, ShapeLike};
use super::operand::Operand;
use super::output::Output;

/// Where TensorFlow, too, stops writing zeros and ones into the graph.
const MAX_CONSTANT: usize = 1000;

impl Graph {
    /// A constant: a scalar, an array or `Vec` nested to any depth, a string, or a [`Tensor`].
    ///
    /// ```
    /// # use tensorfleet::{DType, Graph};
    /// let g = Graph::new();
    /// assert_eq!(g.constant([[1i64, 2], [3, 4]]).shape()?.to_string(), "[2,2]");
    /// assert_eq!(g.constant("text").dtype()?, DType::String);
    /// assert!(g.constant(vec![vec![1], vec![2, 3]]).check().is_err());
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn constant(&self, value: impl IntoTensor) -> Output {
        self.constant_named("Const", value)
    }

    /// A constant with a name.
    pub fn constant_named(&self, name: &str, value: impl IntoTensor) -> Output {
        let (tensor, _) = value.into_tensor();
        let built = tensor.and_then(|tensor| {
            self.op("Const").attr("dtype", tensor.dtype()).attr("value", tensor).name(name).output()
        });
        Output::from_result(self, built)
    }

    /// A number as a constant of this dtype.
    pub(crate) fn literal(&self, name: &str, value: f64, dtype: DType) -> Result<Output> {
        let whole = (value.fract() == 0.0).then_some(value as i64);
        let value = adapt_literal(&Tensor::scalar(value), dtype)
            .or_else(|| adapt_literal(&Tensor::scalar(whole?), dtype))
            .ok_or_else(|| Status::invalid_argument(format!("{value} cannot be written as {dtype}")))?;
        self.constant_named(name, value).check()
    }

    /// A value to be fed. Its shape may be known in part: `[-1, 784]`, where -1 is any size, as `None` in Python; `()` is a scalar (Python's
    /// `[]`); [`PartialShape::unknown`](crate::PartialShape::unknown) is any shape.
    ///
    /// ```
    /// # use tensorfleet::{DType, Graph, Session};
    /// let g = Graph::new();
    /// let x = g.placeholder(DType::Float, [-1, 2]);
    /// let y = &x * 10;
    /// let fed = Session::new(&g).feed(&x, [[1.0, 2.0]]).run(&y)?;
    /// assert_eq!(fed.as_slice::<f32>()?, [10.0, 20.0]);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn placeholder(&self, dtype: DType, shape: impl ShapeLike) -> Output {
        self.placeholder_named("Placeholder", dtype, shape)
    }

    /// A placeholder with a name.
    pub fn placeholder_named(&self, name: &str, dtype: DType, shape: impl ShapeLike) -> Output {
        let built = shape.to_partial_shape().and_then(|shape| {
            self.op("Placeholder").attr("dtype", dtype).attr("shape", shape).name(name).output()
        });
        Output::from_result(self, built)
    }

    /// A tensor of zeros, `false` or empty strings.
    ///
    /// ```
    /// # use tensorfleet::{DType, Graph, Session};
    /// let g = Graph::new();
    /// let x = g.zeros(DType::Float, [2, 2])? + g.ones(DType::Float, [2, 2])?;
    /// assert_eq!(Session::new(&g).run(&x)?.as_slice::<f32>()?, [1.0; 4]);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn zeros(&self, dtype: DType, shape: impl ShapeLike) -> Result<Output> {
        let zero = Tensor::zeros(dtype, Shape::scalar())?;
        self.filled("zeros", full_shape(shape)?, zero, |shape| Tensor::zeros(dtype, shape))
    }

    /// A tensor of ones or `true`.
    pub fn ones(&self, dtype: DType, shape: impl ShapeLike) -> Result<Output> {
        let ones = |shape: Shape| {
            let count = shape.num_elements();
            let ones = match dtype {
                DType::Bool => Some(Tensor::from_slice(&vec![true; count], &shape)?),
                _ => adapt_literal(&Tensor::from_slice(&vec![1i32; count], &shape)?, dtype),
            };
            ones.ok_or_else(|| Status::invalid_argument(format!("there is no one of dtype {dtype}")))
        };
        self.filled("ones", full_shape(shape)?, ones(Shape::scalar())?, ones)
    }

    /// A constant if it is small, else a fill, so that the definition of the graph stays small.
    pub(crate) fn filled(
        &self,
        name: &str,
        shape: Shape,
        value: Tensor,
        constant: impl FnOnce(Shape) -> Result<Tensor>,
    ) -> Result<Output> {
        if shape.num_elements() < MAX_CONSTANT {
            return self.constant_named(name, constant(shape)?).check();
        }
        self.name_scope(name, || {
            let scope = self.build(|builder| builder.name_scope().to_string());
            let dims: Vec<i64> = shape.iter().map(|&dim| dim as i64).collect();
            let dims = self.constant_named("shape_as_tensor", dims);
            let value = self.constant_named("Const", value);
            self.op("Fill").input(dims).input(value).name(&format!("{scope}/")).output()
        })
    }

    /// A tensor of shape `dims` filled with `value`.
    pub fn fill(&self, dims: impl Operand, value: impl Operand) -> Result<Output> {
        self.op("Fill").input(dims).input(value).output()
    }

    /// The numbers from `start`, up to but without `limit`, in steps of `delta`.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session};
    /// let g = Graph::new();
    /// assert_eq!(Session::new(&g).run(g.range(1, 10, 3)?)?.as_slice::<i32>()?, [1, 4, 7]);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn range(&self, start: impl Operand, limit: impl Operand, delta: impl Operand) -> Result<Output> {
        self.op("Range").input(start).input(limit).input(delta).name("range").output()
    }
}

fn full_shape(shape: impl ShapeLike) -> Result<Shape> {
    let shape = shape.to_partial_shape()?;
    shape.to_shape().ok_or_else(|| Status::invalid_argument(format!("shape {shape} must be fully known")))
}
