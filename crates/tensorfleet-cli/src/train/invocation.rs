//! How this program was called, so that the commands it suggests can be copied.

/// What stands before a subcommand: `tensorfleet`, a path, or `cargo run --release --`.
pub(super) fn command() -> String {
    // Cargo sets this for what it runs, and a clone that was just built has no `tensorfleet` in its PATH.
    if std::env::var_os("CARGO_MANIFEST_DIR").is_some() {
        let profile = if cfg!(debug_assertions) { "" } else { "--release " };
        return format!("cargo run {profile}--");
    }
    std::env::args_os().next().map_or_else(|| "tensorfleet".into(), |name| quoted(&name.to_string_lossy()))
}

/// `text` as a shell reads it.
pub(super) fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@%".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_string(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_can_be_copied_into_a_shell() {
        assert_eq!(quoted("/tmp/run-1"), "/tmp/run-1");
        assert_eq!(quoted("my run"), "'my run'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
