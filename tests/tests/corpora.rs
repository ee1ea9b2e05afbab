//! Everything that the fuzzers have found so far, once more: the inputs that reach something new, those that once failed, and
//! the ones that fuzzing begins with. Each gets an answer, in time.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use bytes::Bytes;
use tensorfleet_tests::fuzzing::{TARGETS, Target, corpora, seeds};

/// Whatever the input, it is answered within this time, on a machine that is busy with all the other tests.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// Runs a target on all its inputs, in one thread after another; a failure names the input.
fn run_all(name: &str) {
    let target: &'static Target = TARGETS.iter().find(|target| target.name == name).expect("a target");
    let kept = corpora::inputs(name).expect("the corpus");
    let crashes = corpora::crashes(name).expect("the inputs that failed");
    let seeds = seeds::seeds(name).expect("the seeds").into_iter().enumerate();
    let seeds = seeds.map(|(at, seed)| (format!("seed {at}"), Bytes::from(seed)));
    let inputs: Vec<(String, Bytes)> = seeds.chain(crashes).chain(kept).collect();
    let names: Vec<String> = inputs.iter().map(|(input, _)| input.clone()).collect();
    let (begin, begun) = channel();
    let worker = std::thread::spawn(move || {
        for (at, (_, input)) in inputs.iter().enumerate() {
            let _ = begin.send(at);
            (target.run)(input);
        }
    });
    let mut current = 0;
    loop {
        match begun.recv_timeout(ANSWER_LIMIT) {
            Ok(at) => current = at,
            Err(RecvTimeoutError::Timeout) => {
                panic!("{name}: no answer to {} within {ANSWER_LIMIT:?}", names[current])
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    assert!(worker.join().is_ok(), "{name}: {} failed", names.get(current).map_or("nothing", String::as_str));
}

macro_rules! targets {
    ($($name:ident),*) => {
        $(#[test] fn $name() { run_all(stringify!($name)); })*

        #[test]
        fn every_target_is_run() {
            let here = [$(stringify!($name)),*];
            let there: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(here[..], there[..]);
            for name in there {
                let program = corpora::directory().join("fuzz_targets").join(format!("{name}.rs"));
                assert!(program.is_file(), "{} is missing", program.display());
            }
        }
    };
}

targets!(
    device_name,
    rendezvous_key,
    slice_spec,
    cluster_spec,
    tensor_proto,
    recv_tensor,
    record,
    table,
    checkpoint,
    old_checkpoint,
    checkpoint_state,
    meta_graph,
    image,
    example,
    text,
    graph_def,
    graph,
    master_service,
    worker_service,
    http
);
