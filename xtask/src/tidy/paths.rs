//! Paths that prose names are there: a map that points nowhere is worse than none.

use std::path::Path;

/// What a path of the repository begins with, in the texts that are checked.
const ROOTS: &[&str] = &["crates/", "tests/", "benches/", "docs/", "examples/", "proto/", "xtask/"];

/// The paths that a map of the repository names and that are not there.
pub(super) fn check_map(root: &Path, name: &str) -> Result<Vec<String>, String> {
    let text = std::fs::read_to_string(root.join(name)).map_err(|error| format!("{name}: {error}"))?;
    Ok(check_text(name, &text, |path| root.join(path).exists()))
}

fn check_text(name: &str, text: &str, exists: impl Fn(&str) -> bool) -> Vec<String> {
    let lines = text.lines().enumerate();
    let named = lines.flat_map(|(index, line)| paths_in(line).map(move |path| (index + 1, path)));
    let missing = named.filter(|(_, path)| !exists(path));
    missing.map(|(line, path)| format!("{name}:{line}: there is no {path}")).collect()
}

/// What stands in backquotes and looks like a path from the root.
fn paths_in(line: &str) -> impl Iterator<Item = &str> {
    let quoted = line.split('`').skip(1).step_by(2);
    quoted.filter(|text| ROOTS.iter().any(|root| text.starts_with(root)) && !text.contains([' ', '*', '{']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_is_not_there_is_named_with_its_line() {
        let text =
            "See `crates/a.rs`,\n`crates/b.rs` and `cargo xtask tidy`, or `crates/*/c.rs`; not `b.rs`.\n";
        let findings = check_text("MAP.md", text, |path| path == "crates/a.rs");
        assert_eq!(findings, ["MAP.md:2: there is no crates/b.rs"]);
    }
}
