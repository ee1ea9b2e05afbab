//! Habits of files, one at a time: how long they are, what they begin with, which words they do not have.

use std::io;
use std::path::{Path, PathBuf};

/// No source file is longer.
const MAX_LINES: usize = 800;

/// Kinds of files that people write.
const TEXT: &[&str] = &["md", "proto", "py", "rs", "sh", "toml", "txt", "yml"];

/// Written in pieces, so that this file passes its own check.
const MARKS: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
const MACHINE_PATHS: &[&str] =
    &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/tmp/", "wt")];

/// What is wrong with the files people write, one line for each finding.
pub(super) fn check_tree(root: &Path) -> io::Result<Vec<String>> {
    let mut findings = Vec::new();
    for path in text_files(root)? {
        let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        match String::from_utf8(std::fs::read(&path)?) {
            Ok(text) => findings.extend(check_text(&name, &text)),
            Err(_) => findings.push(format!("{name}: not UTF-8")),
        }
    }
    Ok(findings)
}

fn text_files(root: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut pending = vec![root.to_path_buf()];
    while let Some(directory) = pending.pop() {
        for entry in directory.read_dir()? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                let skipped = [".git", "generated", "proptest-regressions", "target"].contains(&&*name);
                pending.extend((!skipped).then_some(path));
            } else if path.extension().is_some_and(|extension| TEXT.iter().any(|&text| extension == text)) {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

fn check_text(name: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    let lines = text.lines().count();
    let is_rust = name.ends_with(".rs");
    if is_rust && lines > MAX_LINES {
        findings.push(format!("{name}: {lines} lines; split it by concept, the limit is {MAX_LINES}"));
    }
    if is_rust && !text.starts_with("//!") {
        findings.push(format!("{name}:1: no module comment; say first what this file is"));
    }
    if !text.is_empty() && !text.ends_with('\n') {
        findings.push(format!("{name}:{lines}: no line end at the end of the file"));
    }
    for (index, line) in text.lines().enumerate() {
        let mut at = |finding: String| findings.push(format!("{name}:{}: {finding}", index + 1));
        if line.ends_with([' ', '\t']) {
            at("white space at the end of the line".to_string());
        }
        let words = || line.split(|c: char| !c.is_ascii_alphanumeric());
        if let Some(mark) = MARKS.iter().find(|&&mark| words().any(|word| word == mark)) {
            at(format!("{mark}: do it, or leave it out"));
        }
        if let Some(path) = MACHINE_PATHS.iter().find(|&&path| line.contains(path)) {
            at(format!("'{path}' is a path of one machine"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tidy_file_has_no_findings() {
        assert_eq!(check_text("a.rs", "//! What it is.\n\nfn work() {}\n"), Vec::<String>::new());
    }

    #[test]
    fn each_bad_habit_is_named_with_its_line() {
        let mark = MARKS[0];
        for (text, fragment) in [
            ("fn f() {}\n".to_string(), "a.rs:1: no module comment"),
            ("//! X.\nlet a; \n".to_string(), "a.rs:2: white space"),
            (format!("//! X.\n// {mark}: later\n"), "do it"),
            (format!("//! X.\nopen(\"{}x\")\n", MACHINE_PATHS[0]), "path of one machine"),
            ("//! X.".to_string(), "no line end"),
            (format!("//! X.\n{}", "\n".repeat(MAX_LINES)), "801 lines"),
        ] {
            let findings = check_text("a.rs", &text);
            assert!(
                findings.len() == 1 && findings[0].contains(fragment),
                "{findings:?} should have {fragment}"
            );
        }
    }
}
