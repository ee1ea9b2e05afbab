//! The fields of a record of comma-separated values (RFC 4180), with TensorFlow's strictness.

use bytes::Bytes;
use tensorfleet_core::{Result, ensure};

/// How records are written.
pub(super) struct Format {
    /// What separates fields.
    pub(super) delimiter: u8,
    /// Whether fields may stand in double quotes.
    pub(super) quotes: bool,
}

/// The fields of one record; an empty record has none.
pub(super) fn fields(record: &Bytes, format: &Format) -> Result<Vec<Bytes>> {
    let mut fields = Vec::new();
    let mut at = 0;
    while at < record.len() {
        let (field, end) = match format.quotes && record[at] == b'"' {
            true => quoted(record, at + 1, format)?,
            false => plain(record, at, format)?,
        };
        fields.push(field);
        // Behind the delimiter, if there is one; the record may end with it.
        at = end + 1;
    }
    if record.last() == Some(&format.delimiter) {
        fields.push(Bytes::new());
    }
    Ok(fields)
}

/// The field that starts at `start`, and where it ends.
fn plain(record: &Bytes, start: usize, format: &Format) -> Result<(Bytes, usize)> {
    let rest = &record[start..];
    let len = rest.iter().position(|&byte| byte == format.delimiter).unwrap_or(rest.len());
    let forbidden = |byte: &u8| matches!(byte, b'\n' | b'\r') || (format.quotes && *byte == b'"');
    ensure!(
        !rest[..len].iter().any(forbidden),
        InvalidArgument,
        "Unquoted fields cannot have quotes/CRLFs inside"
    );
    Ok((record.slice(start..start + len), start + len))
}

/// The field behind an opening quote, and where it ends, closing quote included.
fn quoted(record: &Bytes, start: usize, format: &Format) -> Result<(Bytes, usize)> {
    let mut field = Vec::new();
    let mut at = start;
    loop {
        ensure!(
            at < record.len(),
            InvalidArgument,
            "Quoted field has to end with quote followed by delim or end"
        );
        match (record[at], record.get(at + 1)) {
            (b'"', Some(b'"')) => {
                field.push(b'"');
                at += 2;
            }
            (b'"', None) => return Ok((field.into(), at + 1)),
            (b'"', Some(&next)) => {
                ensure!(
                    next == format.delimiter,
                    InvalidArgument,
                    "Quote inside a string has to be escaped by another quote"
                );
                return Ok((field.into(), at + 1));
            }
            (byte, _) => {
                field.push(byte);
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split(record: &str, quotes: bool) -> Option<Vec<String>> {
        let fields = fields(&record.to_string().into(), &Format { delimiter: b',', quotes }).ok()?;
        Some(fields.iter().map(|field| String::from_utf8_lossy(field).into_owned()).collect())
    }

    #[test]
    fn fields_are_split_at_delimiters_outside_quotes() {
        let cases: [(&str, &[&str]); 7] = [
            ("", &[]),
            ("a,b", &["a", "b"]),
            ("a,", &["a", ""]),
            (",", &["", ""]),
            ("\"a,b\",c", &["a,b", "c"]),
            ("\"a\"\"b\"", &["a\"b"]),
            ("1,\"a\nb\",", &["1", "a\nb", ""]),
        ];
        for (record, expected) in cases {
            assert_eq!(split(record, true).unwrap(), expected, "{record}");
        }
        assert_eq!(split("\"a,b\"", false).unwrap(), ["\"a", "b\""]);
        for bad in ["a\"b", "\"a\"b,c", "\"a", "1\r\n", "\""] {
            assert_eq!(split(bad, true), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn quoted_fields_come_back(fields in prop::collection::vec("[a-z,\"\n]{0,5}", 1..5)) {
            let record: Vec<String> = fields.iter().map(|field| format!("\"{}\"", field.replace('"', "\"\""))).collect();
            prop_assert_eq!(split(&record.join(","), true).unwrap(), fields);
        }
    }
}
