//! The output of a process as lines: of bounded length, always valid text, complete also without a last line end.

use std::io::{BufRead, BufReader, Read};

/// Longer lines come in pieces: a program that never ends a line must not fill the memory.
pub(super) const MAX_LINE_BYTES: usize = 16 << 10;

/// Reads until the end; `on_line` may end it earlier by an error.
pub(super) fn read_lines<E>(input: impl Read, mut on_line: impl FnMut(String) -> Result<(), E>) {
    let mut input = BufReader::with_capacity(MAX_LINE_BYTES, input);
    let mut line = Vec::new();
    loop {
        let chunk = match input.fill_buf() {
            Ok(chunk) => chunk,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        if chunk.is_empty() {
            break;
        }
        let room = &chunk[..chunk.len().min(MAX_LINE_BYTES - line.len())];
        let (text, is_whole, used) = match room.iter().position(|&byte| byte == b'\n') {
            Some(end) => (&room[..end], true, end + 1),
            None => (room, false, room.len()),
        };
        line.extend_from_slice(text);
        let is_complete = is_whole || line.len() == MAX_LINE_BYTES;
        input.consume(used);
        if is_complete && on_line(shown(&std::mem::take(&mut line))).is_err() {
            return;
        }
    }
    if !line.is_empty() {
        let _ = on_line(shown(&line));
    }
}

/// What a terminal would show of a line: a progress bar that returns to the line's start has overwritten what came before.
fn shown(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let text = text.trim_end_matches('\r');
    text.rsplit('\r').next().unwrap_or(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(input: &[u8], expected: &[&str]) {
        let mut lines = Vec::new();
        read_lines(input, |line| {
            lines.push(line);
            Ok::<(), ()>(())
        });
        assert_eq!(lines, expected);
    }

    #[test]
    fn lines_are_text_whatever_the_bytes_are() {
        check(b"", &[]);
        check(b"one\ntwo\n", &["one", "two"]);
        check(b"\n\nlast", &["", "", "last"]);
        check(b"windows\r\n", &["windows"]);
        check(b"10 %\r50 %\r100 %\n", &["100 %"]);
        check(b"bad \xff byte\n", &["bad \u{fffd} byte"]);
    }

    #[test]
    fn endless_lines_come_in_pieces() {
        let long = vec![b'x'; 2 * MAX_LINE_BYTES + 1];
        let piece = "x".repeat(MAX_LINE_BYTES);
        check(&long, &[&piece, &piece, "x"]);
    }

    #[test]
    fn a_listener_that_has_gone_ends_the_reading() {
        let mut count = 0;
        read_lines(&b"a\nb\n"[..], |_| {
            count += 1;
            Err(())
        });
        assert_eq!(count, 1);
    }
}
