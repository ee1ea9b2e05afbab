//! Tells people what a training program does and waits for.

use std::io::Write;

/// How many names a message lists before it counts the rest: hundreds of variables in a line help nobody.
const MAX_NAMES: usize = 5;

/// Something happened that people like to know.
pub(crate) fn info(text: impl AsRef<str>) {
    match tracing::dispatcher::has_been_set() {
        true => tracing::info!("{}", text.as_ref()),
        false => say(text.as_ref()),
    }
}

/// Something went wrong, and the program helps itself.
pub(crate) fn warn(text: impl AsRef<str>) {
    match tracing::dispatcher::has_been_set() {
        true => tracing::warn!("{}", text.as_ref()),
        false => say(text.as_ref()),
    }
}

/// A program that has set up no log must not be left in the dark. One whose error output is closed trains on.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "tensorfleet: {text}");
}

/// The first few names, and how many more there are.
pub(crate) fn some_of(names: &[String]) -> String {
    let shown = names.iter().take(MAX_NAMES).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(MAX_NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_are_counted_not_spelled_out() {
        let names = |count: usize| (0..count).map(|index| format!("v{index}")).collect::<Vec<_>>();
        assert_eq!(some_of(&names(2)), "v0, v1");
        assert_eq!(some_of(&names(5)), "v0, v1, v2, v3, v4");
        assert_eq!(some_of(&names(200)), "v0, v1, v2, v3, v4 and 195 more");
    }
}
