//! `tensorfleet graph` as users have it: real graphs, pictures, and files that are none.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;
use tensorfleet::summary::FileWriter;
use tensorfleet::train::Saver;
use tensorfleet::{DType, Graph, Session};
use tensorfleet_proto::Message;
use tensorfleet_proto::tensorflow::{GraphDef, NodeDef};

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tensorfleet"));
    command.arg("graph").args(arguments).env_remove("RUST_LOG").output().unwrap()
}

#[track_caller]
fn succeeds(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn fails(path: &str, words: &[&str]) {
    let output = run(&[path]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.starts_with("error: ") && text.lines().count() == 1, "{text}");
    for word in words {
        assert!(text.contains(word), "{word} is not in: {text}");
    }
}

/// A layer whose weights are on a ps and whose input is a batch of unknown size on a worker.
fn layer() -> Graph {
    let g = Graph::new();
    let w = g.device("/job:ps/task:0", || g.variable("weights", g.zeros(DType::Float, [784, 10]).unwrap()));
    g.device("/job:worker/task:0", || {
        let x = g.placeholder_named("x", DType::Float, [None, Some(784)]);
        let y = x.matmul(&w).unwrap();
        g.device("/job:ps/task:0", || g.op("Identity").name("back").input(&y).output().unwrap())
    });
    g
}

fn write(directory: &Path, name: &str, graph: &GraphDef) -> String {
    let path = directory.join(name);
    std::fs::write(&path, graph.encode_to_vec()).unwrap();
    path.to_str().unwrap().to_string()
}

fn node(name: &str, inputs: &[&str]) -> NodeDef {
    let input = inputs.iter().map(|input| input.to_string()).collect();
    NodeDef { name: name.to_string(), op: "NoSuchOp".to_string(), input, ..Default::default() }
}

#[test]
fn a_summary_tells_devices_and_what_travels_between_them() {
    let directory = tempfile::tempdir().unwrap();
    let path = write(directory.path(), "layer.pb", &layer().to_graph_def());
    let text = succeeds(&[&path]);
    assert!(text.contains("(GraphDef)") && text.contains("1 variable of 31 KB"), "{text}");
    let to_worker =
        text.lines().find(|line| line.starts_with("/job:ps/task:0      /job:worker/task:0")).unwrap();
    assert!(to_worker.ends_with("31 KB"), "{text}");
    let back = text.lines().find(|line| line.starts_with("/job:worker/task:0  /job:ps/task:0")).unwrap();
    assert!(back.ends_with("40 B/unit"), "{text}");
    assert!(succeeds(&[&path, "--batch", "100"]).contains("4.0 KB"));

    let document: Value = serde_json::from_str(&succeeds(&[&path, "--json", "--batch", "100"])).unwrap();
    assert_eq!(document["across_devices"][1]["bytes"], 4000);
    assert_eq!(document["variables"][0]["name"], "weights");
    assert_eq!(document["devices"][0]["device"], "/job:ps/task:0");
}

#[test]
fn a_directory_means_its_newest_meta_graph_or_the_graph_among_its_events() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path().to_str().unwrap();
    let g = Graph::new();
    let v = g.variable("v", [1.0f32, 2.0]);
    let writer = FileWriter::new(dir).unwrap();
    writer.add_graph(&g).unwrap();
    writer.close().unwrap();
    assert!(succeeds(&[dir]).contains("(event file)"));
    let session = Session::new(&g);
    let saver = Saver::new(&g).unwrap();
    session.run(v.initializer()).unwrap();
    saver.save(&session, &format!("{dir}/model"), Some(1)).unwrap();
    let text = succeeds(&[dir]);
    assert!(text.starts_with(&format!("{dir}/model-1.meta (meta graph)\n")), "{text}");
}

#[test]
fn pictures_are_well_formed_whatever_the_names_are() {
    let directory = tempfile::tempdir().unwrap();
    let mut graph = layer().to_graph_def();
    graph.node.push(node("a<b>&\"c\"\u{1}\\", &["x"]));
    graph.node.push(node(&"long".repeat(100_000), &["^x", "x"]));
    let path = write(directory.path(), "odd.pb", &graph);
    let svg = succeeds(&[&path, "--svg", "-"]);
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n") && svg.len() < 100_000);
    assert!(svg.contains("a&lt;b&gt;&amp;&quot;c&quot;") && !svg.contains("a<b>") && !svg.contains('\u{1}'));
    let open = svg.matches("<g>").count();
    assert_eq!(open, svg.matches("</g>").count());
    let dot = succeeds(&[&path, "--dot", "-"]);
    assert!(dot.starts_with("digraph ") && dot.ends_with("}\n"), "{dot}");
    assert!(dot.contains("subgraph cluster_") && dot.contains("label=\"/job:ps/task:0\""), "{dot}");
    assert_eq!(dot.matches('{').count(), dot.matches('}').count());

    let out = directory.path().join("out.svg");
    assert_eq!(succeeds(&[&path, "--svg", out.to_str().unwrap()]), "");
    assert_eq!(std::fs::read_to_string(out).unwrap(), svg);
}

#[test]
fn real_training_graphs_are_drawn_at_every_depth() {
    let packed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/graphs.tar.gz");
    let directory = tempfile::tempdir().unwrap();
    let status = Command::new("tar").arg("xzf").arg(packed).current_dir(&directory).status().unwrap();
    assert!(status.success());
    let path = directory.path().join("seed004_async_worker0_ref.pb");
    let path = path.to_str().unwrap();
    let text = succeeds(&[path]);
    assert!(
        text.contains("255 nodes, 335 edges, 77 control edges") && text.contains("15 variables of 954 KB"),
        "{text}"
    );
    for depth in ["1", "2", "16"] {
        let svg = succeeds(&[path, "--svg", "-", "--depth", depth, "--all"]);
        assert!(svg.contains(">hid_w</text>") && svg.contains("/job:ps/task:0"), "{depth}");
    }
}

#[test]
fn huge_and_cyclic_graphs_end_soon() {
    let directory = tempfile::tempdir().unwrap();
    let mut nodes: Vec<NodeDef> = (0..100_000)
        .map(|n| node(&format!("s{}/n{n}", n % 5000), &[&format!("s{}/n{}", (n + 1) % 5000, n + 1)]))
        .collect();
    nodes.push(node("s0/n100000", &["s0/n0"]));
    let path = write(directory.path(), "huge.pb", &GraphDef { node: nodes, ..Default::default() });
    let begin = Instant::now();
    assert!(succeeds(&[&path]).contains("100,001 nodes"));
    let svg = succeeds(&[&path, "--svg", "-", "--depth", "2"]);
    assert!(svg.contains("boxes are drawn"), "there is a sentence about the rest");
    // Ten times what it takes in a development build on a busy machine.
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
}

#[test]
fn what_is_no_graph_gets_one_sentence() {
    let directory = tempfile::tempdir().unwrap();
    let put = |name: &str, content: &[u8]| {
        let path = directory.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_string()
    };
    fails(directory.path().to_str().unwrap(), &["holds no graph"]);
    fails(directory.path().join("none.pb").to_str().unwrap(), &["there is no file", ".meta"]);
    fails(&put("empty.pb", b""), &["is empty"]);
    fails(&put("graph.pbtxt", b"node {\n  name: \"a\"\n}\n"), &["as text", ".meta"]);
    fails(&put("checkpoint", b"model_checkpoint_path: \"m\"\n"), &["state file", "directory"]);
    let garbage: Vec<u8> = (0..5000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    fails(&put("garbage.pb", &garbage), &["is no graph"]);
    fails(&put("events.out.tfevents.1.x", b"garbage"), &["holds no graph"]);
    // Cut anywhere, a graph is a smaller one or none.
    let whole = layer().to_graph_def().encode_to_vec();
    for len in [1, whole.len() / 3, whole.len() - 1] {
        let output = run(&[&put("cut.pb", &whole[..len])]);
        assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
    }
}

/// clap took the number for a flag, and advised to write `-- -3`.
#[test]
fn a_number_below_zero_is_refused_as_a_number() {
    for (flag, words) in [("--batch", "a whole number from 1 to"), ("--top", "a whole number from 0 to")] {
        let output = run(&["graph.pb", flag, "-3"]);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(words) && !text.contains("-- -3"), "{text}");
    }
}

/// A picture is renamed into place, which would put a file where the link is.
#[test]
fn a_picture_does_not_take_the_place_of_a_link() {
    let directory = tempfile::tempdir().unwrap();
    let link = directory.path().join("link.svg");
    std::os::unix::fs::symlink("elsewhere.svg", &link).unwrap();
    let graph = write(directory.path(), "graph.pb", &layer().to_graph_def());
    let output = run(&[&graph, "--svg", link.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("is no ordinary file"));
    assert!(link.symlink_metadata().unwrap().is_symlink());
}
