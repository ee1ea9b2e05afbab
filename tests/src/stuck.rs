//! Steps that get stuck on purpose, sessions to run them in, and waits that end.
//!
//! The graph has a queue on one task and a result on another. A step that fetches the result waits for the queue, which
//! stays empty until somebody runs `put`; meanwhile things can be broken. All sessions share the queue.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use std::sync::Arc;
use tensorfleet_cluster::{ConnectOptions, RemoteRunOptions, RemoteSession};
use tensorfleet_core::{DType, Result, Status, Tensor};
use tensorfleet_proto::tensorflow::attr_value::Value;
use tensorfleet_proto::tensorflow::{AttrValue, ConfigProto, GraphDef, TensorShapeProto};

use crate::graph_builder::GraphBuilder;

const POLL: Duration = Duration::from_millis(10);

/// Waits until `condition` gives a value, for at most `limit`; then panics with what it waited for and the last obstacle.
#[track_caller]
pub fn eventually<T>(what: &str, limit: Duration, mut condition: impl FnMut() -> Result<T, String>) -> T {
    let deadline = Instant::now() + limit;
    loop {
        match condition() {
            Ok(value) => return value,
            Err(obstacle) if Instant::now() > deadline => panic!("{what}: not after {limit:?}: {obstacle}"),
            Err(_) => std::thread::sleep(POLL),
        }
    }
}

/// A graph whose `result` (on `reader`) waits for `taken` from `queue` (on `holder`), with a variable `v` on `holder`.
///
/// Targets: `init`, `put`; fetches: `result:0`, `read:0`, `here:0` (a constant on `reader`).
pub fn graph(holder: &str, reader: &str) -> GraphDef {
    let scalar = || AttrValue { value: Some(Value::Shape(TensorShapeProto::default())) };
    let floats = || vec![DType::Float];
    GraphBuilder::new()
        .node(
            "queue",
            "FIFOQueueV2",
            &[],
            &[("component_types", floats().into()), ("shared_name", "tokens".into())],
        )
        .on(holder)
        .node("taken", "QueueDequeueV2", &["queue"], &[("component_types", floats().into())])
        .on(holder)
        .typed("result", "Identity", &["taken"], DType::Float)
        .on(reader)
        .constant("seven", 7.0f32)
        .on(holder)
        .node("put", "QueueEnqueueV2", &["queue", "seven"], &[("Tcomponents", floats().into())])
        .on(holder)
        .node("v", "VariableV2", &[], &[("dtype", DType::Float.into()), ("shape", scalar().into())])
        .on(holder)
        .typed("init", "Assign", &["v", "seven"], DType::Float)
        .on(holder)
        .typed("read", "Identity", &["v"], DType::Float)
        .on(reader)
        .constant("here", 1.0f32)
        .on(reader)
        .build()
}

/// A session that must come about within `limit`.
pub fn connect(target: &str, graph: GraphDef, limit: Duration) -> Result<Arc<RemoteSession>> {
    let options = ConnectOptions { config: ConfigProto::default(), timeout: limit, client: None };
    RemoteSession::create(target, graph, options).map(Arc::new)
}

/// Runs one fetch.
pub fn fetch(session: &RemoteSession, name: &str) -> Result<Tensor> {
    let (mut values, _) = session.run(&[], &[name], &[], &RemoteRunOptions::default())?;
    values.pop().ok_or_else(|| Status::internal("nothing was fetched"))
}

/// Runs one target.
pub fn run(session: &RemoteSession, name: &str) -> Result<()> {
    session.run(&[], &[], &[name], &RemoteRunOptions::default()).map(|_| ())
}

/// A step in a thread of its own.
pub struct Background(JoinHandle<(Result<Tensor>, Instant)>);

/// Starts a step that fetches `name`.
pub fn fetch_in_background(session: &Arc<RemoteSession>, name: &'static str) -> Background {
    let session = session.clone();
    Background(std::thread::spawn(move || {
        let result = fetch(&session, name);
        (result, Instant::now())
    }))
}

impl Background {
    /// Waits for the end of the step, at most `limit`; gives its outcome and when it came.
    #[track_caller]
    pub fn outcome(self, limit: Duration) -> (Result<Tensor>, Instant) {
        eventually("the end of the step", limit, || match self.0.is_finished() {
            true => Ok(()),
            false => Err("it still runs".to_string()),
        });
        self.0.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}
