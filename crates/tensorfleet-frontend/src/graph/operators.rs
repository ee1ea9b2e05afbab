//! `+ - * /` and negation on outputs and variables, with numbers on either side.
//!
//! Operators cannot return a `Result`; an expression that does not fit gives an [`Output`] that carries the error and
//! the line it was written in (see there).

use std::ops;
use std::panic::Location;

use tensorfleet_core::{Result, Status};

use super::graph::Graph;
use super::operand::{Arg, Operand};
use super::output::Output;
use super::variable::Variable;

/// Builds the node of an operator, with TensorFlow's names for them.
fn apply(graph: &Graph, operator: Operator, left: Arg, right: Arg, at: &Location<'_>) -> Output {
    let built = match operator {
        Operator::Add => named(graph, "AddV2", "add", left, right),
        Operator::Sub => named(graph, "Sub", "sub", left, right),
        Operator::Mul => named(graph, "Mul", "mul", left, right),
        Operator::Div => divide(graph, "truediv", left, right),
    };
    Output::from_result(graph, built.map_err(|status| located(status, at)))
}

fn named(graph: &Graph, op: &str, name: &str, left: Arg, right: Arg) -> Result<Output> {
    graph.op(op).input(left).input(right).name(name).output()
}

/// Division as Python writes it: integers become floating point first.
pub(crate) fn divide(graph: &Graph, name: &str, left: Arg, right: Arg) -> Result<Output> {
    use tensorfleet_core::DType::{self, *};
    let dtype_of = |arg: &Arg| match arg {
        Arg::Output(output) => output.dtype().map(Some),
        Arg::Variable(variable) => variable.dtype().map(Some),
        Arg::Tensor(tensor) => Ok(Some(tensor.dtype())),
        Arg::Literal(_) => Ok(None),
    };
    let literal_dtype = |arg: &Arg| match arg {
        Arg::Literal(Ok(tensor)) => Some(tensor.dtype()),
        _ => None,
    };
    let known = dtype_of(&left)?.or(dtype_of(&right)?);
    let dtype = known.or(literal_dtype(&left)).or(literal_dtype(&right));
    let float: Option<DType> = match dtype {
        Some(Int8 | Int16 | UInt8 | UInt16) => Some(Float),
        Some(Int32 | Int64 | UInt32 | UInt64) => Some(Double),
        _ => None,
    };
    let Some(float) = float else { return named(graph, "RealDiv", name, left, right) };
    graph.name_scope(name, || {
        let scope = graph.build(|builder| builder.name_scope().to_string());
        let cast = |argument: &str, arg: Arg| -> Result<Output> {
            let value = arg.into_output(graph, argument, dtype)?;
            graph.op("Cast").input(value).attr("DstT", float).output()
        };
        let left = cast("x", left)?;
        let right = cast("y", right)?;
        graph.op("RealDiv").input(left).input(right).name(&format!("{scope}/")).output()
    })
}

/// Says where in the program the expression stands, since it will be reported elsewhere.
fn located(status: Status, at: &Location<'_>) -> Status {
    status.context(format!("{}:{}:{}", at.file(), at.line(), at.column()))
}

#[derive(Clone, Copy)]
enum Operator {
    Add,
    Sub,
    Mul,
    Div,
}

macro_rules! binary_operator {
    ($trait:ident, $method:ident, [$($scalar:ty),*]) => {
        impl<R: Operand> ops::$trait<R> for &Output {
            type Output = Output;
            #[track_caller]
            fn $method(self, right: R) -> Output {
                let at = Location::caller();
                apply(self.graph(), Operator::$trait, self.into_arg(), right.into_arg(), at)
            }
        }

        impl<R: Operand> ops::$trait<R> for Output {
            type Output = Output;
            #[track_caller]
            fn $method(self, right: R) -> Output {
                let at = Location::caller();
                apply(self.graph(), Operator::$trait, self.clone().into_arg(), right.into_arg(), at)
            }
        }

        impl<R: Operand> ops::$trait<R> for &Variable {
            type Output = Output;
            #[track_caller]
            fn $method(self, right: R) -> Output {
                let at = Location::caller();
                apply(self.graph(), Operator::$trait, self.value().into_arg(), right.into_arg(), at)
            }
        }

        $(
            impl ops::$trait<&Output> for $scalar {
                type Output = Output;
                #[track_caller]
                fn $method(self, right: &Output) -> Output {
                    let at = Location::caller();
                    apply(right.graph(), Operator::$trait, self.into_arg(), right.into_arg(), at)
                }
            }

            impl ops::$trait<Output> for $scalar {
                type Output = Output;
                #[track_caller]
                fn $method(self, right: Output) -> Output {
                    let at = Location::caller();
                    apply(right.graph(), Operator::$trait, self.into_arg(), right.clone().into_arg(), at)
                }
            }

            impl ops::$trait<&Variable> for $scalar {
                type Output = Output;
                #[track_caller]
                fn $method(self, right: &Variable) -> Output {
                    let at = Location::caller();
                    apply(right.graph(), Operator::$trait, self.into_arg(), right.into_arg(), at)
                }
            }
        )*
    };
}

// On the left only the types that literals have by default: were there several float types, the compiler could not
// tell which one the 2.0 in `2.0 * &x` is before it is too late. Any operand may stand on the right.
binary_operator!(Add, add, [f64, i32]);
binary_operator!(Sub, sub, [f64, i32]);
binary_operator!(Mul, mul, [f64, i32]);
binary_operator!(Div, div, [f64, i32]);

impl ops::Neg for &Output {
    type Output = Output;
    #[track_caller]
    fn neg(self) -> Output {
        let at = Location::caller();
        Output::from_result(self.graph(), self.unary("Neg").map_err(|status| located(status, at)))
    }
}

impl ops::Neg for Output {
    type Output = Output;
    #[track_caller]
    fn neg(self) -> Output {
        -&self
    }
}

impl ops::Neg for &Variable {
    type Output = Output;
    #[track_caller]
    fn neg(self) -> Output {
        -self.value()
    }
}
