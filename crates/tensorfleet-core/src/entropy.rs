//! Randomness from the operating system: the only module that draws it.
//!
//! All other random numbers come out of generators that are seeded from here or by the user, so that a run with given
//! seeds can be repeated.

use std::hash::{BuildHasher, RandomState};

use crate::status::{Result, Status};

/// A seed that nobody can foresee.
pub fn seed() -> Result<u64> {
    getrandom::u64().map_err(|error| Status::unavailable(format!("no randomness from the system: {error}")))
}

/// A number that nobody else has, for all practical purposes: for names, handles and incarnations.
///
/// It is hashed with keys that the standard library draws from the system once per thread, so it costs no system call,
/// and who has seen some of these numbers cannot guess the others.
pub fn nonce() -> u64 {
    RandomState::new().hash_one(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_numbers_are_the_same() {
        let mut seen = std::collections::HashSet::new();
        for _ in 0..1000 {
            assert!(seen.insert(nonce()));
            assert!(seen.insert(seed().unwrap()));
        }
    }
}
