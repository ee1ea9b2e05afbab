//! Graphs that TensorFlow wrote survive import and export: the same bytes, up to the order of nodes and inputs.

#![allow(clippy::unwrap_used)]

use tensorfleet_core::Graph;
use tensorfleet_proto::Message;
use tensorfleet_proto::tensorflow::GraphDef;
use tensorfleet_tests::case::Mode;
use tensorfleet_tests::packed;

/// Nodes by name, control inputs by name, output 0 without its number: what may differ in writing, not in meaning.
fn canonical(mut graph: GraphDef) -> GraphDef {
    graph.node.sort_by(|a, b| a.name.cmp(&b.name));
    for node in &mut graph.node {
        for input in &mut node.input {
            if !input.starts_with('^')
                && let Some(bare) = input.strip_suffix(":0")
            {
                *input = bare.to_string();
            }
        }
        let first_control =
            node.input.iter().position(|input| input.starts_with('^')).unwrap_or(node.input.len());
        node.input[first_control..].sort();
    }
    graph
}

fn check_round_trip(name: &str, written: GraphDef) {
    let graph = Graph::from_graph_def(written.clone()).unwrap_or_else(|status| panic!("{name}: {status}"));
    assert_eq!(graph.len(), written.node.len(), "{name}");
    let exported = canonical(graph.to_graph_def()).encode_to_vec();
    assert!(exported == canonical(written).encode_to_vec(), "{name} differs after import and export");
}

#[test]
fn the_seed_programs_graphs_are_imported_and_exported_without_loss() {
    let graphs = packed::graphs().unwrap();
    let mut count = 0;
    for (name, bytes) in graphs.iter().filter(|(name, _)| name.ends_with(".pb")) {
        let written = GraphDef::decode(bytes.clone()).unwrap();
        // Maps may be written in any order, but nothing that was read is left out.
        assert_eq!(written.encoded_len(), bytes.len(), "{name}: decoding dropped something");
        check_round_trip(name, written);
        count += 1;
    }
    assert!(count >= 30, "only {count} graphs are packed");
}

#[test]
fn the_graphs_of_all_cases_are_imported_and_exported_without_loss() {
    // Raw cases hold broken graphs on purpose.
    for case in packed::cases().unwrap().into_iter().filter(|case| case.mode == Mode::Session) {
        check_round_trip(&case.name, case.graph);
    }
}
