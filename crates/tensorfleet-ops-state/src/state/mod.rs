//! Variables, queues, accumulators and other resources as ops.

use tensorfleet_kernel::op::Op;

mod accumulator;
mod accumulator_ops;
mod gather;
pub mod naming;
pub mod queue;
mod resource_variable_ops;
mod round;
mod scatter;
mod sparse_gradient;
mod stack;
mod staging;
mod table;
mod table_files;
mod table_ops;
mod tensor_array;
mod tensor_array_gradients;
mod tensor_array_ops;
mod variable_ops;
mod waiting;

/// The tables of this group.
pub(crate) static FAMILIES: &[&[Op]] = &[
    variable_ops::OPS,
    resource_variable_ops::OPS,
    scatter::OPS,
    gather::OPS,
    queue::OPS,
    accumulator_ops::OPS,
    staging::OPS,
    stack::OPS,
    tensor_array_ops::OPS,
    table_ops::OPS,
    table_files::OPS,
];
