//! Planning: pure functions from graph to graph, without I/O and without running anything.

mod place;
mod prune;

pub use place::check_local_placement;
pub use prune::{Signature, prune};
