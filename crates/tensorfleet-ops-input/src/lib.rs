//! Ops that bring data in and out: datasets and their iterators, readers, images, checkpoints, summaries, files.

mod data;
mod io;

#[cfg(test)]
mod testing;

use tensorfleet_kernel::catalogue::Group;

/// The tables of this crate.
pub static GROUPS: &[Group] = &[data::FAMILIES, io::FAMILIES];
