//! Variables: making them, finding them by name, their first values, and their parts.

mod initializers;
mod partitioned_variable;
mod regularizers;
mod uninitialized;
mod variable;
mod variable_def;
mod variable_scope;
mod variable_slice;

pub use initializers::{Distribution, Fan, Initializer};
pub use partitioned_variable::{GetPartitionedVariable, PartitionedVariable, Partitioner};
pub use regularizers::Regularizer;
pub(crate) use uninitialized::static_shape;
pub(crate) use variable::{Initial, Parts};
pub use variable::{Variable, VariableBuilder};
pub use variable_scope::{GetVariable, Reuse, VariableScope, VariableScopeBuilder};
pub(crate) use variable_scope::{VariableStore, create_slot};
