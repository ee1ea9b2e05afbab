//! `cargo xtask tidy`: habits that formatter and lints do not know.
//!
//! Files stay short enough to hold in mind, say first what they are, and neither promise work nor show where
//! they were written; modules need each other in one direction; what the map of the repository names is there.

mod graph;
mod known_cycles;
mod modules;
mod paths;
mod picture;
mod source;
mod structure;
mod text;
mod tokens;

use std::path::Path;
use std::process::ExitCode;

use crate::Outcome;
use crate::arguments::Arguments;
use structure::Structure;

/// The command: checks, or prints the graph of crates and modules.
pub(crate) fn run(mut arguments: Arguments, root: &Path) -> Outcome {
    if !arguments.flag("--graph") {
        arguments.finish()?;
        return Ok(if report(root) { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let form = arguments.positional();
    arguments.finish()?;
    let structure = Structure::read(root)?;
    match form.as_deref() {
        None | Some("text") => print!("{}", picture::text(&structure)),
        Some("dot") => print!("{}", picture::dot(&structure)),
        Some(other) => return Err(format!("a graph is printed as 'text' or 'dot', not as '{other}'")),
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints what is wrong; whether nothing was.
pub(crate) fn report(root: &Path) -> bool {
    let of_text = text::check_tree(root).map_err(|error| format!("{}: {error}", root.display()));
    let of_structure = Structure::read(root).map(|structure| structure.findings());
    let of_map = paths::check_map(root, "ARCHITECTURE.md");
    let mut is_tidy = true;
    for findings in [of_text, of_structure, of_map] {
        let findings = findings.unwrap_or_else(|reason| vec![reason]);
        findings.iter().for_each(|finding| println!("{finding}"));
        is_tidy &= findings.is_empty();
    }
    is_tidy
}
