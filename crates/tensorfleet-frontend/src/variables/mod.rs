//! Variables: making them, finding them by name, their initial values, and their parts.

mod assign;
mod get_variable;
mod initializers;
pub(crate) mod mod_tables;
mod partitioned_variable;
mod partitioner;
mod regularizers;
mod slots;
mod uninitialized;
mod variable_builder;
mod variable_def;
mod variable_lists;
mod variable_scope;

pub use get_variable::GetVariable;
pub use initializers::{Distribution, Fan, Initializer};
pub use partitioned_variable::{GetPartitionedVariable, PartitionedVariable};
pub use partitioner::Partitioner;
pub use regularizers::Regularizer;
pub(crate) use slots::create_slot;
pub(crate) use variable_builder::Initial;
pub use variable_builder::VariableBuilder;
pub use variable_scope::{Reuse, VariableScope, VariableScopeBuilder};
