//! What the terminal can do: colours, and how wide it is.

use std::io::IsTerminal;

/// Colours of a stream, or none: they are for people who look at a terminal and did not say `NO_COLOR`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colors {
    On,
    Off,
}

impl Colors {
    /// For something that is written to `stream`.
    pub(crate) fn of(stream: &impl IsTerminal) -> Colors {
        let is_refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
        match stream.is_terminal() && !is_refused && !is_dumb {
            true => Colors::On,
            false => Colors::Off,
        }
    }

    /// `text` in a colour, given as the parameters of ANSI's "select graphic rendition", e.g. `1;32`.
    pub(crate) fn paint(self, parameters: &str, text: &str) -> String {
        match self {
            Colors::On => format!("\x1b[{parameters}m{text}\x1b[0m"),
            Colors::Off => text.to_string(),
        }
    }
}

/// Columns of the terminal that standard output is; none if it is no terminal.
pub(crate) fn stdout_columns() -> Option<usize> {
    console::Term::stdout().size_checked().map(|(_, columns)| usize::from(columns))
}

/// The same of standard error.
pub(crate) fn stderr_columns() -> Option<usize> {
    console::Term::stderr().size_checked().map(|(_, columns)| usize::from(columns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_painted_only_if_colours_are_on() {
        assert_eq!(Colors::On.paint("1", "x"), "\x1b[1mx\x1b[0m");
        assert_eq!(Colors::Off.paint("1", "x"), "x");
    }
}
