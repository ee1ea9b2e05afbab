//! Random numbers with TensorFlow's exact streams, shuffles and samplers.

pub(crate) mod shuffle;
pub mod stream;

mod candidate_samplers;
mod distributions;
mod fills;
mod gamma;
mod learned_unigram;
mod multinomial;
mod range_samplers;

use tensorfleet_kernel::op::Op;

/// The tables of this group.
pub(crate) static FAMILIES: &[&[Op]] =
    &[fills::OPS, shuffle::OPS, multinomial::OPS, gamma::OPS, candidate_samplers::OPS, learned_unigram::OPS];
