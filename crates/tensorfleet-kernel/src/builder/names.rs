//! Unique node names, chosen as TensorFlow's Python front end chooses them.

use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;

/// The names in use. Names that differ only in case count as the same, because summaries and checkpoints become
/// file names on systems that do not tell them apart.
#[derive(Clone, Debug, Default)]
pub(super) struct UniqueNames {
    /// For each name in lower case, where the search for the next suffix starts.
    next_suffix: FxHashMap<String, u32>,
}

impl UniqueNames {
    /// `name` if it is free, else `name_1`, `name_2`, …; marks the result as used.
    pub(super) fn claim(&mut self, name: &str) -> String {
        let key = name.to_lowercase();
        let Some(&start) = self.next_suffix.get(&key) else {
            self.next_suffix.insert(key, 1);
            return name.to_string();
        };
        let mut suffix = start;
        loop {
            let candidate = self.next_suffix.entry(format!("{key}_{suffix}"));
            suffix += 1;
            if let Entry::Vacant(free) = candidate {
                free.insert(1);
                break;
            }
        }
        self.next_suffix.insert(key, suffix);
        format!("{name}_{}", suffix - 1)
    }

    /// Marks a name as used, whatever chose it.
    pub(super) fn mark(&mut self, name: &str) {
        self.next_suffix.entry(name.to_lowercase()).or_insert(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_tensorflow_gives() {
        let mut names = UniqueNames::default();
        let given: Vec<String> =
            ["x", "x", "X", "x_1", "x/y", "x"].iter().map(|name| names.claim(name)).collect();
        assert_eq!(given, ["x", "x_1", "X_2", "x_1_1", "x/y", "x_3"]);
    }

    #[test]
    fn a_marked_name_is_taken_and_many_equal_names_cost_linear_time() {
        let mut names = UniqueNames::default();
        names.mark("a");
        assert_eq!(names.claim("a"), "a_1");
        let last = (0..100_000).map(|_| names.claim("b")).last().unwrap();
        assert_eq!(last, "b_99999");
    }
}
