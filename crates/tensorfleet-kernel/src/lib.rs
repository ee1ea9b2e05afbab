//! What ops are made of, and what whoever runs or builds graphs needs to know of them.
//!
//! An [`Op`] is a constant in its family's table: declaration, shape rule, kernel, gradient. The families live in crates of their
//! own above this one; a [`catalogue::Catalogue`] is a value made of their tables and handed down. So sessions, servers and front
//! ends are written against this crate alone, and a change of a kernel rebuilds none of them.
//!
//! The parts: [`signature`] reads declarations, [`node_spec`] sees a node through its declaration, [`kernel`] says what a kernel is
//! and sees, [`shape_context`] the same for shape rules. Resources that outlive a step ([`resource`], [`variable`]) live here,
//! below the runtime, because kernels are their only users. Front ends and gradients make graphs through [`builder`], which names,
//! types and shapes nodes as TensorFlow does.
//!
//! Kernels know no sessions and no network; what they need of a step they find in [`kernel::StepContext`].

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests wait in real time and start threads"))]

pub mod applied_updates;
pub mod background;
pub mod builder;
pub mod cancellation;
pub mod catalogue;
pub mod constant_evaluation;
pub mod continuation;
pub mod functions;
pub mod gradients;
pub mod kernel;
pub mod known_value;
pub mod node_spec;
pub mod op;
pub mod py_func;
pub mod rendezvous;
pub mod resource;
pub mod shape_context;
pub mod signature;
pub mod testing;
pub mod variable;
pub mod work;

pub use catalogue::Catalogue;
pub use node_spec::NodeSpec;
pub use op::Op;
pub use tensorfleet_files::file_access;
pub use work::Work;
