//! Numbers that nobody else has: handles, step ids, request ids.

use std::cell::Cell;

use tensorfleet_core::entropy;

/// Steps have numbers below this.
const STEP_ID_BITS: u32 = 57;

thread_local! {
    /// The state of this thread's generator.
    static STATE: Cell<u64> = Cell::new(entropy::nonce());
}

/// A random 64-bit number (splitmix64).
pub(crate) fn random_u64() -> u64 {
    STATE.with(|state| {
        let next = state.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        state.set(next);
        let mixed = (next ^ (next >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    })
}

/// A number for a request: never 0, which means "not numbered".
pub(crate) fn request_id() -> i64 {
    (random_u64() as i64) | 1
}

/// A number for a step, unique over all masters of a cluster for all practical purposes.
pub(crate) fn step_id() -> i64 {
    (random_u64() >> (64 - STEP_ID_BITS)) as i64
}

/// A handle that cannot be guessed from others: two generators would have to be known.
pub(crate) fn session_handle() -> String {
    format!("{:016x}", random_u64() ^ entropy::nonce())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_differ_and_keep_their_bounds() {
        let mut seen = std::collections::HashSet::new();
        for _ in 0..1000 {
            assert!(seen.insert(random_u64()));
            assert_ne!(request_id(), 0);
            assert!((0..1 << STEP_ID_BITS).contains(&step_id()));
        }
        assert_eq!(session_handle().len(), 16);
    }
}
