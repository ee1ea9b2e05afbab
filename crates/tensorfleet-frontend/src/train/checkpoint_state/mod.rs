//! The file `checkpoint` of a directory: which checkpoints there are, and which one is the newest.
//!
//! It is written last, after everything it names is on the disk, and replaced as a whole; so a reader finds either the
//! state before a save or the state after it. A reader is nevertheless careful: files can be deleted, disks can lose
//! what they promised to keep. [`latest_checkpoint`] therefore looks whether the newest checkpoint is complete, and goes
//! back to the newest one that is; how it searches is told in [`search`].
//!
//! Checkpoints in the directory of the state file are named relative to it, as TensorFlow's
//! `Saver(save_relative_paths=True)` does and as all readers of TensorFlow understand. TensorFlow's default are absolute
//! paths; a copy of a directory that has them leads to the checkpoints of the original.

mod search;
mod text;

use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use tensorfleet_core::{Result, Status};
use tensorfleet_files::{AtomicFile, FileAccess, io_status, remove_leftovers};
use tracing::warn;

pub use search::{RestorePoint, restore_point};

pub(crate) use search::{Candidate, Candidates, lies_in, missing, unnamed_checkpoints};

use crate::checkpoint::CheckpointReader;

/// The name of the state file, unless one asks for another.
pub(crate) const STATE_FILE: &str = "checkpoint";
/// A state file holds a few paths; one that is larger is something else.
const MAX_STATE_BYTES: u64 = 16 << 20;

/// What a state file says; see [`get_checkpoint_state`]. The paths are prefixes of checkpoints.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CheckpointState {
    /// The newest checkpoint.
    pub model_checkpoint_path: String,
    /// All checkpoints that are kept, oldest first; the last is the newest.
    pub all_model_checkpoint_paths: Vec<String>,
    /// When each was made, in seconds since 1970; empty if the writer did not say.
    pub all_model_checkpoint_timestamps: Vec<f64>,
    /// When the last checkpoint that is never deleted was made, if the writer said so.
    pub last_preserved_timestamp: Option<f64>,
}

/// Reads the state file of `dir`; `None` if there is none. Relative paths in it are joined with `dir`.
///
/// ```
/// # use tensorfleet::train::{get_checkpoint_state, update_checkpoint_state};
/// let directory = tempfile::tempdir().unwrap();
/// let dir = directory.path().to_str().unwrap();
/// assert!(get_checkpoint_state(dir)?.is_none());
/// update_checkpoint_state(dir, "model-2", &["model-1".to_string()])?;
/// let state = get_checkpoint_state(dir)?.unwrap();
/// assert_eq!(state.model_checkpoint_path, format!("{dir}/model-2"));
/// assert_eq!(state.all_model_checkpoint_paths.len(), 2);
/// # Ok::<(), tensorfleet::Status>(())
/// ```
pub fn get_checkpoint_state(dir: &str) -> Result<Option<CheckpointState>> {
    read_state(dir, STATE_FILE)
}

/// Reads a state file of any name; see [`get_checkpoint_state`].
pub fn get_checkpoint_state_of(dir: &str, filename: &str) -> Result<Option<CheckpointState>> {
    read_state(dir, filename)
}

/// Writes a state file of any name, with all that there is to say; see [`update_checkpoint_state`]. The newest checkpoint is added
/// to the others if it is missing there.
pub fn write_checkpoint_state(dir: &str, filename: &str, state: CheckpointState) -> Result<()> {
    write_state(dir, filename, state)
}

/// Reads a state file of another name than `checkpoint`.
pub(crate) fn read_state(dir: &str, filename: &str) -> Result<Option<CheckpointState>> {
    match look(dir, filename)? {
        StateFile::Absent => Ok(None),
        StateFile::Whole(state) => Ok(Some(state)),
        StateFile::Damaged(what) => Err(Status::data_loss(format!(
            "{} does not tell the state of checkpoints: {what}. Restore a checkpoint by its name, or delete the file",
            Path::new(dir).join(filename).display()
        ))),
    }
}

/// How a state file was found.
enum StateFile {
    Absent,
    Whole(CheckpointState),
    /// What is wrong with it.
    Damaged(String),
}

fn look(dir: &str, filename: &str) -> Result<StateFile> {
    let path = Path::new(dir).join(filename);
    let metadata = match std::fs::metadata(&path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(StateFile::Absent),
        Err(error) => return Err(io_status(&path, &error)),
    };
    let damaged = |what: &str| Ok(StateFile::Damaged(what.to_string()));
    // Pipes and devices would never end.
    if !metadata.is_file() {
        return damaged("it is no file");
    }
    if metadata.len() > MAX_STATE_BYTES {
        return damaged("it is too large");
    }
    let bytes = std::fs::read(&path).map_err(|error| io_status(&path, &error))?;
    if bytes.is_empty() {
        return damaged("it is empty");
    }
    let Ok(text) = String::from_utf8(bytes) else { return damaged("it is not text") };
    let mut state = match text::parse(&text) {
        Ok(state) => state,
        Err(what) => return damaged(&what),
    };
    if state.model_checkpoint_path.is_empty() {
        return damaged("it names no checkpoint");
    }
    for name in std::iter::once(&mut state.model_checkpoint_path).chain(&mut state.all_model_checkpoint_paths)
    {
        *name = join(dir, name);
    }
    Ok(StateFile::Whole(state))
}

/// `path` seen from outside `dir`, in the way TensorFlow joins paths.
fn join(dir: &str, path: &str) -> String {
    if path.is_empty() || dir.is_empty() || path.starts_with('/') {
        return path.to_string();
    }
    let slash = if dir.ends_with('/') { "" } else { "/" };
    format!("{dir}{slash}{path}")
}

/// Writes the state file of `dir`: `newest` becomes the newest checkpoint and is added to `all` if it is missing
/// there. The file appears complete or not at all. Checkpoints in `dir` are named relative to it, so that the directory
/// can be moved and copied; absolute paths that lead elsewhere stay absolute. There is an example at
/// [`get_checkpoint_state`].
pub fn update_checkpoint_state(dir: &str, newest: &str, all: &[String]) -> Result<()> {
    let state = CheckpointState {
        model_checkpoint_path: newest.to_string(),
        all_model_checkpoint_paths: all.to_vec(),
        ..Default::default()
    };
    write_state(dir, STATE_FILE, state)
}

/// After so long without a write an unfinished state file is that of a chief that was killed: a state is a few lines.
const LEFTOVER_AGE: Duration = Duration::from_secs(60);

/// Writes a state. If `dir` is relative, so to the current directory are the paths, as programs name them.
pub(crate) fn write_state(dir: &str, filename: &str, mut state: CheckpointState) -> Result<()> {
    let all = &mut state.all_model_checkpoint_paths;
    if all.last() != Some(&state.model_checkpoint_path) {
        all.retain(|path| *path != state.model_checkpoint_path);
        all.push(state.model_checkpoint_path.clone());
    }
    for path in std::iter::once(&mut state.model_checkpoint_path).chain(all) {
        *path = match Path::new(dir).is_absolute() {
            true => within(dir, path),
            false => relative_to(dir, path),
        };
    }
    let path = Path::new(dir).join(filename);
    remove_leftovers(&FileAccess::EVERYWHERE, &path, LEFTOVER_AGE);
    let mut file = AtomicFile::create(&FileAccess::EVERYWHERE, path)?;
    file.write(text::format(&state).as_bytes())?;
    file.commit_durably()
}

/// `path` as seen from the absolute directory `dir`, if it lies there; otherwise as it is.
fn within(dir: &str, path: &str) -> String {
    let inner = Path::new(path).strip_prefix(dir).ok();
    let leads_out = |inner: &&Path| inner.components().any(|part| part == Component::ParentDir);
    let inner =
        inner.filter(|inner| !leads_out(inner)).and_then(Path::to_str).filter(|inner| !inner.is_empty());
    inner.unwrap_or(path).to_string()
}

/// `path` as seen from the relative directory `dir`.
fn relative_to(dir: &str, path: &str) -> String {
    let (base, target) = (parts(Path::new(dir)), parts(Path::new(path)));
    if Path::new(path).is_absolute() {
        return path.to_string();
    }
    let common = base.iter().zip(&target).take_while(|(a, b)| a == b).count();
    let up = std::iter::repeat_n("..".to_string(), base.len() - common);
    let down = target.into_iter().skip(common);
    up.chain(down).collect::<Vec<_>>().join("/")
}

/// The components of a relative path, without `.` and with `..` resolved where something stands before it.
fn parts(path: &Path) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for component in path.components() {
        match component {
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
            Component::ParentDir if parts.last().is_some_and(|last| last != "..") => drop(parts.pop()),
            other => parts.push(other.as_os_str().to_string_lossy().into_owned()),
        }
    }
    parts
}

/// Whether a checkpoint of this name has an index.
///
/// ```
/// # use tensorfleet::{Graph, Session, train::{Saver, checkpoint_exists}};
/// let g = Graph::new();
/// let v = g.variable("v", 1.0f32);
/// let session = Session::new(&g);
/// session.run(v.initializer())?;
/// let directory = tempfile::tempdir().unwrap();
/// let prefix = format!("{}/model", directory.path().display());
/// assert!(!checkpoint_exists(&prefix));
/// Saver::new(&g)?.save(&session, &prefix, None)?;
/// assert!(checkpoint_exists(&prefix));
/// # Ok::<(), tensorfleet::Status>(())
/// ```
pub fn checkpoint_exists(prefix: &str) -> bool {
    tensorfleet_files::bundle::index_path(prefix).is_file()
}

/// The newest complete checkpoint of `dir`; `None` if there is no checkpoint, or nothing says that there is.
///
/// Complete means that its index can be read and that all data files are as long as the index says. If the newest
/// checkpoint that the state file names is not, or the state file is damaged, a warning is logged and an older one is
/// given: first of those that the state file names, then of those in the directory, by the time of their index.
///
/// ```
/// # use tensorfleet::{Graph, Session, train::{Saver, latest_checkpoint}};
/// let directory = tempfile::tempdir().unwrap();
/// let dir = directory.path().to_str().unwrap();
/// assert!(latest_checkpoint(dir)?.is_none());
/// let g = Graph::new();
/// let v = g.variable("v", 1.0f32);
/// let saver = Saver::new(&g)?;
/// let session = Session::new(&g);
/// session.run(v.initializer())?;
/// let saved = saver.save(&session, &format!("{dir}/model"), Some(7))?;
/// assert_eq!(latest_checkpoint(dir)?, Some(saved));
/// # Ok::<(), tensorfleet::Status>(())
/// ```
pub fn latest_checkpoint(dir: &str) -> Result<Option<String>> {
    latest_checkpoint_of(dir, STATE_FILE)
}

/// Like [`latest_checkpoint`], with a state file of any name.
pub fn latest_checkpoint_of(dir: &str, filename: &str) -> Result<Option<String>> {
    let Some(mut candidates) = Candidates::of(dir, filename)? else { return Ok(None) };
    let newest = candidates.find(CheckpointReader::check_files);
    if let Some(warning) = candidates.warning(newest.as_deref()) {
        warn!("{warning}");
    }
    Ok(newest)
}

/// The newest complete checkpoint like [`latest_checkpoint`], for those who have been warned or do not care.
pub(crate) fn newest_complete(dir: &str) -> Result<Option<String>> {
    let candidates = Candidates::of(dir, STATE_FILE)?;
    Ok(candidates.and_then(|mut candidates| candidates.find(CheckpointReader::check_files)))
}

/// The prefixes of the checkpoints in `dir`, newest first. A directory that cannot be listed has none.
fn by_age(dir: &str) -> Vec<String> {
    let directory = if dir.is_empty() { "." } else { dir };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(prefix) = name.to_str().and_then(|name| name.strip_suffix(".index")) else { continue };
        if let Ok(time) = entry.metadata().and_then(|metadata| metadata.modified()) {
            found.push((time, join(dir, prefix)));
        }
    }
    found.sort();
    found.into_iter().rev().map(|(_, prefix)| prefix).collect()
}

/// A path in a form in which two spellings of it are equal.
pub(crate) fn resolved(prefix: &str) -> PathBuf {
    let path = Path::new(prefix);
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let parent = parent.canonicalize().unwrap_or_else(|_| parent.to_path_buf());
    parent.join(path.file_name().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_paths_are_seen_from_their_directory() {
        for (dir, path, expected) in [
            ("r", "r/m-3", "m-3"),
            ("./r", "./r/m", "m"),
            ("r/", "r/m", "m"),
            ("", "loose", "loose"),
            ("", "r/m", "r/m"),
            ("a/b", "a/c/m", "../c/m"),
            ("r", "/abs/m", "/abs/m"),
        ] {
            assert_eq!(relative_to(dir, path), expected, "{path} from {dir}");
        }
    }

    #[test]
    fn absolute_paths_within_their_directory_become_relative() {
        for (dir, path, expected) in [
            ("/r", "/r/m-3", "m-3"),
            ("/r/", "/r//m", "m"),
            ("/r", "/r/sub/m", "sub/m"),
            ("/r", "/rest/m", "/rest/m"),
            ("/r", "/r/../q/m", "/r/../q/m"),
            ("/r", "m", "m"),
            ("/", "/m", "m"),
        ] {
            assert_eq!(within(dir, path), expected, "{path} from {dir}");
        }
    }

    #[test]
    fn a_directory_without_a_state_file_has_no_checkpoint() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("m.index"), b"").unwrap();
        assert_eq!(latest_checkpoint(directory.path().to_str().unwrap()).unwrap(), None);
        assert_eq!(latest_checkpoint("/no/such/directory").unwrap(), None);
    }
}
