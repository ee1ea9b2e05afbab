//! Tables that are looked up by id modulo the number of their parts, which other parts do not fit.
//!
//! A checkpoint has a table whole, the parts one after another, and gives it out in any parts. Which row an id has, however, follows
//! from the number of parts, if rows go round them. So a table of two parts that is restored in three has all its rows, most of
//! them under other ids; and nothing fails. TensorFlow is silent about it.

use std::collections::BTreeSet;

use crate::graph::{Graph, Variable};

/// The names of wholes.
#[derive(Default)]
struct ModTables(BTreeSet<String>);

/// Remembers that a table of these parts is looked up so.
pub(crate) fn note(graph: &Graph, parts: &[Variable]) {
    for name in parts.iter().filter_map(|part| Some(part.slice_info()?.full_name().to_string())) {
        graph.registry(|ModTables(names)| names.insert(name));
    }
}

/// Which tables of the graph are looked up so.
pub(crate) fn names(graph: &Graph) -> BTreeSet<String> {
    graph.registry(|ModTables(names)| names.clone())
}
