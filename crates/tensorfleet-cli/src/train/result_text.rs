//! The result of a training: for people, as wide as their terminal allows, and for scripts.

use std::fmt::Write;

use serde_json::json;

use super::evaluation::Evaluation;
use super::invocation::{command, quoted};
use super::report::Outcome;
use super::sparkline::Curve;
use crate::terminal::{Colors, Terminal};

/// Without a terminal, lines are as long as on a usual one.
const DEFAULT_COLUMNS: usize = 80;
const CURVE_COLUMNS: usize = 48;
/// Mistakes that are named.
const WORST: usize = 3;

const GOOD: &str = "1;32";
const ACCENT: &str = "36";
const RIGHT: &str = "32";
const BAD: &str = "1;31";
const DIM: &str = "2";
const BOLD: &str = "1";

/// Everything as one JSON object.
pub(super) fn json(outcome: &Outcome, log_dir: &str) -> String {
    let evaluation = &outcome.evaluation;
    json!({
        "accuracy": evaluation.accuracy(),
        "validation_cross_entropy": evaluation.validation_cross_entropy,
        "test_digits": evaluation.num_digits(),
        "first_step": outcome.first_step,
        "steps": outcome.step,
        "seconds": outcome.seconds,
        "steps_per_second": outcome.steps_per_second(),
        "checkpoint": outcome.checkpoint,
        "log_dir": log_dir,
        "confusion": evaluation.confusion,
    })
    .to_string()
}

/// What the text is made of besides the outcome.
pub(super) struct Context<'a> {
    pub(super) curve: &'a Curve,
    pub(super) log_dir: &'a str,
    /// The words of the command that trains on.
    pub(super) resume: &'a str,
}

/// Everything as text for standard output.
pub(super) fn for_stdout(outcome: &Outcome, context: &Context<'_>) -> String {
    let columns = Terminal::of_stdout().width().unwrap_or(DEFAULT_COLUMNS);
    render(outcome, context, &command(), columns, Colors::of(&std::io::stdout()))
}

fn render(outcome: &Outcome, context: &Context<'_>, command: &str, columns: usize, colors: Colors) -> String {
    let evaluation = &outcome.evaluation;
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{} of {} test digits recognised",
        colors.paint(GOOD, &format!("{:.1} %", 100.0 * evaluation.accuracy())),
        evaluation.num_digits()
    );
    if outcome.step > outcome.first_step {
        let (steps, seconds) = (outcome.step - outcome.first_step, outcome.seconds);
        let _ = writeln!(text, "{steps} steps in {seconds:.1} s, {:.0} steps/s", outcome.steps_per_second());
    }
    let _ = writeln!(text, "cross entropy of validation digits {:.3}", evaluation.validation_cross_entropy);
    if let (Some(first), Some(last)) = (context.curve.first(), context.curve.last()) {
        let line = context.curve.line(CURVE_COLUMNS.min(columns.saturating_sub(18)));
        let _ = writeln!(text, "loss {first:.3} {} {last:.3}", colors.paint(ACCENT, &line));
    }
    text.push('\n');
    text.push_str(&match table_columns(evaluation) <= columns {
        true => confusion_table(evaluation, colors),
        false => digit_list(evaluation),
    });
    text.push_str(&mistakes(evaluation, columns));
    text.push('\n');
    files_and_next_steps(&mut text, outcome, context, command, columns, colors);
    text
}

/// The width of a number in the table, with the space before it.
fn cell_columns(evaluation: &Evaluation) -> usize {
    let largest = evaluation.confusion.iter().flatten().max().copied().unwrap_or_default();
    largest.to_string().len().max(2) + 1
}

fn table_columns(evaluation: &Evaluation) -> usize {
    8 + cell_columns(evaluation) * evaluation.confusion.len() + 9
}

fn confusion_table(evaluation: &Evaluation, colors: Colors) -> String {
    let width = cell_columns(evaluation);
    let worst = evaluation.worst_pairs(WORST);
    let heads: String = (0..evaluation.confusion.len()).map(|digit| format!("{digit:>width$}")).collect();
    let mut text = colors.paint(DIM, &format!("{:>7}  recognised as", ""));
    text.push_str(&format!("\n{}\n", colors.paint(DIM, &format!("{:>7} {heads}", "digit"))));
    for (truth, row) in evaluation.confusion.iter().enumerate() {
        text.push_str(&colors.paint(DIM, &format!("{truth:>7} ")));
        for (guess, &count) in row.iter().enumerate() {
            let cell = if count == 0 { "·".to_string() } else { count.to_string() };
            let color = match (truth == guess, count, worst.iter().any(|&(t, g, _)| (t, g) == (truth, guess)))
            {
                (true, ..) => RIGHT,
                (false, 0, _) => DIM,
                (false, _, true) => BAD,
                (false, _, false) => "",
            };
            let padded = format!("{cell:>width$}");
            text.push_str(&if color.is_empty() { padded } else { colors.paint(color, &padded) });
        }
        let _ = writeln!(text, "{:>7.1} %", share(row, truth));
    }
    text
}

/// The short form: which part of each digit was recognised, two digits a line.
fn digit_list(evaluation: &Evaluation) -> String {
    let shares: Vec<String> = evaluation
        .confusion
        .iter()
        .enumerate()
        .map(|(truth, row)| format!("{truth} {:>6.1} %", share(row, truth)))
        .collect();
    let half = shares.len().div_ceil(2);
    let pairs = shares.iter().zip(shares.iter().skip(half));
    pairs.map(|(left, right)| format!("  {left}    {right}\n")).collect()
}

/// The percentage of a digit that was recognised.
fn share(row: &[u32], digit: usize) -> f64 {
    let right = row.get(digit).copied().unwrap_or_default();
    100.0 * f64::from(right) / f64::from(row.iter().sum::<u32>().max(1))
}

fn mistakes(evaluation: &Evaluation, columns: usize) -> String {
    let mut text = "most often mistaken:".to_string();
    for (place, (truth, guess, count)) in evaluation.worst_pairs(WORST).into_iter().enumerate() {
        let comma = if place == 0 { "" } else { "," };
        let pair = format!("{comma} {truth} for {guess} ({count}×)");
        // The worst comes first, so a line that is full has what matters.
        if text.chars().count() + pair.chars().count() < columns {
            text.push_str(&pair);
        }
    }
    match evaluation.num_right() == evaluation.num_digits() {
        true => "no mistakes\n".to_string(),
        false => format!("{text}\n"),
    }
}

fn files_and_next_steps(
    text: &mut String,
    outcome: &Outcome,
    context: &Context<'_>,
    command: &str,
    columns: usize,
    colors: Colors,
) {
    let log_dir = context.log_dir;
    let dir = quoted(log_dir);
    let checkpoint = outcome.checkpoint.strip_prefix(&format!("{log_dir}/")).unwrap_or(&outcome.checkpoint);
    let _ = writeln!(text, "{}", colors.paint(BOLD, &format!("Files in {log_dir}")));
    let _ = writeln!(text, "  {checkpoint}.*  {}", colors.paint(DIM, "# the checkpoint"));
    let _ = writeln!(
        text,
        "  {:<1$}  {2}",
        "events.*",
        checkpoint.len() + 2,
        colors.paint(DIM, "# for TensorBoard")
    );
    let _ = writeln!(text, "{}", colors.paint(BOLD, "Next"));
    let suggestions = [
        (format!("{command} checkpoint show {dir}"), "what was learnt"),
        (format!("tensorboard --logdir {dir}"), "curves of loss and accuracy"),
        (format!("{command} {}", context.resume), "train on"),
    ];
    let width =
        suggestions.iter().map(|(suggestion, _)| suggestion.chars().count()).max().unwrap_or_default();
    let has_room = suggestions.iter().all(|(_, purpose)| 2 + width + 4 + purpose.len() <= columns);
    for (suggestion, purpose) in suggestions {
        let _ = match has_room {
            true => writeln!(text, "  {suggestion:<width$}  {}", colors.paint(DIM, &format!("# {purpose}"))),
            false => writeln!(text, "  {suggestion}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome() -> Outcome {
        let mut evaluation = Evaluation { validation_cross_entropy: 0.1234, ..Evaluation::default() };
        for digit in 0..10 {
            evaluation.confusion[digit][digit] = 190;
        }
        evaluation.confusion[4][9] = 7;
        evaluation.confusion[2][7] = 3;
        let checkpoint = "/tmp/run/model.ckpt-3000".to_string();
        Outcome { first_step: 0, step: 3000, seconds: 6.0, checkpoint, evaluation }
    }

    fn rendered(outcome: &Outcome, curve: &Curve, columns: usize, colors: Colors) -> String {
        let context =
            Context { curve, log_dir: "/tmp/run", resume: "train mnist --log_dir /tmp/run --steps 6000" };
        render(outcome, &context, "tensorfleet", columns, colors)
    }

    #[test]
    fn the_result_is_a_table_where_there_is_room() {
        let mut curve = Curve::default();
        (0..4).for_each(|step| curve.push(step, 2.0f32.powi(-step as i32)));
        let text = rendered(&outcome(), &curve, 100, Colors::Off);
        let expected = "\
99.5 % of 1910 test digits recognised
3000 steps in 6.0 s, 500 steps/s
cross entropy of validation digits 0.123
loss 1.000 █▆▃▁ 0.469

         recognised as
  digit    0   1   2   3   4   5   6   7   8   9
      0  190   ·   ·   ·   ·   ·   ·   ·   ·   ·  100.0 %
";
        assert!(text.starts_with(expected), "{text}");
        assert!(text.contains("\n      4    ·   ·   ·   · 190   ·   ·   ·   ·   7   96.4 %\n"), "{text}");
        let end = "
most often mistaken: 4 for 9 (7×), 2 for 7 (3×)

Files in /tmp/run
  model.ckpt-3000.*  # the checkpoint
  events.*           # for TensorBoard
Next
  tensorfleet checkpoint show /tmp/run                     # what was learnt
  tensorboard --logdir /tmp/run                            # curves of loss and accuracy
  tensorfleet train mnist --log_dir /tmp/run --steps 6000  # train on
";
        assert!(text.ends_with(end), "{text}");
    }

    #[test]
    fn narrow_terminals_get_the_short_form() {
        let text = rendered(&outcome(), &Curve::default(), 40, Colors::Off);
        assert!(text.contains("\n  4   96.4 %    9  100.0 %\n") && !text.contains('·'), "{text}");
        assert!(text.contains("\nmost often mistaken: 4 for 9 (7×)\n"), "{text}");
        assert!(text.ends_with("--steps 6000\n"), "{text}");
    }

    #[test]
    fn colours_do_not_change_the_text() {
        let plain = rendered(&outcome(), &Curve::default(), 80, Colors::Off);
        let mut stripped = rendered(&outcome(), &Curve::default(), 80, Colors::On);
        while let Some(start) = stripped.find("\x1b[") {
            let end = stripped[start..].find('m').unwrap();
            stripped.replace_range(start..=start + end, "");
        }
        assert_eq!(stripped, plain);
    }

    #[test]
    fn scripts_get_one_object() {
        let value: serde_json::Value = serde_json::from_str(&json(&outcome(), "/tmp/run")).unwrap();
        assert_eq!((&value["steps"], &value["log_dir"]), (&3000.into(), &"/tmp/run".into()));
        assert_eq!(value["steps_per_second"], 500.0);
        assert_eq!(value["confusion"][4][9], 7);
    }
}
