//! Lists of tensors: values that grow and shrink, with which control flow of version 2 remembers what happened in a
//! loop.
//!
//! A list is a value like any other: whoever holds one sees it unchanged. Behind that stands one rule: the last owner of
//! a list changes it in place, anyone else gets a copy of the list (not of its tensors) to change. A loop hands its list
//! from iteration to iteration, so a push or a pop takes the same time however long the list is.
//!
//! Lists travel between tasks, and to and from TensorFlow's, in TensorFlow's encoding (`variants/list_wire.rs`).

mod elements;
mod gradients;
mod rows;
#[cfg(test)]
mod tests;

use tensorfleet_kernel::op::Op;

/// The tables of this group.
pub(crate) static FAMILIES: &[&[Op]] = &[elements::OPS, rows::OPS];
