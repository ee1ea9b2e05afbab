//! The result of a training: for people, as wide as their terminal allows, and for scripts.

use std::fmt::Write;

use serde_json::json;

use super::evaluation::Evaluation;
use super::invocation::{command, quoted};
use super::report::Outcome;
use super::sparkline::Curve;
use crate::terminal::{Colors, stdout_columns};

/// Without a terminal, lines are as long as on a usual one.
const DEFAULT_COLUMNS: usize = 80;
const CURVE_COLUMNS: usize = 48;
/// Mistakes that are named.
const WORST: usize = 3;

const GOOD: &str = "1;32";
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

/// Everything as text for standard output.
pub(super) fn for_stdout(outcome: &Outcome, curve: &Curve, log_dir: &str) -> String {
    let columns = stdout_columns().unwrap_or(DEFAULT_COLUMNS);
    render(outcome, curve, log_dir, &command(), columns, Colors::of(&std::io::stdout()))
}

fn render(
    outcome: &Outcome,
    curve: &Curve,
    log_dir: &str,
    command: &str,
    columns: usize,
    colors: Colors,
) -> String {
    let evaluation = &outcome.evaluation;
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{} of {} test digits recognised",
        colors.paint(GOOD, &format!("{:.1} %", 100.0 * evaluation.accuracy())),
        evaluation.num_digits()
    );
    let _ = match outcome.step > outcome.first_step {
        true => writeln!(
            text,
            "{} steps in {:.1} s, {:.0} steps/s; validation cross entropy {:.3}",
            outcome.step - outcome.first_step,
            outcome.seconds,
            outcome.steps_per_second(),
            evaluation.validation_cross_entropy
        ),
        false => writeln!(text, "validation cross entropy {:.3}", evaluation.validation_cross_entropy),
    };
    if let (Some(first), Some(last)) = (curve.first(), curve.last()) {
        let line = curve.line(CURVE_COLUMNS.min(columns.saturating_sub(22)));
        let _ = writeln!(text, "loss {first:.3} {} {last:.3}", colors.paint("36", &line));
    }
    text.push('\n');
    let table = confusion_table(evaluation, colors);
    match table_columns(evaluation) <= columns {
        true => text.push_str(&table),
        false => text.push_str(&digit_list(evaluation)),
    }
    text.push_str(&mistakes(evaluation));
    text.push('\n');
    files_and_next_steps(&mut text, outcome, log_dir, command, colors);
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
    let mut text = format!("{}\n", colors.paint(DIM, &format!("{:>7} {heads}", "as")));
    for (truth, row) in evaluation.confusion.iter().enumerate() {
        let name = if truth == 0 { "digit" } else { "" };
        text.push_str(&colors.paint(DIM, &format!("{name:>5} {truth} ")));
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

/// The short form: which part of each digit was recognised.
fn digit_list(evaluation: &Evaluation) -> String {
    let mut text = String::new();
    for (truth, row) in evaluation.confusion.iter().enumerate() {
        let _ = writeln!(text, "{truth}  {:>5.1} %", share(row, truth));
    }
    text
}

/// The percentage of a digit that was recognised.
fn share(row: &[u32], digit: usize) -> f64 {
    let right = row.get(digit).copied().unwrap_or_default();
    100.0 * f64::from(right) / f64::from(row.iter().sum::<u32>().max(1))
}

fn mistakes(evaluation: &Evaluation) -> String {
    let worst = evaluation.worst_pairs(WORST);
    if worst.is_empty() {
        return "no mistakes\n".to_string();
    }
    let pairs: Vec<String> =
        worst.iter().map(|(truth, guess, count)| format!("{truth} for {guess} ({count}×)")).collect();
    format!("most often mistaken: {}\n", pairs.join(", "))
}

fn files_and_next_steps(text: &mut String, outcome: &Outcome, log_dir: &str, command: &str, colors: Colors) {
    let dir = quoted(log_dir);
    let checkpoint = outcome.checkpoint.strip_prefix(&format!("{log_dir}/")).unwrap_or(&outcome.checkpoint);
    let _ = writeln!(text, "{}", colors.paint(BOLD, "Files"));
    let _ = writeln!(text, "  {log_dir}: checkpoint {checkpoint}, event files");
    let _ = writeln!(text, "{}", colors.paint(BOLD, "Next"));
    for (suggestion, purpose) in [
        (format!("{command} checkpoint show {dir}"), "what was learnt"),
        (format!("tensorboard --logdir {dir}"), "curves of loss and accuracy"),
        (format!("{command} train mnist --log_dir {dir} --steps {}", 2 * outcome.step), "train on"),
    ] {
        let _ = writeln!(text, "  {suggestion}  {}", colors.paint(DIM, &format!("# {purpose}")));
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

    #[test]
    fn the_result_is_a_table_where_there_is_room() {
        let mut curve = Curve::default();
        (0..4).for_each(|step| curve.push(step, 2.0f32.powi(-step as i32)));
        let text = render(&outcome(), &curve, "/tmp/run", "tensorfleet", 80, Colors::Off);
        let expected = "\
99.5 % of 1910 test digits recognised
3000 steps in 6.0 s, 500 steps/s; validation cross entropy 0.123
loss 1.000 █▆▃▁ 0.469

     as    0   1   2   3   4   5   6   7   8   9
digit 0  190   ·   ·   ·   ·   ·   ·   ·   ·   ·  100.0 %
";
        assert!(text.starts_with(expected), "{text}");
        assert!(text.contains("\n      4    ·   ·   ·   · 190   ·   ·   ·   ·   7   96.4 %\n"), "{text}");
        assert!(text.contains("\nmost often mistaken: 4 for 9 (7×), 2 for 7 (3×)\n"), "{text}");
        assert!(text.contains("\n  /tmp/run: checkpoint model.ckpt-3000, event files\n"), "{text}");
        assert!(
            text.contains("\n  tensorfleet train mnist --log_dir /tmp/run --steps 6000  # train on\n"),
            "{text}"
        );
    }

    #[test]
    fn narrow_terminals_get_the_short_form() {
        let text = render(&outcome(), &Curve::default(), "/tmp/run", "tensorfleet", 40, Colors::Off);
        assert!(text.contains("\n4   96.4 %\n") && !text.contains('·'), "{text}");
    }

    #[test]
    fn colours_do_not_change_the_text() {
        let plain = render(&outcome(), &Curve::default(), "/tmp/run", "tensorfleet", 80, Colors::Off);
        let colored = render(&outcome(), &Curve::default(), "/tmp/run", "tensorfleet", 80, Colors::On);
        let mut stripped = colored;
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
