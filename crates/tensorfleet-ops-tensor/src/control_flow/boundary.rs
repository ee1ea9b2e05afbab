//! `_Arg` and `_Retval`: where values enter and leave a compiled graph.
//!
//! They have no kernels: the executor itself hands arguments in and results out.

use tensorfleet_core::{PartialShape, Result};

use tensorfleet_kernel::op::{Cost, Op};
use tensorfleet_kernel::shape_context::{ShapeContext, unknown};

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("_Arg", "-> output: T")
        .attrs("T: type; index: int >= 0")
        .stateful()
        .shape(unknown)
        .cost(Cost::Trivial),
    Op::new("_Retval", "input: T")
        .attrs("T: type; index: int >= 0")
        .stateful()
        .shape(nothing)
        .cost(Cost::Trivial),
];

fn nothing(_: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    Ok(Vec::new())
}
