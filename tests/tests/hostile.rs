//! Bytes from outside never bring the process down: whatever they are, the answer is a value or an error, in
//! bounded time and memory.
//!
//! Random bytes test the decoders. Damaged versions of real graphs, fed with damaged values, get past the decoders
//! and into planning and kernels; random nodes of every op get past the checks of
//! attributes and shapes, with chains of datasets, lists and functions for those that take such. A failure names its seed; `TENSORFLEET_HOSTILE_SEED=N` runs that one alone, and
//! `TENSORFLEET_HOSTILE_CASES=N` asks for more than the few that every test run can afford, from seed 0 on or from
//! `TENSORFLEET_HOSTILE_FIRST=N` on.

#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{LazyLock, Once};
use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use tensorfleet_core::{DType, DeviceName, Graph, Tensor, memory};
use tensorfleet_kernel::signature::{Arg, ArgTypes, AttrKind};
use tensorfleet_ops::catalogue;
use tensorfleet_proto::Message;
use tensorfleet_proto::tensorflow::{GraphDef, TensorProto};
use tensorfleet_runtime::{DirectSession, RunOptions, SessionOptions, Task};
use tensorfleet_tests::case::{Case, Step};
use tensorfleet_tests::mutation::{Choices, damage_bytes, damage_graph, damaged_feed};
use tensorfleet_tests::packed;
use tensorfleet_tests::random_node::random_node;

/// Enough for every real case, and far below what a hostile shape asks for.
const MEMORY_LIMIT_BYTES: usize = 256 << 20;
/// A step that waits for something is cancelled after this time.
const STEP_TIMEOUT: Duration = Duration::from_millis(50);
/// Whatever comes in, an answer comes back within this time.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);
/// How many damaged cases an ordinary test run tries.
const DEFAULT_CASES: u64 = 1500;
/// How many random nodes an ordinary test run tries: a few of each op.
const DEFAULT_RANDOM_NODES: u64 = 6000;
/// How many random nodes an ordinary test run tries of the ops that take variants or functions: their inputs are graphs themselves.
const DEFAULT_RANDOM_CHAINS: u64 = 3000;
/// Sets the seeds of random nodes apart from those of damaged graphs.
const RANDOM_NODES: u64 = 0x6e6f_6465_0000_0000;

static CASES: LazyLock<Vec<Case>> =
    LazyLock::new(|| packed::cases().unwrap().into_iter().filter(|case| case.cluster.is_none()).collect());
static PANICS: AtomicUsize = AtomicUsize::new(0);

/// Bounds memory, counts panics (also those somebody catches), and keeps stray files out of the source tree.
fn prepare() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        memory::set_limit_bytes(MEMORY_LIMIT_BYTES);
        std::env::set_current_dir(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICS.fetch_add(1, SeqCst);
            report(panic);
        }));
    });
}

/// Runs `work` on a thread; it must neither panic nor take for ever.
fn must_answer(what: &str, work: impl FnOnce() + Send + 'static) {
    let panics = PANICS.load(SeqCst);
    let (done, ended) = channel();
    let thread = thread::spawn(move || {
        work();
        let _ = done.send(());
    });
    if ended.recv_timeout(ANSWER_LIMIT) == Err(RecvTimeoutError::Timeout) {
        panic!("{what}: no answer within {ANSWER_LIMIT:?}");
    }
    assert!(thread.join().is_ok() && PANICS.load(SeqCst) == panics, "{what}: it panicked");
}

/// Imports a graph and runs the steps of a case on it, damaging some feeds.
fn run_damaged(graph: GraphDef, case: &Case, mut choices: Choices) {
    let session = DirectSession::new(Task::local(), SessionOptions::default());
    if session.extend(graph).is_err() {
        return;
    }
    let options = RunOptions { timeout: Some(STEP_TIMEOUT) };
    for step in case.steps.iter().take(6) {
        let Step::Run(step) = step else { continue };
        let mut feeds: Vec<(&str, Tensor)> = Vec::new();
        for &index in &step.feeds {
            let record = &case.feeds[index];
            let is_damaged = choices.below(4) == 0;
            let value =
                if is_damaged { damaged_feed(&record.value, &mut choices) } else { record.value.clone() };
            feeds.push((&record.name, value));
        }
        let names = |names: &'_ [String]| names.to_vec();
        let (fetches, targets) = (names(&step.fetches), names(&step.targets));
        let fetches: Vec<&str> = fetches.iter().map(String::as_str).collect();
        let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
        // Value or error, both are answers.
        let _ = session.run(&feeds, &fetches, &targets, &options);
    }
    let _ = session.close();
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// The seeds of a run.
fn seeds(usually: u64) -> std::ops::Range<u64> {
    let first = number("TENSORFLEET_HOSTILE_FIRST").unwrap_or(0);
    first..first + number("TENSORFLEET_HOSTILE_CASES").unwrap_or(usually)
}

fn try_seed(seed: u64, ops: &[&str]) {
    let mut choices = Choices::new(seed);
    let case = &CASES[choices.below(CASES.len())];
    let mut graph = case.graph.clone();
    match choices.below(4) {
        0 => {
            let bytes = damage_bytes(&graph.encode_to_vec(), &mut choices);
            let Ok(damaged) = GraphDef::decode(&bytes[..]) else { return };
            graph = damaged;
        }
        1 => {}
        _ => damage_graph(&mut graph, ops, &mut choices),
    }
    must_answer(&format!("seed {seed} ({})", case.name), move || run_damaged(graph, case, choices));
}

#[test]
fn damaged_graphs_and_feeds_get_an_answer() {
    prepare();
    let ops: Vec<&str> = catalogue().all().iter().map(|op| op.name).collect();
    if let Some(seed) = number("TENSORFLEET_HOSTILE_SEED") {
        return try_seed(seed, &ops);
    }
    seeds(DEFAULT_CASES).for_each(|seed| try_seed(seed, &ops));
}

fn try_random_node(seed: u64, ops: &[&'static str]) {
    let mut choices = Choices::new(seed ^ RANDOM_NODES);
    let op = ops[choices.below(ops.len())];
    let Some(made) = random_node(op, &mut choices) else { return };
    must_answer(&format!("random node of seed {seed} ({op})"), move || {
        let session = DirectSession::new(Task::local(), SessionOptions::default());
        if session.extend(made.graph).is_err() {
            return;
        }
        let feeds: Vec<(&str, Tensor)> =
            made.feeds.iter().map(|(name, value)| (&**name, value.clone())).collect();
        let options = RunOptions { timeout: Some(STEP_TIMEOUT) };
        let before: Vec<&str> = made.before.iter().map(String::as_str).collect();
        let _ = session.run(&feeds, &[], &before, &options);
        let fetches: &[&str] = if made.has_output { &["node:0"] } else { &[] };
        for _ in 0..2 {
            if let Err(status) = session.run(&feeds, fetches, &["node"], &options) {
                assert!(!status.text().contains("panicked"), "{status}");
            }
        }
        let _ = session.close();
    });
}

#[test]
fn random_nodes_of_every_op_get_an_answer() {
    prepare();
    let ops: Vec<&'static str> = catalogue().all().iter().map(|op| op.name).collect();
    if let Some(seed) = number("TENSORFLEET_HOSTILE_SEED") {
        return try_random_node(seed, &ops);
    }
    seeds(DEFAULT_RANDOM_NODES).for_each(|seed| try_random_node(seed, &ops));
}

#[test]
fn random_datasets_lists_and_functions_get_an_answer() {
    prepare();
    let takes = |name: &str| {
        let Some(Ok(signature)) = catalogue().find(name).map(|entry| entry.signature()) else { return false };
        let takes_variant = |arg: &Arg| match &arg.types {
            ArgTypes::Fixed(dtype) => *dtype == DType::Variant,
            ArgTypes::Repeated(_, each) => matches!(**each, ArgTypes::Fixed(DType::Variant)),
            ArgTypes::Attr(_) | ArgTypes::List(_) => false,
        };
        signature.inputs.iter().any(takes_variant)
            || signature.attrs.iter().any(|attr| attr.kind == AttrKind::Func)
            || name.starts_with("Iterator")
    };
    let ops: Vec<&'static str> =
        catalogue().all().iter().map(|op| op.name).filter(|name| takes(name)).collect();
    assert!(ops.len() > 60, "{ops:?}");
    if let Some(seed) = number("TENSORFLEET_HOSTILE_SEED") {
        return try_random_node(seed, &ops);
    }
    seeds(DEFAULT_RANDOM_CHAINS).for_each(|seed| try_random_node(seed, &ops));
}

#[test]
fn damaged_seed_graphs_are_imported_or_refused() {
    prepare();
    let mut choices = Choices::new(1);
    for (name, bytes) in packed::graphs().unwrap() {
        for _ in 0..20 {
            let damaged = damage_bytes(&bytes, &mut choices);
            must_answer(&name, move || {
                if let Ok(graph) = GraphDef::decode(&damaged[..]) {
                    let _ = Graph::from_graph_def(graph);
                }
            });
        }
    }
}

fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_bytes_are_a_graph_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        prepare();
        if let Ok(graph) = GraphDef::decode(&bytes[..]) {
            let session = DirectSession::new(Task::local(), SessionOptions::default());
            let _ = session.extend(graph);
        }
    }

    #[test]
    fn any_tensor_message_is_a_tensor_or_an_error(
        dtype in -1..130i32,
        dims in proptest::collection::vec(prop_oneof![-2..5i64, any::<i64>()], 0..5),
        content in proptest::collection::vec(any::<u8>(), 0..64),
        ints in proptest::collection::vec(any::<i32>(), 0..4),
        floats in proptest::collection::vec(any::<f32>(), 0..4),
        strings in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..5), 0..3),
    ) {
        prepare();
        let dim = dims.iter().map(|&size| tensorfleet_proto::tensorflow::tensor_shape_proto::Dim { size, ..Default::default() });
        let shape = tensorfleet_proto::tensorflow::TensorShapeProto { dim: dim.collect(), unknown_rank: false };
        let proto = TensorProto {
            dtype,
            tensor_shape: Some(shape),
            tensor_content: content.into(),
            int_val: ints,
            scomplex_val: floats.clone(),
            float_val: floats,
            string_val: strings.into_iter().map(Into::into).collect(),
            ..Default::default()
        };
        if let Ok(tensor) = Tensor::from_proto(&proto) {
            prop_assert!(tensor.byte_size() <= MEMORY_LIMIT_BYTES);
            prop_assert_eq!(Tensor::from_proto(&tensor.to_proto()).unwrap(), tensor);
        }
    }

    #[test]
    fn any_bytes_are_a_tensor_message_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prepare();
        if let Ok(proto) = TensorProto::decode(&bytes[..]) {
            let _ = Tensor::from_proto(&proto);
        }
    }

    #[test]
    fn any_text_is_a_device_name_or_an_error(text in "(/?(job|replica|task|device|cpu|gpu|CPU)?:?[a-z0-9*:/]{0,6}){0,5}") {
        if let Ok(name) = text.parse::<DeviceName>() {
            prop_assert_eq!(name.to_string().parse::<DeviceName>().unwrap(), name);
        }
    }

    #[test]
    fn any_characters_are_a_device_name_or_an_error(text in any::<String>()) {
        let _ = text.parse::<DeviceName>();
    }
}
