//! The larger programs in `examples/`, each as real processes with few steps: that they learn, and what they say at the end.
#![allow(clippy::unwrap_used)]

use std::process::Command;

use tensorfleet_tests::program::{Program, example};
use tensorfleet_tests::trainer::Hosts;

/// All lines of a program without a cluster, which ends well.
#[track_caller]
fn lines_of(name: &str, arguments: &[&str]) -> Vec<String> {
    let mut command = Command::new(example(name).unwrap());
    command.args(arguments);
    Program::spawn(command).unwrap().wait_for_success().unwrap()
}

/// All lines of the chief of a cluster of processes, of which all end well.
#[track_caller]
fn lines_of_chief(name: &str, ps: usize, workers: usize, arguments: &[&str]) -> Vec<String> {
    let hosts = Hosts::new(ps, workers).unwrap();
    let start = |job: &str, index: usize| {
        let mut command = Command::new(example(name).unwrap());
        command.args(hosts.flags()).args(arguments);
        command.args([format!("--job_name={job}"), format!("--task_index={index}")]);
        Program::spawn(command).unwrap()
    };
    let chief = start("worker", 0);
    let others: Vec<Program> = (0..ps)
        .map(|index| start("ps", index))
        .chain((1..workers).map(|index| start("worker", index)))
        .collect();
    let lines = chief.wait_for_success().unwrap();
    for other in others {
        other.wait_for_success().unwrap();
    }
    lines
}

/// The number that follows `before` in the last line that has it.
#[track_caller]
fn last_number(lines: &[String], before: &str) -> f64 {
    let number = |line: &String| {
        let (_, rest) = line.split_once(before)?;
        let end = rest.find(|c: char| !(c.is_ascii_digit() || "-.e".contains(c))).unwrap_or(rest.len());
        rest[..end].parse().ok()
    };
    let found = lines.iter().rev().find_map(number);
    found.unwrap_or_else(|| panic!("no line has a number after '{before}': {lines:#?}"))
}

#[test]
fn lenet_recognises_digits_with_towers_in_one_process() {
    let lines = lines_of("lenet", &["--train_steps=60", "--batch_size=25"]);
    assert_eq!(lines[0], "2 tower(s), 13750 training images");
    assert!(last_number(&lines, "steps/s, ") > 0.0);
    let accuracy = last_number(&lines, "test accuracy = ");
    assert!(accuracy > 0.85, "{lines:#?}");
}

#[test]
fn lenet_recognises_digits_with_towers_in_processes() {
    let lines = lines_of_chief("lenet", 1, 2, &["--train_steps=60", "--batch_size=25"]);
    assert!(last_number(&lines, "test accuracy = ") > 0.85, "{lines:#?}");
}

#[test]
fn wide_and_deep_comes_near_the_hidden_model() {
    let lines = lines_of_chief("wide_and_deep", 2, 2, &["--train_steps=1500"]);
    let (found, possible) = (last_number(&lines, "test AUC = "), last_number(&lines, "hidden model = "));
    // By chance it would be 0.5.
    assert!(found > possible - 0.07 && found < possible && possible < 0.95, "{lines:#?}");
}

#[test]
fn word2vec_finds_words_of_one_group() {
    let lines = lines_of("word2vec", &["--train_steps=10000"]);
    let part = last_number(&lines, "same group = ");
    // Before training it is 0.15, after half of the usual steps 0.50.
    assert!(part > 0.4, "{lines:#?}");
    assert!(lines.iter().any(|line| line.starts_with("Nearest to sister: ")), "{lines:#?}");
}

#[test]
fn word2vec_learns_from_a_text_of_ones_own() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("text");
    // Cats and dogs do the same things, suns and moons others.
    let sentences = ["the cat runs home", "the dog runs home", "a sun shines bright", "a moon shines bright"];
    std::fs::write(&path, format!("{}. ", sentences.join(". ")).repeat(200)).unwrap();
    let data = format!("--data={}", path.display());
    let show = "--show=cat,xyzzy,moon";
    let arguments = [&*data, "--train_steps=600", "--num_sampled=4", "--embedding_size=8", show];
    let lines = lines_of("word2vec", &arguments);
    assert!(lines.iter().any(|line| line == "Not in the text, or fewer than 5 times: xyzzy"), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("10 of them different")), "{lines:#?}");
    let end = lines.last().unwrap();
    assert!(end.contains("no words by which to judge"), "{lines:#?}");

    std::fs::write(&path, "too short").unwrap();
    let output = Command::new(example("word2vec").unwrap()).arg(&data).output().unwrap();
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("the text is too short"), "{text}");
}

#[test]
fn char_lstm_learns_to_write() {
    let arguments = ["--train_steps=150", "--hidden_units=64", "--learning_rate=0.01"];
    let lines = lines_of_chief("char_lstm", 1, 1, &arguments);
    let (found, possible) = (last_number(&lines, "test perplexity = "), last_number(&lines, "grammar = "));
    assert!(found < 3.0 && found > possible && possible > 1.1, "{lines:#?}");
}

#[test]
fn a_text_that_is_too_short_is_refused() {
    let mut command = Command::new(example("char_lstm").unwrap());
    command.args(["--batch_size=1024", "--num_steps=1024"]);
    let output = command.output().unwrap();
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("1024 places of 1024 characters do not fit"), "{text}");
}

/// Some of these trained nothing, or something that is no number, with exit code 0; some were an overflow or a flag that clap did
/// not know.
#[test]
fn numbers_that_make_no_sense_are_refused_before_anything_is_done() {
    for (name, flag, value) in [
        ("wide_and_deep", "--rows", "99999999999999"),
        ("wide_and_deep", "--repeat_batches", "0"),
        ("wide_and_deep", "--repeat_batches", "99999999999"),
        ("wide_and_deep", "--train_steps", "-1"),
        ("char_lstm", "--learning_rate", "NaN"),
        ("lenet", "--learning_rate", "-0.1"),
        ("word2vec", "--learning_rate", "inf"),
        ("placement", "--steps", "-1"),
        ("partial_results", "--passes", "-1"),
        ("mnist_replica", "--replicas_to_aggregate", "-1"),
    ] {
        let output = Command::new(example(name).unwrap()).args([flag, value]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{name} {flag} {value}: {text}");
        assert!(text.starts_with(&format!("error: invalid value '{value}' for '{flag} ")), "{text}");
    }
}

#[test]
fn programs_without_flags_tell_what_they_do() {
    for name in ["hello", "line_fit"] {
        let lines = lines_of(name, &["--help"]);
        assert!(lines.iter().any(|line| line.starts_with("Usage: ")), "{name}: {lines:#?}");
    }
}
