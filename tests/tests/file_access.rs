//! `--allow-files`: graphs on a server touch files below the directories it names and no others, whatever op, spelling or
//! link leads there.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tensorfleet_cluster::{ConnectOptions, RemoteRunOptions, RemoteSession};
use tensorfleet_core::{Code, DType, PartialShape, Result, Tensor};
use tensorfleet_proto::tensorflow::GraphDef;
use tensorfleet_tests::cluster::{Cluster, Job};
use tensorfleet_tests::graph_builder::{Attr, GraphBuilder};

fn text(value: impl AsRef<Path>) -> Tensor {
    Tensor::string(value.as_ref().to_string_lossy().into_owned().into_bytes())
}

fn texts(value: impl AsRef<Path>) -> Tensor {
    Tensor::from_strings(vec![value.as_ref().to_string_lossy().into_owned().into()], &[1]).unwrap()
}

/// One node per family of file ops; each touches the file or prefix that `path` feeds.
fn graph() -> GraphDef {
    GraphBuilder::new()
        .placeholder("path", DType::String)
        .placeholder("paths", DType::String)
        .constant("contents", Tensor::string(&b"new"[..]))
        .constant("names", Tensor::from_strings(vec!["v".into()], &[1]).unwrap())
        .constant("slices", Tensor::from_strings(vec!["".into()], &[1]).unwrap())
        .constant("value", 2.5f32)
        .node("read", "ReadFile", &["path"], &[])
        .node("write", "WriteFile", &["path", "contents"], &[])
        .node("match", "MatchingFiles", &["path"], &[])
        .node(
            "save",
            "SaveV2",
            &["path", "names", "slices", "value"],
            &[("dtypes", vec![DType::Float].into())],
        )
        .node("restore", "RestoreV2", &["path", "names", "slices"], &[("dtypes", vec![DType::Float].into())])
        .node("merge", "MergeV2Checkpoints", &["paths", "path"], &[])
        .node("queue", "FIFOQueueV2", &[], &[("component_types", vec![DType::String].into())])
        .node("put", "QueueEnqueueV2", &["queue", "path"], &[("Tcomponents", vec![DType::String].into())])
        .node("reader", "WholeFileReaderV2", &[], &[])
        .node("record", "ReaderReadV2", &["reader", "queue"], &[])
        .node("old_save", "Save", &["path", "names", "value"], &[("T", vec![DType::Float].into())])
        .node(
            "old_save_slices",
            "SaveSlices",
            &["path", "names", "slices", "value"],
            &[("T", vec![DType::Float].into())],
        )
        .constant("name", Tensor::string(&b"v"[..]))
        .constant("slice", Tensor::string(&b""[..]))
        .node("old_restore", "Restore", &["path", "name"], &[("dt", DType::Float.into())])
        .node("old_restore_slice", "RestoreSlice", &["path", "name", "slice"], &[("dt", DType::Float.into())])
        .node(
            "table",
            "HashTableV2",
            &[],
            &[("key_dtype", DType::String.into()), ("value_dtype", DType::Int64.into())],
        )
        .node(
            "fill",
            "InitializeTableFromTextFileV2",
            &["table", "path"],
            &[("key_index", (-2i64).into()), ("value_index", (-1i64).into())],
        )
        .constant("words", Tensor::from_strings(vec!["b".into(), "nobody".into()], &[2]).unwrap())
        .constant("missing", -1i64)
        .node(
            "found",
            "LookupTableFindV2",
            &["table", "words", "missing"],
            &[("Tin", DType::String.into()), ("Tout", DType::Int64.into())],
        )
        .constant("zero", 0i64)
        .constant("one", 1i64)
        .constant("three", 3i64)
        .constant("for_ever", -1i64)
        .node("range", "RangeDataset", &["zero", "three", "one"], &numbers())
        .node("cache", "CacheDataset", &["range", "path"], &numbers())
        .node("repeat", "RepeatDataset", &["cache", "for_ever"], &numbers())
        .node("iterator", "IteratorV2", &[], &{
            let names = [("shared_name", "walk".into()), ("container", "".into())];
            numbers().into_iter().chain(names).collect::<Vec<_>>()
        })
        .node("begin", "MakeIterator", &["repeat", "iterator"], &[])
        .node("next", "IteratorGetNext", &["iterator"], &numbers())
        .build()
}

/// The attributes of datasets of numbers.
fn numbers() -> [(&'static str, Attr); 2] {
    [("output_types", vec![DType::Int64].into()), ("output_shapes", vec![PartialShape::scalar()].into())]
}

struct Client(RemoteSession);

impl Client {
    fn of(cluster: &Cluster) -> Client {
        let target = cluster.target(Job::Worker, 0).unwrap();
        Client(RemoteSession::create(&target, graph(), ConnectOptions::default()).unwrap())
    }

    fn run(&self, path: impl AsRef<Path>, fetches: &[&str], targets: &[&str]) -> Result<Vec<Tensor>> {
        let (path, paths) = (text(&path), texts(&path));
        let feeds = [("path", &path), ("paths", &paths)];
        let needed = if targets == ["merge"] { &feeds[..] } else { &feeds[..1] };
        Ok(self.0.run(needed, fetches, targets, &RemoteRunOptions::default())?.0)
    }

    fn code(&self, path: impl AsRef<Path>, fetches: &[&str], targets: &[&str]) -> Option<Code> {
        self.run(path, fetches, targets).err().map(|status| status.code())
    }
}

#[test]
fn graphs_touch_files_below_the_named_directories_and_no_others() {
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name);
    for name in ["models", "data", "private"] {
        std::fs::create_dir(place(name)).unwrap();
    }
    std::fs::write(place("data/input"), "inside").unwrap();
    std::fs::write(place("private/secret"), "outside").unwrap();
    std::os::unix::fs::symlink(place("private"), place("data/link")).unwrap();
    let flags = ["models", "data"].map(|name| format!("--allow-files={}", place(name).display()));
    let cluster = Cluster::start_ours(1, 1, &[&flags[0], &flags[1]]).unwrap();
    let client = Client::of(&cluster);

    let read = client.run(place("data/input"), &["read:0"], &[]).unwrap();
    assert_eq!(&read[0].to_string_scalar().unwrap()[..], b"inside");
    assert_eq!(client.code(place("models/new/file"), &[], &["write"]), None);
    assert_eq!(client.code(place("models/checkpoint"), &[], &["save"]), None);
    assert_eq!(
        client.run(place("models/checkpoint"), &["restore:0"], &[]).unwrap()[0],
        Tensor::scalar(2.5f32)
    );
    let found = client.run(place("data/*"), &["match:0"], &[]).unwrap();
    assert_eq!(found[0].as_strings().unwrap().len(), 1, "the link leads out, and is not listed: {found:?}");

    for outside in
        ["private/secret", "data/../private/secret", "data/link/secret", "models/new/../../private/secret"]
    {
        let status = client.run(place(outside), &["read:0"], &[]).unwrap_err();
        assert_eq!(status.code(), Code::PermissionDenied, "{outside}: {status}");
        for part in [outside, "models", "data", "--allow-files"] {
            assert!(status.to_string().contains(part), "{part} is not in: {status}");
        }
    }
    let outside = place("private/x");
    for (fetches, targets) in [
        (&[][..], &["write"][..]),
        (&[], &["save"]),
        (&["restore:0"], &[]),
        (&[], &["merge"]),
        (&["match:0"], &[]),
        (&[], &["old_save"]),
        (&[], &["old_save_slices"]),
        (&["old_restore:0"], &[]),
        (&["old_restore_slice:0"], &[]),
        (&[], &["fill"]),
        (&[], &["begin"]),
    ] {
        let code = client.code(&outside, fetches, targets);
        assert_eq!(code, Some(Code::PermissionDenied), "{fetches:?} {targets:?}");
    }
    assert_eq!(client.code(place("private/secret"), &[], &["put"]), None);
    let status = client.0.run(&[], &["record:1"], &[], &RemoteRunOptions::default()).unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied);
    assert_eq!(std::fs::read_dir(place("private")).unwrap().count(), 1, "something was written outside");
}

#[test]
fn old_checkpoints_and_tables_work_inside_and_not_outside() {
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name);
    std::fs::create_dir(place("data")).unwrap();
    std::fs::write(place("data/words"), "a\nb\nc\n").unwrap();
    std::fs::write(place("words"), "a\nb\nc\n").unwrap();
    let flag = format!("--allow-files={}", place("data").display());
    let cluster = Cluster::start_ours(1, 1, &[&flag]).unwrap();
    let client = Client::of(&cluster);

    for (save, restore) in [("old_save", "old_restore:0"), ("old_save_slices", "old_restore_slice:0")] {
        let path = place("data").join(save);
        assert_eq!(client.code(&path, &[], &[save]), None);
        assert_eq!(client.run(&path, &[restore], &[]).unwrap()[0], Tensor::scalar(2.5f32));
        // A pattern is judged by what it names, even if it begins inside.
        std::os::unix::fs::symlink(&path, place("data/inside")).unwrap();
        assert_eq!(client.code(place("data/insid?"), &[restore], &[]), None);
        std::fs::remove_file(place("data/inside")).unwrap();
        std::fs::copy(&path, place("outside")).unwrap();
        std::os::unix::fs::symlink(place("outside"), place("data/way_out")).unwrap();
        assert_eq!(client.code(place("data/way_ou?"), &[restore], &[]), Some(Code::PermissionDenied));
        std::fs::remove_file(place("data/way_out")).unwrap();
    }

    assert_eq!(client.code(place("words"), &[], &["fill"]), Some(Code::PermissionDenied));
    assert_eq!(client.code(place("data/../words"), &[], &["fill"]), Some(Code::PermissionDenied));
    assert_eq!(client.code(place("data/words"), &[], &["fill"]), None);
    let found = client.0.run(&[], &["found:0"], &[], &RemoteRunOptions::default()).unwrap().0;
    assert_eq!(found[0].as_slice::<i64>().unwrap(), [1, -1]);
}

#[test]
fn every_walk_of_a_cache_in_files_asks_again() {
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name);
    for name in ["data", "data/caches", "private"] {
        std::fs::create_dir(place(name)).unwrap();
    }
    let flag = format!("--allow-files={}", place("data").display());
    let cluster = Cluster::start_ours(1, 1, &[&flag]).unwrap();
    let client = Client::of(&cluster);
    assert_eq!(client.code(place("private/x"), &[], &["begin"]), Some(Code::PermissionDenied));
    assert_eq!(client.code(place("data/caches/x"), &[], &["begin"]), None);
    let next = || client.0.run(&[], &["next:0"], &[], &RemoteRunOptions::default());
    let number = || next().unwrap().0[0].to_scalar::<i64>().unwrap();
    // The first walk writes the files, the second one reads them.
    assert_eq!([number(), number(), number(), number(), number()], [0, 1, 2, 0, 1]);
    assert!(place("data/caches/x.index").exists());
    std::fs::rename(place("data/caches"), place("private/caches")).unwrap();
    std::os::unix::fs::symlink(place("private/caches"), place("data/caches")).unwrap();
    assert_eq!(number(), 2, "the second walk is under way");
    assert_eq!(next().unwrap_err().code(), Code::PermissionDenied);
}

/// Somebody on the machine turns a link below the allowed directory back and forth, as fast as possible. When the check of a path and its
/// use were two steps, one try in thirty got out.
#[test]
fn a_link_that_turns_all_the_time_leads_no_graph_out() {
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name);
    for name in ["data", "data/inside", "private"] {
        std::fs::create_dir(place(name)).unwrap();
    }
    std::fs::write(place("data/inside/file"), "inside").unwrap();
    std::fs::write(place("private/file"), "secret").unwrap();
    let flag = format!("--allow-files={}", place("data").display());
    let cluster = Cluster::start_ours(1, 1, &[&flag]).unwrap();
    let client = Client::of(&cluster);
    let (link, next) = (place("data/link"), place("data/next"));
    let targets = [place("data/inside"), place("private")];
    std::os::unix::fs::symlink(&targets[0], &link).unwrap();
    let is_over = AtomicBool::new(false);
    let mut seen = [0; 2];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for target in targets.iter().cycle().take_while(|_| !is_over.load(Ordering::Relaxed)) {
                std::os::unix::fs::symlink(target, &next).unwrap();
                std::fs::rename(&next, &link).unwrap();
            }
        });
        let until = Instant::now() + Duration::from_secs(4);
        let outcomes = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            while Instant::now() < until {
                match client.run(link.join("file"), &["read:0"], &[]) {
                    Ok(read) => {
                        assert_eq!(&read[0].to_string_scalar().unwrap()[..], b"inside");
                        seen[0] += 1;
                    }
                    Err(_) => seen[1] += 1,
                }
                for target in ["write", "save", "old_save"] {
                    let _ = client.run(link.join(target), &[], &[target]);
                }
                let _ = client.run(link.join("save"), &["restore:0"], &[]);
            }
        }));
        is_over.store(true, Ordering::Relaxed);
        outcomes.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    println!("{} reads inside, {} refused", seen[0], seen[1]);
    assert!(seen[0] > 10 && seen[1] > 10, "the link did not turn: {seen:?}");
    assert_eq!(std::fs::read_dir(place("private")).unwrap().count(), 1, "something was written outside");
}

#[test]
fn without_the_flag_graphs_touch_what_the_server_may() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = Cluster::start_ours(1, 1, &[]).unwrap();
    let client = Client::of(&cluster);
    assert_eq!(client.code(directory.path().join("deep/../new"), &[], &["write"]), None);
    assert_eq!(client.code("/etc/hosts", &["read:0"], &[]), None);
}

#[test]
fn a_directory_that_is_not_there_is_an_error_at_the_start() {
    let failure = Cluster::start_ours(1, 1, &["--allow-files=/no/such/directory"]).err().unwrap();
    assert!(failure.contains("/no/such/directory"), "{failure}");
}
