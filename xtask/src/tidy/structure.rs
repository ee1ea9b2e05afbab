//! Which crate needs which, and which module of a crate needs which: a house without circles.
//!
//! A cycle of modules cannot be understood, tested or moved piece by piece. Cargo forbids cycles of crates; here they
//! are forbidden among the modules of every folder too.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::graph::Graph;
use super::known_cycles::KNOWN_CYCLES;
use super::modules::{Crate, Folder, Place};

/// Crates that must not need others, be it by way of a third: whoever edits a kernel waits for nothing but kernels.
const MUST_NOT_NEED: &[(&str, &str)] = &[
    ("tensorfleet-cluster", "tensorfleet-ops"),
    ("tensorfleet-frontend", "tensorfleet-ops"),
    ("tensorfleet-kernel", "tensorfleet-numeric"),
    ("tensorfleet-kernel", "tensorfleet-ops"),
    ("tensorfleet-numeric", "tensorfleet-kernel"),
    ("tensorfleet-runtime", "tensorfleet-ops"),
];

/// The workspace as `cargo metadata` and the sources tell it.
pub(super) struct Structure {
    /// Crates of the workspace; the note says whether only tests need it.
    pub(super) crates: Graph<Need>,
    /// The modules of every library and program, in the order of names.
    pub(super) modules: Vec<Modules>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    Always,
    InTests,
}

/// The modules of a crate.
pub(super) struct Modules {
    /// The package, and where it has more than one root the program's name.
    pub(super) crate_name: String,
    pub(super) folders: Vec<Folder>,
}

impl Structure {
    pub(super) fn read(root: &Path) -> Result<Structure, String> {
        let metadata = metadata(root)?;
        let packages = metadata["packages"].as_array().ok_or("cargo metadata names no packages")?;
        let names = packages.iter().filter_map(|package| package["name"].as_str()).map(String::from);
        let mut structure = Structure { crates: Graph::of(names), modules: Vec::new() };
        // What is always needed goes first: a note stays.
        for (kind, need) in
            [(Value::Null, Need::Always), ("build".into(), Need::Always), ("dev".into(), Need::InTests)]
        {
            for (package, dependency) in
                dependencies(packages).filter(|(_, dependency)| dependency["kind"] == kind)
            {
                let (Some(from), Some(to)) = (package["name"].as_str(), dependency["name"].as_str()) else {
                    continue;
                };
                structure.crates.connect(from, to, || need);
            }
        }
        for package in packages {
            structure.modules.extend(crates_of(package, root));
        }
        structure.modules.sort_by(|a, b| a.crate_name.cmp(&b.crate_name));
        Ok(structure)
    }

    /// What is wrong, one line for each cycle and one for each of its edges.
    pub(super) fn findings(&self) -> Vec<String> {
        let mut findings = forbidden(&self.crates.only(|need| *need == Need::Always), MUST_NOT_NEED);
        for Modules { crate_name, folders } in &self.modules {
            for folder in folders {
                findings.extend(cycles_of(crate_name, folder, KNOWN_CYCLES));
            }
        }
        findings
    }
}

/// Needs that must not be. A crate's name stands for those that begin with it as well, as `tensorfleet-ops` for its families.
fn forbidden(crates: &Graph<()>, must_not_need: &[(&str, &str)]) -> Vec<String> {
    let mut findings = Vec::new();
    for (from, to) in must_not_need {
        let found = crates.reachable(from).into_iter().find(|name| name.starts_with(to));
        findings
            .extend(found.map(|found| format!("{from} must not need {found}, not even by way of others")));
    }
    findings
}

/// Cycles of a folder that nobody knows of.
fn cycles_of(crate_name: &str, folder: &Folder, known: &[(&str, &str, &[&str])]) -> Vec<String> {
    let mut findings = Vec::new();
    let is_known = |cycle: &[&str]| {
        known.iter().any(|(known_crate, known_folder, members)| {
            *known_crate == crate_name
                && *known_folder == folder.name
                && cycle.iter().all(|member| members.contains(member))
        })
    };
    for cycle in folder.graph.cycles().into_iter().filter(|cycle| !is_known(cycle)) {
        let folder_name = if folder.name.is_empty() { String::new() } else { format!(" in {}", folder.name) };
        findings.push(format!("{crate_name}: modules{folder_name} need each other: {}", cycle.join(", ")));
        let edges = folder.graph.edges().filter(|(from, to, _)| cycle.contains(from) && cycle.contains(to));
        for (from, to, Place { file, line, path }) in edges {
            findings.push(format!("    {from} → {to}  {}:{line}  {path}", file.display()));
        }
    }
    findings
}

fn dependencies(packages: &[Value]) -> impl Iterator<Item = (&Value, &Value)> {
    packages.iter().flat_map(|package| {
        package["dependencies"].as_array().into_iter().flatten().map(move |dependency| (package, dependency))
    })
}

/// The libraries and programs of a package; tests, benchmarks and examples are nobody's need.
fn crates_of(package: &Value, root: &Path) -> Vec<Modules> {
    let name = package["name"].as_str().unwrap_or_default();
    let mut found = Vec::new();
    for target in package["targets"].as_array().into_iter().flatten() {
        let is_one = |kind: &str| target["kind"].as_array().is_some_and(|kinds| kinds.contains(&kind.into()));
        let Some(source) = target["src_path"].as_str() else { continue };
        let target_name = target["name"].as_str().unwrap_or_default();
        let crate_name = match (is_one("lib"), is_one("bin")) {
            (true, _) => name.to_string(),
            (_, true) if target_name == name || !found.iter().any(|m: &Modules| m.crate_name == name) => {
                name.to_string()
            }
            (_, true) => format!("{name} {target_name}"),
            _ => continue,
        };
        let relative =
            Path::new(source).strip_prefix(root).map_or_else(|_| PathBuf::from(source), PathBuf::from);
        let read = |path: &Path| std::fs::read_to_string(root.join(path)).ok();
        let folders = Crate::read(&relative, &read).folders();
        if !folders.is_empty() {
            found.push(Modules { crate_name, folders });
        }
    }
    found
}

fn metadata(root: &Path) -> Result<Value, String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]).current_dir(root);
    let output = cargo.output().map_err(|error| format!("cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr)));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str, edges: &[(&str, &str)]) -> Folder {
        let names = edges.iter().flat_map(|(from, to)| [from.to_string(), to.to_string()]);
        let mut graph = Graph::of(names);
        for (from, to) in edges {
            let place =
                || Place { file: format!("{from}.rs").into(), line: 7, path: format!("crate::{to}::X") };
            graph.connect(from, to, place);
        }
        Folder { name: name.to_string(), graph }
    }

    #[test]
    fn a_cycle_is_named_with_the_lines_that_make_it() {
        let found = cycles_of("some-crate", &folder("plan", &[("a", "b"), ("b", "a"), ("c", "a")]), &[]);
        let expected = [
            "some-crate: modules in plan need each other: a, b",
            "    a → b  a.rs:7  crate::b::X",
            "    b → a  b.rs:7  crate::a::X",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_need_that_must_not_be_is_found_by_way_of_others() {
        let mut crates = Graph::of(["runtime", "middle", "ops-nn"].map(String::from));
        crates.connect("runtime", "middle", || ());
        assert_eq!(forbidden(&crates, &[("runtime", "ops")]), Vec::<String>::new());
        crates.connect("middle", "ops-nn", || ());
        assert_eq!(forbidden(&crates, &[("runtime", "ops")]).len(), 1);
    }

    #[test]
    fn a_known_cycle_may_shrink_but_not_grow() {
        let known: &[(&str, &str, &[&str])] = &[("some-crate", "", &["a", "b", "c"])];
        let findings = |edges: &[(&str, &str)]| cycles_of("some-crate", &folder("", edges), known).len();
        assert_eq!(findings(&[("a", "b"), ("b", "c"), ("c", "a")]), 0);
        assert_eq!(findings(&[("a", "b"), ("b", "a")]), 0);
        assert_eq!(findings(&[("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")]), 5);
    }
}
