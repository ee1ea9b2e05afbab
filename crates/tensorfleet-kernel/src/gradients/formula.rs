//! [`Formula`]: a gradient written as one would on paper.
//!
//! `dy * cos(x)` is a value of this type; [`Differential::build`] adds its nodes, those of operands first. What occurs
//! twice is built first and used by its endpoint, since a formula knows nothing of its own repetitions.

use std::ops::{Add, Div, Mul, Neg, Sub};

use tensorfleet_core::{Endpoint, Result};

use super::aggregate::Grad;
use super::differential::Differential;

/// An expression of values of the graph, numbers and ops.
#[derive(Clone, Debug)]
pub enum Formula {
    /// A value of the graph.
    Value(Endpoint),
    /// A number, of the dtype of the other operands.
    Number(f64),
    /// An op without attributes of its own.
    Apply(&'static str, Vec<Formula>),
}

/// A value of the graph in a formula, as often as one likes.
#[derive(Clone, Copy, Debug)]
pub struct Symbol(pub Endpoint);

impl From<Symbol> for Formula {
    fn from(symbol: Symbol) -> Formula {
        Formula::Value(symbol.0)
    }
}

impl From<Endpoint> for Formula {
    fn from(value: Endpoint) -> Formula {
        Formula::Value(value)
    }
}

impl From<f64> for Formula {
    fn from(number: f64) -> Formula {
        Formula::Number(number)
    }
}

/// What the complex conjugate is called inside formulas; it vanishes where values are real.
const CONJUGATE: &str = "Conj";

/// `op(x)`
pub fn apply(op: &'static str, x: impl Into<Formula>) -> Formula {
    Formula::Apply(op, vec![x.into()])
}

/// `op(x, y)`
pub fn apply2(op: &'static str, x: impl Into<Formula>, y: impl Into<Formula>) -> Formula {
    Formula::Apply(op, vec![x.into(), y.into()])
}

/// `op(x, y, z)`
pub fn apply3(
    op: &'static str,
    x: impl Into<Formula>,
    y: impl Into<Formula>,
    z: impl Into<Formula>,
) -> Formula {
    Formula::Apply(op, vec![x.into(), y.into(), z.into()])
}

/// The complex conjugate; of real values, themselves.
pub fn conj(x: impl Into<Formula>) -> Formula {
    apply(CONJUGATE, x)
}

macro_rules! operators {
    ($($left:ty)* : $operators:tt) => {$(
        operators!(@each $left $operators);

        impl Neg for $left {
            type Output = Formula;
            fn neg(self) -> Formula {
                apply("Neg", self)
            }
        }
    )*};
    (@each $left:ty [$($operator:ident $function:ident $op:literal)*]) => {$(
        impl<R: Into<Formula>> $operator<R> for $left {
            type Output = Formula;
            fn $function(self, right: R) -> Formula {
                apply2($op, self, right)
            }
        }
    )*};
}
operators!(Formula Symbol: [Add add "AddV2" Sub sub "Sub" Mul mul "Mul" Div div "RealDiv"]);

/// A number as the first operand.
pub fn number(number: f64) -> Formula {
    Formula::Number(number)
}

impl Differential<'_> {
    /// Input `index`, for formulas.
    pub fn x(&self, index: usize) -> Result<Symbol> {
        self.input(index).map(Symbol)
    }

    /// Output `slot`, for formulas.
    pub fn y(&self, slot: u32) -> Symbol {
        Symbol(self.output(slot))
    }

    /// What arrives at output `slot` as a whole tensor, for formulas.
    pub fn arriving_at(&mut self, slot: usize) -> Result<Symbol> {
        self.dy(slot).map(Symbol)
    }

    /// Adds the nodes of a part of a formula that is needed several times.
    pub fn share(&mut self, formula: impl Into<Formula>) -> Result<Symbol> {
        self.build(formula).map(Symbol)
    }

    /// Adds the nodes of a formula.
    pub fn build(&mut self, formula: impl Into<Formula>) -> Result<Endpoint> {
        match formula.into() {
            Formula::Value(value) => Ok(value),
            Formula::Number(number) => {
                let like = self.dy(0)?;
                self.scalar_like(like, number)
            }
            Formula::Apply(CONJUGATE, operands) => {
                let value = operands.into_iter().next().map(|operand| self.build(operand));
                let value = value.unwrap_or_else(|| self.dy(0))?;
                match self.dtype(value)?.is_complex() {
                    true => self.op(CONJUGATE, [value]),
                    false => Ok(value),
                }
            }
            Formula::Apply(op, operands) => {
                // Numbers come last, when it is known what they stand beside.
                let mut built: Vec<(Option<Endpoint>, f64)> = Vec::with_capacity(operands.len());
                for operand in operands {
                    built.push(match operand {
                        Formula::Number(number) => (None, number),
                        other => (Some(self.build(other)?), 0.0),
                    });
                }
                let beside = match built.iter().find_map(|(value, _)| *value) {
                    Some(value) => value,
                    None => self.dy(0)?,
                };
                let mut inputs = Vec::with_capacity(built.len());
                for (value, number) in built {
                    inputs.push(match value {
                        Some(value) => value,
                        None => self.scalar_like(beside, number)?,
                    });
                }
                self.op(op, inputs)
            }
        }
    }

    /// The gradients of all inputs, as whole tensors.
    pub fn flow<const N: usize>(&mut self, formulas: [Formula; N]) -> Result<Vec<Option<Grad>>> {
        formulas.into_iter().map(|formula| Ok(Some(Grad::Dense(self.build(formula)?)))).collect()
    }

    /// The gradient of the first input; nothing flows into the others.
    pub fn flow_first(&mut self, formula: impl Into<Formula>) -> Result<Vec<Option<Grad>>> {
        let mut grads = vec![None; self.node().inputs.len()];
        let first = self.build(formula)?;
        if let Some(slot) = grads.first_mut() {
            *slot = Some(Grad::Dense(first));
        }
        Ok(grads)
    }

    /// The gradients of both operands of an op that broadcasts them, from formulas of the broadcast shape.
    pub fn flow_broadcast(
        &mut self,
        x: impl Into<Formula>,
        y: impl Into<Formula>,
    ) -> Result<Vec<Option<Grad>>> {
        let (dx, dy) = (self.build(x)?, self.build(y)?);
        let (x, y) = (self.input(0)?, self.input(1)?);
        let (dx, dy) = self.unbroadcast((x, dx), (y, dy))?;
        Ok(vec![Some(Grad::Dense(dx)), Some(Grad::Dense(dy))])
    }
}

/// Defines gradient functions of ops of one input: name, and `|x, y, dy|` the formula.
#[macro_export]
macro_rules! unary_gradients {
    ($($name:ident: |$x:ident, $y:ident, $dy:ident| $formula:expr;)*) => {$(
        fn $name(d: &mut $crate::gradients::Differential<'_>) -> tensorfleet_core::Result<$crate::gradients::Grads> {
            let ($x, $y, $dy) = (d.x(0)?, d.y(0), d.arriving_at(0)?);
            let _ = ($x, $y);
            d.flow_first($formula)
        }
    )*};
}

/// Defines gradient functions of ops that broadcast two inputs: name, and `|x, y, z, dz|` the two formulas.
#[macro_export]
macro_rules! binary_gradients {
    ($($name:ident: |$x:ident, $y:ident, $z:ident, $dz:ident| ($dx:expr, $dy:expr);)*) => {$(
        fn $name(d: &mut $crate::gradients::Differential<'_>) -> tensorfleet_core::Result<$crate::gradients::Grads> {
            let ($x, $y, $z, $dz) = (d.x(0)?, d.x(1)?, d.y(0), d.arriving_at(0)?);
            let _ = ($x, $y, $z);
            d.flow_broadcast($dx, $dy)
        }
    )*};
}
