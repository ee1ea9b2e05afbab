//! The clock and the randomness of the machine that is simulated.
//!
//! There is one for the whole process: what asks the operating system for them, in our code, in the standard library or in
//! tokio, asks the C library in the end, and `main.rs` answers in its place, from here.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// A machine that has been up for a while: instants can be reckoned back from.
const START_NS: u64 = 1_000_000 * 1_000_000_000;

static NOW_NS: AtomicU64 = AtomicU64::new(START_NS);
static RANDOM: AtomicU64 = AtomicU64::new(0);

/// What the machine's clock shows.
pub fn clock_ns() -> u64 {
    NOW_NS.load(Relaxed)
}

/// Eight random bytes, the same in every run with the same seed.
pub fn random_u64() -> u64 {
    mixed(RANDOM.fetch_add(GAMMA, Relaxed))
}

/// Simulated time since the beginning.
pub fn now() -> Duration {
    Duration::from_nanos(clock_ns() - START_NS)
}

/// Lets time pass until `at`.
pub(crate) fn pass_until(at: Duration) {
    let at = START_NS + u64::try_from(at.as_nanos()).unwrap_or(u64::MAX - START_NS);
    NOW_NS.fetch_max(at, Relaxed);
}

/// Begins the machine's randomness.
pub(crate) fn seed(seed: u64) {
    RANDOM.store(mixed(seed), Relaxed);
}

const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// The output function of splitmix64.
fn mixed(state: u64) -> u64 {
    let state = state.wrapping_add(GAMMA);
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Random choices of a simulation. Each part of it has its own, so that one more choice in one part changes no other.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The choices of one part.
    pub fn new(seed: u64, part: u64) -> Random {
        Random(mixed(mixed(seed) ^ mixed(part)))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GAMMA);
        mixed(self.0)
    }

    /// A number in a range, its end excluded.
    pub fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.next() % end }
    }

    /// A number in a range, both ends included.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most.saturating_sub(least).saturating_add(1))
    }

    /// A duration in a range of milliseconds.
    pub fn millis(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_micros(self.between(least * 1000, most * 1000))
    }

    /// One of these.
    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// Whether something happens that happens in so many of a thousand cases.
    pub fn permille(&mut self, chance: u64) -> bool {
        self.below(1000) < chance
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_and_part_choose_the_same() {
        let choices = |seed, part| {
            let mut random = Random::new(seed, part);
            (0..8).map(|_| random.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(choices(1, 2), choices(1, 2));
        assert_ne!(choices(1, 2), choices(1, 3));
        assert_ne!(choices(1, 2), choices(2, 2));
    }

    #[test]
    fn numbers_stay_in_their_range_and_reach_its_ends() {
        let mut random = Random::new(7, 7);
        let drawn: Vec<u64> = (0..200).map(|_| random.between(3, 5)).collect();
        assert!(drawn.iter().all(|number| (3..=5).contains(number)));
        assert!([3, 4, 5].iter().all(|end| drawn.contains(end)));
        assert_eq!(random.below(0), 0);
    }
}
