//! [`Hyperparameter`]: a number that steers training, known or computed.

use tensorfleet_core::{DType, Result};

use crate::graph::{Graph, Output, Variable};

/// A number that steers training, such as a learning rate: a constant, or a value that the graph computes, such as that of
/// a schedule; see [`Graph::exponential_decay`].
#[derive(Clone, Debug)]
pub enum Hyperparameter {
    /// A constant.
    Number(f64),
    /// A scalar of the graph.
    Computed(Output),
}

impl Hyperparameter {
    /// The number, if it is a constant.
    pub fn number(&self) -> Option<f64> {
        match self {
            Hyperparameter::Number(number) => Some(*number),
            Hyperparameter::Computed(_) => None,
        }
    }

    /// The number as a value of `graph`; a constant is added under `name`, as float.
    pub fn tensor(&self, graph: &Graph, name: &str) -> Result<Output> {
        match self {
            Hyperparameter::Number(number) => graph.literal(name, *number, DType::Float),
            Hyperparameter::Computed(output) => output.clone().check(),
        }
    }
}

impl From<f64> for Hyperparameter {
    fn from(number: f64) -> Hyperparameter {
        Hyperparameter::Number(number)
    }
}

impl From<Output> for Hyperparameter {
    fn from(output: Output) -> Hyperparameter {
        Hyperparameter::Computed(output)
    }
}

impl From<&Output> for Hyperparameter {
    fn from(output: &Output) -> Hyperparameter {
        Hyperparameter::Computed(output.clone())
    }
}

impl From<&Variable> for Hyperparameter {
    fn from(variable: &Variable) -> Hyperparameter {
        Hyperparameter::Computed(variable.value())
    }
}
