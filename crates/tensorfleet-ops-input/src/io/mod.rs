//! Saving, restoring, summaries, files and debugging output.

mod checkpoints;
mod csv;
mod debugging;
mod decoding;
mod example_wire;
mod examples;
mod files;
mod histogram;
mod image_summary;
mod images;
mod old_checkpoints;
mod readers;
mod serialization;
mod summaries;
mod wav;

use tensorfleet_kernel::op::Op;

/// The tables of this group.
pub(crate) static FAMILIES: &[&[Op]] = &[
    checkpoints::OPS,
    debugging::OPS,
    decoding::OPS,
    examples::OPS,
    files::OPS,
    image_summary::OPS,
    old_checkpoints::OPS,
    images::OPS,
    readers::OPS,
    serialization::OPS,
    summaries::OPS,
];
