//! Which checkpoints are kept: the newest few, and one for each span of hours.

use std::time::UNIX_EPOCH;

use tensorfleet_core::clock;
use tensorfleet_proto::tensorflow::SaverDef;
use tracing::warn;

use super::files;
use crate::train::checkpoint_state::{checkpoint_exists, lies_in, read_state, resolved};

/// The checkpoints of a saver.
#[derive(Clone, Debug)]
pub(super) struct Retention {
    /// 0 keeps all, and then the state file names only the newest.
    max_to_keep: usize,
    keep_every_seconds: f64,
    /// A checkpoint that was made after this is the next one to be kept for ever.
    next_kept_time: f64,
    /// Oldest first, with the time each was made.
    last: Vec<(String, f64)>,
    to_delete: Vec<(String, f64)>,
    /// What an earlier program has left. It is deleted only in the directory that is saved to: a state file that was
    /// copied may name the checkpoints of the original.
    recovered: Vec<String>,
    /// The checkpoint that the variables were restored from last.
    restored: Option<String>,
}

fn now() -> f64 {
    clock::since_epoch().as_secs_f64()
}

impl Retention {
    pub(super) fn new(def: &SaverDef) -> Retention {
        let keep_every_seconds = f64::from(def.keep_checkpoint_every_n_hours) * 3600.0;
        Retention {
            max_to_keep: usize::try_from(def.max_to_keep).unwrap_or(0),
            keep_every_seconds,
            next_kept_time: now() + keep_every_seconds,
            last: Vec::new(),
            to_delete: Vec::new(),
            recovered: Vec::new(),
            restored: None,
        }
    }

    /// A checkpoint has been written; the same one again counts as new.
    pub(super) fn record(&mut self, prefix: &str) {
        self.record_at(prefix, now());
    }

    fn record_at(&mut self, prefix: &str, time: f64) {
        if self.max_to_keep == 0 {
            return;
        }
        self.last.retain(|(path, _)| path != prefix);
        self.recovered.retain(|path| path != prefix);
        self.last.push((prefix.to_string(), time));
        if self.last.len() > self.max_to_keep {
            self.to_delete.push(self.last.remove(0));
        }
    }

    /// Takes over what an earlier program has left.
    pub(super) fn recover(&mut self, paths: &[String]) {
        let time = |prefix: &String| {
            let index = tensorfleet_files::bundle::index_path(prefix);
            let modified = std::fs::metadata(index).and_then(|metadata| metadata.modified()).ok()?;
            Some(modified.duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64()))
        };
        let found = paths.iter().filter(|path| checkpoint_exists(path));
        let found: Vec<(String, f64)> = found.filter_map(|path| Some((path.clone(), time(path)?))).collect();
        // What this saver has written itself stays its own when it goes back to it.
        let is_own =
            |path: &String| self.last.iter().any(|(own, _)| own == path) && !self.recovered.contains(path);
        self.recovered = found.iter().map(|(path, _)| path).filter(|path| !is_own(path)).cloned().collect();
        self.last = found;
    }

    pub(super) fn set_restored(&mut self, prefix: &str) {
        self.restored = Some(prefix.to_string());
    }

    pub(super) fn restored(&self) -> Option<&str> {
        self.restored.as_deref()
    }

    pub(super) fn last_checkpoints(&self) -> Vec<String> {
        self.last.iter().map(|(path, _)| path.clone()).collect()
    }

    pub(super) fn last_checkpoints_with_time(&self) -> Vec<(String, f64)> {
        self.last.clone()
    }

    pub(super) fn set_last_checkpoints(&mut self, checkpoints: Vec<(String, f64)>) {
        self.recovered.clear();
        self.last = checkpoints;
    }

    pub(super) fn names(&self, prefix: &str) -> bool {
        let wanted = resolved(prefix);
        self.last.iter().any(|(path, _)| resolved(path) == wanted)
    }

    /// The checkpoints that have had their time, except those to be kept for ever.
    fn expired(&mut self) -> Vec<String> {
        let mut expired = Vec::new();
        for (path, time) in std::mem::take(&mut self.to_delete) {
            if time > self.next_kept_time {
                self.next_kept_time += self.keep_every_seconds;
            } else {
                expired.push(path);
            }
        }
        expired
    }

    /// Deletes what is too old. What the state file names is never deleted, by whatever path; nor is what this saver has
    /// not written and lies in another directory than `dir`.
    pub(super) fn delete_old(&mut self, dir: &str, state_file: &str, meta_suffix: &str) {
        let expired = self.expired();
        if expired.is_empty() {
            return;
        }
        let named: Vec<_> = match read_state(dir, state_file) {
            Ok(state) => {
                let state = state.unwrap_or_default();
                let all = state.all_model_checkpoint_paths.iter().chain([&state.model_checkpoint_path]);
                all.map(|path| resolved(path)).collect()
            }
            Err(status) => {
                warn!(dir, "old checkpoints are kept, because {}", status.message());
                return;
            }
        };
        for path in expired {
            let is_foreign = self.recovered.contains(&path) && !lies_in(dir, &path);
            if !is_foreign && !named.contains(&resolved(&path)) {
                files::remove_checkpoint(&path, meta_suffix);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retention(max_to_keep: i32, hours: f32) -> Retention {
        let def = SaverDef { max_to_keep, keep_checkpoint_every_n_hours: hours, ..Default::default() };
        Retention { next_kept_time: f64::from(hours) * 3600.0, ..Retention::new(&def) }
    }

    #[test]
    fn the_newest_few_are_kept() {
        let mut retention = retention(2, 10_000.0);
        for (time, name) in ["a", "b", "c", "b", "d"].iter().enumerate() {
            retention.record_at(name, time as f64);
        }
        assert_eq!(retention.last_checkpoints(), ["b", "d"]);
        assert_eq!(retention.expired(), ["a", "c"]);
        assert!(retention.expired().is_empty());
    }

    #[test]
    fn one_checkpoint_of_each_span_is_kept_for_ever() {
        // Saved every half hour, one kept for each hour: what expires at 1.0 h is not yet past the first hour.
        let mut retention = retention(1, 1.0);
        let mut deleted = Vec::new();
        for half in 0..=8 {
            retention.record_at(&format!("{half}"), f64::from(half) * 1800.0);
            deleted.extend(retention.expired());
        }
        assert_eq!(deleted, ["0", "1", "2", "4", "6"]);
    }

    #[test]
    fn without_a_limit_nothing_is_remembered() {
        let mut retention = retention(0, 1.0);
        retention.record("a");
        assert!(retention.last_checkpoints().is_empty() && retention.expired().is_empty());
    }
}
