//! Many runs of the matrix as tables: who kept the promise, how long training stood still, how many steps were lost.

use std::fmt::Write as _;
use std::time::Duration;

use super::{Cell, Client, Fault, Mode, Outcome, Promise, Role};

/// The outcomes of all runs.
#[derive(Default)]
pub struct Table {
    runs: Vec<(Cell, Outcome)>,
}

impl Table {
    /// Notes a run.
    pub fn add(&mut self, cell: Cell, outcome: Outcome) {
        self.runs.push((cell, outcome));
    }

    /// How many cells there are, and in how many of them every run kept the promise.
    pub fn kept(&self, client: Client) -> (usize, usize) {
        let cells = Cell::all(client);
        let tried: Vec<Cell> = cells.into_iter().filter(|cell| self.of(*cell).next().is_some()).collect();
        let kept =
            tried.iter().filter(|cell| self.of(**cell).all(|outcome| cell.verdict(outcome).is_ok())).count();
        (tried.len(), kept)
    }

    fn of(&self, cell: Cell) -> impl Iterator<Item = &Outcome> {
        self.runs.iter().filter(move |(tried, _)| *tried == cell).map(|(_, outcome)| outcome)
    }

    /// Markdown: a table for each way to train.
    pub fn markdown(&self, client: Client) -> String {
        let mut text = String::new();
        for mode in [Mode::Asynchronous, Mode::Synchronous] {
            let name = if mode == Mode::Asynchronous { "asynchronous" } else { "synchronous" };
            let _ = writeln!(
                text,
                "| {name} | stays dead | restarted | frozen | cut off |\n|---|---|---|---|---|"
            );
            for role in [Role::Ps, Role::Chief, Role::Worker, Role::Backup] {
                let _ = write!(text, "| {role} |");
                for fault in [Fault::StaysDead, Fault::Restarted, Fault::Frozen, Fault::CutOff] {
                    let _ = write!(text, " {} |", self.entry(Cell { client, mode, role, fault }));
                }
                text.push('\n');
            }
            text.push('\n');
        }
        text
    }

    /// `10/10, 20.4–21.3 s, 0–9 lost`, or `waits aloud 10/10`.
    fn entry(&self, cell: Cell) -> String {
        let outcomes: Vec<&Outcome> = self.of(cell).collect();
        if outcomes.is_empty() {
            return "not tried".to_string();
        }
        let kept = outcomes.iter().filter(|outcome| cell.verdict(outcome).is_ok()).count();
        let count = format!("{kept}/{}", outcomes.len());
        if cell.promise() == Promise::WaitsAloud {
            let silence = outcomes.iter().map(|outcome| outcome.silence).max().unwrap_or_default();
            return format!("waits, says so {count}, every {:.0} s", silence.as_secs_f64().ceil());
        }
        let ended = outcomes.iter().filter(|outcome| outcome.unfinished.is_none());
        let still: Vec<Duration> = ended.clone().map(|outcome| outcome.standstill).collect();
        let lost: Vec<i64> = ended.map(|outcome| outcome.lost_steps).collect();
        let (Some(shortest), Some(longest)) = (still.iter().min(), still.iter().max()) else {
            return format!("**{count}**");
        };
        let (least, most) = (lost.iter().min().unwrap_or(&0), lost.iter().max().unwrap_or(&0));
        let steps = if least == most { format!("{most}") } else { format!("{least}–{most}") };
        let count = if kept == outcomes.len() { count } else { format!("**{count}**") };
        format!("{count}, {:.1}–{:.1} s, {steps} lost", shortest.as_secs_f64(), longest.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_shows_how_many_runs_kept_the_promise_and_what_they_cost() {
        let cell =
            Cell { client: Client::Rust, mode: Mode::Synchronous, role: Role::Ps, fault: Fault::Frozen };
        let outcome = |unfinished: Option<&str>, lost_steps| Outcome {
            unfinished: unfinished.map(str::to_string),
            standstill: Duration::from_secs(20),
            lost_steps,
            silence: Duration::ZERO,
            silent_host: String::new(),
        };
        let mut table = Table::default();
        table.add(cell, outcome(None, 0));
        table.add(cell, outcome(None, 9));
        assert!(table.markdown(Client::Rust).contains("| 2/2, 20.0–20.0 s, 0–9 lost |"));
        assert_eq!(table.kept(Client::Rust), (1, 1));
        table.add(cell, outcome(Some("it hangs"), 0));
        assert!(table.markdown(Client::Rust).contains("| **2/3**, 20.0–20.0 s, 0–9 lost |"));
        assert_eq!(table.kept(Client::Rust), (1, 0));
    }
}
