//! `cargo xtask tidy --graph`: the crates and the modules of the larger ones, as text or for Graphviz.

use std::fmt::Write as _;

use super::graph::Graph;
use super::modules::Folder;
use super::structure::{Modules, Need, Structure};

/// The crates whose modules are shown.
const SHOWN: &[&str] = &[
    "tensorfleet",
    "tensorfleet-cluster",
    "tensorfleet-frontend",
    "tensorfleet-kernel",
    "tensorfleet-runtime",
];

fn shown(structure: &Structure) -> impl Iterator<Item = &Modules> {
    structure.modules.iter().filter(|modules| SHOWN.contains(&modules.crate_name.as_str()))
}

/// Each thing once, below everything that it needs.
pub(super) fn text(structure: &Structure) -> String {
    let mut out = String::from("Crates. Each needs those behind its name; (those) in its tests.\n\n");
    let mark = |name: &str, need: &Need| match need {
        Need::Always => name.to_string(),
        Need::InTests => format!("({name})"),
    };
    let built = structure.crates.only(|need| *need == Need::Always);
    out.push_str(&lines(&structure.crates, &built, mark));
    for Modules { crate_name, folders } in shown(structure) {
        for Folder { name, graph } in folders {
            let name = if name.is_empty() { String::new() } else { format!("::{}", name) };
            let _ = write!(out, "\nModules of {crate_name}{name}\n\n");
            out.push_str(&lines(graph, graph, |name, _| name.to_string()));
        }
    }
    out
}

/// One line for each thing of `graph`, in the order that `layers` gives them.
fn lines<Note, Any>(
    graph: &Graph<Note>,
    layers: &Graph<Any>,
    mark: impl Fn(&str, &Note) -> String,
) -> String {
    let mut out = String::new();
    let width = graph.names().map(str::len).max().unwrap_or(0);
    for component in layers.components() {
        for (index, name) in component.iter().enumerate() {
            let begin = match (component.len(), index) {
                (1, _) => " ",
                (_, 0) => "┌",
                (count, index) if index + 1 == count => "└",
                _ => "│",
            };
            let needs: Vec<String> = graph.needs_of(name).map(|(name, note)| mark(name, note)).collect();
            let line = format!("{begin} {name:<width$}  {}", needs.join(" "));
            let _ = writeln!(out, "{}", line.trim_end());
        }
    }
    out
}

/// One drawing, with a box for every crate's and folder's modules.
pub(super) fn dot(structure: &Structure) -> String {
    let mut out = String::from("digraph tensorfleet {\n  rankdir = BT;\n  node [shape = box];\n");
    box_of(&mut out, "crates", &structure.crates, |need| *need == Need::InTests);
    for Modules { crate_name, folders } in shown(structure) {
        for Folder { name, graph } in folders {
            let name = if name.is_empty() { crate_name.clone() } else { format!("{crate_name}::{name}") };
            box_of(&mut out, &name, graph, |_| false);
        }
    }
    out.push_str("}\n");
    out
}

fn box_of<Note>(out: &mut String, title: &str, graph: &Graph<Note>, is_dashed: impl Fn(&Note) -> bool) {
    let _ = writeln!(out, "  subgraph \"cluster {title}\" {{\n    label = \"{title}\";");
    for name in graph.names() {
        let _ = writeln!(out, "    \"{title}/{name}\" [label = \"{name}\"];");
    }
    for (from, to, note) in graph.edges() {
        let style = if is_dashed(note) { " [style = dashed]" } else { "" };
        let _ = writeln!(out, "    \"{title}/{from}\" -> \"{title}/{to}\"{style};");
    }
    out.push_str("  }\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn structure() -> Structure {
        let mut crates = Graph::of(["base".to_string(), "top".to_string(), "tests".to_string()]);
        crates.connect("top", "base", || Need::Always);
        crates.connect("top", "tests", || Need::InTests);
        crates.connect("base", "top", || Need::InTests);
        Structure { crates, modules: Vec::new() }
    }

    #[test]
    fn text_goes_from_the_bottom_up() {
        let text = text(&structure());
        assert!(text.ends_with("\n\n  base   (top)\n  tests\n  top    base (tests)\n"), "{text}");
    }

    #[test]
    fn members_of_a_cycle_are_bracketed() {
        let mut graph = Graph::of(["a".to_string(), "b".to_string(), "c".to_string()]);
        graph.connect("a", "c", || ());
        graph.connect("c", "a", || ());
        assert_eq!(lines(&graph, &graph, |name, ()| name.to_string()), "┌ a  c\n└ c  a\n  b\n");
    }

    #[test]
    fn dot_has_an_arrow_for_every_need() {
        let dot = dot(&structure());
        assert!(dot.contains("\"crates/top\" -> \"crates/base\";"), "{dot}");
        assert!(dot.contains("\"crates/top\" -> \"crates/tests\" [style = dashed];"), "{dot}");
    }
}
