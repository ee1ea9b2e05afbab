//! The modules of a crate, and which of them names what of which other.
//!
//! A path is followed as the compiler does it, through re-exports to the module where the thing is defined; every
//! module on the way is one that the path depends on. Modules of one folder are compared with each other: a path from
//! `a::b` to `a::c::d` is an edge from `b` to `c` among the modules of `a`, whatever lies deeper. What a module has of
//! its own parent, and a parent of its children, is no edge: a folder is one thing to those outside, and `mod.rs` its
//! face.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::graph::Graph;
use super::source::{self, Source};

/// Longer chains of re-exports than this are circles.
const MAX_HOPS: usize = 32;

/// Where an edge comes from: the first place that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) file: PathBuf,
    pub(super) line: usize,
    /// The path as it stands there.
    pub(super) path: String,
}

/// The modules of one crate, from its root file on.
#[derive(Default)]
pub(super) struct Crate {
    modules: Vec<Module>,
    exported_macros: BTreeMap<String, usize>,
}

#[derive(Default)]
struct Module {
    name: String,
    parent: Option<usize>,
    file: PathBuf,
    children: BTreeMap<String, usize>,
    source: Source,
}

/// One folder's modules.
pub(super) struct Folder {
    /// Empty for the root, otherwise like `plan::loops`.
    pub(super) name: String,
    pub(super) graph: Graph<Place>,
}

impl Crate {
    /// Reads the crate whose root is `file`. `read` gives what is in a file, or nothing where there is none.
    pub(super) fn read(file: &Path, read: &dyn Fn(&Path) -> Option<String>) -> Crate {
        let mut found = Crate::default();
        let Some(source) = read(file).and_then(|text| source::parse(&text)) else { return found };
        let folder = file.parent().unwrap_or(file).to_path_buf();
        found.add(None, String::new(), file.to_path_buf(), &folder, source, read);
        found
    }

    /// Adds a module and everything below it; its children's files are looked for in `folder`.
    fn add(
        &mut self,
        parent: Option<usize>,
        name: String,
        file: PathBuf,
        folder: &Path,
        mut source: Source,
        read: &dyn Fn(&Path) -> Option<String>,
    ) {
        let index = self.modules.len();
        if let Some(parent) = parent {
            self.modules[parent].children.insert(name.clone(), index);
        }
        let files = std::mem::take(&mut source.files);
        let inline = std::mem::take(&mut source.inline);
        for name in &source.exported_macros {
            self.exported_macros.insert(name.clone(), index);
        }
        self.modules.push(Module { name, parent, file: file.clone(), children: BTreeMap::new(), source });
        for (name, inner) in inline {
            self.add(Some(index), name.clone(), file.clone(), &folder.join(&name), inner, read);
        }
        for module in files {
            let below = folder.join(&module.name);
            let candidates = match &module.path {
                Some(path) => vec![(file.parent().unwrap_or(&file).join(path), below)],
                None => vec![(below.with_extension("rs"), below.clone()), (below.join("mod.rs"), below)],
            };
            let is_test = |file: &Path| {
                let stem = file.file_stem().unwrap_or_default().to_string_lossy();
                stem == "tests" || stem.ends_with("_tests")
            };
            let found = candidates
                .into_iter()
                .filter(|(file, _)| !is_test(file))
                .find_map(|(file, below)| Some((source::parse(&read(&file)?)?, file, below)));
            if let Some((source, file, below)) = found {
                self.add(Some(index), module.name, file, &below, source, read);
            }
        }
    }

    /// The graph of every folder that has modules, the root's first.
    pub(super) fn folders(&self) -> Vec<Folder> {
        let mut graphs: BTreeMap<usize, Graph<Place>> = BTreeMap::new();
        for (index, module) in self.modules.iter().enumerate() {
            let names = module.children.keys().cloned();
            if !module.children.is_empty() {
                graphs.insert(index, Graph::of(names));
            }
        }
        for (from, module) in self.modules.iter().enumerate() {
            for path in &module.source.paths {
                for to in self.modules_named_by(from, &path.words) {
                    let Some((folder, from, to)) = self.siblings(from, to) else { continue };
                    let Some(graph) = graphs.get_mut(&folder) else { continue };
                    let (from, to) = (&self.modules[from].name, &self.modules[to].name);
                    let file = module.file.clone();
                    graph.connect(from, to, || Place { file, line: path.line, path: path.words.join("::") });
                }
            }
        }
        graphs.into_iter().map(|(folder, graph)| Folder { name: self.path_of(folder), graph }).collect()
    }

    fn path_of(&self, module: usize) -> String {
        let ancestors = self.ancestors(module);
        let names: Vec<&str> =
            ancestors.iter().skip(1).map(|&module| self.modules[module].name.as_str()).collect();
        names.join("::")
    }

    /// From the root down to the module itself.
    fn ancestors(&self, module: usize) -> Vec<usize> {
        let mut ancestors: Vec<usize> =
            std::iter::successors(Some(module), |&module| self.modules[module].parent).collect();
        ancestors.reverse();
        ancestors
    }

    /// The folder that holds both, and its modules that the two are or lie in; nothing if one lies in the other.
    fn siblings(&self, from: usize, to: usize) -> Option<(usize, usize, usize)> {
        let (from, to) = (self.ancestors(from), self.ancestors(to));
        let common = from.iter().zip(&to).take_while(|(from, to)| from == to).count();
        Some((from[common - 1], *from.get(common)?, *to.get(common)?))
    }

    /// The modules that a path leads through, as far as they are of this crate.
    fn modules_named_by(&self, module: usize, path: &[String]) -> Vec<usize> {
        let mut visited = Vec::new();
        self.follow(module, path, &mut visited, MAX_HOPS);
        visited
    }

    /// The module that a path names, if it is one and not a thing in a module; notes those that were passed.
    fn follow(&self, module: usize, path: &[String], visited: &mut Vec<usize>, hops: usize) -> Option<usize> {
        let hops = hops.checked_sub(1)?;
        let (first, mut rest) = path.split_first()?;
        let mut here = match first.as_str() {
            "crate" => 0,
            "self" => module,
            "super" => {
                let mut here = self.modules[module].parent?;
                while rest.first().is_some_and(|word| word == "super") {
                    here = self.modules[here].parent?;
                    rest = &rest[1..];
                }
                here
            }
            name => {
                let found = self.lookup(module, name, visited, hops)?;
                visited.push(found);
                found
            }
        };
        for name in rest {
            visited.push(here);
            here = self.lookup(here, name, visited, hops)?;
        }
        visited.push(here);
        Some(here)
    }

    /// What `name` is in a module, if it is a module again.
    fn lookup(&self, module: usize, name: &str, visited: &mut Vec<usize>, hops: usize) -> Option<usize> {
        let hops = hops.checked_sub(1)?;
        let Module { children, source, .. } = &self.modules[module];
        if let Some(&child) = children.get(name) {
            return Some(child);
        }
        if module == 0
            && let Some(&defined) = self.exported_macros.get(name)
        {
            visited.push(defined);
            return None;
        }
        if source.items.iter().any(|item| item == name) {
            return None;
        }
        let imports = source.imports.iter();
        if let Some(import) = imports.clone().find(|import| import.name.as_deref() == Some(name)) {
            // `use name` of something else that has the same name, as of a crate, would lead here again.
            let is_itself = import.path.len() == 1 && import.path[0] == name;
            return if is_itself { None } else { self.follow(module, &import.path, visited, hops) };
        }
        for glob in imports.filter(|import| import.name.is_none()) {
            let mut on_the_way = Vec::new();
            let Some(target) = self.follow(module, &glob.path, &mut on_the_way, hops) else { continue };
            if target != module && self.has(target, name) {
                visited.extend(on_the_way);
                return self.lookup(target, name, visited, hops);
            }
        }
        None
    }

    fn has(&self, module: usize, name: &str) -> bool {
        let Module { children, source, .. } = &self.modules[module];
        children.contains_key(name)
            || source.items.iter().any(|item| item == name)
            || source.imports.iter().any(|import| import.name.as_deref() == Some(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A crate of made-up files, as edges per folder: `root: a→b`.
    fn edges(files: &[(&str, &str)]) -> Vec<String> {
        let files: BTreeMap<PathBuf, String> =
            files.iter().map(|(path, text)| (PathBuf::from(path), text.to_string())).collect();
        let read = |path: &Path| files.get(path).cloned();
        let folders = Crate::read(Path::new("lib.rs"), &read).folders();
        let mut edges = Vec::new();
        for Folder { name, graph } in folders {
            edges.extend(graph.edges().map(|(from, to, _)| format!("{name}: {from}→{to}")));
        }
        edges
    }

    #[test]
    fn paths_between_modules_of_a_folder_are_edges() {
        let found = edges(&[
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b::B; fn f() { super::c::g() }"),
            ("b/mod.rs", "mod x; mod y; use std::fmt;"),
            ("b/x.rs", "use super::y::Y; fn f() { crate::c::g() }"),
            ("b/y.rs", ""),
            ("c.rs", ""),
        ]);
        assert_eq!(found, [": a→b", ": a→c", ": b→c", "b: x→y"]);
    }

    #[test]
    fn re_exports_are_followed_to_where_a_thing_is_defined() {
        let found = edges(&[
            ("lib.rs", "mod a; mod b; mod c; mod d; pub use b::Thing as Renamed; pub use d::*;"),
            ("a.rs", "use crate::Renamed; fn f() { crate::in_d() }"),
            ("b.rs", "pub use crate::c::Thing;"),
            ("c.rs", "pub struct Thing;"),
            ("d.rs", "pub fn in_d() {}"),
        ]);
        assert_eq!(found, [": a→b", ": a→c", ": a→d", ": b→c"]);
    }

    #[test]
    fn a_re_export_of_the_folder_is_an_edge_to_the_sibling_behind_it() {
        let found = edges(&[
            ("lib.rs", "mod a;"),
            ("a/mod.rs", "mod x; mod y; pub use y::Y; struct Own; fn f() { x::g() }"),
            ("a/x.rs", "use super::{Own, Y};"),
            ("a/y.rs", "pub struct Y;"),
        ]);
        assert_eq!(found, ["a: x→y"]);
    }

    #[test]
    fn modules_that_were_imported_lead_on() {
        let found = edges(&[
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b; fn f() { b::again::g() }"),
            ("b.rs", "pub use crate::c as again;"),
            ("c.rs", ""),
        ]);
        assert_eq!(found, [": a→b", ": a→c", ": b→c"]);
    }

    #[test]
    fn test_modules_and_other_crates_are_no_edges() {
        let found = edges(&[
            ("lib.rs", "mod a; mod b; mod bytes;"),
            (
                "a.rs",
                "use bytes::Bytes; #[cfg(test)] mod tests; #[cfg(test)] #[path = \"a_more.rs\"] mod more;",
            ),
            ("a/tests.rs", "use crate::b::B;"),
            ("a_more.rs", "use crate::b::B;"),
            ("b.rs", "use ::bytes::Bytes; mod shared_tests;"),
            ("b/shared_tests.rs", "use crate::a::A;"),
            ("bytes.rs", ""),
        ]);
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn macros_of_the_root_belong_to_the_module_that_exports_them() {
        let found = edges(&[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "#[macro_export] macro_rules! each { () => {} }"),
            ("b.rs", "fn f() { crate::each!() }"),
        ]);
        assert_eq!(found, [": b→a"]);
    }

    #[test]
    fn circular_re_exports_end() {
        let found = edges(&[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "pub use crate::b::X; pub use crate::b::*;"),
            ("b.rs", "pub use crate::a::X; pub use crate::a::*;"),
        ]);
        assert_eq!(found, [": a→b", ": b→a"]);
    }
}
