//! Stories of simplified steps on one device: what is computed in advance, and what is not.

use super::*;

fn session_with(simplify: bool, nodes: Vec<NodeDef>) -> DirectSession {
    let session = DirectSession::new(Task::local(), SessionOptions { simplify, ..SessionOptions::default() });
    session.extend(GraphDef { node: nodes, ..Default::default() }).unwrap();
    session
}

/// The names of the nodes that run when `fetches` are fetched.
fn nodes_of(session: &DirectSession, fetches: &[&str]) -> Vec<String> {
    let callable = session.make_callable(&[], fetches, &[]).unwrap();
    let (_, metadata) = callable.run_traced(vec![], &RunOptions::default()).unwrap();
    let stats = metadata.step_stats.unwrap().dev_stats.remove(0);
    let mut names: Vec<String> = stats.node_stats.into_iter().map(|node| node.node_name).collect();
    names.retain(|name| !name.starts_with('_'));
    names.sort();
    names
}

#[test]
fn constants_are_folded_and_equal_nodes_merged() {
    let nodes = || {
        vec![
            constant("a", 1i32),
            constant("b", 2i32),
            typed("c", "Add", &["a", "b"], DType::Int32),
            placeholder("p", DType::Int32),
            typed("x", "Mul", &["p", "c"], DType::Int32),
            typed("y", "Mul", &["p", "c"], DType::Int32),
        ]
    };
    let session = session_with(true, nodes());
    assert_eq!(nodes_of(&session, &["c"]), ["c"]);
    assert_eq!(nodes_of(&session_with(false, nodes()), &["c"]), ["a", "b", "c"]);
    let feeds = [("p", Tensor::scalar(5i32))];
    let results = session.run(&feeds, &["x", "y", "c"], &[], &RunOptions::default()).unwrap();
    assert_eq!(results, [15i32, 15, 3].map(Tensor::scalar));
}

#[test]
fn what_one_plan_folds_another_may_feed() {
    let session = session_with(
        true,
        vec![
            constant("a", 1i32),
            constant("b", 2i32),
            typed("c", "Add", &["a", "b"], DType::Int32),
            typed("d", "Add", &["c", "c"], DType::Int32),
        ],
    );
    // Kernels are kept by name: c and d are constants in the first plan, and ops in others.
    assert_eq!(fetch(&session, "d").unwrap(), Tensor::scalar(6i32));
    for (feed, expected) in [("a", 18i32), ("b", 16), ("c", 14)] {
        let feeds = [(feed, Tensor::scalar(7i32))];
        let results = session.run(&feeds, &["d"], &[], &RunOptions::default()).unwrap();
        assert_eq!(results, [Tensor::scalar(expected)], "with {feed} fed");
    }
    assert_eq!(fetch(&session, "d").unwrap(), Tensor::scalar(6i32));
}

#[test]
fn random_streams_are_those_of_a_session_that_simplifies_nothing() {
    let random = |name: &str| {
        let attrs = vec![
            ("dtype", DType::Float.into_attr()),
            ("T", DType::Int32.into_attr()),
            ("seed", 3i64.into_attr()),
            ("seed2", 5i64.into_attr()),
        ];
        node(name, "RandomUniform", &["shape"], attrs)
    };
    let [simple, literal] = [true, false].map(|simplify| {
        let nodes = vec![constant("shape", Tensor::vector(&[2i32, 3]).unwrap()), random("r1"), random("r2")];
        let session = session_with(simplify, nodes);
        let steps: [&[&str]; 4] = [&["r1"], &["r1", "r2"], &["r2", "r1", "r1"], &["r1"]];
        steps.map(|fetches| session.run(&[], fetches, &[], &RunOptions::default()).unwrap())
    });
    assert_eq!(simple, literal);
    let [first, second, _, last] = &simple;
    assert_ne!(first[0], second[0], "a stream goes on from step to step");
    assert_eq!(first[0], second[1], "equal nodes have streams of their own");
    assert_ne!(first[0], last[0]);
}

#[test]
fn equal_updates_of_a_variable_all_happen() {
    let session = session_with(
        true,
        vec![
            constant("one", 1i32),
            node(
                "v",
                "VariableV2",
                &[],
                vec![
                    ("dtype", DType::Int32.into_attr()),
                    ("shape", tensorfleet_core::PartialShape::scalar().into_attr()),
                ],
            ),
            typed("init", "Assign", &["v", "one"], DType::Int32),
            typed("up", "AssignAdd", &["v", "one"], DType::Int32),
            typed("again", "AssignAdd", &["v", "one"], DType::Int32),
        ],
    );
    let run = |targets: &[&str]| session.run(&[], &[], targets, &RunOptions::default()).unwrap();
    run(&["init"]);
    run(&["up", "again"]);
    assert_eq!(fetch(&session, "v").unwrap(), Tensor::scalar(3i32));
}

#[test]
fn what_cannot_be_folded_fails_in_the_step_with_its_node() {
    let session = session_with(
        true,
        vec![
            constant("one", 1i32),
            constant("zero", 0i32),
            typed("never", "FloorDiv", &["one", "zero"], DType::Int32),
            typed("fine", "Identity", &["one"], DType::Int32),
        ],
    );
    assert_eq!(fetch(&session, "fine").unwrap(), Tensor::scalar(1i32));
    let status = fetch(&session, "never").unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    assert!(status.message().contains("never"), "{status}");
}
