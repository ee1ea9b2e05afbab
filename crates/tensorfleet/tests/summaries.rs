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
