//! Errors inside response bodies: a code, a text, and the mark of errors that are mere consequences.

use tensorfleet_core::{Code, Result, Status};

/// TensorFlow 1.15 puts this before errors that only follow from another one.
const DERIVED: &str = "[_Derived_]";

/// The text of an error as it goes into a body.
pub(crate) fn body_text(status: &Status) -> String {
    let message = status.message();
    if status.is_derived() && !message.contains(DERIVED) { format!("{DERIVED}{message}") } else { message }
}

/// The error in a body, if there is one.
pub(crate) fn check_body(code: i32, text: &str) -> Result<()> {
    if code == 0 {
        return Ok(());
    }
    let status = Status::new(Code::from_i32(code), text.replace(DERIVED, ""));
    Err(if text.contains(DERIVED) { status.derived() } else { status })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_survives_the_body_with_its_mark() {
        check_body(0, "ignored").unwrap();
        let status = Status::cancelled("a peer failed").derived();
        let back = check_body(status.code() as i32, &body_text(&status)).unwrap_err();
        assert_eq!((back.code(), back.text(), back.is_derived()), (Code::Cancelled, "a peer failed", true));
        let status = Status::invalid_argument("bad");
        let back = check_body(status.code() as i32, &body_text(&status)).unwrap_err();
        assert_eq!((back.text(), back.is_derived()), ("bad", false));
    }
}
