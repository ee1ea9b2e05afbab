//! The output of several tasks on one terminal: each line with its task's name before it, aligned, in the task's colour.

use std::io::Write;

use crate::local_cluster::Stream;
use crate::terminal::{self, Colors};

/// What the launcher's own lines are called.
const OWN_NAME: &str = "launch";
/// Bold: the launcher's own lines stand out.
const OWN_COLOR: &str = "1";
/// Colours that can be told apart on dark and light terminals.
const COLORS: [&str; 6] = ["36", "33", "32", "35", "34", "31"];

/// Writes lines of tasks.
pub(crate) struct Gutter {
    out: Prefixes,
    err: Prefixes,
    own: String,
}

/// What stands before each task's lines on one stream.
struct Prefixes {
    prefixes: Vec<String>,
    colors: Colors,
}

impl Gutter {
    pub(crate) fn new(names: &[String]) -> Gutter {
        let width =
            names.iter().map(|name| name.chars().count()).chain([OWN_NAME.len()]).max().unwrap_or_default();
        let for_stream = |colors: Colors| {
            let prefix = |(name, color): (&String, &&str)| colors.paint(color, &format!("{name:<width$} │ "));
            let prefixes = names.iter().zip(COLORS.iter().cycle()).map(prefix).collect();
            Prefixes { prefixes, colors }
        };
        let (out, err) = (Colors::of(&std::io::stdout()), Colors::of(&std::io::stderr()));
        let own = err.paint(OWN_COLOR, &format!("{OWN_NAME:<width$} │ "));
        Gutter { out: for_stream(out), err: for_stream(err), own }
    }

    /// Writes a task's line to the stream it came from. An error is that of standard output.
    pub(crate) fn line(&self, task: usize, stream: Stream, text: &str) -> std::io::Result<()> {
        match stream {
            Stream::Out => terminal::write(&self.out.line(task, text)),
            Stream::Err => {
                let _ = std::io::stderr().lock().write_all(self.err.line(task, text).as_bytes());
                Ok(())
            }
        }
    }

    /// Writes a line of the launcher.
    pub(crate) fn say(&self, text: &str) {
        let _ = writeln!(std::io::stderr().lock(), "{}{text}", self.own);
    }
}

impl Prefixes {
    fn line(&self, task: usize, text: &str) -> String {
        let prefix = self.prefixes.get(task).map_or("", String::as_str);
        // A colour that a program has left on must not run into the next task's lines.
        let reset = if self.colors == Colors::On && text.contains('\x1b') { "\x1b[0m" } else { "" };
        format!("{prefix}{text}{reset}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_aligned_and_colours_do_not_leak() {
        let names = ["ps/0".to_string(), "worker/0".to_string()];
        let gutter = Gutter::new(&names);
        assert_eq!(gutter.out.line(0, "a"), "ps/0     │ a\n");
        assert_eq!(gutter.out.line(1, "b"), "worker/0 │ b\n");
        let colored = Prefixes { prefixes: vec!["p ".into()], colors: Colors::On };
        assert_eq!(colored.line(0, "\x1b[31mred"), "p \x1b[31mred\x1b[0m\n");
    }
}
