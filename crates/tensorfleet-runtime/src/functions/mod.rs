//! Functions: what a graph's library defines, and nodes that call it.
//!
//! TensorFlow 2 clients send bodies of `tf.function`, branches and loops as functions of the graph's library, and nodes
//! that call them: `PartitionedCall`, `If`, `Case`, `While` and their kin, or an op with a function's own name. They are
//! inlined when a graph arrives ([`expand`]): a call becomes the nodes of the body, a branch `Switch` and `Merge`, a
//! loop a frame. Everything behind that, placement, partitioning, the executor, knows one kind of graph and treats the
//! bodies as well as the rest: a branch may span tasks, a call that nobody needs falls away.
//!
//! Functions that datasets call for each element stay functions. The library that their graph carries travels with it
//! ([`reachable`]), and is compiled by whoever runs it (`crate::function_library`).

mod body;
mod branches;
mod expand;
mod loops;
mod reachable;
mod size;

pub(crate) use body::edge_types;
pub(crate) use expand::{CALL_RESULTS, expand};
pub(crate) use reachable::reachable;
pub(crate) use size::node_bytes;
