//! Ops of neural networks: matrix products, convolutions, pooling, normalisation, and the updates of optimizers.

mod nn;
mod training;

#[cfg(test)]
mod testing;

use tensorfleet_kernel::catalogue::Group;

/// The tables of this crate.
pub static GROUPS: &[Group] = &[nn::FAMILIES, training::FAMILIES];
