//! Patterns in RE2's syntax, which graphs use, as patterns of the `regex` crate.
//!
//! Both descend from one library and agree on almost everything. They differ in the Perl classes, which in RE2 know
//! ASCII alone, and in what has to be escaped inside brackets.

use regex::bytes::{Regex, RegexBuilder};
use tensorfleet_core::{Result, Status, excerpt};

/// Bounds what a pattern from a graph can cost in memory.
const MAX_COMPILED_BYTES: usize = 16 << 20;

/// Compiles a pattern that matches anywhere.
pub(super) fn compile(pattern: &[u8]) -> Result<Regex> {
    build(pattern, |translated| translated.to_string())
}

/// Compiles a pattern that has to match all of a string.
pub(super) fn compile_full(pattern: &[u8]) -> Result<Regex> {
    build(pattern, |translated| format!(r"\A(?:{translated})\z"))
}

fn build(pattern: &[u8], wrap: impl FnOnce(&str) -> String) -> Result<Regex> {
    let invalid = |why: String| {
        let pattern = excerpt(pattern);
        Status::invalid_argument(format!("Invalid pattern: {pattern}, error: {why}"))
    };
    let text = std::str::from_utf8(pattern).map_err(|_| invalid("invalid UTF-8".to_string()))?;
    // Alone first: what wraps it must not make an unbalanced pattern balanced.
    let translated = translate(text);
    let build = |pattern: &str| {
        let regex = RegexBuilder::new(pattern).size_limit(MAX_COMPILED_BYTES).build();
        // The text repeats the pattern, then says in its last line what is wrong.
        let reason =
            |text: String| text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_string();
        regex.map_err(|error| invalid(reason(error.to_string())))
    };
    build(&translated)?;
    build(&wrap(&translated))
}

fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut in_class = false;
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(escaped) => push_escape(&mut out, escaped, in_class),
                None => out.push('\\'),
            },
            '[' if !in_class => {
                in_class = true;
                out.push('[');
                if chars.next_if_eq(&'^').is_some() {
                    out.push('^');
                }
                // A bracket that closes at once is one of the class.
                if chars.next_if_eq(&']').is_some() {
                    out.push_str("\\]");
                }
            }
            '[' if chars.peek() == Some(&':') => {
                out.push('[');
                // Up to the end of a named class such as `[:alpha:]`.
                while let Some(c) = chars.next() {
                    out.push(c);
                    if c == ':' && chars.peek() == Some(&']') {
                        out.extend(chars.next());
                        break;
                    }
                }
            }
            '[' | '&' | '~' if in_class => {
                out.push('\\');
                out.push(c);
            }
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            _ => out.push(c),
        }
    }
    out
}

fn push_escape(out: &mut String, escaped: char, in_class: bool) {
    match (escaped, in_class) {
        ('d', _) => out.push_str("[0-9]"),
        ('D', _) => out.push_str("[^0-9]"),
        ('w', _) => out.push_str("[0-9A-Za-z_]"),
        ('W', _) => out.push_str("[^0-9A-Za-z_]"),
        ('s', _) => out.push_str("[\\t\\n\\x0C\\r ]"),
        ('S', _) => out.push_str("[^\\t\\n\\x0C\\r ]"),
        ('b', false) => out.push_str("(?-u:\\b)"),
        ('B', false) => out.push_str("(?-u:\\B)"),
        ('C', false) => out.push_str("(?s-u:.)"),
        (other, _) => {
            out.push('\\');
            out.push(other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        compile_full(pattern.as_bytes()).unwrap().is_match(text.as_bytes())
    }

    #[test]
    fn a_full_match_covers_the_whole_string() {
        assert!(matches(".*ckpt-\\d+", "dir/model.ckpt-10"));
        assert!(!matches("model", "dir/model.ckpt-10"));
        assert!(matches("a|ab", "ab"));
        assert!(!matches("^s3://.*", "dir"));
        assert!(matches("", "") && !matches("", "x"));
    }

    #[test]
    fn perl_classes_are_ascii_and_brackets_need_no_escapes() {
        assert!(matches("\\w", "a") && !matches("\\w", "ä") && matches(".", "ä"));
        assert!(matches("[\\d_]+", "1_2") && !matches("\\d", "٣"));
        assert!(matches("[[]", "[") && matches("[]]", "]") && matches("[^]]", "x") && matches("[a&&b]", "&"));
        assert!(matches("[[:alpha:]]+", "abc") && matches("[\\]\\w]", "]"));
    }

    #[test]
    fn bad_patterns_are_invalid_arguments() {
        for bad in ["(", ")", "a)(?:b", "[a", "a{2,1}", "\\", "(?<!a)", "a**{1000}{1000}{1000}"] {
            let status = compile_full(bad.as_bytes()).unwrap_err();
            assert_eq!(status.code(), tensorfleet_core::Code::InvalidArgument, "{bad}");
        }
        assert!(compile(b"\xff").is_err());
    }
}
