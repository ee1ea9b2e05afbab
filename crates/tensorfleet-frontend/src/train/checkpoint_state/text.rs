//! The text form of a checkpoint state: protobuf's, as far as this message needs it.
//!
//! Fields stand in any order; strings are in single or double quotes, may hold escapes, and adjacent ones are joined;
//! comments run from `#` to the end of the line. What the message has no field for is an error, as in TensorFlow.

use std::fmt::Write;

use super::CheckpointState;

type Parsed<T> = Result<T, String>;

/// The text of a state.
pub(super) fn format(state: &CheckpointState) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "model_checkpoint_path: {}", quoted(&state.model_checkpoint_path));
    for path in &state.all_model_checkpoint_paths {
        let _ = writeln!(text, "all_model_checkpoint_paths: {}", quoted(path));
    }
    for time in &state.all_model_checkpoint_timestamps {
        let _ = writeln!(text, "all_model_checkpoint_timestamps: {time:?}");
    }
    if let Some(time) = state.last_preserved_timestamp {
        let _ = writeln!(text, "last_preserved_timestamp: {time:?}");
    }
    text
}

/// Text in quotes. Bytes beyond ASCII become octal escapes, as protobuf writes them.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b'"' => quoted.push_str("\\\""),
            b'\\' => quoted.push_str("\\\\"),
            b'\n' => quoted.push_str("\\n"),
            b'\r' => quoted.push_str("\\r"),
            b'\t' => quoted.push_str("\\t"),
            b' '..=b'~' => quoted.push(char::from(byte)),
            _ => {
                let _ = write!(quoted, "\\{byte:03o}");
            }
        }
    }
    quoted + "\""
}

/// The state that `text` tells, or what is wrong with it.
pub(super) fn parse(text: &str) -> Parsed<CheckpointState> {
    let mut state = CheckpointState::default();
    let mut reader = Reader { rest: text };
    while let Some(field) = reader.field()? {
        match field {
            "model_checkpoint_path" => state.model_checkpoint_path = reader.string()?,
            "all_model_checkpoint_paths" => reader.each(|reader| {
                state.all_model_checkpoint_paths.push(reader.string()?);
                Ok(())
            })?,
            "all_model_checkpoint_timestamps" => reader.each(|reader| {
                state.all_model_checkpoint_timestamps.push(reader.number()?);
                Ok(())
            })?,
            "last_preserved_timestamp" => state.last_preserved_timestamp = Some(reader.number()?),
            other => return Err(format!("it has an unknown field '{}'", other.escape_debug())),
        }
        reader.skip_space();
        reader.rest = reader.rest.strip_prefix([',', ';']).unwrap_or(reader.rest);
    }
    Ok(state)
}

struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn skip_space(&mut self) {
        loop {
            self.rest = self.rest.trim_start();
            let Some(comment) = self.rest.strip_prefix('#') else { return };
            self.rest = comment.split_once('\n').map_or("", |(_, after)| after);
        }
    }

    /// Takes the characters that `keep` keeps.
    fn word(&mut self, keep: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !keep(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    fn takes(&mut self, wanted: char) -> bool {
        self.skip_space();
        let rest = self.rest.strip_prefix(wanted);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// The name of the next field, `None` at the end.
    fn field(&mut self) -> Parsed<Option<&'a str>> {
        self.skip_space();
        if self.rest.is_empty() {
            return Ok(None);
        }
        let name = self.word(|c| c.is_ascii_alphanumeric() || c == '_');
        if name.is_empty() {
            let shown: String = self.rest.chars().take(20).collect();
            return Err(format!("a field is expected at '{}'", shown.escape_debug()));
        }
        if !self.takes(':') {
            return Err(format!("a colon is expected after '{name}'"));
        }
        Ok(Some(name))
    }

    /// One value, or several in brackets.
    fn each(&mut self, mut value: impl FnMut(&mut Reader<'a>) -> Parsed<()>) -> Parsed<()> {
        if !self.takes('[') {
            return value(self);
        }
        if self.takes(']') {
            return Ok(());
        }
        loop {
            value(self)?;
            if self.takes(']') {
                return Ok(());
            }
            if !self.takes(',') {
                return Err("a list is not closed".to_string());
            }
        }
    }

    fn number(&mut self) -> Parsed<f64> {
        self.skip_space();
        let word = self.word(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+'));
        word.parse().map_err(|_| format!("'{word}' is not a number"))
    }

    fn string(&mut self) -> Parsed<String> {
        let mut bytes = Vec::new();
        let mut is_there = false;
        loop {
            self.skip_space();
            let Some(quote) = self.rest.chars().next().filter(|c| matches!(c, '"' | '\'')) else { break };
            self.rest = &self.rest[1..];
            self.quoted(quote, &mut bytes)?;
            is_there = true;
        }
        if !is_there {
            return Err("a text in quotes is expected".to_string());
        }
        String::from_utf8(bytes).map_err(|_| "a path in it is not valid UTF-8".to_string())
    }

    fn quoted(&mut self, quote: char, bytes: &mut Vec<u8>) -> Parsed<()> {
        let open = || "a text in quotes does not end".to_string();
        loop {
            let mut chars = self.rest.chars();
            let next = chars.next().filter(|&c| c != '\n').ok_or_else(open)?;
            self.rest = chars.as_str();
            match next {
                '\\' => bytes.push(self.escape()?),
                c if c == quote => return Ok(()),
                c => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
    }

    fn escape(&mut self) -> Parsed<u8> {
        let bad = || "a text in quotes has a wrong escape".to_string();
        let mut chars = self.rest.chars();
        let kind = chars.next().ok_or_else(bad)?;
        if kind.is_digit(8) {
            return self.digits(8, 3);
        }
        self.rest = chars.as_str();
        Ok(match kind {
            'n' => b'\n',
            'r' => b'\r',
            't' => b'\t',
            'a' => 7,
            'b' => 8,
            'f' => 12,
            'v' => 11,
            '\\' | '\'' | '"' | '?' => kind as u8,
            'x' | 'X' => self.digits(16, 2)?,
            _ => return Err(bad()),
        })
    }

    /// A byte in up to `most` digits.
    fn digits(&mut self, radix: u32, most: usize) -> Parsed<u8> {
        let count = self.rest.chars().take(most).take_while(|c| c.is_digit(radix)).count();
        let (digits, rest) = self.rest.split_at(count);
        self.rest = rest;
        u8::from_str_radix(digits, radix).map_err(|_| "a text in quotes has a wrong escape".to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let state = CheckpointState {
            model_checkpoint_path: "wörk \"quoted\"\\\n-7".to_string(),
            all_model_checkpoint_paths: vec!["a".to_string(), "wörk \"quoted\"\\\n-7".to_string()],
            all_model_checkpoint_timestamps: vec![1.5, 1.7e9],
            last_preserved_timestamp: Some(0.25),
        };
        assert_eq!(parse(&format(&state)).unwrap(), state);
        assert_eq!(format(&CheckpointState::default()), "model_checkpoint_path: \"\"\n");
    }

    #[test]
    fn every_spelling_of_protobuf_is_read() {
        let text = "# made by hand\nmodel_checkpoint_path: 'm-' \"\\062\\x2e\" , all_model_checkpoint_paths: [\"a\", 'b']\n\
                    all_model_checkpoint_paths: \"c\"; last_preserved_timestamp: -1e3";
        let state = parse(text).unwrap();
        assert_eq!(state.model_checkpoint_path, "m-2.");
        assert_eq!(state.all_model_checkpoint_paths, ["a", "b", "c"]);
        assert_eq!(state.last_preserved_timestamp, Some(-1000.0));
    }

    #[test]
    fn nonsense_is_an_error() {
        for text in [
            "model_checkpoint_path",
            "model_checkpoint_path: ",
            "model_checkpoint_path: \"open",
            "model_checkpoint_path: \"\\9\"",
            "model_checkpoint_path: \"\\777\"",
            "all_model_checkpoint_paths: [\"a\"",
            "last_preserved_timestamp: x",
            "unknown: 1",
            "\u{0}",
        ] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }
}
