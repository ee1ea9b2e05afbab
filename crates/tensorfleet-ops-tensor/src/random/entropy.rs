//! The one place that draws randomness from the operating system: seeds for ops that have none.

use tensorfleet_core::{Result, Status};

/// A seed nobody can foresee.
pub fn seed() -> Result<u64> {
    getrandom::u64().map_err(|error| Status::unavailable(format!("no randomness from the system: {error}")))
}
