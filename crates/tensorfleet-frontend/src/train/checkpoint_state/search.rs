//! Which checkpoint of a directory to go on from.
//!
//! One search answers everybody: [`latest_checkpoint`](super::latest_checkpoint), a chief that restores, a launcher that
//! says at which step training goes on. It looks at what the state file names, the newest first; where such a name leads
//! to nothing, at the checkpoint of the same name in the state file's own directory, because the directory has been
//! moved; then at whatever else is in the directory, by the time of its index. So a state file that is damaged costs
//! nothing but a warning. One that is absent means that there is nothing to go on from, as in TensorFlow: that is how
//! people ask for a fresh start. It is said nevertheless if there are checkpoints.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use tensorfleet_core::{Result, Status};

use super::{CheckpointState, STATE_FILE, StateFile, by_age, checkpoint_exists, join, look, resolved};
use crate::checkpoint::CheckpointReader;

/// The checkpoint that a training in a directory goes on from; see [`restore_point`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RestorePoint {
    /// Its prefix; none if the training starts afresh.
    pub checkpoint: Option<String>,
    /// A sentence about what is not as it should be: a checkpoint that was passed over, a state file that is damaged or
    /// missing.
    pub warning: Option<String>,
}

/// The checkpoint that a chief with this directory restores, found as the chief finds it. Unlike
/// [`latest_checkpoint`](super::latest_checkpoint) it reads all of the checkpoint, so a damaged one is noticed, and it logs
/// nothing. An error if the state file names checkpoints and none is whole.
///
/// ```
/// # use tensorfleet::{Graph, Session, train::{Saver, restore_point}};
/// # let directory = tempfile::tempdir().unwrap();
/// # let dir = directory.path().to_str().unwrap();
/// # let g = Graph::new();
/// # let v = g.variable("v", 1.0f32);
/// # let saver = Saver::new(&g)?;
/// # let session = Session::new(&g);
/// # session.run(v.initializer())?;
/// let older = saver.save(&session, &format!("{dir}/model"), Some(7))?;
/// let newer = saver.save(&session, &format!("{dir}/model"), Some(8))?;
/// assert_eq!(restore_point(dir)?.checkpoint, Some(newer.clone()));
///
/// std::fs::write(format!("{newer}.data-00000-of-00001"), "oops").unwrap();
/// let point = restore_point(dir)?;
/// assert_eq!(point.checkpoint, Some(older));
/// assert!(point.warning.unwrap().contains(&newer));
/// # Ok::<(), tensorfleet::Status>(())
/// ```
pub fn restore_point(dir: &str) -> Result<RestorePoint> {
    let Some(mut candidates) = Candidates::of(dir, STATE_FILE)? else {
        return Ok(RestorePoint { checkpoint: None, warning: unnamed_checkpoints(dir) });
    };
    let checkpoint = candidates.find(CheckpointReader::verify);
    if checkpoint.is_none()
        && let Some(error) = candidates.failure()
    {
        return Err(error);
    }
    Ok(RestorePoint { warning: candidates.warning(checkpoint.as_deref()), checkpoint })
}

/// What to say about a directory without a state file, if there are checkpoints in it.
pub(crate) fn unnamed_checkpoints(dir: &str) -> Option<String> {
    let is_whole =
        |path: &String| CheckpointReader::open(path).is_ok_and(|reader| reader.check_files().is_ok());
    let newest = by_age(dir).into_iter().find(is_whole)?;
    let name = Path::new(&newest).file_name()?.to_string_lossy();
    Some(format!(
        "{dir} has checkpoints, the newest of them {name}, but no file '{STATE_FILE}' that names one, so nothing is restored \
         and they may be overwritten; to go on from {name}, stop and write model_checkpoint_path: \"{name}\" into \
         {}",
        join(dir, STATE_FILE)
    ))
}

/// A checkpoint that may be the one to go on from.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) path: String,
    /// Whether it is one of those that the state file means, be it by another path. Others that are in the directory may
    /// be of another model.
    pub(crate) is_named: bool,
}

/// The checkpoints to try one after the other, and what became of those that were tried.
#[derive(Debug)]
pub(crate) struct Candidates {
    dir: String,
    state_path: String,
    /// What the state file says, or what is wrong with it.
    state: Result<CheckpointState, String>,
    left: VecDeque<Candidate>,
    passed_over: Vec<(String, Status)>,
}

impl Candidates {
    /// The one to try first.
    pub(crate) fn newest(&self) -> Option<&str> {
        self.left.iter().map(|candidate| candidate.path.as_str()).find(|path| checkpoint_exists(path))
    }

    /// Those of `dir`; `None` if it has no state file.
    pub(crate) fn of(dir: &str, filename: &str) -> Result<Option<Candidates>> {
        let state = match look(dir, filename)? {
            StateFile::Absent => return Ok(None),
            StateFile::Whole(state) => Ok(state),
            StateFile::Damaged(what) => Err(what),
        };
        let mut left: VecDeque<Candidate> = VecDeque::new();
        let mut seen: Vec<PathBuf> = Vec::new();
        let mut add = |path: String, is_named: bool| {
            let place = resolved(&path);
            if !path.is_empty() && !seen.contains(&place) {
                seen.push(place);
                left.push_back(Candidate { path, is_named });
            }
        };
        if let Ok(state) = &state {
            // The newest is named apart; the list runs from the oldest to it.
            let named = state.all_model_checkpoint_paths.iter().rev();
            for path in std::iter::once(&state.model_checkpoint_path).chain(named) {
                add(path.clone(), true);
                if let Some(namesake) = namesake(dir, path) {
                    add(namesake, true);
                }
            }
        }
        by_age(dir).into_iter().for_each(|path| add(path, false));
        let state_path = join(dir, filename);
        Ok(Some(Candidates { dir: dir.to_string(), state_path, state, left, passed_over: Vec::new() }))
    }

    /// The next to try.
    pub(crate) fn next(&mut self) -> Option<Candidate> {
        self.left.pop_front()
    }

    /// One that was tried is of no use.
    pub(crate) fn pass_over(&mut self, path: String, why: Status) {
        self.passed_over.push((path, why));
    }

    /// The first that can be opened and that `check` finds whole.
    pub(crate) fn find(&mut self, check: impl Fn(&CheckpointReader) -> Result<()>) -> Option<String> {
        while let Some(Candidate { path, .. }) = self.next() {
            let checked = match checkpoint_exists(&path) {
                true => CheckpointReader::open(&path).and_then(|reader| check(&reader)),
                false => Err(missing()),
            };
            match checked {
                Ok(()) => return Some(path),
                Err(why) => self.pass_over(path, why),
            }
        }
        None
    }

    /// What there is to say after `chosen` was found, or nothing.
    pub(crate) fn warning(&self, chosen: Option<&str>) -> Option<String> {
        let problem = match (&self.state, self.passed_over.as_slice()) {
            (Err(what), _) => format!("{} does not tell the state of checkpoints: {what}", self.state_path),
            (Ok(_), []) => return None,
            (Ok(_), [(path, why)]) => format!("checkpoint {path} cannot be used: {}", one_line(why)),
            (Ok(_), [(path, why), more @ ..]) => {
                format!("checkpoint {path} and {} more cannot be used: {}", more.len(), one_line(why))
            }
        };
        Some(match chosen {
            Some(chosen) => format!("{problem}; resuming from {chosen}, the newest one that is whole"),
            None => {
                format!("{problem}; there is no other checkpoint in {}, so nothing is restored", self.dir)
            }
        })
    }

    /// The error if none was found; none if nobody said that there should be one.
    pub(crate) fn failure(&self) -> Option<Status> {
        let (path, why) = self.passed_over.first()?;
        let more = match self.passed_over.len() - 1 {
            0 => String::new(),
            count => format!(" (nor can {count} others)"),
        };
        Some(Status::data_loss(format!(
            "checkpoint {path} cannot be used{more}: {}. Put a whole checkpoint into {}, or start afresh by deleting {}",
            one_line(why),
            self.dir,
            self.state_path
        )))
    }

    /// The checkpoints of this directory that the state file means, oldest first: those that are there to be deleted in
    /// their turn. What lies elsewhere belongs to someone else.
    pub(crate) fn own(&self) -> Vec<String> {
        let Ok(state) = &self.state else { return Vec::new() };
        let mut own: Vec<String> = Vec::new();
        for path in &state.all_model_checkpoint_paths {
            let path = namesake(&self.dir, path).unwrap_or_else(|| path.clone());
            if lies_in(&self.dir, &path) && !own.contains(&path) {
                own.push(path);
            }
        }
        own
    }
}

/// Why a checkpoint without an index is of no use.
pub(crate) fn missing() -> Status {
    Status::data_loss("its files are missing")
}

/// Whether a checkpoint is in `dir` itself.
pub(crate) fn lies_in(dir: &str, prefix: &str) -> bool {
    resolved(prefix).parent() == resolved(&join(dir, "any")).parent()
}

/// The checkpoint in `dir` that has the name of one elsewhere, if there is one.
fn namesake(dir: &str, path: &str) -> Option<String> {
    let name = Path::new(path).file_name()?.to_str()?;
    let namesake = join(dir, name);
    (!lies_in(dir, path) && checkpoint_exists(&namesake)).then_some(namesake)
}

/// Errors of a step name the task and the node they come from in lines of their own.
fn one_line(status: &Status) -> String {
    let lines = status.text().lines().map(str::trim);
    let is_origin = |line: &&str| line.is_empty() || line.starts_with("From /job:") || line.starts_with("[[");
    lines.filter(|line| !is_origin(line)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::super::update_checkpoint_state;
    use super::*;

    /// The paths of all candidates, without the directory.
    fn order(dir: &str) -> Vec<String> {
        let mut candidates = Candidates::of(dir, STATE_FILE).unwrap().unwrap();
        let paths = std::iter::from_fn(|| candidates.next()).map(|candidate| candidate.path);
        paths.map(|path| path.strip_prefix(&format!("{dir}/")).unwrap_or(&path).to_string()).collect()
    }

    #[test]
    fn what_was_moved_is_found_under_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let dir = directory.path().to_str().unwrap();
        for name in ["m-2", "m-1", "best"] {
            std::fs::write(directory.path().join(format!("{name}.index")), "").unwrap();
        }
        let all = ["/gone/m-0", "/gone/m-1", "/gone/m-2"].map(String::from);
        update_checkpoint_state(dir, "/gone/m-2", &all).unwrap();
        assert_eq!(order(dir), ["/gone/m-2", "m-2", "/gone/m-1", "m-1", "/gone/m-0", "best"]);
        let candidates = Candidates::of(dir, STATE_FILE).unwrap().unwrap();
        assert_eq!(candidates.own(), [format!("{dir}/m-1"), format!("{dir}/m-2")]);
    }

    #[test]
    fn a_state_file_that_says_nothing_is_damaged() {
        let directory = tempfile::tempdir().unwrap();
        let dir = directory.path().to_str().unwrap();
        for content in ["", "all_model_checkpoint_paths: \"m\"", "\u{1}", "model_checkpoint_path: \"m"] {
            std::fs::write(directory.path().join(STATE_FILE), content).unwrap();
            let point = restore_point(dir).unwrap();
            assert_eq!(point.checkpoint, None);
            let warning = point.warning.unwrap();
            assert!(warning.contains("does not tell the state of checkpoints: "), "{warning}");
            assert!(warning.ends_with("so nothing is restored"), "{warning}");
        }
    }
}
