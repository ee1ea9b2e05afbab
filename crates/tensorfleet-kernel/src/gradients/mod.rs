//! [`gradients`]: adds the nodes that differentiate one part of a graph by another.
//!
//! Reverse accumulation, as TensorFlow does it: starting at the `ys`, each node between them and the `xs` is visited once
//! all gradients that arrive at its outputs are known; they are summed (`aggregate`), and the op's own gradient function
//! ([`crate::op::GradientFn`], beside its kernel) turns them into gradients of its inputs. Nodes are named
//! `gradients/NODE_grad/…`. Loops are differentiated as a whole (`loops`); branches by the gradients of their `Switch` and
//! `Merge` nodes (`branches`).

mod aggregate;
pub mod branches;
mod differential;
mod engine;
mod formula;
mod gate;
mod loops;
mod paths;
mod shapes;
mod unbroadcast;

pub use crate::{binary_gradients, unary_gradients};
pub use aggregate::{Grad, densify};
pub use differential::Differential;
pub use engine::{CustomGradients, GradientOptions, gradients};
pub use formula::{Formula, Symbol, apply, apply2, apply3, conj, number};
pub use gate::Gate;
pub use shapes::Grads;
