//! [`Timeline`]: the record of a run as a trace that `chrome://tracing` and Perfetto show.
//!
//! Each device is a process whose lanes show which node ran when; a lane never has two nodes at a time. Arrows lead from
//! the node that made a tensor to those that used it, where these are in other lanes or on other devices. A second
//! process of each device shows how long its tensors lived, and one for all devices how many bytes they took.
//!
//! The statistics come from servers, ours or TensorFlow's, whose clocks may differ and whose numbers are not to be
//! relied on: entries with times that cannot be are left out, sums are saturating, and unknown labels are shown as such.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value, json};
use tensorfleet_core::{DType, PartialShape, Result};
use tensorfleet_files::{AtomicFile, FileAccess};
use tensorfleet_proto::tensorflow::{NodeExecStats, NodeOutput, RunMetadata, StepStats};

/// The process of the memory counters; devices follow.
const ALLOCATORS: usize = 0;
/// What servers call a tensor on its way from another task.
const TRANSFER: &str = "RecvTensor";

/// A run's record, to be shown.
///
/// ```
/// use tensorfleet::{DType, Graph, Session, Timeline};
///
/// let g = Graph::new();
/// let x = g.placeholder(DType::Float, [2]);
/// let sum = x.reduce_sum(..)?;
/// let (_, metadata) = Session::new(&g).feed(&x, [1.0f32, 2.0]).run_traced(&sum)?;
/// let trace = Timeline::new(&metadata).chrome_trace();
/// assert!(trace.contains("\"op\":\"Sum\""));
/// # Ok::<(), tensorfleet::Status>(())
/// ```
pub struct Timeline {
    devices: Vec<Device>,
    show_dataflow: bool,
    show_memory: bool,
}

/// All entries of one device, by start.
struct Device {
    name: String,
    entries: Vec<Entry>,
}

/// Something that took time on a device.
struct Entry {
    /// The node.
    name: String,
    op: String,
    inputs: Vec<String>,
    /// The node on another task whose tensor it waits for: labels do not name it.
    receives: Option<String>,
    /// What a transfer carried, from where to where.
    transfer: Option<String>,
    start_micros: i64,
    end_micros: i64,
    lane: usize,
    outputs: Vec<NodeOutput>,
}

/// A tensor that an entry made.
struct Made {
    device: usize,
    lane: usize,
    start_micros: i64,
    end_micros: i64,
    last_use_micros: i64,
    /// `None` if the statistics do not describe it, as with the output of a variable.
    memory: Option<Memory>,
}

/// What statistics tell of a tensor.
struct Memory {
    allocator: String,
    bytes: i64,
    description: String,
}

impl Timeline {
    /// The record of a run with [`Step::run_traced`](crate::Step::run_traced). A run that was not traced gives an empty
    /// timeline.
    pub fn new(metadata: &RunMetadata) -> Timeline {
        match &metadata.step_stats {
            Some(stats) => Timeline::from_step_stats(stats),
            None => Timeline::from_step_stats(&StepStats::default()),
        }
    }

    /// A timeline of statistics from elsewhere. Several records of one device are shown as one: TensorFlow's servers
    /// list transfers apart from nodes.
    pub fn from_step_stats(stats: &StepStats) -> Timeline {
        let mut devices: Vec<Device> = Vec::new();
        for stats in &stats.dev_stats {
            let entries = stats.node_stats.iter().filter_map(|node| Entry::parse(node, &stats.device));
            match devices.iter_mut().find(|device| device.name == stats.device) {
                Some(device) => device.entries.extend(entries),
                None => devices.push(Device { name: stats.device.clone(), entries: entries.collect() }),
            }
        }
        devices.iter_mut().for_each(Device::assign_lanes);
        Timeline { devices, show_dataflow: true, show_memory: true }
    }

    /// Whether to draw arrows from producers to consumers; they are drawn unless told otherwise.
    pub fn show_dataflow(mut self, show: bool) -> Timeline {
        self.show_dataflow = show;
        self
    }

    /// Whether to show tensors and their memory; they are shown unless told otherwise.
    pub fn show_memory(mut self, show: bool) -> Timeline {
        self.show_memory = show;
        self
    }

    /// The trace in Chrome's JSON format.
    pub fn chrome_trace(&self) -> String {
        let mut events = vec![process("Allocators", ALLOCATORS)];
        for (index, device) in self.devices.iter().enumerate() {
            events.push(process(&format!("{} Compute", device.name), compute_process(index)));
            events.push(process(&format!("{} Tensors", device.name), tensor_process(index)));
        }
        let mut tensors = self.tensors();
        let mut flows = 0usize;
        for (index, device) in self.devices.iter().enumerate() {
            for entry in &device.entries {
                events.push(entry.to_event(compute_process(index)));
                for input in entry.inputs.iter().chain(&entry.receives) {
                    let Some((name, made)) = find_made(&mut tensors, input, entry.start_micros) else {
                        continue;
                    };
                    made.last_use_micros = made.last_use_micros.max(entry.end_micros);
                    if self.show_dataflow && (made.device, made.lane) != (index, entry.lane) {
                        events.extend(arrow(flows, name, made, index, entry));
                        flows += 1;
                    }
                }
            }
        }
        if self.show_memory {
            events.extend(lifetimes(&tensors));
            events.extend(counters(&tensors));
        }
        json!({ "traceEvents": events }).to_string()
    }

    /// Writes the trace to a file, in place of what was there.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<()> {
        let mut file = AtomicFile::create(&FileAccess::EVERYWHERE, path.as_ref())?;
        file.write(self.chrome_trace().as_bytes())?;
        file.commit()
    }

    /// What was made, by the name that labels use for it. A node in a loop makes its outputs several times.
    fn tensors(&self) -> BTreeMap<String, Vec<Made>> {
        let mut tensors: BTreeMap<String, Vec<Made>> = BTreeMap::new();
        for (index, device) in self.devices.iter().enumerate() {
            for entry in device.entries.iter().filter(|entry| entry.transfer.is_none()) {
                // Labels may name a first output of which there is no description.
                if entry.outputs.iter().all(|output| output.slot != 0) {
                    let made = Made::new(None, index, entry);
                    tensors.entry(entry.name.clone()).or_default().push(made);
                }
                for output in &entry.outputs {
                    let name = match output.slot {
                        0 => entry.name.clone(),
                        slot => format!("{}:{slot}", entry.name),
                    };
                    let made = Made::new(Some(Memory::of(output)), index, entry);
                    tensors.entry(name).or_default().push(made);
                }
            }
        }
        tensors
    }
}

/// The process that shows what device number `index` computes.
fn compute_process(index: usize) -> usize {
    2 * index + 1
}

/// The process that shows the tensors of device number `index`.
fn tensor_process(index: usize) -> usize {
    2 * index + 2
}

impl Device {
    /// Gives every entry the first lane that is free when it starts.
    fn assign_lanes(&mut self) {
        self.entries.sort_by_key(|entry| (entry.start_micros, entry.end_micros));
        let mut busy_until: Vec<i64> = Vec::new();
        for entry in &mut self.entries {
            let free = busy_until.iter().position(|&until| until <= entry.start_micros);
            entry.lane = free.unwrap_or(busy_until.len());
            match busy_until.get_mut(entry.lane) {
                Some(until) => *until = entry.end_micros,
                None => busy_until.push(entry.end_micros),
            }
        }
    }
}

impl Entry {
    /// The entry, or `None` if its times cannot be.
    fn parse(stats: &NodeExecStats, device: &str) -> Option<Entry> {
        let start_micros = stats.all_start_micros;
        if start_micros < 0 || stats.all_end_rel_micros < 0 {
            return None;
        }
        let label = &stats.timeline_label;
        let (mut name, mut transfer) = (stats.node_name.clone(), None);
        let (op, inputs) = if is_gpu_trace(device) {
            let (kernel_name, op) = parse_kernel_label(label, &stats.node_name);
            name = kernel_name;
            (op, Vec::new())
        } else if stats.node_name == TRANSFER {
            transfer = Some(label.clone());
            (TRANSFER.to_string(), Vec::new())
        } else {
            parse_label(label)
        };
        let is_receive = matches!(&*op, "_Recv" | "_HostRecv");
        let receives = producer_of(&name).filter(|_| is_receive).map(str::to_string);
        Some(Entry {
            name,
            op,
            inputs,
            receives,
            transfer,
            start_micros,
            end_micros: start_micros.saturating_add(stats.all_end_rel_micros),
            lane: 0,
            outputs: stats.output.clone(),
        })
    }

    fn to_event(&self, process: usize) -> Value {
        let mut args = Map::new();
        args.insert("name".to_string(), self.name.as_str().into());
        args.insert("op".to_string(), self.op.as_str().into());
        for (index, input) in self.inputs.iter().enumerate() {
            args.insert(format!("input{index}"), input.as_str().into());
        }
        if let Some(transfer) = &self.transfer {
            args.insert("transfer".to_string(), transfer.as_str().into());
        }
        json!({
            "ph": "X", "cat": "Op", "name": self.op, "pid": process, "tid": self.lane,
            "ts": self.start_micros, "dur": self.end_micros - self.start_micros, "args": args,
        })
    }
}

/// Op and inputs of a label `name = Op(input, input)`.
fn parse_label(label: &str) -> (String, Vec<String>) {
    let parse = || {
        let (_, call) = label.rsplit_once(" = ")?;
        let (op, inputs) = call.split_once('(')?;
        let (inputs, _) = inputs.rsplit_once(')')?;
        let inputs = inputs.split(", ").filter(|input| !input.is_empty()).map(str::to_string);
        Some((op.to_string(), inputs.collect()))
    };
    parse().unwrap_or_else(|| ("unknown".to_string(), Vec::new()))
}

/// Whether TensorFlow's GPU tracer made the entries of a device: their labels are those of kernels.
fn is_gpu_trace(device: &str) -> bool {
    device.contains("/stream:") || device.contains("/memcpy")
}

/// Name and op of a kernel, whose label may hold `@@NAME:OP#`.
fn parse_kernel_label(label: &str, node_name: &str) -> (String, String) {
    let inside = label.split_once("@@").and_then(|(_, rest)| rest.split_once('#')).map(|(inside, _)| inside);
    let node_name = inside.filter(|inside| !inside.is_empty()).unwrap_or(node_name);
    match node_name.split_once(':') {
        Some((name, op)) => (name.to_string(), op.split(':').next().unwrap_or(op).to_string()),
        None => (node_name.to_string(), "unknown".to_string()),
    }
}

impl Made {
    fn new(memory: Option<Memory>, device: usize, entry: &Entry) -> Made {
        Made {
            device,
            lane: entry.lane,
            start_micros: entry.start_micros,
            end_micros: entry.end_micros,
            last_use_micros: entry.end_micros,
            memory,
        }
    }
}

impl Memory {
    fn of(output: &NodeOutput) -> Memory {
        let tensor = output.tensor_description.clone().unwrap_or_default();
        let dtype = DType::from_number(tensor.dtype).map_or("unknown".to_string(), |dtype| dtype.to_string());
        let shape = tensor.shape.as_ref().and_then(|shape| PartialShape::from_proto(shape).ok());
        let allocation = tensor.allocation_description.unwrap_or_default();
        let bytes = allocation.requested_bytes.max(0);
        let description = format!("{dtype} {}, {bytes} bytes", shape.unwrap_or_default());
        Memory { allocator: allocation.allocator_name, bytes, description }
    }
}

/// What a label's input refers to: of several made under one name, the last before the use.
fn find_made<'a>(
    tensors: &'a mut BTreeMap<String, Vec<Made>>,
    input: &'a str,
    used_micros: i64,
) -> Option<(&'a str, &'a mut Made)> {
    let name = names_of_input(input).find(|name| tensors.contains_key(*name))?;
    let all = tensors.get_mut(name)?;
    // Clocks of tasks differ, so that a tensor may seem to be used before it was made.
    let last = all.iter().rposition(|made| made.end_micros <= used_micros).unwrap_or(0);
    Some((name, all.get_mut(last)?))
}

/// The input's own name and, where servers do not list the nodes that receive, that of its producer.
fn names_of_input(input: &str) -> impl Iterator<Item = &str> {
    std::iter::once(input).chain(producer_of(input))
}

/// The producer if `name` is that of a node that receives from another task: `x/_3` or, in newer versions of TensorFlow
/// and here, `x_S3`.
fn producer_of(name: &str) -> Option<&str> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    ["/_", "_S"].into_iter().find_map(|mark| {
        name.rsplit_once(mark).filter(|(_, number)| is_number(number)).map(|(producer, _)| producer)
    })
}

fn process(name: &str, process: usize) -> Value {
    json!({ "ph": "M", "name": "process_name", "pid": process, "args": { "name": name } })
}

/// An arrow from the end of the producer to the consumer: to its start, or later if it waited for the tensor.
fn arrow(id: usize, tensor: &str, made: &Made, device: usize, consumer: &Entry) -> [Value; 2] {
    let (from, to) = (compute_process(made.device), compute_process(device));
    let arrives_micros = made.end_micros.max(consumer.start_micros).min(consumer.end_micros);
    [
        json!({
            "ph": "s", "cat": "DataFlow", "name": tensor, "id": id,
            "pid": from, "tid": made.lane, "ts": made.end_micros,
        }),
        json!({
            "ph": "t", "cat": "DataFlow", "name": tensor, "id": id,
            "pid": to, "tid": consumer.lane, "ts": arrives_micros,
        }),
    ]
}

/// Each tensor as an object that is created, described and deleted.
fn lifetimes(tensors: &BTreeMap<String, Vec<Made>>) -> Vec<Value> {
    let all = tensors.iter().flat_map(|(name, all)| all.iter().map(move |made| (name, made)));
    let mut events = Vec::new();
    for (id, (name, made)) in all.enumerate() {
        let Some(memory) = &made.memory else { continue };
        let event = |phase: &str, micros: i64| {
            json!({
                "ph": phase, "cat": "Tensor", "name": name, "id": id,
                "pid": tensor_process(made.device), "tid": made.lane, "ts": micros,
            })
        };
        let mut snapshot = event("O", made.end_micros);
        if let Some(snapshot) = snapshot.as_object_mut() {
            let description = json!({ "snapshot": { "tensor_description": memory.description } });
            snapshot.insert("args".to_string(), description);
        }
        events.extend([event("N", made.start_micros), snapshot, event("D", made.last_use_micros)]);
    }
    events
}

/// The bytes that each allocator had given out, from the start of the node that made a tensor to its last use.
fn counters(tensors: &BTreeMap<String, Vec<Made>>) -> Vec<Value> {
    let mut changes: BTreeMap<&str, Vec<(i64, i64)>> = BTreeMap::new();
    for made in tensors.values().flatten() {
        let Some(memory) = made.memory.as_ref().filter(|memory| !memory.allocator.is_empty()) else {
            continue;
        };
        let changes = changes.entry(&memory.allocator).or_default();
        changes.extend([(made.start_micros, memory.bytes), (made.last_use_micros, -memory.bytes)]);
    }
    let mut events = Vec::new();
    for (allocator, mut changes) in changes {
        // What comes before what goes, so that the sum never falls below zero.
        changes.sort_by_key(|&(micros, change)| (micros, std::cmp::Reverse(change)));
        let mut bytes = 0i128;
        for (micros, change) in changes {
            bytes += i128::from(change);
            let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
            events.push(json!({
                "ph": "C", "cat": "Memory", "name": allocator, "pid": ALLOCATORS, "tid": 0, "ts": micros,
                "args": { allocator: bytes },
            }));
        }
    }
    events
}
