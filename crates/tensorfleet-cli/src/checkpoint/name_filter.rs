//! [`NameFilter`]: which tensors a user means, by a part of their names or a pattern with wildcards.

use std::convert::Infallible;
use std::str::FromStr;

use tensorfleet_core::{Result, Status};

/// A part of a name, or a pattern that a whole name fits: `*` is any text, `?` any character.
#[derive(Clone, Debug)]
pub(super) struct NameFilter(String);

impl FromStr for NameFilter {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<NameFilter, Infallible> {
        Ok(NameFilter(text.to_string()))
    }
}

impl NameFilter {
    fn admits(&self, name: &str) -> bool {
        match self.0.contains(['*', '?']) {
            true => fits(&self.0, name),
            false => name.contains(&self.0),
        }
    }
}

/// Those of `items` that the filter admits; an error if that is none of them.
pub(super) fn filtered<'a, T>(
    items: impl Iterator<Item = &'a T>,
    filter: Option<&NameFilter>,
    name: impl Fn(&T) -> &str,
) -> Result<Vec<&'a T>> {
    let mut total = 0;
    let counted = items.inspect(|_| total += 1);
    let kept: Vec<&T> =
        counted.filter(|item| filter.is_none_or(|filter| filter.admits(name(item)))).collect();
    match filter {
        Some(NameFilter(filter)) if kept.is_empty() => Err(Status::not_found(format!(
            "none of {total} tensors has a name with '{filter}'; without --filter all are shown"
        ))),
        _ => Ok(kept),
    }
}

/// Whether all of `name` fits the pattern. On a mismatch only the last star is widened, which is enough and keeps the
/// time within the product of both lengths.
fn fits(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut from) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while from < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(&c) if c == '?' || c == name[from] => {
                at += 1;
                from += 1;
            }
            _ => {
                let Some((star_at, star_from)) = star else { return false };
                star = Some((star_at, star_from + 1));
                at = star_at + 1;
                from = star_from + 1;
            }
        }
    }
    pattern[at..].iter().all(|&c| c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_whole_names_and_words_parts() {
        for (filter, name, expected) in [
            ("Adam", "hid_w/Adam_1", true),
            ("Adam", "hid_w", false),
            ("*/Adam*", "hid_w/Adam_1", true),
            ("*/Adam", "hid_w/Adam_1", false),
            ("hid_?", "hid_w", true),
            ("hid_?", "hid_w/Adam", false),
            ("*", "", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("", "anything", true),
        ] {
            assert_eq!(NameFilter(filter.to_string()).admits(name), expected, "{filter} {name}");
        }
    }

    #[test]
    fn a_filter_that_leaves_nothing_is_an_error() {
        let names = ["a".to_string(), "b".to_string()];
        let status = filtered(names.iter(), Some(&NameFilter("x".into())), |name| name).unwrap_err();
        assert!(status.text().contains("none of 2 tensors"), "{status}");
        assert_eq!(filtered(names.iter(), None, |name| name).unwrap().len(), 2);
    }
}
