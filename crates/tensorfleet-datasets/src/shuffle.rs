//! [`Shuffle`]: the orders in which the examples of a data set are visited, one after another from a seed.
//!
//! The same seed gives the same orders on every machine, so that a training can be repeated.

/// A source of permutations.
#[derive(Clone, Debug)]
pub(crate) struct Shuffle {
    state: u64,
}

impl Shuffle {
    pub(crate) fn new(seed: u64) -> Shuffle {
        Shuffle { state: seed }
    }

    /// Puts `order` into a random order (Fisher and Yates).
    pub(crate) fn apply(&mut self, order: &mut [u32]) {
        for last in (1..order.len()).rev() {
            let chosen = self.below(last as u64 + 1);
            order.swap(last, chosen as usize);
        }
    }

    /// A number in `0..bound`. The bias of taking the upper half of a product is below `bound / 2^64`.
    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn orders(seed: u64) -> [Vec<u32>; 2] {
        let mut shuffle = Shuffle::new(seed);
        let mut order: Vec<u32> = (0..1000).collect();
        shuffle.apply(&mut order);
        let first = order.clone();
        shuffle.apply(&mut order);
        [first, order]
    }

    #[test]
    fn a_seed_decides_all_orders() {
        let [first, second] = orders(1);
        assert_eq!(orders(1), [first.clone(), second.clone()]);
        assert_ne!(first, second);
        assert_ne!(orders(2)[0], first);
    }

    #[test]
    fn each_example_is_there_once() {
        for mut order in orders(3) {
            order.sort_unstable();
            assert!(order.into_iter().eq(0..1000));
        }
    }

    #[test]
    fn every_place_is_as_likely() {
        // How often the first of four ends where: 4000 draws give 1000 each, with a deviation of 27.
        let mut shuffle = Shuffle::new(5);
        let mut counts = [0; 4];
        for _ in 0..4000 {
            let mut order = [0, 1, 2, 3];
            shuffle.apply(&mut order);
            counts[order.iter().position(|&example| example == 0).unwrap()] += 1;
        }
        assert!(counts.iter().all(|count| (890..1110).contains(count)), "{counts:?}");
    }
}
