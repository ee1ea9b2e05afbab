//! Models of the concurrent cores: the very source files, run through every order of events that a bound allows.
//!
//! A test with threads meets a handful of the orders in which threads can interleave, and none of those that only a weak
//! memory model allows. loom runs a small program again and again, each time with another interleaving and with other
//! values that an atomic load may see, and finds data races, lost wake-ups and deadlocks on the way.
//!
//! # How it works
//! The modelled files take their primitives from `crate::sync`. In their own crate that is `parking_lot` and the standard
//! library; here the same file is compiled again, by `#[path]`, and `crate::sync` is `sync`: loom's primitives behind
//! the interface of `parking_lot`. So what is checked is what ships, no flag is needed, and nothing is built twice but
//! those files.
//!
//! Run them with `cargo test -p tensorfleet-models --features loom`, as `cargo xtask test` does; without the feature this
//! crate is empty.
//!
//! # How to add one
//! 1. Let the file take its primitives from `crate::sync`; what that lacks is added to `sync`, too.
//! 2. Give it a module here: `#[path = "../../<crate>/src/<file>.rs"] mod <name>;`, in a file named like the module that
//!    holds it over there if it has `pub(super)` items or says `super::`.
//! 3. Write a `pub fn` that builds the smallest situation in which it could go wrong, with two or three threads, inside
//!    `check`. Say in its comment **which change of the file it finds**, after trying that change by hand: a model that
//!    cannot fail proves nothing.
//! 4. Name it in `tests/models.rs`.
//!
//! # Bounds
//! `check` looks at all executions with up to `PREEMPTIONS` preemptions: switches away from a thread that could go
//! on. Known bugs of this kind need one or two. `LOOM_MAX_PREEMPTIONS` sets another bound; `LOOM_LOG=trace` and
//! `LOOM_LOCATION=1` show the execution that failed.

#![cfg(feature = "loom")]

#[allow(unreachable_pub, reason = "compiled from another crate, which exports it")]
#[path = "../../tensorfleet-threads/src/completion.rs"]
mod completion;
pub mod completions;
pub mod executor;
pub mod loops;
#[allow(dead_code, unreachable_pub, reason = "compiled from another crate, which uses more of it")]
#[path = "../../tensorfleet-runtime/src/rendezvous.rs"]
mod rendezvous;
pub mod rendezvouses;
mod sync;

/// How many preemptions the executions of a model have at most.
pub const PREEMPTIONS: usize = 4;

/// Runs `model` through every execution within the bound; panics in the first that fails.
pub fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(PREEMPTIONS);
    builder.check(model);
}
