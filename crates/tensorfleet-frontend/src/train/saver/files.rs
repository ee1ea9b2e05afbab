//! The files of a checkpoint: making room for them and removing them.

use std::path::{Path, PathBuf};

use tensorfleet_core::{Result, Status};
use tensorfleet_files::io_status;
use tracing::warn;

/// Makes the directory a checkpoint is to be written to.
pub(super) fn create_directory(dir: &str) -> Result<()> {
    if dir.is_empty() {
        return Ok(());
    }
    match std::fs::create_dir_all(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Err(Status::failed_precondition(
            format!("{dir} is not a directory, so no checkpoint can be saved there"),
        )),
        made => made.map_err(|error| io_status(Path::new(dir), &error)),
    }
}

/// Removes the files of a checkpoint: the index first, so that nobody takes the rest for one, then data and graph, whose file ends
/// in `meta_suffix`. A file that is gone already is no matter; one that cannot be removed is left, with a warning.
pub fn remove_checkpoint(prefix: &str, meta_suffix: &str) {
    let mut paths = vec![tensorfleet_files::bundle::index_path(prefix)];
    paths.extend(data_files(prefix));
    paths.push(PathBuf::from(format!("{prefix}.{meta_suffix}")));
    for path in paths {
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                warn!(path = %path.display(), "an old file of a checkpoint could not be deleted: {error}");
            }
            _ => {}
        }
    }
}

/// All `PREFIX.data-SSSSS-of-NNNNN`, whatever the number of shards.
fn data_files(prefix: &str) -> Vec<PathBuf> {
    let path = Path::new(prefix);
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return Vec::new() };
    let start = format!("{name}.data-");
    let is_data = |file: &str| {
        let numbers = file.strip_prefix(&start).and_then(|numbers| numbers.split_once("-of-"));
        numbers.is_some_and(|(shard, of)| [shard, of].iter().all(|n| n.bytes().all(|b| b.is_ascii_digit())))
    };
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let files = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_data));
    files.map(|entry| directory.join(entry.file_name())).collect()
}

/// Removes what the shards of a failed save have left. Other tasks may be writing still; what they leave is taken over
/// by the next save to the same place.
pub(super) fn remove_partial(prefix: &str, sharded: bool) {
    if !sharded {
        return;
    }
    let directory = PathBuf::from(format!("{prefix}_temp"));
    for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(|name| name.starts_with("part-")) {
            // What cannot be removed keeps its directory alive, which is all that can be done about it.
            let _ = std::fs::remove_file(entry.path());
        }
    }
    let _ = std::fs::remove_dir(directory);
}
