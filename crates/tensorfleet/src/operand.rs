//! [`Operand`]: everything that can be an input of an op.

use tensorfleet_core::{DType, Result, Tensor};
use tensorfleet_ops::builder::adapt_literal;

use crate::graph::Graph;
use crate::literal::{Adapts, IntoTensor};
use crate::output::Output;
use crate::variable::Variable;

/// An input of an op: an [`Output`], a [`Variable`], a [`Tensor`] or a literal, by value or by reference.
pub trait Operand {
    /// The input.
    fn into_arg(self) -> Arg;
}

/// An input of an op.
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
