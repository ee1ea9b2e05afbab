//! What a graph consists of, in numbers: ops, devices, variables, and what travels between devices.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Value, json};

use super::model::Model;
use super::volume::Volume;
use crate::table::{Column, Table, wrapped};
use crate::terminal::{Color, Terminal};
use crate::units;

pub(super) struct Summary<'a> {
    model: &'a Model,
    /// How many rows a table has at most.
    top: usize,
    ops: Vec<(&'a str, usize)>,
    devices: Vec<DeviceSummary>,
    crossings: Vec<Crossing<'a>>,
    constants: (usize, u64),
    /// Indices of variables, the largest first.
    variables: Vec<usize>,
}

#[derive(Default)]
struct DeviceSummary {
    nodes: usize,
    variables: usize,
    variable_volume: Volume,
}

/// What goes from one device to another. A tensor that several nodes there want goes once.
struct Crossing<'a> {
    from: &'a str,
    to: &'a str,
    tensors: usize,
    signals: usize,
    volume: Volume,
}

impl Summary<'_> {
    pub(super) fn of(model: &Model, top: usize) -> Summary<'_> {
        let mut ops: BTreeMap<&str, usize> = BTreeMap::new();
        let mut devices: Vec<DeviceSummary> =
            model.devices.iter().map(|_| DeviceSummary::default()).collect();
        let mut constants = (0, 0);
        let mut variables = Vec::new();
        for (index, node) in model.nodes.iter().enumerate() {
            *ops.entry(&node.op).or_default() += 1;
            let device = &mut devices[node.device];
            device.nodes += 1;
            if let Some(volume) = node.variable {
                device.variables += 1;
                device.variable_volume += volume;
                variables.push(index);
            }
            if let Some(bytes) = node.constant_bytes {
                constants = (constants.0 + 1, constants.1 + bytes);
            }
        }
        let mut ops: Vec<(&str, usize)> = ops.into_iter().collect();
        ops.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        let weight = |&index: &usize| model.nodes[index].variable.map_or(0, |volume| volume.weight());
        variables
            .sort_by(|a, b| weight(b).cmp(&weight(a)).then(model.nodes[*a].name.cmp(&model.nodes[*b].name)));
        Summary { model, top, ops, devices, crossings: crossings(model), constants, variables }
    }

    fn variable_volume(&self) -> Volume {
        let mut total = Volume::default();
        self.devices.iter().for_each(|device| total += device.variable_volume);
        total
    }

    pub(super) fn text(&self, terminal: &Terminal) -> String {
        let model = self.model;
        let mut text = format!(
            "{}, {}, {}, {}, {}\n",
            units::counted(model.nodes.len(), "node"),
            units::counted(model.edges.len(), "edge"),
            units::counted(model.control_edges.len(), "control edge"),
            units::counted(model.functions, "function"),
            units::counted(self.ops.len(), "op"),
        );
        text.push_str(&format!(
            "{} of {}, {} with {} in the file\n",
            units::counted(self.variables.len(), "variable"),
            self.variable_volume().text(),
            units::counted(self.constants.0, "constant"),
            units::bytes(self.constants.1)
        ));
        text = text.lines().map(|line| wrapped(line, terminal.width(), "  ")).collect();
        if model.dangling > 0 {
            let note = format!("{} name no node of this graph", units::counted(model.dangling, "input"));
            text.push_str(&terminal.paint(Color::Bad, &note));
            text.push('\n');
        }
        for table in [self.device_table(terminal), self.crossing_table(terminal)] {
            text.push('\n');
            text.push_str(&table);
        }
        text.push('\n');
        text.push_str(&self.op_table(terminal));
        if !self.variables.is_empty() {
            text.push('\n');
            text.push_str(&self.variable_table(terminal));
        }
        if let Some(note) = &model.shapes_note {
            let note = format!("Most sizes of edges are unknown, because shapes cannot be inferred: {note}");
            text.push('\n');
            text.push_str(&wrapped(&note, terminal.width(), ""));
        }
        text
    }

    fn device_table(&self, terminal: &Terminal) -> String {
        let mut table = Table::new([
            Column::text("DEVICE").cut(),
            Column::number("NODES"),
            Column::number("VARIABLES").spare(0),
            Column::number("BYTES OF VARIABLES").spare(1),
        ]);
        for (name, device) in self.model.devices.iter().zip(&self.devices) {
            table.row([
                name.clone(),
                units::count(device.nodes as u64),
                units::count(device.variables as u64),
                device.variable_volume.text(),
            ]);
        }
        table.render(terminal)
    }

    fn crossing_table(&self, terminal: &Terminal) -> String {
        if self.crossings.is_empty() {
            return "No edge leads from one device to another.\n".to_string();
        }
        let mut table = Table::new([
            Column::text("FROM").cut(),
            Column::text("TO").cut(),
            Column::number("TENSORS"),
            Column::number("SIGNALS").spare(0),
            Column::number("BYTES"),
        ]);
        let mut total = Volume::default();
        for crossing in &self.crossings {
            total += crossing.volume;
        }
        for crossing in self.crossings.iter().take(self.top) {
            table.row([
                crossing.from.to_string(),
                crossing.to.to_string(),
                units::count(crossing.tensors as u64),
                units::count(crossing.signals as u64),
                crossing.volume.text(),
            ]);
        }
        let more = more(self.crossings.len(), self.top, "pair");
        let mut text = table.render(terminal) + &more;
        let unit = match total.per_unit {
            0 => "",
            _ => "; sizes per unit are for unknown dimensions of 1, or give --batch N",
        };
        let note = format!("{} if every node ran once{unit}", total.text());
        text.push_str(&wrapped(&note, terminal.width(), ""));
        text
    }

    fn op_table(&self, terminal: &Terminal) -> String {
        let mut table = Table::new([Column::text("OP").cut(), Column::number("NODES")]);
        for (op, count) in self.ops.iter().take(self.top) {
            table.row([op.to_string(), units::count(*count as u64)]);
        }
        table.render(terminal) + &more(self.ops.len(), self.top, "op")
    }

    fn variable_table(&self, terminal: &Terminal) -> String {
        let mut table = Table::new([
            Column::text("VARIABLE").cut(),
            Column::text("TYPE").spare(1),
            Column::text("DEVICE").cut().spare(0),
            Column::number("BYTES"),
        ]);
        for &index in self.variables.iter().take(self.top) {
            let node = &self.model.nodes[index];
            let volume = node.variable.unwrap_or_default();
            let device = self.model.devices[node.device].clone();
            table.row([node.name.clone(), node.variable_type.clone(), device, volume.text()]);
        }
        table.render(terminal) + &more(self.variables.len(), self.top, "variable")
    }

    pub(super) fn document(&self) -> Value {
        let model = self.model;
        let devices: Vec<Value> = model
            .devices
            .iter()
            .zip(&self.devices)
            .map(|(name, device)| {
                json!({
                    "device": name, "nodes": device.nodes, "variables": device.variables,
                    "variable_bytes": device.variable_volume.document(),
                })
            })
            .collect();
        let crossings: Vec<Value> = self
            .crossings
            .iter()
            .map(|crossing| {
                let mut entry = crossing.volume.document();
                entry["from"] = json!(crossing.from);
                entry["to"] = json!(crossing.to);
                entry["tensors"] = json!(crossing.tensors);
                entry["signals"] = json!(crossing.signals);
                entry
            })
            .collect();
        let variables: Vec<Value> = self
            .variables
            .iter()
            .map(|&index| {
                let node = &model.nodes[index];
                let mut entry = node.variable.unwrap_or_default().document();
                entry["name"] = json!(node.name);
                entry["type"] = json!(node.variable_type);
                entry["device"] = json!(model.devices[node.device]);
                entry
            })
            .collect();
        json!({
            "nodes": model.nodes.len(), "edges": model.edges.len(), "control_edges": model.control_edges.len(),
            "functions": model.functions, "inputs_without_node": model.dangling,
            "constants": { "count": self.constants.0, "bytes": self.constants.1 },
            "ops": self.ops.iter().map(|(op, count)| json!({ "op": op, "nodes": count })).collect::<Vec<_>>(),
            "devices": devices, "across_devices": crossings, "variables": variables,
            "shapes_unknown_because": model.shapes_note,
        })
    }
}

/// The line below a table that was cut.
fn more(len: usize, top: usize, noun: &str) -> String {
    match len.saturating_sub(top) {
        0 => String::new(),
        more => format!("… and {} more; --top {len} shows all\n", units::counted(more, noun)),
    }
}

/// What goes between each two devices, most bytes first.
fn crossings(model: &Model) -> Vec<Crossing<'_>> {
    let mut seen = HashSet::new();
    let mut between: BTreeMap<(usize, usize), (usize, usize, Volume)> = BTreeMap::new();
    let device = |node: usize| model.nodes[node].device;
    for edge in &model.edges {
        let (from, to) = (device(edge.from), device(edge.to));
        if from != to && seen.insert((edge.from, edge.slot, to)) {
            let (tensors, _, volume) = between.entry((from, to)).or_default();
            *tensors += 1;
            *volume += edge.volume;
        }
    }
    let mut signalled = HashSet::new();
    for &(from_node, to_node) in &model.control_edges {
        let (from, to) = (device(from_node), device(to_node));
        if from != to && signalled.insert((from_node, to)) {
            between.entry((from, to)).or_default().1 += 1;
        }
    }
    let mut crossings: Vec<Crossing> = between
        .into_iter()
        .map(|((from, to), (tensors, signals, volume))| Crossing {
            from: &model.devices[from],
            to: &model.devices[to],
            tensors,
            signals,
            volume,
        })
        .collect();
    crossings.sort_by_key(|crossing| std::cmp::Reverse(crossing.volume.weight()));
    crossings
}
