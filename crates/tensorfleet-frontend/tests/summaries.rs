//! Summaries: how their nodes are named, what writers put into event files, and what readers make of damaged ones.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use tensorfleet::summary::{
    self, Event, FileWriter, FileWriterOptions, MetaGraphDef, SessionStatus, Summary, SummaryMetadata, What,
};
use tensorfleet::{Code, DType, Graph, RunMetadata, Session, Tensor};

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn read(path: &Path) -> Vec<Event> {
    summary::events(path).unwrap().collect::<Result<_, _>>().unwrap()
}

fn constant_text(g: &Graph, node: &str) -> String {
    let value = Session::new(g).run(&g.output(node).unwrap()).unwrap();
    String::from_utf8(value.to_string_scalar().unwrap().to_vec()).unwrap()
}

#[test]
fn nodes_and_tags_are_named_as_in_tensorflow_1() {
    let g = Graph::new();
    let x = g.constant_named("x", [1.0f32, 2.0]);
    let one = g.constant(1.0f32);
    g.name_scope("a", || {
        for (name, expected) in [
            ("loss", "a/loss"),
            ("loss", "a/loss_1"),
            ("lo ss:0", "a/lo_ss_0"),
            ("/x/y", "a/x/y"),
            ("_p", "a/_p"),
        ] {
            let summary = g.scalar_summary(name, &one).unwrap();
            assert_eq!(summary.name(), format!("{expected}:0"));
            assert_eq!(constant_text(&g, &format!("{expected}/tags")), expected);
        }
        for expected in ["a/fa/fam", "a/fa/fam_1"] {
            assert_eq!(g.summary("fam").family("fa").scalar(&one).unwrap().name(), format!("{expected}:0"));
            assert_eq!(constant_text(&g, &format!("{expected}/tags")), format!("fa/{expected}"));
        }
    });
    assert_eq!(g.histogram_summary("h", &x).unwrap().name(), "h:0");
    assert_eq!(constant_text(&g, "h/tag"), "h");
    let clips = g.zeros(DType::Float, [2, 3]).unwrap();
    g.audio_summary("au", &clips, 8000.0f32).unwrap();
    let rate = g.output("au/sample_rate").unwrap().constant_value().unwrap();
    assert_eq!(rate.to_scalar::<f32>().unwrap(), 8000.0);
    g.text_summary("te", g.constant(["a", "b"])).unwrap();
    assert_eq!(constant_text(&g, "te/serialized_summary_metadata"), "\n\u{6}\n\u{4}text");
    assert_eq!(
        g.merge_summaries([&one.graph().scalar_summary("q", &one).unwrap()]).unwrap().name(),
        "Merge/MergeSummary:0"
    );
    let merged = g.merge_all_summaries().unwrap().unwrap();
    assert_eq!(merged.name(), "Merge_1/MergeSummary:0");
    assert_eq!(g.collection(summary::SUMMARIES).len(), 11);
    assert!(g.merge_all_summaries_of("none").unwrap().is_none());
}

#[test]
fn what_cannot_be_summarised_is_refused_where_it_is_written() {
    let g = Graph::new();
    let code = |result: tensorfleet::Result<tensorfleet::Output>| result.unwrap_err().code();
    assert_eq!(code(g.text_summary("t", 1.0f32)), Code::InvalidArgument);
    assert_eq!(code(g.scalar_summary("///", 1.0f32)), Code::InvalidArgument);
    assert!(g.histogram_summary("h", "text").is_err());
    assert_eq!(code(g.merge_summaries(Vec::<tensorfleet::Output>::new())), Code::InvalidArgument);
    assert!(g.collection(summary::SUMMARIES).is_empty());
}

#[test]
fn everything_a_run_tells_is_read_back_in_order() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("deep/logs");
    let g = Graph::new();
    let c = g.device("/job:localhost/task:0", || g.constant([1.0f32, 2.0]));
    g.histogram_summary("h", &c).unwrap();

    let writer = FileWriter::new(&text(&directory)).unwrap();
    writer.add_session_log(SessionStatus::Start, "", 7).unwrap();
    writer.add_graph(&g).unwrap();
    writer
        .add_meta_graph(&MetaGraphDef { graph_def: Some(g.to_graph_def()), ..Default::default() }, 7)
        .unwrap();
    let session = Session::new(&g);
    let (value, metadata) = session.step().run_traced(&g.scalar_summary("s", 2.5f32).unwrap()).unwrap();
    writer.add_summary(&value, 8).unwrap();
    writer.add_run_metadata(&metadata, "step8", 8).unwrap();
    let again = writer.add_run_metadata(&RunMetadata::default(), "step8", 9).unwrap_err();
    assert_eq!(again.code(), Code::InvalidArgument);
    writer.add_session_log(SessionStatus::Checkpoint, "/tmp/model.ckpt-8", 8).unwrap();
    writer.add_scalar("steps/sec", 12.5, 8).unwrap();
    writer.flush().unwrap();
    let before_close = read(&writer.path().unwrap());
    writer.close().unwrap();
    let events = read(&directory);
    assert_eq!(events, before_close);

    assert_eq!(events[0].what, Some(What::FileVersion("brain.Event:2".into())));
    assert!(events.windows(2).all(|pair| pair[0].wall_time <= pair[1].wall_time));
    assert!(events[0].wall_time > 1.6e9);
    assert_eq!(events.iter().map(|event| event.step).collect::<Vec<_>>(), [0, 7, 0, 7, 8, 8, 8, 8]);
    let Some(What::GraphDef(bytes)) = &events[2].what else { panic!("{:?}", events[2]) };
    let graph =
        <tensorfleet_proto::tensorflow::GraphDef as tensorfleet_proto::Message>::decode(bytes.clone())
            .unwrap();
    assert_eq!(graph.node[0].device, "/job:localhost/task:0");
    assert!(graph.node.iter().all(|node| node.attr.contains_key("_output_shapes")));
    let Some(What::Summary(Summary { value })) = &events[4].what else { panic!("{:?}", events[4]) };
    assert_eq!(value[0].tag, "s");
    let Some(What::TaggedRunMetadata(tagged)) = &events[5].what else { panic!("{:?}", events[5]) };
    assert_eq!(tagged.tag, "step8");
    assert!(!tagged.run_metadata.is_empty());
    let Some(What::SessionLog(log)) = &events[6].what else { panic!("{:?}", events[6]) };
    assert_eq!(
        (log.status(), log.checkpoint_path.as_str()),
        (SessionStatus::Checkpoint, "/tmp/model.ckpt-8")
    );
}

/// The metadata of the values tagged `t`, in order.
fn described(events: &[Event]) -> Vec<bool> {
    let values = events.iter().filter_map(|event| match &event.what {
        Some(What::Summary(summary)) => Some(&summary.value),
        _ => None,
    });
    values.flatten().filter(|value| value.tag == "t").map(|value| value.metadata.is_some()).collect()
}

#[test]
fn metadata_comes_with_the_first_value_of_each_file() {
    let scratch = tempfile::tempdir().unwrap();
    let g = Graph::new();
    let metadata = SummaryMetadata { display_name: "name".into(), ..Default::default() };
    let summary = g.summary("t").tensor([1.0f32, 2.0], metadata).unwrap();
    let value = Session::new(&g).run(&summary).unwrap();
    let writer = FileWriter::new(&text(scratch.path())).unwrap();
    let first = writer.path().unwrap();
    (0..3).for_each(|step| writer.add_summary(&value, step).unwrap());
    writer.close().unwrap();
    writer.reopen().unwrap();
    let second = writer.path().unwrap();
    (3..5).for_each(|step| writer.add_summary(&value, step).unwrap());
    writer.close().unwrap();
    assert!(first < second, "{first:?} {second:?}");
    assert_eq!(described(&read(&first)), [true, false, false]);
    assert_eq!(described(&read(&second)), [true, false]);
    assert_eq!(read(scratch.path()).len(), 7);
}

#[test]
fn a_closed_writer_says_so_until_it_is_reopened() {
    let scratch = tempfile::tempdir().unwrap();
    let writer = FileWriterOptions::new().filename_suffix(".eval").open(&text(scratch.path())).unwrap();
    let name = writer.path().unwrap().file_name().unwrap().to_string_lossy().to_string();
    let parts: Vec<&str> = name.splitn(5, '.').collect();
    assert_eq!(parts[..3], ["events", "out", "tfevents"]);
    assert!(parts[3].len() == 10 && parts[3].parse::<u64>().is_ok(), "{name}");
    assert!(parts[4].len() > ".eval".len() && parts[4].ends_with(".eval"), "{name}");
    writer.close().unwrap();
    writer.close().unwrap();
    assert_eq!(writer.path(), None);
    assert_eq!(writer.flush().unwrap_err().code(), Code::FailedPrecondition);
    let refused = writer.add_scalar("a", 1.0, 1).unwrap_err();
    assert!(refused.message().contains("reopen"), "{refused}");
    writer.reopen().unwrap();
    writer.reopen().unwrap();
    writer.add_scalar("a", 1.0, 1).unwrap();
    drop(writer);
    assert_eq!(read(scratch.path()).len(), 3);
}

#[test]
fn users_of_a_directory_share_one_writer_until_the_last_one_goes() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = text(&scratch.path().join("run"));
    let one = FileWriter::shared(&directory).unwrap();
    let two = FileWriter::shared(&format!("{directory}/../run/")).unwrap();
    assert_eq!(one.path(), two.path());
    let (clone, threads) = (one.clone(), 4i64);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let writer = &clone;
            scope.spawn(move || (0..50).for_each(|n| writer.add_scalar("n", thread as f64, n).unwrap()));
        }
    });
    drop((one, two, clone));
    // Nothing was flushed by hand: the last user left everything on the disk.
    assert_eq!(read(Path::new(&directory)).len() as i64, 1 + 50 * threads);
    let later = FileWriter::shared(&directory).unwrap();
    later.close().unwrap();
    let again = FileWriter::shared(&directory).unwrap();
    again.add_scalar("n", 1.0, 1).unwrap();
    assert!(again.path().is_some() && again.path() == later.path());
}

#[test]
fn what_is_no_directory_and_no_summary_is_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("file");
    std::fs::write(&file, "").unwrap();
    assert!(FileWriter::new(&text(&file)).is_err());
    assert!(FileWriter::shared(&text(&file.join("below"))).is_err());
    let writer = FileWriter::new(&text(scratch.path())).unwrap();
    assert_eq!(writer.add_summary(&Tensor::string("\u{1}xyz"), 1).unwrap_err().code(), Code::InvalidArgument);
    assert!(writer.add_summary(&Tensor::scalar(1.0f32), 1).is_err());
    let code = |path: &Path| summary::events(path).map(drop).unwrap_err().code();
    assert_eq!(code(&scratch.path().join("none")), Code::NotFound);
    let empty = tempfile::tempdir().unwrap();
    assert_eq!(code(empty.path()), Code::NotFound);
}

/// Whatever happens to a file, a reader gives a beginning of what was written, then at most one error.
#[test]
fn damaged_event_files_never_give_a_wrong_event() {
    let scratch = tempfile::tempdir().unwrap();
    let writer = FileWriter::new(&text(scratch.path())).unwrap();
    for step in 0..20 {
        writer.add_scalar("loss", 1.0 / (step + 1) as f64, step).unwrap();
    }
    let path = writer.path().unwrap();
    writer.close().unwrap();
    let (bytes, whole) = (std::fs::read(&path).unwrap(), read(&path));
    let mut seed = 11u64;
    let mut random = |bound: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % bound
    };
    let mut errors = 0;
    for round in 0..500 {
        let mut damaged = bytes.clone();
        match round % 3 {
            0 => damaged.truncate(random(bytes.len())),
            1 => damaged[random(bytes.len())] ^= 1 << random(8),
            _ => {
                let (at, with) = (random(bytes.len()), random(256) as u8);
                damaged[at..bytes.len().min(at + 8)].fill(with);
            }
        }
        let copy = scratch.path().join("damaged");
        std::fs::write(&copy, &damaged).unwrap();
        let events: Vec<_> = summary::events(&copy).unwrap().collect();
        let good = events.iter().take_while(|event| event.is_ok()).count();
        let given: Vec<&Event> = events[..good].iter().flatten().collect();
        assert_eq!(given, whole[..good].iter().collect::<Vec<_>>(), "round {round}");
        assert!(events.len() - good <= 1, "round {round}");
        // A cut between two records cannot be told from a file that is still being written.
        if let Some(Err(status)) = events.last() {
            assert_eq!(status.code(), Code::DataLoss);
            errors += 1;
        } else {
            assert!(damaged == bytes || bytes.starts_with(&damaged), "round {round}");
        }
    }
    assert!(errors > 400, "{errors}");
}
