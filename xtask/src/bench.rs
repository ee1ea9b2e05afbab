//! x
use crate::Outcome; use crate::arguments::Arguments;
pub(crate) fn run(_: Arguments, _: &std::path::Path) -> Outcome { Err("x".into()) }
