//! Input pipelines: datasets, which describe sequences of elements, and iterators, which walk along them.
//!
//! A dataset is an immutable object in a variant tensor; ops wrap one around another. An iterator is a chain of Rust
//! objects made from it. It is pulled: each link's `next` takes what it needs from the one before and computes on the
//! thread that asks. So an element passes from file to batch without a queue, and is copied once, into its batch. Where
//! a pipeline asks for overlap there is a thread of its own (`prefetch.rs`) or calls on other threads
//! (`parallel_map.rs`).
//!
//! A link may wait: for a disk, for a prefetched element, for a function. Therefore threads that run nodes do not pull,
//! unless nothing is to be waited for and this pipeline has proved to be quick (`iterator.rs`); others do it on threads
//! that are kept for this ([`InputPool`](tensorfleet_threads::InputPool)). Nothing here outlives its iterator: dropping one cancels its calls and ends its
//! threads.

mod batch;
mod captured;
mod choice;
mod dataset;
mod file_cache;
mod files;
mod functional;
mod generator;
mod interleave;
mod iterator;
mod iterator_ops;
pub(crate) mod optional;
mod padded_batch;
mod parallel_map;
mod prefetch;
mod reduce;
mod sequence;
mod shuffle;
mod sources;
mod window;

#[cfg(test)]
mod tests;

use tensorfleet_kernel::op::Op;

/// The tables of this group.
pub(crate) static FAMILIES: &[&[Op]] = &[
    batch::OPS,
    choice::OPS,
    files::OPS,
    functional::OPS,
    generator::OPS,
    interleave::OPS,
    iterator_ops::OPS,
    optional::OPS,
    padded_batch::OPS,
    parallel_map::OPS,
    prefetch::OPS,
    reduce::OPS,
    sequence::OPS,
    shuffle::OPS,
    sources::OPS,
    window::OPS,
];
