//! Which graphs a client loses that has registered too many without a session.
//!
//! Graphs go with their session. TensorFlow's interface also lets a client register graphs under no handle at all: nobody closes
//! those, they are there for as long as their client is. One that lives and registers without end would fill the memory
//! account, and nobody else could do anything. So a client's nameless graphs are bounded, and those it has run least recently go;
//! who runs one of them after all is told `Aborted`, as for any handle that is not known. No master of ours or of TensorFlow's has
//! such graphs: TensorFlow's name their session even if they have not made it on the worker.

use rustc_hash::FxHashSet;

/// Graphs of a client at most: each has a cost of its own beyond its nodes.
pub(super) const MOST_GRAPHS: usize = 1024;
/// The share of the memory account that they may take. A client alone may have this much and others still have most of it.
pub(super) const SHARE_OF_MEMORY: usize = 8;

/// One of a client's graphs.
pub(super) struct NamelessGraph<T> {
    pub(super) graph: T,
    /// Greater than those of graphs that were used earlier.
    pub(super) last_use: u64,
    /// What it takes, without its large constants.
    pub(super) bytes: usize,
    /// Where its large constants are, and their lengths; graphs share them.
    pub(super) constants: Vec<(usize, usize)>,
}

/// Those that go: beyond so many graphs or bytes, the least recently used. The latest stays in any case, the account may refuse it.
pub(super) fn surplus<T>(mut graphs: Vec<NamelessGraph<T>>, most_graphs: usize, most_bytes: usize) -> Vec<T> {
    graphs.sort_unstable_by_key(|graph| std::cmp::Reverse(graph.last_use));
    let (mut bytes, mut seen) = (0usize, FxHashSet::default());
    let fits = |(index, graph): (usize, &NamelessGraph<T>)| {
        let constants = graph.constants.iter().filter(|constant| seen.insert(**constant));
        let constants = constants.map(|(_, bytes)| *bytes).fold(0, usize::saturating_add);
        bytes = bytes.saturating_add(graph.bytes).saturating_add(constants);
        index == 0 || (index < most_graphs && bytes <= most_bytes)
    };
    let kept = graphs.iter().enumerate().map(fits).take_while(|fits| *fits).count();
    graphs.drain(kept..).map(|graph| graph.graph).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(last_use: u64, bytes: usize, constants: &[(usize, usize)]) -> NamelessGraph<u64> {
        NamelessGraph { graph: last_use, last_use, bytes, constants: constants.to_vec() }
    }

    #[test]
    fn the_least_recently_used_go_first() {
        let graphs = || vec![graph(3, 10, &[]), graph(1, 10, &[]), graph(2, 10, &[])];
        assert!(surplus(graphs(), 3, 30).is_empty());
        assert_eq!(surplus(graphs(), 2, 30), [1]);
        assert_eq!(surplus(graphs(), 3, 29), [1]);
        assert_eq!(surplus(graphs(), 3, 0), [2, 1], "the latest stays");
    }

    #[test]
    fn a_constant_counts_once() {
        let shared = (4096, 1000);
        let graphs = vec![graph(3, 1, &[shared]), graph(2, 1, &[shared]), graph(1, 1, &[(8192, 1000)])];
        assert_eq!(surplus(graphs, 10, 1500), [1]);
    }
}
