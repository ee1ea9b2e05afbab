//! The `tensorfleet` command.

fn main() {}
