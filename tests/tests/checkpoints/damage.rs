//! Damaged files: always an error that says which file, never other values, never a panic.
//!
//! Values and the index carry checksums, so any change is noticed. The state file and the meta graph carry none; what
//! can still be read of them may be used, but leads to a checkpoint that is complete, or to an error.

use std::path::{Path, PathBuf};

use tensorfleet::checkpoint::CheckpointReader;
use tensorfleet::train::{Saver, get_checkpoint_state, latest_checkpoint};
use tensorfleet::{Code, Graph, Session, Status, Tensor, import_meta_graph};
use tensorfleet_tests::mutation::{Choices, damage_bytes};

const SEED: u64 = 0x5a5e_2026;
const MUTATIONS: usize = 1000;

struct Saved {
    directory: tempfile::TempDir,
    graph: Graph,
    saver: Saver,
    prefix: String,
    values: Vec<Tensor>,
}

/// Two complete checkpoints; the second is the one to be damaged.
fn saved() -> Saved {
    let directory = tempfile::tempdir().unwrap();
    let graph = Graph::new();
    graph.device("/cpu:0", || graph.variable("weights", (0..200).map(|i| i as f32).collect::<Vec<_>>()));
    graph.new_variable("layer/bias").resource().init([0.5f64, 0.25]);
    graph.new_variable("names").untrainable().init(["first", "", "the third"]);
    let saver = Saver::builder(&graph).sharded(true).build().unwrap();
    let session = Session::new(&graph);
    session.run(graph.global_variables_initializer().unwrap()).unwrap();
    let path = directory.path().join("model").to_str().unwrap().to_string();
    saver.save(&session, &path, Some(1)).unwrap();
    let prefix = saver.save(&session, &path, Some(2)).unwrap();
    let values = graph.global_variables().iter().map(|variable| session.run(variable).unwrap()).collect();
    Saved { directory, graph, saver, prefix, values }
}

impl Saved {
    fn path(&self, suffix: &str) -> PathBuf {
        match suffix {
            "checkpoint" => self.directory.path().join(suffix),
            suffix => PathBuf::from(format!("{}{suffix}", self.prefix)),
        }
    }

    /// Whether all values are read as they were saved; an error says where the damage is.
    fn look(&self) -> Result<(), Status> {
        let reader = CheckpointReader::open(&self.prefix)?;
        for variable in self.graph.global_variables() {
            let at = self
                .graph
                .global_variables()
                .iter()
                .position(|other| other.name() == variable.name())
                .unwrap();
            assert_eq!(
                reader.tensor(&variable.name())?,
                self.values[at],
                "{} has another value",
                variable.name()
            );
        }
        reader.verify()
    }

    /// Whether a restore gives the values as they were saved.
    fn restore(&self) -> Result<(), Status> {
        let session = Session::new(&self.graph);
        self.saver.restore(&session, &self.prefix)?;
        for (variable, value) in self.graph.global_variables().iter().zip(&self.values) {
            assert_eq!(session.run(variable)?, *value, "{} has another value", variable.name());
        }
        Ok(())
    }
}

/// Damage is told as such, and where it is.
fn assert_specific(status: &Status, saved: &Saved, what: &str) {
    use Code::*;
    let is_specific = matches!(
        status.code(),
        DataLoss | OutOfRange | NotFound | InvalidArgument | Unimplemented | ResourceExhausted
    );
    assert!(is_specific, "{what}: {status:?}");
    assert!(status.message().contains(saved.directory.path().to_str().unwrap()), "{what}: {status}");
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

#[test]
fn a_thousand_mutations_of_any_file_never_give_other_values() {
    let saved = saved();
    let suffixes = [".index", ".data-00000-of-00002", ".data-00001-of-00002", ".meta", "checkpoint"];
    let mut choices = Choices::new(SEED);
    let mut noticed = 0;
    for number in 0..MUTATIONS {
        let suffix = *choices.one_of(&suffixes);
        let path = saved.path(suffix);
        let whole = read(&path);
        let damaged = damage_bytes(&whole, &mut choices);
        std::fs::write(&path, &damaged).unwrap();
        let what = format!("seed {SEED:#x}, mutation {number} of {suffix}");
        let outcome = match suffix {
            "checkpoint" => look_at_state(&saved),
            ".meta" => look_at_meta(&saved),
            _ => {
                let outcome = saved.look();
                assert_eq!(outcome.is_ok(), saved.restore().is_ok(), "{what}: a restore and a look disagree");
                // Bytes may be added behind the data; everything else is noticed.
                assert!(outcome.is_err() || damaged.starts_with(&whole), "{what} goes unnoticed");
                outcome
            }
        };
        if let Err(status) = outcome {
            assert_specific(&status, &saved, &what);
            noticed += 1;
        }
        std::fs::write(&path, &whole).unwrap();
    }
    println!("{noticed} of {MUTATIONS} mutations were noticed");
    assert!(noticed > MUTATIONS / 2);
    saved.look().unwrap();
    saved.restore().unwrap();
}

/// Whatever the state file says, the newest checkpoint is one that is complete.
fn look_at_state(saved: &Saved) -> Result<(), Status> {
    let dir = saved.directory.path().to_str().unwrap();
    if let Some(latest) = latest_checkpoint(dir)? {
        CheckpointReader::open(&latest).unwrap().verify().unwrap();
    }
    get_checkpoint_state(dir).map(|_| ())
}

/// A graph that can be read may be another one; its saver fails or restores something that is in the checkpoint.
fn look_at_meta(saved: &Saved) -> Result<(), Status> {
    let imported = import_meta_graph(saved.path(".meta").to_str().unwrap())?;
    if let Some(saver) = imported.saver {
        let _ = saver.restore(&Session::new(&imported.graph), &saved.prefix);
    }
    Ok(())
}

#[test]
fn a_file_cut_anywhere_is_noticed() {
    let saved = saved();
    for suffix in [".index", ".data-00000-of-00002", ".data-00001-of-00002"] {
        let path = saved.path(suffix);
        let whole = read(&path);
        for length in 0..whole.len() {
            std::fs::write(&path, &whole[..length]).unwrap();
            let status = saved.look().unwrap_err();
            assert_specific(&status, &saved, &format!("{suffix} cut to {length} bytes"));
            let latest = latest_checkpoint(saved.directory.path().to_str().unwrap()).unwrap();
            assert!(latest.unwrap().ends_with("model-1"), "{suffix} cut to {length} bytes");
        }
        std::fs::write(&path, &whole).unwrap();
    }
}

#[test]
fn every_flipped_bit_of_values_and_index_is_noticed() {
    let saved = saved();
    for suffix in [".index", ".data-00000-of-00002", ".data-00001-of-00002"] {
        let path = saved.path(suffix);
        let whole = read(&path);
        for bit in 0..whole.len() * 8 {
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&path, &flipped).unwrap();
            // A few bits of the footer's padding mean nothing; values are then what they were, as `look` sees.
            if let Err(status) = saved.look() {
                assert_specific(&status, &saved, &format!("bit {bit} of {suffix}"));
            }
        }
        std::fs::write(&path, &whole).unwrap();
    }
}
