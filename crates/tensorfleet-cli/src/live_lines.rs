//! A few lines at the bottom of a terminal that change in place.
//!
//! The cursor always rests at the beginning of the line below them. So what the terminal itself writes, the `^C` of someone who
//! has had enough, lands where the next change wipes it away, and does not shift what this module believes to be where.

use std::io::Write;

/// Back to the beginning, and erase from there to the end of the terminal.
const ERASE_BELOW: &str = "\r\x1b[J";
/// Erases what an earlier, longer line has left.
const ERASE_RIGHT: &str = "\x1b[K";

/// The lines as they are on the terminal.
#[derive(Default)]
pub(crate) struct LiveLines {
    lines: Vec<String>,
}

impl LiveLines {
    /// Puts these lines in place of those that are there. None may be as long as the terminal is wide, `columns`.
    pub(crate) fn show(&mut self, lines: Vec<String>, columns: usize) {
        let mut frame = self.to_first_line(columns);
        for line in &lines {
            frame.push_str(&format!("{line}{ERASE_RIGHT}\n"));
        }
        frame.push_str(ERASE_BELOW);
        self.lines = lines;
        write(&frame);
    }

    /// Writes a line that stays, above those that change.
    pub(crate) fn say(&mut self, text: &str, columns: usize) {
        let frame = format!("{}{ERASE_BELOW}{text}\n", self.to_first_line(columns));
        let lines = std::mem::take(&mut self.lines);
        write(&frame);
        self.show(lines, columns);
    }

    /// Brings the cursor to the beginning of the first line. On a terminal that was made narrower, lines take several rows.
    fn to_first_line(&self, columns: usize) -> String {
        let rows = |line: &String| visible_width(line).div_ceil(columns.max(1)).max(1);
        match self.lines.iter().map(rows).sum() {
            0 => "\r".to_string(),
            rows => format!("\r\x1b[{rows}A"),
        }
    }
}

/// How many characters of a line are seen: those of no escape sequence, which begins with `\x1b[` and ends with a letter.
fn visible_width(line: &str) -> usize {
    let mut pieces = line.split("\x1b[");
    let first = pieces.next().map_or(0, |text| text.chars().count());
    let after_escape = |piece: &str| {
        let letter = piece.find(|c: char| c.is_ascii_alphabetic());
        letter.map_or(0, |letter| piece[letter + 1..].chars().count())
    };
    first + pieces.map(after_escape).sum::<usize>()
}

/// In one piece, so that no half of a change is ever seen.
fn write(frame: &str) {
    let mut err = std::io::stderr().lock();
    // Fails only if the terminal is gone.
    let _ = err.write_all(frame.as_bytes()).and_then(|()| err.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_take_no_room() {
        for (line, width) in
            [("", 0), ("1…3", 3), ("\x1b[36m12\x1b[0m3", 3), ("1\x1b[1;31m", 1), ("1\x1b[", 1)]
        {
            assert_eq!(visible_width(line), width, "{line:?}");
        }
    }

    #[test]
    fn the_way_up_counts_rows_not_lines() {
        let lines = LiveLines { lines: vec!["\x1b[36m12345678\x1b[0m".into(), String::new(), "123".into()] };
        assert_eq!(lines.to_first_line(80), "\r\x1b[3A");
        assert_eq!(lines.to_first_line(4), "\r\x1b[4A");
        assert_eq!(LiveLines::default().to_first_line(80), "\r");
    }
}
