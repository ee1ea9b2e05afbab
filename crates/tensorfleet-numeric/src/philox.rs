//! [`Philox`]: TensorFlow's random generator (Philox 4x32 with ten rounds), and ways to take numbers from it.
//!
//! The generator is a pure function of a 128-bit counter and a 64-bit key, so any part of its stream can be
//! reached by adding to the counter. That is what makes results independent of how work is shared: every group
//! of outputs knows its place in the stream.

const MULTIPLIER_A: u32 = 0xD251_1F53;
const MULTIPLIER_B: u32 = 0xCD9E_8D57;
const WEYL_A: u32 = 0x9E37_79B9;
const WEYL_B: u32 = 0xBB67_AE85;
const ROUNDS: usize = 10;

/// A position in a stream of 128-bit samples. Copying it gives a second reader of the same stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Philox {
    counter: u128,
    key: [u32; 2],
}

impl Philox {
    /// The stream TensorFlow uses for an op with these two seeds.
    pub fn new(seed: u64, seed2: u64) -> Philox {
        Philox { counter: (seed2 as u128) << 64, key: split(seed) }
    }

    /// The stream TensorFlow's stateless ops use for these seeds: scrambled, so that close seeds give
    /// streams that have nothing in common.
    pub fn scrambled(seed: u64, seed2: u64) -> Philox {
        let mut scrambler =
            Philox { counter: (seed2 as u128) << 64 | seed as u128, key: [0x3ec8_f720, 0x0246_1e29] };
        let [a, b, c, d] = scrambler.next_sample();
        Philox { counter: (d as u128) << 96 | (c as u128) << 64, key: [a, b] }
    }

    /// Leaves out `samples` samples of 128 bits.
    pub fn skip(&mut self, samples: u64) {
        self.counter = self.counter.wrapping_add(samples as u128);
    }

    /// The next sample: four independent 32-bit numbers.
    pub fn next_sample(&mut self) -> [u32; 4] {
        let mut state = [
            self.counter as u32,
            (self.counter >> 32) as u32,
            (self.counter >> 64) as u32,
            (self.counter >> 96) as u32,
        ];
        let mut key = self.key;
        for _ in 0..ROUNDS {
            let [low_a, high_a] = split(MULTIPLIER_A as u64 * state[0] as u64);
            let [low_b, high_b] = split(MULTIPLIER_B as u64 * state[2] as u64);
            state = [high_b ^ state[1] ^ key[0], low_b, high_a ^ state[3] ^ key[1], low_a];
            key = [key[0].wrapping_add(WEYL_A), key[1].wrapping_add(WEYL_B)];
        }
        self.skip(1);
        state
    }
}

/// Low and high half.
fn split(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

/// Takes 32 bits at a time from a generator.
#[derive(Clone, Debug)]
pub struct Singles {
    generator: Philox,
    sample: [u32; 4],
    used: usize,
}

impl Singles {
    /// Starts with the generator's next sample.
    pub fn new(generator: Philox) -> Singles {
        Singles { generator, sample: [0; 4], used: 4 }
    }

    /// 32 random bits.
    pub fn next_u32(&mut self) -> u32 {
        if self.used == self.sample.len() {
            self.sample = self.generator.next_sample();
            self.used = 0;
        }
        let value = self.sample[self.used];
        self.used += 1;
        value
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let low = self.next_u32();
        low as u64 | (self.next_u32() as u64) << 32
    }

    /// A float in [0, 1).
    pub fn next_f32(&mut self) -> f32 {
        unit_f32(self.next_u32())
    }

    /// A double in [0, 1).
    pub fn next_f64(&mut self) -> f64 {
        let high = self.next_u32();
        unit_f64(high, self.next_u32())
    }

    /// A number below `bound` (0 if `bound` is 0), all equally likely.
    pub fn below_u32(&mut self, bound: u32) -> u32 {
        if bound.is_power_of_two() {
            return self.next_u32() & (bound - 1);
        }
        if bound == 0 {
            return 0;
        }
        // Values below this remainder would make small results likelier.
        let unfair = (u32::MAX % bound) + 1;
        loop {
            let value = self.next_u32();
            if value >= unfair {
                return value % bound;
            }
        }
    }

    /// A number below `bound` (0 if `bound` is 0), all equally likely.
    pub fn below_u64(&mut self, bound: u64) -> u64 {
        if bound.is_power_of_two() {
            return self.next_u64() & (bound - 1);
        }
        if bound == 0 {
            return 0;
        }
        let unfair = (u64::MAX % bound) + 1;
        loop {
            let value = self.next_u64();
            if value >= unfair {
                return value % bound;
            }
        }
    }
}

/// The low 23 bits as the mantissa of a float in [1, 2), minus 1.
pub fn unit_f32(bits: u32) -> f32 {
    f32::from_bits(0x3f80_0000 | bits & 0x007f_ffff) - 1.0
}

/// 20 bits and 32 bits as the mantissa of a double in [1, 2), minus 1.
pub fn unit_f64(high: u32, low: u32) -> f64 {
    let mantissa = ((high & 0x000f_ffff) as u64) << 32 | low as u64;
    f64::from_bits(0x3ff0_0000_0000_0000 | mantissa) - 1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_test_vectors_hold() {
        // From the Random123 distribution: counter and key all zero, all ones, digits of pi.
        let sample = |counter, key| Philox { counter, key }.next_sample();
        assert_eq!(sample(0, [0, 0]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(sample(u128::MAX, [u32::MAX; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        let pi = 0x0370_7344_1319_8a2e_85a3_08d3_243f_6a88;
        assert_eq!(
            sample(pi, [0xa409_3822, 0x299f_31d0]),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    #[test]
    fn skipping_reaches_the_same_place_as_drawing() {
        let mut drawn = Philox::new(7, u64::MAX);
        let mut skipped = drawn;
        for _ in 0..5 {
            drawn.next_sample();
        }
        skipped.skip(5);
        assert_eq!(drawn.next_sample(), skipped.next_sample());
    }

    #[test]
    fn numbers_below_a_bound_stay_below_it() {
        let mut singles = Singles::new(Philox::new(1, 2));
        for bound in [1, 2, 3, 7, 64, 1000, u32::MAX] {
            assert!((0..100).all(|_| singles.below_u32(bound) < bound));
            assert!((0..100).all(|_| singles.below_u64(bound as u64) < bound as u64));
        }
        assert_eq!(singles.below_u32(0), 0);
        assert!((0..1000).map(|_| singles.next_f32()).all(|x| (0.0..1.0).contains(&x)));
    }
}
