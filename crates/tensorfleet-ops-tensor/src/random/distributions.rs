//! The elementary distributions, each a function from a place in the stream to a group of values.
//!
//! TensorFlow fixes how many values come from one sample and how far apart the groups lie; both are constants of
//! [`Distribution`]. Since a group depends on its own place alone, groups can be made in any order.

use half::{bf16, f16};
use tensorfleet_core::Element;

use tensorfleet_numeric::philox::{Philox, Singles, unit_f32, unit_f64};
use tensorfleet_threads::Loops;

/// Values drawn together; a distribution whose group is smaller leaves the rest unused.
pub(super) type Group<T> = [T; 4];

/// How values of type `T` are made from random bits.
pub(super) trait Distribution<T>: Sync {
    /// How many values belong together: 2 or 4.
    const GROUP: usize;
    /// How many samples of 128 bits lie between the starts of two groups.
    const STRIDE: u64 = 1;
    /// Estimated cost of a group, in hundredths of a nanosecond.
    const COST: usize;

    /// The group that starts at this place.
    fn draw(&self, philox: Philox) -> Group<T>;
}

/// Fills `out` with the values that start at `base`.
pub(super) fn fill<T: Element, D: Distribution<T>>(
    loops: &Loops,
    base: Philox,
    out: &mut [T],
    distribution: &D,
) {
    loops.chunks_mut(out, D::GROUP, D::COST, |first_group, piece| {
        let mut philox = base;
        philox.skip(first_group as u64 * D::STRIDE);
        for group in piece.chunks_mut(D::GROUP) {
            let values = distribution.draw(philox);
            group.copy_from_slice(&values[..group.len()]);
            philox.skip(D::STRIDE);
        }
    });
}

/// Uniform in [0, 1).
pub(super) struct Uniform;

impl Distribution<f32> for Uniform {
    const GROUP: usize = 4;
    const COST: usize = 600;
    fn draw(&self, mut philox: Philox) -> Group<f32> {
        philox.next_sample().map(unit_f32)
    }
}

impl Distribution<f64> for Uniform {
    const GROUP: usize = 2;
    const COST: usize = 600;
    fn draw(&self, mut philox: Philox) -> Group<f64> {
        let [a, b, c, d] = philox.next_sample();
        [unit_f64(a, b), unit_f64(c, d), 0.0, 0.0]
    }
}

impl Distribution<f16> for Uniform {
    const GROUP: usize = 4;
    const COST: usize = 1000;
    fn draw(&self, mut philox: Philox) -> Group<f16> {
        philox.next_sample().map(|bits| f16::from_bits(0x3c00 | bits as u16 & 0x3ff) - f16::ONE)
    }
}

impl Distribution<bf16> for Uniform {
    const GROUP: usize = 4;
    const COST: usize = 1000;
    fn draw(&self, mut philox: Philox) -> Group<bf16> {
        philox.next_sample().map(|bits| bf16::from_bits(0x3f80 | bits as u16 & 0x7f) - bf16::ONE)
    }
}

/// Integers in [low, low + range), with `range` as an unsigned number. Slightly unfair for large ranges, as in
/// TensorFlow.
pub(super) struct UniformInt<T> {
    /// The smallest value.
    pub(super) low: T,
    /// How many values there are; not zero.
    pub(super) range: u64,
}

impl Distribution<i32> for UniformInt<i32> {
    const GROUP: usize = 4;
    const COST: usize = 1200;
    fn draw(&self, mut philox: Philox) -> Group<i32> {
        let range = (self.range as u32).max(1);
        philox.next_sample().map(|bits| self.low.wrapping_add((bits % range) as i32))
    }
}

impl Distribution<i64> for UniformInt<i64> {
    const GROUP: usize = 2;
    const COST: usize = 1500;
    fn draw(&self, mut philox: Philox) -> Group<i64> {
        let [a, b, c, d] = philox.next_sample();
        let range = self.range.max(1);
        let pick =
            |low: u32, high: u32| self.low.wrapping_add(((low as u64 | (high as u64) << 32) % range) as i64);
        [pick(a, b), pick(c, d), 0, 0]
    }
}

/// Normal with mean 0 and deviation 1, two values from two uniform ones (Box and Muller).
pub(super) struct Normal;

/// Keeps the logarithm finite; TensorFlow's choice.
const SMALLEST_UNIFORM: f64 = 1.0e-7;

fn normal_pair_f32(a: u32, b: u32) -> [f32; 2] {
    let radius = (-2.0 * unit_f32(a).max(SMALLEST_UNIFORM as f32).ln()).sqrt();
    let (sin, cos) = ((std::f64::consts::TAU * unit_f32(b) as f64) as f32).sin_cos();
    [sin * radius, cos * radius]
}

/// Two normal doubles from one sample.
pub(super) fn normal_pair_f64([a, b, c, d]: [u32; 4]) -> [f64; 2] {
    let radius = (-2.0 * unit_f64(a, b).max(SMALLEST_UNIFORM).ln()).sqrt();
    let (sin, cos) = (std::f64::consts::TAU * unit_f64(c, d)).sin_cos();
    [sin * radius, cos * radius]
}

impl Distribution<f32> for Normal {
    const GROUP: usize = 4;
    const COST: usize = 5000;
    fn draw(&self, mut philox: Philox) -> Group<f32> {
        let [a, b, c, d] = philox.next_sample();
        let ([w, x], [y, z]) = (normal_pair_f32(a, b), normal_pair_f32(c, d));
        [w, x, y, z]
    }
}

impl Distribution<f64> for Normal {
    const GROUP: usize = 2;
    const COST: usize = 5000;
    fn draw(&self, mut philox: Philox) -> Group<f64> {
        let [x, y] = normal_pair_f64(philox.next_sample());
        [x, y, 0.0, 0.0]
    }
}

/// Normal, but values two deviations or more from the mean are drawn again.
pub(super) struct TruncatedNormal;

const TRUNCATE_AT: f64 = 2.0;

impl Distribution<f32> for TruncatedNormal {
    const GROUP: usize = 4;
    // Room for redraws: 256 numbers for each of the four values.
    const STRIDE: u64 = 256;
    const COST: usize = 6000;
    fn draw(&self, philox: Philox) -> Group<f32> {
        let mut singles = Singles::new(philox);
        let mut values = [0.0; 4];
        let mut count = 0;
        while count < values.len() {
            let a = singles.next_u32();
            for value in normal_pair_f32(a, singles.next_u32()) {
                if value.abs() < TRUNCATE_AT as f32 && count < values.len() {
                    values[count] = value;
                    count += 1;
                }
            }
        }
        values
    }
}

impl Distribution<f64> for TruncatedNormal {
    const GROUP: usize = 2;
    const STRIDE: u64 = 128;
    const COST: usize = 6000;
    fn draw(&self, mut philox: Philox) -> Group<f64> {
        let mut values = [0.0; 4];
        let mut count = 0;
        while count < 2 {
            for value in normal_pair_f64(philox.next_sample()) {
                if value.abs() < TRUNCATE_AT && count < 2 {
                    values[count] = value;
                    count += 1;
                }
            }
        }
        values
    }
}

/// Half and bfloat16 normals are rounded floats.
macro_rules! rounded {
    ($($distribution:ty => $($narrow:ty),*;)*) => {
        $($(impl Distribution<$narrow> for $distribution {
            const GROUP: usize = 4;
            const STRIDE: u64 = <$distribution as Distribution<f32>>::STRIDE;
            const COST: usize = 7000;
            fn draw(&self, philox: Philox) -> Group<$narrow> {
                <$distribution as Distribution<f32>>::draw(self, philox).map(<$narrow>::from_f32)
            }
        })*)*
    };
}

rounded! {
    Normal => f16, bf16;
    TruncatedNormal => f16, bf16;
}
