//! The progress of a training before people's eyes: lines that change on a terminal, one line now and then elsewhere.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use super::progress::{Activity, Progress};
use super::report::TEXT_EVERY;
use crate::live_lines::LiveLines;
use crate::terminal::{Colors, Terminal};
use crate::units::duration;

/// How often the lines change.
pub(super) const REDRAW_EVERY: Duration = Duration::from_millis(100);

const SPINNER: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
const SPINNER_MS: u128 = 100;
/// A bar shorter than this shows nothing, one that is longer nothing more.
const BAR_COLUMNS: std::ops::RangeInclusive<usize> = 10..=36;
/// Workers with a line of their own.
const MAX_WORKERS: usize = 8;
const CURVE_COLUMNS: usize = 60;
/// When nobody knows how wide the terminal is.
const DEFAULT_COLUMNS: usize = 80;

const ACCENT: &str = "36";
const DIM: &str = "2";
const BAD: &str = "31";

/// Shows progress on standard error.
pub(super) struct ProgressDisplay {
    started: Instant,
    kind: Kind,
}

enum Kind {
    Live { lines: LiveLines, colors: Colors },
    Lines { last: Instant },
}

impl ProgressDisplay {
    pub(super) fn new() -> ProgressDisplay {
        let started = Instant::now();
        let stderr = std::io::stderr();
        let kind = match stderr.is_terminal() {
            true => Kind::Live { lines: LiveLines::default(), colors: Colors::of(&stderr) },
            false => Kind::Lines { last: started },
        };
        ProgressDisplay { started, kind }
    }

    /// Shows how things are at `now`.
    pub(super) fn show(&mut self, progress: &Progress, now: Instant) {
        match &mut self.kind {
            Kind::Live { lines, colors } => {
                let columns = Terminal::of(&std::io::stderr()).width().unwrap_or(DEFAULT_COLUMNS);
                let elapsed = now.saturating_duration_since(self.started);
                lines.show(render(progress, now, elapsed, columns, *colors), columns);
            }
            Kind::Lines { last } => {
                if now.saturating_duration_since(*last) >= TEXT_EVERY {
                    *last = now;
                    let _ = writeln!(std::io::stderr(), "{}", plain_line(progress, now));
                }
            }
        }
    }

    /// A line that stays, above those that change.
    pub(super) fn say(&mut self, text: &str) {
        match &mut self.kind {
            Kind::Live { lines, .. } => {
                lines.say(text, Terminal::of(&std::io::stderr()).width().unwrap_or(DEFAULT_COLUMNS))
            }
            // A reader that has gone must not end the training.
            Kind::Lines { .. } => drop(writeln!(std::io::stderr(), "{text}")),
        }
    }

    /// Makes room for the result.
    pub(super) fn leave(&mut self) {
        self.clear();
        if let Kind::Live { .. } = self.kind {
            self.say("");
        }
    }

    /// Leaves the terminal as if no line had ever changed.
    pub(super) fn clear(&mut self) {
        if let Kind::Live { lines, .. } = &mut self.kind {
            lines.show(Vec::new(), Terminal::of(&std::io::stderr()).width().unwrap_or(DEFAULT_COLUMNS));
        }
    }
}

/// A piece of a line, and its colour.
struct Piece {
    text: String,
    color: &'static str,
}

fn piece(text: impl Into<String>, color: &'static str) -> Piece {
    Piece { text: text.into(), color }
}

/// The pieces that fit, painted.
fn line(pieces: &[Piece], columns: usize, colors: Colors) -> String {
    let mut left = columns;
    let mut text = String::new();
    for piece in pieces {
        let shown: String = piece.text.chars().take(left).collect();
        left -= shown.chars().count();
        match piece.color {
            "" => text.push_str(&shown),
            color => text.push_str(&colors.paint(color, &shown)),
        }
    }
    text
}

/// The lines of a training in progress, none longer than `columns`.
fn render(
    progress: &Progress,
    now: Instant,
    elapsed: Duration,
    columns: usize,
    colors: Colors,
) -> Vec<String> {
    // The last column is left free: some terminals wrap when it is written to.
    let columns = columns.saturating_sub(1);
    let frame = SPINNER[(elapsed.as_millis() / SPINNER_MS) as usize % SPINNER.len()];
    let spinner = piece(format!("{frame} "), ACCENT);
    if progress.first_step.is_none() {
        let what = match &progress.waits_for {
            Some(what) if elapsed > TEXT_EVERY => format!("waiting for {what}"),
            _ => "starting the cluster".to_string(),
        };
        return vec![line(
            &[spinner, piece(what, ""), piece(format!("  {}", duration(elapsed.as_secs_f64())), DIM)],
            columns,
            colors,
        )];
    }
    let mut lines = vec![line(&bar_line(spinner, progress, now, columns), columns, colors)];
    for worker in progress.workers.iter().take(MAX_WORKERS) {
        let mut pieces = vec![piece("  ", ""), piece(format!("{:<10}", worker.name), DIM)];
        match worker.activity {
            Activity::Starting => pieces.push(piece("starting", DIM)),
            Activity::Finished => pieces.push(piece("done", DIM)),
            Activity::Lost => pieces.push(piece("lost", BAD)),
            Activity::Training => {
                let speed =
                    worker.steps_per_second(now).map_or("–".to_string(), |speed| format!("{speed:.0}"));
                let loss = worker.loss.map_or(String::new(), |loss| format!("   loss {loss:.3}"));
                pieces.push(piece(format!("{speed:>5} steps/s{loss}"), ""));
            }
        }
        lines.push(line(&pieces, columns, colors));
    }
    if let Some(more) = progress.workers.len().checked_sub(MAX_WORKERS).filter(|&more| more > 0) {
        lines.push(line(&[piece(format!("  and {more} more workers"), DIM)], columns, colors));
    }
    let curve = progress.curve.line(CURVE_COLUMNS.min(columns.saturating_sub(12)));
    if !curve.is_empty() {
        lines.push(line(&[piece(format!("  {:<10}", "loss"), DIM), piece(curve, ACCENT)], columns, colors));
    }
    lines
}

/// The bar, and as many of the facts as there is room for.
fn bar_line(spinner: Piece, progress: &Progress, now: Instant, columns: usize) -> Vec<Piece> {
    let mut facts = vec![format!("step {}/{}", progress.step, progress.total)];
    let left = progress.time_left(now).map(|left| format!("{} left", rounded(left)));
    let loss = progress.curve.last().map(|loss| format!("loss {loss:.3}"));
    let speed = progress.steps_per_second(now).map(|speed| format!("{speed:.0} steps/s"));
    // Most wanted first; what does not fit beside the shortest bar is left out.
    let mut room =
        columns.saturating_sub(2 + BAR_COLUMNS.start() + 2 + facts.iter().map(String::len).sum::<usize>());
    for fact in [left, loss, speed].into_iter().flatten() {
        let width = fact.chars().count() + 3;
        if width <= room {
            room -= width;
            facts.push(fact);
        }
    }
    let bar = (BAR_COLUMNS.start() + room).min(*BAR_COLUMNS.end());
    let full = (progress.fraction() * bar as f64).floor() as usize;
    vec![
        spinner,
        piece("━".repeat(full), ACCENT),
        piece("─".repeat(bar - full.min(bar)), DIM),
        piece("  ", ""),
        piece(facts.join(" · "), ""),
    ]
}

/// Whole seconds, which do not flicker.
fn rounded(left: Duration) -> String {
    match left.as_secs_f64().ceil() as u64 {
        seconds @ ..120 => format!("{seconds} s"),
        seconds => format!("{} min", seconds.div_ceil(60)),
    }
}

/// All of it in one line.
fn plain_line(progress: &Progress, now: Instant) -> String {
    if progress.first_step.is_none() {
        return match &progress.waits_for {
            Some(what) => format!("waiting for {what}"),
            None => "starting the cluster".to_string(),
        };
    }
    let mut text = format!("step {} of {}", progress.step, progress.total);
    if let Some(loss) = progress.curve.last() {
        text.push_str(&format!(", loss {loss:.3}"));
    }
    if let Some(speed) = progress.steps_per_second(now) {
        let each = progress
            .workers
            .iter()
            .filter_map(|worker| Some(format!("{} {:.0}", worker.name, worker.steps_per_second(now)?)));
        let each = each.take(MAX_WORKERS).collect::<Vec<_>>().join(", ");
        text.push_str(&format!(", {speed:.0} steps/s ({each})"));
    }
    if let Some(left) = progress.time_left(now) {
        text.push_str(&format!(", {} left", rounded(left)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::report::Report;
    use super::*;

    /// A training, and the time it is then.
    fn half_done() -> (Progress, Instant) {
        let start = Instant::now();
        let mut progress = Progress::new(1000, 2);
        for worker in 0..2 {
            progress.take(worker, &Report::Ready { step: 0 }, start);
        }
        for (seconds, step) in [(0, 10), (1, 255), (2, 500)] {
            let now = start + Duration::from_secs(seconds);
            let loss = 1.0 / (step as f32);
            progress.take(
                0,
                &Report::Progress { step, local_steps: step as u64 / 2, seconds: 0.0, loss },
                now,
            );
        }
        (progress, start + Duration::from_secs(2))
    }

    #[test]
    fn a_training_in_progress_fits_every_width() {
        let (progress, now) = half_done();
        let lines = render(&progress, now, Duration::ZERO, 100, Colors::Off);
        assert_eq!(
            lines[0],
            "⠋ ━━━━━━━━━━━━━━━━━━──────────────────  step 500/1000 · 3 s left · loss 0.035 · 245 steps/s"
        );
        assert_eq!(lines[1], "  worker/0    122 steps/s   loss 0.002");
        assert_eq!(lines[2], "  worker/1      – steps/s");
        assert_eq!(lines[3], "  loss      █▂▁");
        for columns in [0, 1, 10, 20, 40, 60, 80, 200] {
            let lines = render(&progress, now, Duration::ZERO, columns, Colors::Off);
            assert!(lines.iter().all(|line| line.chars().count() <= columns), "{lines:#?}");
        }
        let narrow = render(&progress, now, Duration::ZERO, 50, Colors::Off);
        assert_eq!(narrow[0], "⠋ ━━━━━━━━━━───────────  step 500/1000 · 3 s left");
    }

    #[test]
    fn without_a_terminal_all_stands_in_one_line() {
        let (progress, now) = half_done();
        assert_eq!(
            plain_line(&progress, now),
            "step 500 of 1000, loss 0.035, 245 steps/s (worker/0 122), 3 s left"
        );
        assert_eq!(plain_line(&Progress::new(10, 1), now), "starting the cluster");
    }
}
