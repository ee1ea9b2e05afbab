//! Saving to a disk that is full, or that nobody may write to: an error, and everything else as before.
//!
//! The disk is a small file system in memory that only a child process sees; the test starts itself as that child.

use std::path::Path;
use std::process::Command;

use tensorfleet::checkpoint::CheckpointReader;
use tensorfleet::train::{Saver, latest_checkpoint};
use tensorfleet::{Code, DType, Graph, Session, Status};
use tensorfleet_tests::skipping::skip;

const DIRECTORY: &str = "TENSORFLEET_TEST_SMALL_DISK";
const DISK_BYTES: usize = 8 << 20;
const MODEL_BYTES: usize = 3 << 20;

#[test]
fn a_full_or_read_only_disk_leaves_earlier_checkpoints_and_no_rubbish() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    // One that is root already, or one that is root inside.
    let can_make = |namespace: &&&str| {
        let probe = Command::new("unshare").args([namespace, "mount", "-t", "tmpfs", "none", path]).output();
        probe.is_ok_and(|output| output.status.success())
    };
    let Some(namespace) = ["-m", "-rm"].iter().find(can_make) else {
        skip("this user may not make mount namespaces", "be root, or allow user namespaces");
        return;
    };
    let script = format!(
        "mount -t tmpfs -o size={DISK_BYTES} none '{path}' && exec \"$0\" --ignored --exact \
         full_disk::child_on_a_small_disk --nocapture"
    );
    let mut child = Command::new("unshare");
    child.args([namespace, "sh", "-c", &script]).arg(std::env::current_exe().unwrap()).env(DIRECTORY, path);
    let output = child.output().unwrap();
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("the small disk was enough"), "{text}");
}

fn files(directory: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in directory.read_dir().unwrap() {
        let entry = entry.unwrap();
        names.push(entry.file_name().into_string().unwrap());
        if entry.path().is_dir() {
            names.extend(files(&entry.path()));
        }
    }
    names.sort();
    names
}

/// Not a test of its own: runs in the child, in whose eyes the directory is a small disk.
#[test]
#[ignore = "started as a process by another test"]
fn child_on_a_small_disk() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    for sharded in [false, true] {
        let directory = format!("{directory}/{sharded}");
        std::fs::create_dir(&directory).unwrap();
        saves_until_full(&directory, sharded);
        std::fs::remove_dir_all(&directory).unwrap();
    }
    let remounted = Command::new("mount").args(["-o", "remount,ro", &directory]).status().unwrap();
    assert!(remounted.success());
    let status = save_to(&format!("{directory}/model"), 1).unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied, "{status}");
    println!("the small disk was enough");
}

fn save_to(path: &str, step: i64) -> Result<String, Status> {
    let (graph, saver) = model(false);
    let session = Session::new(&graph);
    session.run(graph.global_variables_initializer()?)?;
    saver.save(&session, path, Some(step))
}

fn model(sharded: bool) -> (Graph, Saver) {
    let graph = Graph::new();
    let half = |g: &Graph| g.fill(g.constant([MODEL_BYTES as i32 / 8]), 1.0f32).unwrap();
    let first = half(&graph);
    graph.device("/cpu:0", || graph.variable("first", first));
    graph.variable("second", half(&graph));
    graph.new_variable("global_step").dtype(DType::Int64).untrainable().init(0);
    let saver = Saver::builder(&graph).sharded(sharded).max_to_keep(2).build().unwrap();
    (graph, saver)
}

fn saves_until_full(directory: &str, sharded: bool) {
    let (graph, saver) = model(sharded);
    let session = Session::new(&graph);
    session.run(graph.global_variables_initializer().unwrap()).unwrap();
    let path = format!("{directory}/model");
    let first = saver.save(&session, &path, Some(1)).unwrap();
    let second = saver.save(&session, &path, Some(2)).unwrap();
    let before = files(Path::new(directory));
    let state = std::fs::read(format!("{directory}/checkpoint")).unwrap();
    // Two checkpoints of three megabytes are on a disk of eight; there is no place for a third.
    let status = saver.save(&session, &path, Some(3)).unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    assert!(status.message().contains("model-3"), "{status}");
    assert_eq!(files(Path::new(directory)), before);
    assert_eq!(std::fs::read(format!("{directory}/checkpoint")).unwrap(), state);
    assert_eq!(saver.last_checkpoints(), [first.clone(), second.clone()]);
    assert_eq!(latest_checkpoint(directory).unwrap(), Some(second.clone()));
    for prefix in [&first, &second] {
        CheckpointReader::open(prefix).unwrap().verify().unwrap();
    }
    // With room again the next save works, and the oldest goes.
    for name in before.iter().filter(|name| name.starts_with("model-1.data")) {
        std::fs::remove_file(format!("{directory}/{name}")).unwrap();
    }
    let third = saver.save(&session, &path, Some(3)).unwrap();
    assert_eq!(saver.last_checkpoints(), [second, third.clone()]);
    assert!(!files(Path::new(directory)).iter().any(|name| name.starts_with("model-1")));
    saver.restore(&session, &third).unwrap();
    // Not a byte is free: even the smallest file of a save is too large.
    let rest = std::fs::write(format!("{directory}/rubbish"), vec![0u8; DISK_BYTES]).unwrap_err();
    assert_eq!(rest.kind(), std::io::ErrorKind::StorageFull);
    let before = files(Path::new(directory));
    let status = saver.save(&session, &path, Some(4)).unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    assert_eq!(files(Path::new(directory)), before);
    assert_eq!(latest_checkpoint(directory).unwrap(), Some(third));
}
