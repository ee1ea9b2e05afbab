//! [`Journal`]: what happened in a simulation, who waits for what, and the first thing that was wrong.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::machine;

/// The record of a simulation. Clones are the same record.
#[derive(Clone, Default)]
pub(crate) struct Journal(Arc<Mutex<Entries>>);

#[derive(Default)]
struct Entries {
    text: String,
    is_shown: bool,
    failure: Option<String>,
    waits: Vec<Wait>,
}

#[derive(Clone)]
struct Wait {
    who: String,
    what: String,
    since: Duration,
}

impl Journal {
    /// An empty one; what is noted is printed as well if `is_shown`.
    pub(crate) fn new(is_shown: bool) -> Journal {
        let journal = Journal::default();
        journal.0.lock().is_shown = is_shown;
        journal
    }

    /// Notes what happens.
    pub(crate) fn note(&self, who: &str, what: &str) {
        let line = format!("  {:9.3} s  {who}: {what}", machine::now().as_secs_f64());
        let mut entries = self.0.lock();
        if entries.is_shown {
            println!("{line}");
        }
        // Writing to a string cannot fail.
        let _ = writeln!(entries.text, "{line}");
    }

    /// Notes something that must not happen. Only the first counts: others may follow from it.
    pub(crate) fn fail(&self, who: &str, reason: &str) {
        self.note(who, &format!("WRONG: {reason}"));
        self.0.lock().failure.get_or_insert_with(|| format!("{who}: {reason}"));
    }

    /// The first thing that was wrong.
    pub(crate) fn failure(&self) -> Option<String> {
        self.0.lock().failure.clone()
    }

    /// Does `work`, and lets others know meanwhile what `who` waits for.
    pub(crate) async fn waiting<F: Future>(&self, who: &str, what: &str, work: F) -> F::Output {
        let wait = Wait { who: who.to_string(), what: what.to_string(), since: machine::now() };
        self.0.lock().waits.push(wait.clone());
        let _over = Over(self, &wait);
        work.await
    }

    /// Who waits for what, since when.
    pub(crate) fn waits(&self) -> Vec<String> {
        let now = machine::now();
        let describe = |wait: &Wait| {
            let seconds = now.saturating_sub(wait.since).as_secs_f64();
            format!("{} has waited {seconds:.1} s for {}", wait.who, wait.what)
        };
        self.0.lock().waits.iter().map(describe).collect()
    }

    /// All that was noted.
    pub(crate) fn text(&self) -> String {
        self.0.lock().text.clone()
    }
}

/// Ends a wait, however it ends.
struct Over<'a>(&'a Journal, &'a Wait);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        let Over(journal, wait) = self;
        let mut entries = journal.0.lock();
        let is_it =
            |other: &Wait| other.who == wait.who && other.what == wait.what && other.since == wait.since;
        if let Some(index) = entries.waits.iter().position(is_it) {
            entries.waits.remove(index);
        }
    }
}
