//! [`Trace`]: when each node of a step ran and what it made, for steps that are asked to tell.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tensorfleet_core::clock::{self, Stopwatch};
use tensorfleet_kernel::kernel::Value;
use tensorfleet_proto::tensorflow::{
    AllocationDescription, DeviceStepStats, NodeExecStats, NodeOutput, TensorDescription,
};

use super::executable::{CONTROL, Executable};
use super::iteration::Values;

/// The record of one step on one device.
pub struct Trace {
    began: Stopwatch,
    began_since_epoch: Duration,
    events: Mutex<Vec<Event>>,
}

/// A node that ran.
struct Event {
    node: u32,
    started: Duration,
    ended: Duration,
    thread: u32,
    outputs: Vec<NodeOutput>,
}

impl Trace {
    /// A record that begins now.
    pub fn begin() -> Arc<Trace> {
        Arc::new(Trace {
            began: Stopwatch::start(),
            began_since_epoch: clock::since_epoch(),
            events: Mutex::default(),
        })
    }

    /// The time since the record began.
    pub(super) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    pub(super) fn add(&self, node: u32, started: Duration, outputs: &Values) {
        let outputs = outputs.iter().enumerate().filter_map(|(slot, value)| match value {
            Some(Value::Tensor(tensor)) => Some(NodeOutput {
                slot: slot as i32,
                tensor_description: Some(TensorDescription {
                    dtype: tensor.dtype().number(),
                    shape: Some(tensor.shape().to_proto()),
                    allocation_description: Some(AllocationDescription {
                        requested_bytes: tensor.byte_size() as i64,
                        allocator_name: "cpu".to_string(),
                        ..Default::default()
                    }),
                }),
            }),
            _ => None,
        });
        let event =
            Event { node, started, ended: self.now(), thread: thread_number(), outputs: outputs.collect() };
        self.events.lock().push(event);
    }

    /// The record in TensorFlow's form.
    pub fn to_device_stats(&self, executable: &Executable, device: &str) -> DeviceStepStats {
        let labels = labels(executable);
        let events = std::mem::take(&mut *self.events.lock());
        let stats = events.into_iter().map(|event| {
            let start = self.began_since_epoch + event.started;
            let length = event.ended.saturating_sub(event.started);
            NodeExecStats {
                node_name: executable.nodes[event.node as usize].name.to_string(),
                timeline_label: labels[event.node as usize].clone(),
                all_start_micros: micros(start),
                op_end_rel_micros: micros(length),
                all_end_rel_micros: micros(length),
                scheduled_micros: micros(start),
                thread_id: event.thread,
                all_start_nanos: start.as_nanos() as i64,
                op_end_rel_nanos: length.as_nanos() as i64,
                all_end_rel_nanos: length.as_nanos() as i64,
                scheduled_nanos: start.as_nanos() as i64,
                output: event.outputs,
                ..Default::default()
            }
        });
        DeviceStepStats { device: device.to_string(), node_stats: stats.collect(), ..Default::default() }
    }
}

fn micros(duration: Duration) -> i64 {
    duration.as_micros() as i64
}

/// `name = Op(input, input)` for every node, as timelines show it.
fn labels(executable: &Executable) -> Vec<String> {
    let mut inputs: Vec<Vec<&str>> = vec![Vec::new(); executable.nodes.len()];
    for node in &executable.nodes {
        for edge in &executable.edges[node.out.start as usize..node.out.end as usize] {
            if edge.output != CONTROL {
                inputs[edge.consumer as usize].push(&node.name);
            }
        }
    }
    let nodes = executable.nodes.iter().zip(inputs);
    nodes.map(|(node, inputs)| format!("{} = {}({})", node.name, node.op, inputs.join(", "))).collect()
}

/// A small number for the current thread. It is the thread's own by nature, and nothing is decided by it: it only tells
/// threads apart in a timeline.
fn thread_number() -> u32 {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(1);
    thread_local! {
        static NUMBER: u32 = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.with(|number| *number)
}
