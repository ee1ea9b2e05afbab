//! Variables, queues, accumulators and other resources as ops.

use crate::op::Op;

mod accumulator;
mod accumulator_ops;
mod arithmetic;
pub(crate) mod naming;
pub(crate) mod queue;
mod resource_variable_ops;
mod sparse_gradient;
mod variable_ops;
mod waiting;

/// The tables of this group.
pub(crate) static FAMILIES: &[&[Op]] =
    &[variable_ops::OPS, resource_variable_ops::OPS, queue::OPS, accumulator_ops::OPS];
