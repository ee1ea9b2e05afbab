//! A directed graph of named things: its cycles, and its layers from the bottom up.

use std::collections::BTreeMap;

/// Things by name, and for each what it needs, with a note on why.
#[derive(Clone, Debug)]
pub(super) struct Graph<Note> {
    needs: BTreeMap<String, BTreeMap<String, Note>>,
}

impl<Note> Graph<Note> {
    /// Without edges yet.
    pub(super) fn of(names: impl IntoIterator<Item = String>) -> Graph<Note> {
        Graph { needs: names.into_iter().map(|name| (name, BTreeMap::new())).collect() }
    }

    /// Says that `from` needs `to`; the first note stays. Both must be in the graph, or nothing happens.
    pub(super) fn connect(&mut self, from: &str, to: &str, note: impl FnOnce() -> Note) {
        if from == to || !self.needs.contains_key(to) {
            return;
        }
        if let Some(needs) = self.needs.get_mut(from)
            && !needs.contains_key(to)
        {
            needs.insert(to.to_string(), note());
        }
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.needs.keys().map(String::as_str)
    }

    pub(super) fn needs_of(&self, name: &str) -> impl Iterator<Item = (&str, &Note)> {
        self.needs.get(name).into_iter().flatten().map(|(name, note)| (name.as_str(), note))
    }

    /// The same things with those needs only whose note is of this kind.
    pub(super) fn only(&self, keep: impl Fn(&Note) -> bool) -> Graph<()> {
        let mut graph = Graph::of(self.names().map(String::from));
        for (from, to, _) in self.edges().filter(|(_, _, note)| keep(note)) {
            graph.connect(from, to, || ());
        }
        graph
    }

    pub(super) fn edges(&self) -> impl Iterator<Item = (&str, &str, &Note)> {
        self.names().flat_map(|from| self.needs_of(from).map(move |(to, note)| (from, to, note)))
    }

    /// Groups of things that all need each other, directly or not, each in the order of names.
    pub(super) fn cycles(&self) -> Vec<Vec<&str>> {
        self.components().into_iter().filter(|component| component.len() > 1).collect()
    }

    /// Everything once, what is needed before what needs it; a cycle is one entry.
    pub(super) fn components(&self) -> Vec<Vec<&str>> {
        let reachable: BTreeMap<&str, Vec<&str>> =
            self.names().map(|name| (name, self.reachable(name))).collect();
        let reaches = |from: &str, to: &str| reachable[from].contains(&to);
        let mut left: Vec<&str> = self.names().collect();
        let mut components = Vec::new();
        while !left.is_empty() {
            // The lowest of what is left needs nothing that is left outside of its own cycle.
            let is_lowest = |&&name: &&&str| {
                reachable[name].iter().all(|&other| !left.contains(&other) || reaches(other, name))
            };
            let lowest: Vec<&str> = left.iter().filter(is_lowest).copied().collect();
            left.retain(|name| !lowest.contains(name));
            let mut lowest = lowest.as_slice();
            let mut taken: Vec<&str> = Vec::new();
            while let Some((&name, rest)) = lowest.split_first() {
                lowest = rest;
                if taken.contains(&name) {
                    continue;
                }
                let others =
                    rest.iter().copied().filter(|&other| reaches(name, other) && reaches(other, name));
                let component: Vec<&str> = std::iter::once(name).chain(others).collect();
                taken.extend(&component);
                components.push(component);
            }
        }
        components
    }

    /// What a thing needs, directly or not.
    pub(super) fn reachable(&self, from: &str) -> Vec<&str> {
        let mut found: Vec<&str> = Vec::new();
        let mut pending: Vec<&str> = self.needs_of(from).map(|(to, _)| to).collect();
        while let Some(name) = pending.pop() {
            if !found.contains(&name) {
                found.push(name);
                pending.extend(self.needs_of(name).map(|(to, _)| to));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(&str, &str)]) -> Graph<()> {
        let names = edges.iter().flat_map(|(from, to)| [from.to_string(), to.to_string()]);
        let mut graph = Graph::of(names);
        edges.iter().for_each(|(from, to)| graph.connect(from, to, || ()));
        graph
    }

    #[test]
    fn a_tree_has_no_cycles_and_comes_from_the_bottom_up() {
        let graph = graph(&[("c", "b"), ("b", "a"), ("c", "a"), ("d", "d")]);
        assert_eq!(graph.cycles(), Vec::<Vec<&str>>::new());
        assert_eq!(graph.components(), [["a"], ["d"], ["b"], ["c"]]);
    }

    #[test]
    fn each_cycle_is_found_once_with_its_members() {
        let graph =
            graph(&[("a", "b"), ("b", "c"), ("c", "a"), ("x", "y"), ("y", "x"), ("x", "a"), ("z", "x")]);
        assert_eq!(graph.cycles(), [vec!["a", "b", "c"], vec!["x", "y"]]);
    }

    #[test]
    fn the_first_note_of_an_edge_stays() {
        let mut graph = Graph::of(["a".to_string(), "b".to_string()]);
        graph.connect("a", "b", || 1);
        graph.connect("a", "b", || 2);
        graph.connect("a", "elsewhere", || 3);
        assert_eq!(graph.edges().collect::<Vec<_>>(), [("a", "b", &1)]);
    }
}
