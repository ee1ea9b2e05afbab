//! The directory of a training: where its checkpoints and event files are.

use std::path::Path;

use tensorfleet::checkpoint::CheckpointReader;
use tensorfleet::train::{RestorePoint, restore_point};
use tensorfleet::{Result, Status};
use tensorfleet_core::{bail, ensure};

use super::arguments::MnistArguments;

/// How many directories of earlier runs are passed over before something must be wrong.
const MAX_RUNS: u32 = 100_000;

/// A directory that exists and can be written to.
pub(super) struct LogDir {
    path: String,
    /// What the training goes on from, as it was before it began.
    start: RestorePoint,
}

impl LogDir {
    /// The directory that the arguments name, or a new one. A checkpoint in it must be of the network that they describe.
    pub(super) fn for_model(arguments: &MnistArguments) -> Result<LogDir> {
        let mut log_dir = match &arguments.log_dir {
            Some(dir) => LogDir::open(dir)?,
            None => LogDir::fresh(&std::env::temp_dir())?,
        };
        log_dir.start = restore_point(&log_dir.path)?;
        log_dir.check_model(arguments.hidden_units)?;
        Ok(log_dir)
    }

    /// The path, absolute: parameter servers write there, too, wherever they were started.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// The step that the training goes on from, if there was a checkpoint when it began.
    pub(super) fn first_step(&self) -> Option<i64> {
        step_of(self.start.checkpoint.as_deref()?)
    }

    /// What was not as it should be when the training began.
    pub(super) fn warning(&self) -> Option<&str> {
        self.start.warning.as_deref()
    }

    /// The step of the newest checkpoint that can be read now, if there is one.
    pub(super) fn saved_step(&self) -> Option<i64> {
        step_of(&restore_point(&self.path).ok()?.checkpoint?)
    }

    /// Removes the directory, which must be one that this run has made, if there is nothing in it but what a run writes
    /// before its first step: a run that did not begin leaves nothing behind.
    pub(super) fn remove_if_unused(&self) {
        let is_preparation = |name: &str| name.starts_with("events.out.tfevents.") || name == "graph.pbtxt";
        let Ok(entries) = std::fs::read_dir(&self.path) else { return };
        let is_unused = entries
            .into_iter()
            .all(|entry| entry.is_ok_and(|entry| entry.file_name().to_str().is_some_and(is_preparation)));
        if is_unused {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }

    fn open(dir: &Path) -> Result<LogDir> {
        ensure!(
            !dir.is_file(),
            FailedPrecondition,
            "the log directory {} is a file: choose another --log_dir",
            dir.display()
        );
        let unusable = |error: std::io::Error| {
            Status::failed_precondition(format!(
                "the log directory {} cannot be written to ({error}): choose another --log_dir",
                dir.display()
            ))
        };
        std::fs::create_dir_all(dir).map_err(unusable)?;
        let path = std::path::absolute(dir).map_err(unusable)?;
        let probe = path.join(format!(".tensorfleet-{}", std::process::id()));
        std::fs::write(&probe, "").and_then(|()| std::fs::remove_file(&probe)).map_err(unusable)?;
        LogDir::of(&path)
    }

    /// A new directory in `parent`, numbered after those that are there.
    fn fresh(parent: &Path) -> Result<LogDir> {
        for number in 1..=MAX_RUNS {
            let path = parent.join(format!("tensorfleet-mnist-{number}"));
            match std::fs::create_dir(&path) {
                Ok(()) => return LogDir::of(&path),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => bail!(
                    FailedPrecondition,
                    "there can be no log directory in {} ({error}): choose one with --log_dir",
                    parent.display()
                ),
            }
        }
        bail!(
            ResourceExhausted,
            "there are {MAX_RUNS} earlier runs in {}: remove some, or choose a directory with --log_dir",
            parent.display()
        )
    }

    fn of(path: &Path) -> Result<LogDir> {
        match path.to_str() {
            Some(path) => Ok(LogDir { path: path.to_string(), start: RestorePoint::default() }),
            None => bail!(
                InvalidArgument,
                "the log directory {} has a name that is no text: choose another --log_dir",
                path.display()
            ),
        }
    }

    /// Restoring a checkpoint of another network would fail as well, but only in the midst of the start, with the words of
    /// a kernel.
    fn check_model(&self, hidden_units: u32) -> Result<()> {
        let Some(prefix) = &self.start.checkpoint else { return Ok(()) };
        let reader = CheckpointReader::open(prefix)?;
        let Ok(shape) = reader.shape("hid_w") else {
            bail!(
                FailedPrecondition,
                "{} has a checkpoint of another model: choose another --log_dir",
                self.path
            )
        };
        let saved_units = shape.dims().get(1).copied().unwrap_or_default();
        ensure!(
            saved_units == hidden_units as usize,
            FailedPrecondition,
            "{} has a checkpoint of a network with {saved_units} hidden units, not {hidden_units}: resume it with \
             --hidden_units={saved_units}, or choose another --log_dir",
            self.path
        );
        Ok(())
    }
}

fn step_of(prefix: &str) -> Option<i64> {
    CheckpointReader::open(prefix).ok()?.tensor("global_step").ok()?.to_scalar::<i64>().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_directories_are_numbered_and_unusable_ones_are_named() {
        let parent = tempfile::tempdir().unwrap();
        let [first, second] = [1, 2].map(|_| LogDir::fresh(parent.path()).unwrap());
        assert!(first.path().ends_with("/tensorfleet-mnist-1"), "{}", first.path());
        assert!(second.path().ends_with("/tensorfleet-mnist-2"), "{}", second.path());
        assert_eq!(first.saved_step(), None);
        std::fs::write(Path::new(first.path()).join("events.out.tfevents.1"), "").unwrap();
        first.remove_if_unused();
        let state = "model_checkpoint_path: \"model.ckpt-7\"\n";
        std::fs::write(Path::new(second.path()).join("checkpoint"), state).unwrap();
        std::fs::write(Path::new(second.path()).join("model.ckpt-7.index"), "").unwrap();
        second.remove_if_unused();
        assert!(!Path::new(first.path()).exists() && Path::new(second.path()).exists());

        let file = parent.path().join("file");
        std::fs::write(&file, "").unwrap();
        let error = LogDir::open(&file.join("below")).err().unwrap();
        assert!(error.text().ends_with("choose another --log_dir"), "{error}");
    }
}
