//! `cargo xtask features`: every choice of packages wants every crate with the same features.
//!
//! Otherwise `cargo test -p tensorfleet-core` after a build of the workspace compiles most of it again, and so does the
//! next build without `-p`. Cargo unifies the features that the chosen packages want, so what they come to depends on the
//! choice; this asks cargo for each of them, with tests and without. What runs while building, procedural macros above all,
//! has features of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, ExitCode};

use crate::Outcome;

/// What crates are wanted with: usually one set of features for each.
type Features = BTreeMap<String, BTreeSet<String>>;

/// Ways to use a package, and the kinds of dependencies that cargo follows for them: those of programs, and all of them.
const USES: &[(&str, [&str; 2])] = &[
    ("build", ["normal,no-proc-macro", "normal,build"]),
    ("test", ["normal,dev,no-proc-macro", "normal,build,dev"]),
];

/// The command.
pub(crate) fn run(root: &Path) -> Outcome {
    Ok(if report(root)? { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints what differs; whether nothing did.
pub(crate) fn report(root: &Path) -> Result<bool, String> {
    let mut differences: BTreeMap<(String, String, String), Vec<String>> = BTreeMap::new();
    let packages = packages(root)?;
    let (_, whole_edges) = USES[1];
    for at in 0..whole_edges.len() {
        let whole = tree(root, &["--workspace", "--edges", whole_edges[at]])?;
        let choices = std::iter::once("--workspace").chain(packages.iter().map(String::as_str));
        for choice in choices {
            let package = ["--package", choice];
            let chosen = if choice == "--workspace" { &package[1..] } else { &package[..] };
            for (verb, edges) in USES {
                let found = tree(root, &[chosen, &["--edges", edges[at]]].concat())?;
                for difference in differing(&found, &whole) {
                    differences.entry(difference).or_default().push(format!("{verb} {}", chosen.join(" ")));
                }
            }
        }
    }
    for ((name, features, wanted), choices) in &mut differences {
        choices.dedup();
        println!("{name}: {features}, where tests of the whole workspace have {wanted}");
        println!("    with cargo {}", choices.join(", "));
    }
    if !differences.is_empty() {
        println!(
            "name these features in the workspace's Cargo.toml, or in that of crates/tensorfleet-features where we do \
             not depend on the crate ourselves"
        );
    }
    Ok(differences.is_empty())
}

/// Crates with features that `whole` does not have them with, and those that it has them with.
fn differing(found: &Features, whole: &Features) -> Vec<(String, String, String)> {
    let nothing = BTreeSet::new();
    let named = |set: &String| if set.is_empty() { "no features".to_string() } else { set.clone() };
    let mut differing = Vec::new();
    for (name, sets) in found {
        let wanted = whole.get(name).unwrap_or(&nothing);
        for set in sets.difference(wanted) {
            let wanted: Vec<String> = wanted.iter().map(named).collect();
            differing.push((name.clone(), named(set), wanted.join(" or ")));
        }
    }
    differing
}

fn tree(root: &Path, arguments: &[&str]) -> Result<Features, String> {
    let fixed = ["tree", "--quiet", "--prefix", "none", "--format", "{p}|{f}"];
    Ok(parse(&cargo(root, &[&fixed, arguments].concat())?))
}

/// Lines like `libc v0.2.1 (proc-macro)|default,std (*)`.
fn parse(text: &str) -> Features {
    let mut features = Features::new();
    for (package, set) in text.lines().filter_map(|line| line.split_once('|')) {
        let name = package.split(" (").next().unwrap_or(package).to_string();
        features.entry(name).or_default().insert(set.trim_end_matches(" (*)").to_string());
    }
    features
}

fn packages(root: &Path) -> Result<Vec<String>, String> {
    let text = cargo(root, &["metadata", "--no-deps", "--format-version", "1"])?;
    let metadata: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| format!("cargo metadata: {error}"))?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    Ok(packages.filter_map(|package| package["name"].as_str()).map(String::from).collect())
}

fn cargo(root: &Path, arguments: &[&str]) -> Result<String, String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let output = cargo.args(arguments).current_dir(root).output();
    let output = output.map_err(|error| format!("cargo {}: {error}", arguments.join(" ")))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!(
            "cargo {}: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr).trim_end()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_read_from_what_cargo_prints() {
        let found = parse("ours v0.1.0 (/some/where)|\nsyn v2.0.1|full (*)\nsyn v2.0.1 (proc-macro)|\n\n");
        assert_eq!(found["ours v0.1.0"], BTreeSet::from([String::new()]));
        assert_eq!(found["syn v2.0.1"], BTreeSet::from([String::new(), "full".to_string()]));
    }

    #[test]
    fn only_what_the_whole_does_not_have_differs() {
        let whole = parse("a v1|x,y\nb v1|\nb v1|host");
        assert_eq!(differing(&parse("a v1|x,y\nb v1|host"), &whole), []);
        let found = differing(&parse("a v1|x\nb v1|y"), &whole);
        let expected = [("a v1", "x", "x,y"), ("b v1", "y", "no features or host")];
        assert_eq!(
            found,
            expected.map(|(name, set, wanted)| (name.to_string(), set.to_string(), wanted.to_string()))
        );
    }
}
