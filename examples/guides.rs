//! The guides of `docs/`, so that the programs in them are compiled and run with the other tests.

#[doc = include_str!("../docs/concepts.md")]
mod concepts {}

#[doc = include_str!("../docs/placement.md")]
mod placement {}

#[doc = include_str!("../docs/sync-and-async.md")]
mod sync_and_async {}

#[doc = include_str!("../docs/fault-tolerance.md")]
mod fault_tolerance {}

#[doc = include_str!("../docs/compatibility.md")]
mod compatibility {}

#[doc = include_str!("../docs/porting.md")]
mod porting {}
