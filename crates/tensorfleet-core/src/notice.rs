//! Tells people what a program does and waits for, whether it has set up a log or not.

use std::io::Write;

/// Something happened that people like to know.
pub fn info(text: impl AsRef<str>) {
    match tracing::dispatcher::has_been_set() {
        true => tracing::info!("{}", text.as_ref()),
        false => print(text.as_ref()),
    }
}

/// Something takes long, or went wrong and the program helps itself.
pub fn warn(text: impl AsRef<str>) {
    match tracing::dispatcher::has_been_set() {
        true => tracing::warn!("{}", text.as_ref()),
        false => print(text.as_ref()),
    }
}

/// A program that has set up no log must not be left in the dark. One whose error output is closed goes on.
fn print(text: &str) {
    let _ = writeln!(std::io::stderr(), "tensorfleet: {text}");
}
