//! `tensorfleet checkpoint` as users have it: real files, exit codes, and what is printed.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tensorfleet::train::Saver;
use tensorfleet::{Graph, Session};

fn checkpoint(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tensorfleet"));
    command.arg("checkpoint").args(arguments).env_remove("RUST_LOG").output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[track_caller]
fn succeeds(arguments: &[&str]) -> String {
    let output = checkpoint(arguments);
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
    stdout(&output)
}

/// The one line that says what is wrong.
#[track_caller]
fn fails(arguments: &[&str], code: i32, words: &[&str]) {
    let output = checkpoint(arguments);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(code), "{text}");
    let errors: Vec<&str> = text.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!(errors.len(), 1, "{text}");
    for word in words {
        assert!(errors[0].contains(word), "{word} is not in: {text}");
    }
}

/// A directory with the checkpoints `model-1` and `model-2` of the same variables, the second one changed.
struct Training {
    directory: tempfile::TempDir,
}

impl Training {
    fn new() -> Training {
        let directory = tempfile::tempdir().unwrap();
        let g = Graph::new();
        let w = g.variable("layer/w", [[1.0f32, 2.0, 3.0], [4.0, 5.0, f32::NAN]]);
        g.variable("layer/b", [0.5f64, -0.5]);
        g.new_variable("names").untrainable().init(["a", "longer"]);
        g.new_variable("flags").untrainable().init([true, false]);
        let step = g.new_variable("global_step").untrainable().init(1i64);
        let (more, next) =
            (w.assign_add([[0.25f32, 0.0, 0.0], [0.0, 0.0, 0.0]]).unwrap(), step.assign_add(1i64).unwrap());
        let saver = Saver::new(&g).unwrap();
        let session = Session::new(&g);
        session.run(g.global_variables_initializer().unwrap()).unwrap();
        let prefix = directory.path().join("model");
        saver.save(&session, prefix.to_str().unwrap(), Some(1)).unwrap();
        session.run((&more, &next)).unwrap();
        saver.save(&session, prefix.to_str().unwrap(), Some(2)).unwrap();
        Training { directory }
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().unwrap().to_string()
    }

    fn directory(&self) -> String {
        self.directory.path().to_str().unwrap().to_string()
    }

    fn data(&self, step: u32) -> PathBuf {
        self.directory.path().join(format!("model-{step}.data-00000-of-00001"))
    }
}

#[test]
fn a_directory_is_listed_with_the_newest_first_and_what_is_incomplete() {
    let training = Training::new();
    let text = succeeds(&["ls", &training.directory()]);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("CHECKPOINT") && lines.len() == 3, "{text}");
    assert!(lines[1].starts_with("model-2") && lines[1].ends_with("newest"), "{text}");
    assert!(lines[2].starts_with("model-1") && lines[2].ends_with("complete"), "{text}");
    // Values, index and meta graph.
    let files = lines[0].find("FILES").unwrap()..lines[0].find("FILES").unwrap() + "FILES".len();
    assert_eq!(lines[1][files].trim(), "3", "{text}");

    // The files of a copy are as old as the order of copying has it.
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(60);
    let index = std::fs::File::options().append(true).open(training.path("model-1.index")).unwrap();
    index.set_modified(later).unwrap();
    let text = succeeds(&["ls", &training.directory()]);
    assert!(text.lines().nth(1).unwrap().starts_with("model-2"), "{text}");
    std::fs::rename(training.path("checkpoint"), training.path("elsewhere")).unwrap();
    let text = succeeds(&["show", &training.directory()]);
    assert!(text.starts_with(&training.path("model-2")), "{text}");
    std::fs::rename(training.path("elsewhere"), training.path("checkpoint")).unwrap();

    std::fs::remove_file(training.data(2)).unwrap();
    let document: Value = serde_json::from_str(&succeeds(&["ls", &training.directory(), "--json"])).unwrap();
    assert_eq!(document["newest"], training.path("model-1"));
    let [newest, oldest] = document["checkpoints"].as_array().unwrap().as_slice() else {
        panic!("{document}")
    };
    assert_eq!((&newest["complete"], &oldest["complete"]), (&Value::Bool(false), &Value::Bool(true)));
    assert_eq!((newest["step"].as_i64(), oldest["tensors"].as_i64()), (Some(2), Some(5)));

    std::fs::remove_file(training.path("model-2.index")).unwrap();
    std::fs::write(training.data(7), b"left behind").unwrap();
    let text = succeeds(&["ls", &training.directory()]);
    assert!(text.contains("model-7") && text.contains("incomplete: its index is missing"), "{text}");
    assert!(text.contains("incomplete: its files are gone"), "{text}");
}

#[test]
fn tensors_are_shown_with_totals() {
    let training = Training::new();
    let text = succeeds(&["show", &training.directory()]);
    assert!(text.starts_with(&training.path("model-2")), "{text}");
    let line = text.lines().find(|line| line.starts_with("layer/w")).unwrap();
    assert_eq!(line.split_whitespace().collect::<Vec<_>>(), ["layer/w", "float", "[2,3]", "6", "24", "B"]);
    assert!(text.ends_with("5 tensors: 11 numbers, 50 B, and 1 tensor of strings\n"), "{text}");

    // A prefix, its index and the state file mean the same checkpoint.
    for name in ["model-2", "model-2.index", "model-2.meta", "model-2.data-00000-of-00001", "checkpoint"] {
        assert_eq!(succeeds(&["show", &training.path(name)]), text, "{name}");
    }
    let text = succeeds(&["show", &training.path("model-1"), "--filter", "layer/?"]);
    assert!(text.ends_with("2 tensors of 5: 8 numbers, 40 B\n"), "{text}");
    fails(&["show", &training.directory(), "--filter", "nothing"], 1, &["none of 5 tensors", "--filter"]);
}

#[test]
fn values_come_with_statistics() {
    let training = Training::new();
    let text = succeeds(&["show", &training.path("model-1"), "--values", "layer/w", "--values", "names"]);
    let expected = "layer/w float [2,3]\nmin 1, max 5, mean 3, std 1.41421, 1 NaN, 0 Inf\n[[ 1.  2.  3.]\n [ 4.  5. nan]]\n\n\
                    names string [2]\n2 strings, 7 B in all, the longest has 6 B\n['a' 'longer']\n";
    assert_eq!(text, expected);
    let text = succeeds(&["show", &training.directory(), "--json", "--values", "layer/w"]);
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["values"]["layer/w"]["statistics"]["max"], 5.0);
    assert_eq!(document["tensors"][2]["name"], "layer/b");
    fails(&["show", &training.directory(), "--values", "layer/x"], 1, &["layer/x", "'layer/w'"]);
}

#[test]
fn a_difference_is_exit_code_one_and_trouble_is_two() {
    let training = Training::new();
    let (first, second) = (training.path("model-1"), training.path("model-2"));
    assert_eq!(succeeds(&["diff", &first, &first]), "all 5 tensors are equal\n");
    let output = checkpoint(&["diff", &first, &second]);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(1), ""));
    let text = stdout(&output);
    let rows: Vec<Vec<&str>> =
        text.lines().skip(1).take(2).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows, [["global_step", "1", "1", "1", "1"], ["layer/w", "0.25", "0.0416667", "1", "6"]]);
    assert!(text.ends_with("3 of 5 tensors that both have are equal\n"), "{text}");

    let other = tempfile::tempdir().unwrap();
    let g = Graph::new();
    g.variable("layer/w", [1.0f32]);
    g.variable("new", [1.0f32]);
    let session = Session::new(&g);
    session.run(g.global_variables_initializer().unwrap()).unwrap();
    let prefix = other.path().join("m");
    let prefix = Saver::new(&g).unwrap().save(&session, prefix.to_str().unwrap(), None).unwrap();
    let output = checkpoint(&["diff", &first, &prefix, "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["only_second"], serde_json::json!(["new"]));
    assert_eq!(document["only_first"].as_array().unwrap().len(), 4);
    assert_eq!(document["different_type"][0]["second"], "float [1]");

    fails(&["diff", &first, &training.path("model-3")], 2, &["no checkpoint", "checkpoint ls"]);
}

#[test]
fn an_export_is_complete_or_not_there() {
    let training = Training::new();
    let out = training.path("out.npz");
    let text = succeeds(&["export", &training.directory(), &out]);
    assert!(text.starts_with(&format!("{out}: 5 tensors of ")), "{text}");
    let written = std::fs::read(&out).unwrap();
    assert!(written.starts_with(b"PK\x03\x04"));
    for needle in [&b"layer/w.npy"[..], b"\x93NUMPY\x01\x00", b"'descr': '<f8'", b"'descr': '|S6'"] {
        assert!(written.windows(needle.len()).any(|window| window == needle));
    }
    fails(&["export", &training.directory(), &out], 1, &["exists", "--force"]);
    succeeds(&["export", &training.directory(), &out, "--force", "--filter", "flags"]);
    assert!(std::fs::metadata(&out).unwrap().len() < written.len() as u64);
    fails(&["export", &training.directory(), &training.path("none/out.npz")], 1, &["cannot be written"]);

    // What fails half way leaves neither a half file nor a temporary one.
    let bytes = std::fs::read(training.data(1)).unwrap();
    let damaged: Vec<u8> = bytes.iter().map(|byte| byte ^ 1).collect();
    std::fs::write(training.data(1), damaged).unwrap();
    let files = |directory: &Path| directory.read_dir().unwrap().count();
    let before = files(training.directory.path());
    fails(&["export", &training.path("model-1"), &training.path("bad.npz")], 1, &["Checksum"]);
    assert_eq!(files(training.directory.path()), before);
}

#[test]
fn everything_else_gets_one_sentence_with_the_next_step() {
    let training = Training::new();
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_string();
    fails(&["show", &path("")], 1, &["holds no checkpoint", "--log_dir"]);
    fails(&["ls", &path("")], 1, &["holds no checkpoint", "--log_dir"]);
    fails(&["ls", &path("none")], 1, &["there is no directory"]);
    fails(&["ls", &training.path("model-1.index")], 1, &["is no directory", "checkpoint show"]);
    fails(&["show", &path("model-5")], 1, &["there is no checkpoint", "model-5"]);

    std::fs::write(path("text"), "not a checkpoint at all").unwrap();
    fails(&["show", &path("text")], 1, &["is not a checkpoint", ".index"]);
    std::fs::write(path("text.index"), "not an index at all, though it is called one").unwrap();
    fails(&["show", &path("text")], 1, &["damaged", "checkpoint ls"]);
    // The V1 format was one table: what is an index today.
    std::fs::copy(training.path("model-1.index"), path("old.ckpt")).unwrap();
    fails(&["show", &path("old.ckpt")], 1, &["V1 format", "tf.train.Saver"]);

    let index = std::fs::read(training.path("model-1.index")).unwrap();
    std::fs::write(training.path("model-1.index"), &index[..index.len() / 2]).unwrap();
    fails(&["show", &training.path("model-1")], 1, &["damaged or incomplete", "checkpoint ls"]);
    std::fs::remove_file(training.path("model-1.index")).unwrap();
    fails(&["show", &training.path("model-1")], 1, &["has data files but no", ".index", "checkpoint ls"]);
    let data = std::fs::read(training.data(2)).unwrap();
    std::fs::write(training.data(2), &data[..data.len() - 1]).unwrap();
    fails(&["show", &training.path("model-2")], 1, &["damaged or incomplete", "checkpoint ls"]);
    fails(&["show", &training.directory()], 1, &["is complete", "checkpoint ls"]);
    std::fs::remove_file(training.data(2)).unwrap();
    fails(&["show", &training.path("model-2")], 1, &["lacks its data file", "checkpoint ls"]);
}
