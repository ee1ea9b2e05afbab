//! Building graphs: the handle and its values, what can be an input, and the methods that add nodes.
//!
//! [`Graph`], [`Output`] and [`Operation`] are the nouns; [`Operand`] is everything an op takes; the other files add the ops,
//! by subject, as methods of these.

mod array;
mod collections;
mod control_flow;
mod debugging;
mod gradients;
#[expect(clippy::module_inception, reason = "the file of the type that the folder is about")]
mod graph;
mod linear_algebra;
mod literal;
mod math;
mod nn;
mod op_builder;
mod operand;
mod operation;
mod operators;
mod output;
mod random;
mod rearrange;
mod registry;
mod sources;
mod sparse_tensor;
mod statistics;
mod tensor_array;
mod text;
mod variable;
mod variable_slice;

pub use array::{Ellipsis, Index, Indices, NewAxis};
pub use control_flow::{LoopBuilder, OutputGroup};
pub use gradients::{Gate, Gradient, GradientsBuilder, IndexedSlices};
pub use graph::Graph;
pub use linear_algebra::MatMulOptions;
pub use literal::{Adapts, IntoTensor, Literal, ShapeLike};
pub use math::Axes;
pub use op_builder::OpBuilder;
pub use operand::{Arg, Operand, OperandList};
pub use operation::Operation;
pub use output::Output;
pub use sparse_tensor::SparseTensor;
pub use tensor_array::TensorArray;
pub use variable::Variable;
pub(crate) use variable::{VariableKind, VariableParts};
pub(crate) use variable_slice::VariableSlice;
