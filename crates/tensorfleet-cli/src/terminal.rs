//! What the output is: a terminal of some width, or a file or pipe that gets plain text.

use std::io::{IsTerminal, Write};

/// Narrower than this nothing is legible; a terminal that says so does not know its width.
const MIN_WIDTH: usize = 20;

/// Where standard output goes, and what may be done there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Terminal {
    /// Columns and rows, if it is a terminal that tells.
    pub(crate) size: Option<(usize, usize)>,
    /// Whether it shows colours and the user does not mind (`NO_COLOR`).
    pub(crate) colours: bool,
}

impl Terminal {
    /// The one that standard output goes to.
    pub(crate) fn of_stdout() -> Terminal {
        let stdout = std::io::stdout();
        if !stdout.is_terminal() {
            return Terminal::default();
        }
        let size = rustix::termios::tcgetwinsize(&stdout).ok();
        let size = size.map(|size| (usize::from(size.ws_col), usize::from(size.ws_row)));
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Terminal {
            size: size.filter(|&(columns, rows)| columns >= MIN_WIDTH && rows > 0),
            colours: !is_set("NO_COLOR") && !is_dumb,
        }
    }

    /// Columns that a line may take.
    pub(crate) fn width(&self) -> Option<usize> {
        self.size.map(|(columns, _)| columns)
    }

    /// The text in a colour, where there are colours.
    pub(crate) fn paint(&self, colour: Colour, text: &str) -> String {
        if !self.colours {
            return text.to_string();
        }
        let code = match colour {
            Colour::Good => "32",
            Colour::Doubtful => "33",
            Colour::Bad => "31",
            Colour::Head => "1",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// What a colour means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colour {
    Good,
    Doubtful,
    Bad,
    Head,
}

/// Prints what a command was asked for. A reader who has seen enough (`| head`) is no error.
pub(crate) fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
