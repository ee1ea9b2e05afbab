//! No code: `Cargo.toml` names the features of crates that ours get by way of others.
//!
//! Cargo compiles a crate again for every set of features it is wanted with, and everything above it. What a set is
//! depends on which packages are chosen: `cargo test -p tensorfleet-core` after `cargo build` would compile most of the
//! workspace a second time, because somebody above asks a crate below for one feature more. The bottom of the workspace
//! depends on this crate, so every choice of packages asks for the same. Features of crates that we name ourselves stand
//! in the workspace's `Cargo.toml` instead.
