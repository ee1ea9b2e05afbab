//! [`Stream`]: an op's own place in its random stream, which moves on from step to step.
//!
//! A run of a kernel reserves a stretch of the stream and works on it without a lock, so that runs at the same
//! time get different numbers. How much is reserved is part of what makes the second run equal TensorFlow's.

use parking_lot::Mutex;
use tensorfleet_core::{Result, entropy};

use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_numeric::philox::Philox;

/// What TensorFlow reserves for each output value, whatever its distribution.
const SAMPLES_PER_OUTPUT: u64 = 256;

/// A stream shared by all runs of a kernel.
pub struct Stream(Mutex<Philox>);

impl Stream {
    /// The stream for the node's attributes `seed` and `seed2`; if both are zero, one that nobody can foresee.
    pub fn of_node(node: &NodeSpec<'_>) -> Result<Stream> {
        Stream::new(node.attr("seed")?, node.attr("seed2")?)
    }

    /// The stream for two seeds; if both are zero, one that nobody can foresee.
    pub fn new(seed: i64, seed2: i64) -> Result<Stream> {
        let philox = match (seed, seed2) {
            (0, 0) => Philox::new(entropy::seed()?, entropy::seed()?),
            _ => Philox::new(seed as u64, seed2 as u64),
        };
        Ok(Stream(Mutex::new(philox)))
    }

    /// Reserves what TensorFlow does for this many output values.
    pub fn reserve_outputs(&self, count: u64) -> Philox {
        self.reserve_samples(count.wrapping_mul(SAMPLES_PER_OUTPUT))
    }

    /// Reserves this many 32-bit numbers.
    pub fn reserve_u32s(&self, count: u64) -> Philox {
        self.reserve_samples(count.div_ceil(4))
    }

    fn reserve_samples(&self, count: u64) -> Philox {
        let mut philox = self.0.lock();
        let start = *philox;
        philox.skip(count);
        start
    }
}
