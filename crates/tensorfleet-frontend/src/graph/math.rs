//! Arithmetic, comparisons and reductions.

use tensorfleet_core::{DType, Result};

use super::operand::{Arg, Operand};
use super::operators::divide;
use super::output::Output;

macro_rules! unary_methods {
    ($($(#[$doc:meta])* $method:ident => $op:literal;)*) => {
        impl Output {
            $($(#[$doc])* pub fn $method(&self) -> Result<Output> {
                self.unary($op)
            })*
        }
    };
}

unary_methods! {
    /// `-x`.
    neg => "Neg";
    /// The absolute value.
    abs => "Abs";
    /// -1, 0 or 1.
    sign => "Sign";
    /// `x²`.
    square => "Square";
    /// The square root.
    sqrt => "Sqrt";
    /// `1 / √x`.
    rsqrt => "Rsqrt";
    /// `1 / x`.
    reciprocal => "Reciprocal";
    /// `eˣ`.
    exp => "Exp";
    /// The natural logarithm.
    log => "Log";
    /// `ln(1 + x)`, exact near zero.
    log1p => "Log1p";
    /// `eˣ - 1`, exact near zero.
    expm1 => "Expm1";
    /// The sine.
    sin => "Sin";
    /// The cosine.
    cos => "Cos";
    /// The tangent.
    tan => "Tan";
    /// The inverse sine.
    asin => "Asin";
    /// The inverse cosine.
    acos => "Acos";
    /// The inverse tangent.
    atan => "Atan";
    /// The hyperbolic sine.
    sinh => "Sinh";
    /// The hyperbolic cosine.
    cosh => "Cosh";
    /// The inverse hyperbolic sine.
    asinh => "Asinh";
    /// The inverse hyperbolic cosine.
    acosh => "Acosh";
    /// The inverse hyperbolic tangent.
    atanh => "Atanh";
    /// The error function.
    erf => "Erf";
    /// `1 - erf(x)`.
    erfc => "Erfc";
    /// The logarithm of the absolute value of the gamma function.
    lgamma => "Lgamma";
    /// The derivative of [`Output::lgamma`].
    digamma => "Digamma";
    /// The hyperbolic tangent.
    tanh => "Tanh";
    /// The logistic function.
    sigmoid => "Sigmoid";
    /// Rounds down.
    floor => "Floor";
    /// Rounds up.
    ceil => "Ceil";
    /// Rounds to the nearest whole number, halves to the even one.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session};
    /// let g = Graph::new();
    /// let x = g.constant([-1.2f32, 0.5, 1.5]).round()?;
    /// assert_eq!(Session::new(&g).run(&x)?.as_slice::<f32>()?, [-1.0, 0.0, 2.0]);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    round => "Round";
    /// [`Output::round`] of floating point numbers.
    rint => "Rint";
    /// Whether elements are NaN.
    is_nan => "IsNan";
    /// Whether elements are infinite.
    is_inf => "IsInf";
    /// Whether elements are neither infinite nor NaN.
    is_finite => "IsFinite";
    /// Not.
    logical_not => "LogicalNot";
    /// The same value.
    identity => "Identity";
    /// The same value, which gradients do not flow through.
    stop_gradient => "StopGradient";
    /// Zeros of the same shape.
    zeros_like => "ZerosLike";
    /// `max(x, 0)`.
    relu => "Relu";
    /// `min(max(x, 0), 6)`.
    relu6 => "Relu6";
    /// `x`, or `eˣ - 1` where it is negative.
    elu => "Elu";
    /// [`Output::elu`] scaled so that layers keep mean and variance.
    selu => "Selu";
    /// `x / (|x| + 1)`.
    softsign => "Softsign";
    /// Softmax over the last dimension.
    softmax => "Softmax";
    /// The logarithm of softmax over the last dimension.
    log_softmax => "LogSoftmax";
    /// `ln(eˣ + 1)`.
    softplus => "Softplus";
    /// Half the sum of squares.
    l2_loss => "L2Loss";
}

macro_rules! binary_methods {
    ($($(#[$doc:meta])* $method:ident => $op:literal;)*) => {
        impl Output {
            $($(#[$doc])* pub fn $method(&self, other: impl Operand) -> Result<Output> {
                self.binary($op, other)
            })*
        }
    };
}

binary_methods! {
    /// `x - y`.
    sub => "Sub";
    /// `x · y`, element by element.
    mul => "Mul";
    /// The quotient rounded down.
    floor_div => "FloorDiv";
    /// The remainder of [`Output::floor_div`].
    floor_mod => "FloorMod";
    /// The quotient rounded towards zero.
    truncate_div => "TruncateDiv";
    /// The remainder of [`Output::truncate_div`].
    truncate_mod => "TruncateMod";
    /// `x / y`, and 0 where `y` is 0.
    div_no_nan => "DivNoNan";
    /// `x` to the power of `y`.
    pow => "Pow";
    /// The angle of the point (`y` = this, `x` = `other`).
    atan2 => "Atan2";
    /// The larger of two.
    maximum => "Maximum";
    /// The smaller of two.
    minimum => "Minimum";
    /// `(x - y)²`.
    squared_difference => "SquaredDifference";
    /// Whether `x < y`.
    less => "Less";
    /// Whether `x ≤ y`.
    less_equal => "LessEqual";
    /// Whether `x > y`.
    greater => "Greater";
    /// Whether `x ≥ y`.
    greater_equal => "GreaterEqual";
    /// Whether `x = y`.
    equal => "Equal";
    /// Whether `x ≠ y`.
    not_equal => "NotEqual";
    /// And.
    logical_and => "LogicalAnd";
    /// Or.
    logical_or => "LogicalOr";
    /// Adds a vector to the last dimension.
    bias_add => "BiasAdd";
}

/// Which axes a reduction runs over: `..` for all, one axis, several, or computed ones. Negative axes count from the
/// end.
///
/// ```
/// # use tensorfleet::{Graph, Session};
/// let g = Graph::new();
/// let x = g.constant([[1, 2], [3, 4]]);
/// let session = Session::new(&g);
/// assert_eq!(session.run(x.reduce_sum(..)?)?.to_scalar::<i32>()?, 10);
/// assert_eq!(session.run(x.reduce_sum(-1)?)?.as_slice::<i32>()?, [3, 7]);
/// # Ok::<(), tensorfleet::Status>(())
/// ```
pub trait Axes {
    /// The axes as an input; `None` stands for all.
    fn into_axes(self) -> Option<Arg>;
}

impl Axes for std::ops::RangeFull {
    fn into_axes(self) -> Option<Arg> {
        None
    }
}

macro_rules! operand_axes {
    ($([$($generics:tt)*] $rust:ty),*) => {$(
        impl<$($generics)*> Axes for $rust {
            fn into_axes(self) -> Option<Arg> {
                Some(self.into_arg())
            }
        }
    )*};
}

operand_axes!([] i32, [const N: usize] [i32; N], [] Vec<i32>, [] &[i32], [] &Output, [] Output);

macro_rules! reductions {
    ($($(#[$doc:meta])* $method:ident, $keep_dims:ident => $op:literal;)*) => {
        impl Output {
            $($(#[$doc])* pub fn $method(&self, axes: impl Axes) -> Result<Output> {
                self.reduce($op, axes, false)
            }

            #[doc = concat!("[`Output::", stringify!($method), "`] that keeps the axes, with size 1.")]
            pub fn $keep_dims(&self, axes: impl Axes) -> Result<Output> {
                self.reduce($op, axes, true)
            })*
        }
    };
}

reductions! {
    /// The sum over `axes`.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session};
    /// let g = Graph::new();
    /// let x = g.constant([[1.0f32, 2.0], [3.0, 4.0]]);
    /// let session = Session::new(&g);
    /// let (total, rows) = session.run((x.reduce_sum(..)?, x.reduce_sum(1)?))?;
    /// assert_eq!(total.to_scalar::<f32>()?, 10.0);
    /// assert_eq!(rows.as_slice::<f32>()?, [3.0, 7.0]);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    reduce_sum, reduce_sum_keep_dims => "Sum";
    /// The mean over `axes`.
    reduce_mean, reduce_mean_keep_dims => "Mean";
    /// The product over `axes`.
    reduce_prod, reduce_prod_keep_dims => "Prod";
    /// The largest element over `axes`.
    reduce_max, reduce_max_keep_dims => "Max";
    /// The smallest element over `axes`.
    reduce_min, reduce_min_keep_dims => "Min";
    /// Whether all elements over `axes` are true.
    reduce_all, reduce_all_keep_dims => "All";
    /// Whether any element over `axes` is true.
    reduce_any, reduce_any_keep_dims => "Any";
}

impl Output {
    /// `x + y`.
    pub fn add(&self, other: impl Operand) -> Result<Output> {
        self.op("AddV2").input(other).name("Add").output()
    }

    /// `x / y`; integers become floating point first.
    pub fn div(&self, other: impl Operand) -> Result<Output> {
        divide(self.graph(), "truediv", self.into_arg(), other.into_arg())
    }

    /// The matrix product; of more than two dimensions, that of the matrices in the last two.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session};
    /// let g = Graph::new();
    /// let x = g.constant([[1.0f32, 2.0], [3.0, 4.0]]);
    /// let y = x.matmul([[1.0], [10.0]])?;
    /// assert_eq!(Session::new(&g).run(&y)?.as_slice::<f32>()?, [21.0, 43.0]);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn matmul(&self, other: impl Operand) -> Result<Output> {
        let is_batch = self.shape()?.rank().is_some_and(|rank| rank > 2);
        self.op(if is_batch { "BatchMatMulV2" } else { "MatMul" }).input(other).name("MatMul").output()
    }

    /// The same numbers as another dtype.
    ///
    /// ```
    /// # use tensorfleet::{DType, Graph, Session};
    /// let g = Graph::new();
    /// let whole = g.constant([1.9f32, -1.9]).cast(DType::Int32)?;
    /// assert_eq!(Session::new(&g).run(&whole)?.as_slice::<i32>()?, [1, -1]);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn cast(&self, dtype: DType) -> Result<Output> {
        if self.dtype()? == dtype {
            return Ok(self.clone());
        }
        self.op("Cast").attr("DstT", dtype).output()
    }

    /// Either or, not both.
    pub fn logical_xor(&self, other: impl Operand) -> Result<Output> {
        let other = other.into_arg().into_output(self.graph(), "y", Some(DType::Bool))?;
        let (any, both) = (self.logical_or(&other)?, self.logical_and(&other)?);
        any.op("LogicalAnd").input(both.logical_not()?).name("LogicalXor").output()
    }

    /// The elements, none below `low` or above `high`.
    pub fn clip_by_value(&self, low: impl Operand, high: impl Operand) -> Result<Output> {
        let graph = self.graph();
        graph.name_scope("clip_by_value", || {
            let scope = graph.build(|builder| builder.name_scope().to_string());
            let capped = self.binary("Minimum", high)?;
            capped.op("Maximum").input(low).name(&format!("{scope}/")).output()
        })
    }

    /// The index of the largest element along `axis`, as int64.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session};
    /// let g = Graph::new();
    /// let classes = g.constant([[0.1f32, 0.9], [0.8, 0.2]]).argmax(1)?;
    /// assert_eq!(Session::new(&g).run(&classes)?.as_slice::<i64>()?, [1, 0]);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn argmax(&self, axis: i32) -> Result<Output> {
        self.binary("ArgMax", axis)
    }

    /// The index of the smallest element along `axis`, as int64.
    pub fn argmin(&self, axis: i32) -> Result<Output> {
        self.binary("ArgMin", axis)
    }

    /// Where this bool is true the element of `then`, else that of `otherwise`; all of the same shape.
    pub fn select(&self, then: impl Operand, otherwise: impl Operand) -> Result<Output> {
        self.op("Select").input(then).input(otherwise).output()
    }

    /// The coordinates of the elements that are true (or not zero), one row for each.
    pub fn where_true(&self) -> Result<Output> {
        self.unary("Where")
    }

    /// The cross entropy between these logits and the distributions in `labels`, for each row. There is an example at
    /// [`Output::sparse_softmax_cross_entropy`].
    pub fn softmax_cross_entropy(&self, labels: impl Operand) -> Result<Output> {
        self.binary("SoftmaxCrossEntropyWithLogits", labels)
    }

    /// The cross entropy between these logits and the classes in `labels`, for each row.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session};
    /// let g = Graph::new();
    /// let logits = g.constant([[0.0f32, 0.0], [0.0, 100.0]]);
    /// let loss = logits.sparse_softmax_cross_entropy([0, 1])?;
    /// let same = logits.softmax_cross_entropy([[1.0f32, 0.0], [0.0, 1.0]])?;
    /// let (loss, same) = Session::new(&g).run((&loss, &same))?;
    /// assert!((loss.as_slice::<f32>()?[0] - 2f32.ln()).abs() < 1e-6);
    /// assert_eq!(loss.as_slice::<f32>()?, same.as_slice::<f32>()?);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn sparse_softmax_cross_entropy(&self, labels: impl Operand) -> Result<Output> {
        self.binary("SparseSoftmaxCrossEntropyWithLogits", labels)
    }

    fn reduce(&self, op: &str, axes: impl Axes, keep_dims: bool) -> Result<Output> {
        let axes = match axes.into_axes() {
            Some(axes) => axes,
            None => self.all_axes()?.into_arg(),
        };
        self.op(op).input(axes).attr("keep_dims", keep_dims).output()
    }

    /// The numbers of all axes: constant if the rank is known, else computed.
    pub(crate) fn all_axes(&self) -> Result<Output> {
        match self.shape()?.rank() {
            Some(rank) => self.graph().constant((0..rank as i32).collect::<Vec<i32>>()).check(),
            None => self.graph().range(0, self.rank()?, 1),
        }
    }
}
