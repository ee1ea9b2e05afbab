//! Tells people what is waited for, whether their program has set up a log or not.

use std::io::Write;

/// Something takes long, or goes wrong and is mended.
pub(crate) fn warn(text: &str) {
    match tracing::dispatcher::has_been_set() {
        true => tracing::warn!("{text}"),
        // A program that has set up no log must not be left in the dark. One whose error output is closed goes on.
        false => {
            let _ = writeln!(std::io::stderr(), "tensorfleet: {text}");
        }
    }
}
