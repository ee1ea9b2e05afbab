//! [`Operand`]: everything that can be an input of an op.

use tensorfleet_core::{DType, Result, Tensor};
use tensorfleet_kernel::builder::adapt_literal;

use super::graph::Graph;
use super::literal::{Adapts, IntoTensor};
use super::output::Output;
use super::variable::Variable;

/// An input of an op: an [`Output`], a [`Variable`], a [`Tensor`] or a literal, by value or by reference.
///
/// ```
/// # use tensorfleet::{Graph, Operand, Output, Result, Session};
/// /// Takes whatever an op takes.
/// fn twice(g: &Graph, x: impl Operand) -> Result<Output> {
///     g.op("Mul").input(x).input(2.0f32).output()
/// }
///
/// let g = Graph::new();
/// let v = g.variable("v", 3.0f32);
/// let session = Session::new(&g);
/// session.run(v.initializer())?;
/// let (a, b) = session.run((twice(&g, &v)?, twice(&g, 0.5f32)?))?;
/// assert_eq!((a.to_scalar::<f32>()?, b.to_scalar::<f32>()?), (6.0, 1.0));
/// # Ok::<(), tensorfleet::Status>(())
/// ```
pub trait Operand {
    /// The input.
    fn into_arg(self) -> Arg;
}

/// An input of an op, as an [`Operand`] gives it.
pub enum Arg {
    /// A value of the graph.
    Output(Output),
    /// A variable: read, or passed itself where the op changes it.
    Variable(Variable),
    /// A constant of exactly this dtype.
    Tensor(Tensor),
    /// A constant that takes the dtype its place asks for.
    Literal(Result<Tensor>),
}

impl Arg {
    /// The input as an output of `graph`: constants are added under `name`, literals as `dtype` if one is asked for.
    pub(crate) fn into_output(self, graph: &Graph, name: &str, dtype: Option<DType>) -> Result<Output> {
        match self {
            Arg::Output(output) => output.check(),
            Arg::Variable(variable) => variable.value().check(),
            Arg::Tensor(tensor) => graph.constant_named(name, tensor).check(),
            Arg::Literal(tensor) => {
                let tensor = tensor?;
                let adapted = dtype.and_then(|dtype| adapt_literal(&tensor, dtype));
                graph.constant_named(name, adapted.unwrap_or(tensor)).check()
            }
        }
    }
}

impl Operand for Arg {
    fn into_arg(self) -> Arg {
        self
    }
}

impl Operand for Output {
    fn into_arg(self) -> Arg {
        Arg::Output(self)
    }
}

impl Operand for &Output {
    fn into_arg(self) -> Arg {
        Arg::Output(self.clone())
    }
}

impl Operand for Variable {
    fn into_arg(self) -> Arg {
        Arg::Variable(self)
    }
}

impl Operand for &Variable {
    fn into_arg(self) -> Arg {
        Arg::Variable(self.clone())
    }
}

impl<T: IntoTensor> Operand for T {
    fn into_arg(self) -> Arg {
        match self.into_tensor() {
            (Ok(tensor), Adapts::No) => Arg::Tensor(tensor),
            (tensor, _) => Arg::Literal(tensor),
        }
    }
}

/// Several inputs, as [`Graph::concat`] takes them: an array, `Vec` or slice of operands of one kind, or a tuple of any.
pub trait OperandList {
    /// The inputs.
    fn into_args(self) -> Vec<Arg>;
}

impl<O: Operand, const N: usize> OperandList for [O; N] {
    fn into_args(self) -> Vec<Arg> {
        self.into_iter().map(Operand::into_arg).collect()
    }
}

impl<O: Operand> OperandList for Vec<O> {
    fn into_args(self) -> Vec<Arg> {
        self.into_iter().map(Operand::into_arg).collect()
    }
}

impl OperandList for &[Output] {
    fn into_args(self) -> Vec<Arg> {
        self.iter().map(Operand::into_arg).collect()
    }
}

impl OperandList for &[Variable] {
    fn into_args(self) -> Vec<Arg> {
        self.iter().map(Operand::into_arg).collect()
    }
}

impl OperandList for &Vec<Variable> {
    fn into_args(self) -> Vec<Arg> {
        self.as_slice().into_args()
    }
}

impl OperandList for &Vec<Output> {
    fn into_args(self) -> Vec<Arg> {
        self.as_slice().into_args()
    }
}

macro_rules! tuple_operands {
    ($($name:ident),*) => {
        impl<$($name: Operand),*> OperandList for ($($name,)*) {
            #[allow(non_snake_case)]
            fn into_args(self) -> Vec<Arg> {
                let ($($name,)*) = self;
                vec![$($name.into_arg()),*]
            }
        }
    };
}

tuple_operands!(A);
tuple_operands!(A, B);
tuple_operands!(A, B, C);
tuple_operands!(A, B, C, D);
tuple_operands!(A, B, C, D, E);
tuple_operands!(A, B, C, D, E, F);
