//! Lists in messages: the first few, and how many more there are.

use std::fmt::Display;

/// How many names a message shows: hundreds of variables in a line help nobody.
const SHOWN: usize = 5;

/// The first few names, and how many more there are.
pub(crate) fn listed<T: Display>(names: &[T]) -> String {
    let shown = names.iter().take(SHOWN).map(T::to_string).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Like [`listed`], with each name in quotes.
pub(crate) fn listed_in_quotes(names: &[&str]) -> String {
    listed(&names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_are_counted_not_spelled_out() {
        let names = |count: usize| (0..count).map(|index| format!("v{index}")).collect::<Vec<_>>();
        assert_eq!(listed(&names(2)), "v0, v1");
        assert_eq!(listed(&names(5)), "v0, v1, v2, v3, v4");
        assert_eq!(listed(&names(200)), "v0, v1, v2, v3, v4 and 195 more");
        assert_eq!(listed_in_quotes(&["a"; 7]), "'a', 'a', 'a', 'a', 'a' and 2 more");
    }
}
