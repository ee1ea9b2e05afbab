//! Graphs in text form, for the tests of planning.
//!
//! One node a line: `name = Op<dtype>(inputs) @ device | attr=value attr=value`, where all but name and op may be
//! missing. The dtype (float32 if not given) is the value of the attributes `T` and `dtype`; a `Const` has
//! `value=NUMBER`; other values are integers, `true`, `false` or text, with commas between the items of a list.

use tensorfleet_core::attr::IntoAttr;
use tensorfleet_core::{DType, Graph, GraphLimits, Tensor};
use tensorfleet_proto::tensorflow::{AttrValue, GraphDef, NodeDef};

use super::device::{Device, DeviceIndex};
use crate::checked_graph::CheckedGraph;

/// The graph that `text` describes.
pub(crate) fn graph(text: &str) -> CheckedGraph {
    let mut checked = CheckedGraph::new(crate::catalogue::linked());
    extend(&mut checked, text);
    checked
}

/// Adds the nodes that `text` describes.
pub(crate) fn extend(checked: &mut CheckedGraph, text: &str) {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let def = GraphDef { node: lines.map(node).collect(), ..Default::default() };
    checked.extend(def, &GraphLimits::default()).unwrap();
}

/// Devices by their short names: `ps:0` is the CPU of task 0 of job ps. Incarnations count from 1.
pub(crate) fn devices(names: &[&str]) -> Vec<Device> {
    let device = |(index, name): (usize, &&str)| {
        let (job, task) = name.split_once(':').unwrap();
        let name = tensorfleet_core::DeviceName::full(job, task.parse().unwrap(), "CPU", 0);
        Device::new(name, index as u64 + 1)
    };
    names.iter().enumerate().map(device).collect()
}

/// The short name of a CPU: `ps:0`.
pub(crate) fn short(devices: &[Device], index: DeviceIndex) -> String {
    let name = &devices[index.index()].name;
    format!("{}:{}", name.job.as_ref().unwrap(), name.task.unwrap())
}

/// A graph as text, in the form the tests are written in, without attributes.
pub(crate) fn show(graph: &Graph) -> Vec<String> {
    let show = |index| {
        let def = graph.node_def(tensorfleet_core::NodeId::from_index(index));
        format!("{} = {}({})", def.name, def.op, def.input.join(", "))
    };
    (0..graph.len()).map(show).collect()
}

fn node(line: &str) -> NodeDef {
    let (line, attrs) = line.split_once('|').unwrap_or((line, ""));
    let (line, device) = line.split_once('@').unwrap_or((line, ""));
    let (name, call) = line.split_once('=').unwrap();
    let (op, inputs) = call.trim().trim_end_matches(')').split_once('(').unwrap_or((call.trim(), ""));
    let (op, dtype) = op.trim_end_matches('>').split_once('<').unwrap_or((op, "float"));
    let dtype = DType::from_name(dtype).unwrap();
    let mut def = NodeDef {
        name: name.trim().to_string(),
        op: op.to_string(),
        input: inputs
            .split(',')
            .map(str::trim)
            .filter(|input| !input.is_empty())
            .map(str::to_string)
            .collect(),
        device: device.trim().to_string(),
        ..Default::default()
    };
    for name in ["T", "dtype"] {
        def.attr.insert(name.to_string(), dtype.into_attr());
    }
    if op.ends_with("Merge") {
        def.attr.insert("N".to_string(), (def.input.len() as i64).into_attr());
    }
    if op.starts_with("Variable") || op == "VarHandleOp" {
        def.attr.insert("shape".to_string(), tensorfleet_core::PartialShape::scalar().into_attr());
    }
    for attr in attrs.split_whitespace() {
        let (key, value) = attr.split_once('=').unwrap();
        let value = if key == "value" { number(value, dtype).into_attr() } else { attr_value(value) };
        def.attr.insert(key.to_string(), value);
    }
    def
}

fn number(text: &str, dtype: DType) -> Tensor {
    match dtype {
        DType::Int32 => Tensor::scalar(text.parse::<i32>().unwrap()),
        DType::Bool => Tensor::scalar(text.parse::<bool>().unwrap()),
        _ => Tensor::scalar(text.parse::<f32>().unwrap()),
    }
}

fn attr_value(text: &str) -> AttrValue {
    if let Ok(number) = text.parse::<i64>() {
        return number.into_attr();
    }
    match text {
        "true" => true.into_attr(),
        "false" => false.into_attr(),
        _ if text.contains("loc:@") => text.split(',').map(str::to_string).collect::<Vec<_>>().into_attr(),
        _ => text.into_attr(),
    }
}
