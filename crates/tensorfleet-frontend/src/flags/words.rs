//! What is wrong with a number, in the words of those who type it.

/// A message of clap, with what Rust says of numbers said otherwise.
pub(super) fn plain(message: &str) -> String {
    message.lines().map(|line| plain_line(line) + "\n").collect()
}

fn plain_line(line: &str) -> String {
    let Some((head, reason)) = line.rsplit_once("': ").filter(|(head, _)| head.contains("invalid value '"))
    else {
        return line.to_string();
    };
    let expected = match reason {
        "invalid digit found in string" | "cannot parse integer from empty string" => {
            "expected a whole number".to_string()
        }
        "number too large to fit in target type" => "expected a smaller number".to_string(),
        "invalid float literal" | "cannot parse float from empty string" => "expected a number".to_string(),
        _ => match reason.split_once(" is not in ").and_then(|(_, range)| in_words(range)) {
            Some(range) => range,
            None => return line.to_string(),
        },
    };
    format!("{head}': {expected}")
}

/// `1..=9` as people say it.
fn in_words(range: &str) -> Option<String> {
    let (low, high) = range.split_once("..")?;
    let is_number = |text: &str| text.parse::<i128>().is_ok();
    match (low, high.strip_prefix('=').unwrap_or(high)) {
        (low, "") if is_number(low) => Some(format!("expected a whole number, {low} or more")),
        ("", high) if is_number(high) => Some(format!("expected a whole number up to {high}")),
        (low, high) if is_number(low) && is_number(high) => {
            Some(format!("expected a whole number from {low} to {high}"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_refused_in_plain_words() {
        for (message, expected) in [
            ("70000 is not in 1..=65535", "expected a whole number from 1 to 65535"),
            ("-1 is not in 0..", "expected a whole number, 0 or more"),
            ("invalid digit found in string", "expected a whole number"),
            ("expected true or false", "expected true or false"),
        ] {
            let head = "error: invalid value 'x' for '--port <PORT>': ";
            assert_eq!(plain(&format!("{head}{message}\n")), format!("{head}{expected}\n"));
        }
        assert_eq!(plain("error: 'a': b is not in c\n"), "error: 'a': b is not in c\n");
    }
}
