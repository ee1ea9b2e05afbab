//! What the output is: a terminal of some width, or a file or pipe that gets plain text. And the one way to it: everything that a
//! command writes to standard output passes through [`write`], so that none of it is lost in silence.

use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use tensorfleet_core::Status;

/// Narrower than this nothing is legible; a terminal that says so does not know its width.
const MIN_WIDTH: usize = 20;

/// Where a stream goes, and what may be done there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Terminal {
    /// Columns and rows, if it is a terminal that tells.
    pub(crate) size: Option<(usize, usize)>,
    pub(crate) colors: Colors,
}

impl Terminal {
    /// The one that `stream` goes to.
    pub(crate) fn of(stream: &(impl IsTerminal + AsFd)) -> Terminal {
        if !stream.is_terminal() {
            return Terminal::default();
        }
        let size = rustix::termios::tcgetwinsize(stream).ok();
        let size = size.map(|size| (usize::from(size.ws_col), usize::from(size.ws_row)));
        Terminal {
            size: size.filter(|&(columns, rows)| columns >= MIN_WIDTH && rows > 0),
            colors: Colors::of(stream),
        }
    }

    /// The one that standard output goes to.
    pub(crate) fn of_stdout() -> Terminal {
        Terminal::of(&std::io::stdout())
    }

    /// Columns that a line may take.
    pub(crate) fn width(&self) -> Option<usize> {
        self.size.map(|(columns, _)| columns)
    }

    /// The text in a colour, where there are colours.
    pub(crate) fn paint(&self, color: Color, text: &str) -> String {
        let parameters = match color {
            Color::Good => "32",
            Color::Doubtful => "33",
            Color::Bad => "31",
            Color::Head => "1",
        };
        self.colors.paint(parameters, text)
    }
}

/// Colours of a stream, or none: they are for people who look at a terminal and did not say `NO_COLOR`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Colors {
    On,
    #[default]
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

/// What a colour means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Color {
    Good,
    Doubtful,
    Bad,
    Head,
}

/// Writes to standard output, now.
pub(crate) fn write(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush())
}

/// What a failed [`write`] means for the command. A reader who has seen enough (`| head`) is no error.
pub(crate) fn lost(error: &std::io::Error) -> Option<Status> {
    let text =
        || format!("the output cannot be written ({error}): send standard output elsewhere, or make room");
    (error.kind() != std::io::ErrorKind::BrokenPipe).then(|| Status::data_loss(text()))
}

/// Prints what a command was asked for. Output that cannot be written, say on a full disk, ends the command.
pub(crate) fn print(text: &str) {
    if let Some(status) = write(text).err().as_ref().and_then(lost) {
        tell(&format!("error: {}", status.text()));
        std::process::exit(1);
    }
}

/// Prints a line of a command that has more to do than to print: a training goes on without its log. That a line was lost is said
/// once, and the command fails in the end ([`has_lost_lines`]).
pub(crate) fn print_meanwhile(line: &str) {
    let written = write(&format!("{line}\n"));
    if let Some(status) = written.err().as_ref().and_then(lost)
        && !LINES_LOST.swap(true, Ordering::Relaxed)
    {
        tell(&format!("error: {}", status.text()));
    }
}

static LINES_LOST: AtomicBool = AtomicBool::new(false);

/// Whether a line of [`print_meanwhile`] could not be written.
pub(crate) fn has_lost_lines() -> bool {
    LINES_LOST.load(Ordering::Relaxed)
}

/// Writes a line for people to standard error. When it cannot be written (`2>/dev/full`, `2>&1 | head`), nobody is left to be
/// told; the exit code still says how the command ended, which a panic of `eprintln!` would hide.
pub(crate) fn tell(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// A file to write to: it does not exist, or it is an ordinary one. Writing replaces it, which would put a file in the place of a
/// device or of a link.
pub(crate) fn check_output(path: &std::path::Path) -> tensorfleet_core::Result<()> {
    let is_ordinary = path.symlink_metadata().map_or(true, |metadata| metadata.is_file());
    tensorfleet_core::ensure!(
        is_ordinary,
        FailedPrecondition,
        "{} is no ordinary file: name a file, or - for standard output where that is possible",
        path.display()
    );
    Ok(())
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
