//! The op catalogue: signature, shape rule, kernel and gradient of every operation, each op in one place.
//!
//! A family of ops is a module with a table of [`Op`]s and the functions the table points to. The framework
//! around it is small: [`signature`] reads declarations, [`node_spec`] sees a node through its declaration,
//! [`kernel`] says what a kernel is and sees, [`shape_context`] the same for shape rules. Resources that outlive
//! a step ([`resource`], [`variable`]) live here, below the runtime, because kernels are their only users.
//!
//! Front ends and gradients make graphs through [`builder`], which names, types and shapes nodes as TensorFlow does.
//!
//! Kernels know no sessions and no network; what they need of a step they find in [`kernel::StepContext`].

pub mod builder;
pub mod cancellation;
pub mod catalogue;
pub mod dispatch;
pub mod file_access;
pub mod functions;
pub mod gradients;
pub mod kernel;
pub mod node_spec;
pub mod op;
pub mod rendezvous;
pub mod resource;
pub mod shape_context;
pub mod signature;
pub mod simd;
pub mod variable;

mod array;
mod control_flow;
mod data;
mod graph_ops;
mod io;
mod lists;
mod math;
mod nn;
mod random;
mod state;
mod strings;
mod training;
mod unsupported;
mod variants;

#[cfg(test)]
pub(crate) mod testing;

pub use node_spec::NodeSpec;
pub use op::Op;
pub use tensorfleet_threads::{denormals, parallel};
