//! `checkpoint ls`: what a directory holds, the highest step first, and what is incomplete.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::SystemTime;

use serde_json::json;
use tensorfleet::DType;
use tensorfleet::checkpoint::CheckpointReader;
use tensorfleet::train::{CheckpointState, get_checkpoint_state};
use tensorfleet_core::{Result, Status};

use super::ListArguments;
use super::files::{data_prefix, names, step_of};
use crate::table::{Column, Table, wrapped};
use crate::terminal::{self, Color, Terminal};
use crate::units;

/// What is known of a checkpoint.
struct Found {
    /// Its name within the directory.
    name: String,
    step: Option<i64>,
    /// When its index was written; of one without, its newest file.
    modified: Option<SystemTime>,
    bytes: u64,
    /// All there are: data, index and meta graph.
    files: usize,
    data_files: usize,
    tensors: usize,
    /// Whether the state file names it.
    listed: bool,
    /// What is wrong with it.
    error: Option<String>,
}

pub(super) fn run(arguments: &ListArguments) -> Result<()> {
    let directory = &arguments.directory;
    let files = names(directory)?;
    let state = state_of(directory);
    let found = find(directory, &files, state.as_ref().ok().and_then(Option::as_ref));
    if found.is_empty() {
        return Err(Status::not_found(format!(
            "{} holds no checkpoint; name the directory that a training saves to (its --log_dir or checkpoint_dir)",
            directory.display()
        )));
    }
    let text = match arguments.json {
        true => format!("{:#}\n", document(directory, &found, &state)),
        false => table(directory, &found, &state, &Terminal::of_stdout()),
    };
    terminal::print(&text);
    Ok(())
}

fn state_of(directory: &Path) -> Result<Option<CheckpointState>> {
    get_checkpoint_state(&directory.to_string_lossy())
}

/// All checkpoints of which the directory has a file or the state file a name, the highest step first: the time of a file is
/// that of its copy after a `cp -r`.
fn find(directory: &Path, files: &[String], state: Option<&CheckpointState>) -> Vec<Found> {
    let mut by_name: BTreeMap<String, Found> = BTreeMap::new();
    let add = |name: &str| Found {
        name: name.to_string(),
        step: step_of(name),
        modified: None,
        bytes: 0,
        files: 0,
        data_files: 0,
        tensors: 0,
        listed: false,
        error: None,
    };
    for file in files {
        // A meta graph alone is no checkpoint; in the order of names it comes after the other files.
        if let Some(found) = file.strip_suffix(".meta").and_then(|name| by_name.get_mut(name)) {
            found.files += 1;
            found.bytes += directory.join(file).metadata().map_or(0, |metadata| metadata.len());
            continue;
        }
        let is_data = data_prefix(file).is_some();
        let Some(name) = file.strip_suffix(".index").or_else(|| data_prefix(file)) else { continue };
        let found = by_name.entry(name.to_string()).or_insert_with(|| add(name));
        let Ok(metadata) = directory.join(file).metadata() else { continue };
        found.bytes += metadata.len();
        found.files += 1;
        found.data_files += usize::from(is_data);
        found.modified = match is_data {
            true => found.modified.max(metadata.modified().ok()),
            false => metadata.modified().ok(),
        };
    }
    for path in state.iter().flat_map(|state| &state.all_model_checkpoint_paths) {
        let path = Path::new(path);
        // The state file may name checkpoints elsewhere, which are not this directory's.
        let is_here =
            path.parent().is_some_and(|parent| parent.canonicalize().ok() == directory.canonicalize().ok());
        let Some(name) = path.file_name().and_then(|name| name.to_str()).filter(|_| is_here) else {
            continue;
        };
        by_name.entry(name.to_string()).or_insert_with(|| add(name)).listed = true;
    }
    let mut found: Vec<Found> = by_name.into_values().collect();
    found.iter_mut().for_each(|found| look_into(directory, found));
    found.sort_by(|a, b| (b.step, b.modified, &b.name).cmp(&(a.step, a.modified, &a.name)));
    found
}

fn look_into(directory: &Path, found: &mut Found) {
    let prefix = directory.join(&found.name);
    let shown = |status: Status| status.text().replace(&format!("{}/", directory.display()), "");
    let reader = match CheckpointReader::open(&prefix.to_string_lossy()) {
        Ok(reader) => reader,
        Err(_) if !Path::new(&format!("{}.index", prefix.display())).exists() => {
            let what = if found.data_files > 0 { "its index is missing" } else { "its files are gone" };
            found.error = Some(what.to_string());
            return;
        }
        Err(status) => {
            found.error = Some(shown(status));
            return;
        }
    };
    found.tensors = reader.iter().len();
    found.error = reader.check_files().err().map(|status| match status.text().split_once(".data-") {
        Some((_, rest)) if status.code() == tensorfleet_core::Code::NotFound => {
            format!("data file {} is missing", rest.split(';').next().unwrap_or_default())
        }
        Some(_) => "a data file is cut short".to_string(),
        None => shown(status),
    });
    if found.step.is_none() && found.error.is_none() && reader.find("global_step").is_some() {
        let step = reader.tensor("global_step");
        found.step =
            step.ok().filter(|step| step.dtype() == DType::Int64).and_then(|step| step.to_scalar().ok());
    }
}

/// The newest that is complete, as training would choose it: what the state file says, if it is complete.
fn newest<'a>(found: &'a [Found], state: &Result<Option<CheckpointState>>) -> Option<&'a Found> {
    let named =
        state.as_ref().ok().and_then(Option::as_ref).map(|state| Path::new(&state.model_checkpoint_path));
    let name = named.and_then(Path::file_name);
    let is_named = |found: &&Found| found.listed && name.is_some_and(|name| name == found.name.as_str());
    let complete = || found.iter().filter(|found| found.error.is_none());
    complete().find(is_named).or_else(|| complete().next())
}

fn document(directory: &Path, found: &[Found], state: &Result<Option<CheckpointState>>) -> serde_json::Value {
    let checkpoints: Vec<serde_json::Value> = found
        .iter()
        .map(|found| {
            json!({
                "prefix": directory.join(&found.name).to_string_lossy(),
                "step": found.step,
                "time": found.modified.map(units::unix_seconds),
                "bytes": found.bytes,
                "files": found.files,
                "data_files": found.data_files,
                "tensors": found.tensors,
                "listed": found.listed,
                "complete": found.error.is_none(),
                "error": found.error,
            })
        })
        .collect();
    json!({
        "directory": directory.to_string_lossy(),
        "newest": newest(found, state).map(|found| directory.join(&found.name).to_string_lossy().into_owned()),
        "state_file": match state {
            Ok(Some(_)) => "present",
            Ok(None) => "missing",
            Err(_) => "damaged",
        },
        "checkpoints": checkpoints,
    })
}

fn table(
    directory: &Path,
    found: &[Found],
    state: &Result<Option<CheckpointState>>,
    terminal: &Terminal,
) -> String {
    let mut table = Table::new([
        Column::text("CHECKPOINT").cut(),
        Column::number("STEP"),
        Column::text("WRITTEN").spare(2),
        Column::number("AGE").spare(3),
        Column::number("SIZE").spare(4),
        Column::number("FILES").spare(0),
        Column::number("TENSORS").spare(1),
        Column::text("STATE").cut(),
    ]);
    let newest = newest(found, state).map(|found| found.name.clone());
    for one in found {
        let told = |what: Option<String>| what.unwrap_or_else(|| "-".to_string());
        let age = one.modified.and_then(|time| time.elapsed().ok());
        let (word, colour) = match (&one.error, &newest) {
            (Some(error), _) => (format!("incomplete: {error}"), Color::Bad),
            (None, Some(name)) if *name == one.name => ("newest".to_string(), Color::Good),
            _ if !one.listed && matches!(state, Ok(Some(_))) => {
                ("not in the state file".to_string(), Color::Doubtful)
            }
            _ => ("complete".to_string(), Color::Good),
        };
        table.row([
            one.name.clone(),
            told(one.step.map(|step| step.to_string())),
            told(one.modified.map(|time| units::date(units::unix_seconds(time)))),
            told(age.map(|age| units::duration(age.as_secs_f64()))),
            units::bytes(one.bytes),
            one.files.to_string(),
            one.tensors.to_string(),
            word,
        ]);
        table.colour(7, colour);
    }
    let mut text = table.render(terminal);
    let note = match state {
        Ok(Some(_)) => None,
        Ok(None) => Some(format!(
            "There is no state file ({}); training does not know of these checkpoints unless it is told one.",
            directory.join("checkpoint").display()
        )),
        Err(status) => Some(format!("{}.", status.text().trim_end_matches('.'))),
    };
    if let Some(note) = note {
        text.push('\n');
        text.push_str(&wrapped(&note, terminal.width(), ""));
    }
    text
}
