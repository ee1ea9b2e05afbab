//! [`Drawing`]: a graph small enough to look at. Nodes of one name scope on one device become a box, and so do nodes that
//! differ only in the number at the end of their name; what is still too much is gathered in one box per device.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::model::Model;
use super::volume::Volume;
use crate::units;

/// More boxes than this are not legible on a screen.
pub(super) const MAX_BOXES: usize = 120;
/// Ops named in a box's description.
const TOLD_OPS: usize = 6;
/// The longest name that is kept; hostile graphs have names of megabytes.
const MAX_NAME: usize = 200;

/// Scopes that TensorFlow's training adds around a model: they touch every variable, and hide what one wants to see.
const HOUSEKEEPING: [&str; 9] = [
    "save",
    "init",
    "init_all_tables",
    "init_local",
    "group_deps",
    "report_uninitialized_variables",
    "report_uninitialized_resources",
    "restore_all",
    "concat_uninitialized",
];

/// Boxes and what leads from one to another.
pub(super) struct Drawing {
    pub(super) boxes: Vec<Box>,
    pub(super) links: Vec<Link>,
    /// The names of devices; boxes have an index into this.
    pub(super) devices: Vec<String>,
    /// A sentence about what is not drawn one by one.
    pub(super) note: Option<String>,
}

/// Some nodes of one device.
pub(super) struct Box {
    pub(super) label: String,
    /// Name scopes around it, outermost first.
    pub(super) scopes: Vec<String>,
    pub(super) device: usize,
    pub(super) nodes: usize,
    /// The op if there is only one.
    pub(super) op: Option<String>,
    /// Which ops, in words.
    pub(super) ops: String,
    pub(super) variables: Volume,
    /// How deep its nodes lie on average.
    pub(super) depth: f64,
}

/// All edges from one box to another.
#[derive(Clone)]
pub(super) struct Link {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) tensors: usize,
    pub(super) signals: usize,
    pub(super) volume: Volume,
}

impl Box {
    /// The first line of a box: its name with the scope around it, which tells one `read` from another.
    pub(super) fn title(&self) -> String {
        match self.scopes.last() {
            Some(scope) => format!("{scope}/{}", self.label),
            None => self.label.clone(),
        }
    }

    /// The second line of a box.
    pub(super) fn subtitle(&self) -> String {
        let what = match &self.op {
            Some(op) if self.nodes == 1 => op.clone(),
            Some(op) => format!("{} × {op}", units::count(self.nodes as u64)),
            None => units::counted(self.nodes, "node"),
        };
        match self.variables.weight() {
            0 => what,
            bytes => format!("{what} · {}", units::bytes(bytes)),
        }
    }

    /// Everything in a few lines.
    pub(super) fn description(&self, devices: &[String]) -> String {
        let path: Vec<&str> = self.scopes.iter().map(String::as_str).chain([self.label.as_str()]).collect();
        let mut text = format!(
            "{}\n{}\n{}",
            path.join("/"),
            devices.get(self.device).map_or("", String::as_str),
            self.ops
        );
        if self.variables != Volume::default() {
            text.push_str(&format!("\nvariables: {}", self.variables.text()));
        }
        text
    }
}

impl Link {
    pub(super) fn description(&self) -> String {
        let mut parts = Vec::new();
        if self.tensors > 0 {
            parts.push(format!("{}, {}", units::counted(self.tensors, "tensor"), self.volume.text()));
        }
        if self.signals > 0 {
            parts.push(units::counted(self.signals, "control edge"));
        }
        parts.join("; ")
    }
}

/// Which scopes are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Show {
    /// Those of the model: not those that save and initialize its variables.
    Model,
    Everything,
}

/// Collapses scopes below `depth` names.
pub(super) fn collapse(model: &Model, depth: usize, show: Show) -> Drawing {
    let depths = model.depths();
    let grouped = group(model, depth);
    let mut keys: HashMap<&Key, usize> = HashMap::new();
    let mut members: Vec<Vec<usize>> = Vec::new();
    for (node, key) in grouped.iter().enumerate() {
        let next = members.len();
        let index = *keys.entry(key).or_insert(next);
        if index == next {
            members.push(Vec::new());
        }
        members[index].push(node);
    }
    let hidden = match show {
        Show::Model => hide_housekeeping(model, &mut members),
        Show::Everything => Vec::new(),
    };
    let total = members.len();
    let (members, is_rest) = limit(model, members);
    let note = note(members.len(), total, is_rest.contains(&true), &hidden);
    let mut box_of = vec![None; model.nodes.len()];
    for (index, nodes) in members.iter().enumerate() {
        nodes.iter().for_each(|&node| box_of[node] = Some(index));
    }
    let boxes = members
        .iter()
        .zip(is_rest)
        .map(|(nodes, is_rest)| {
            make_box(model, nodes, nodes.first().map(|&node| &grouped[node]), is_rest, &depths)
        })
        .collect();
    Drawing { boxes, links: links(model, &box_of), devices: model.devices.clone(), note }
}

/// Removes what is not drawn, and tells the names of its scopes. A graph that has nothing else is drawn whole.
fn hide_housekeeping(model: &Model, members: &mut Vec<Vec<usize>>) -> Vec<String> {
    let scope = |nodes: &Vec<usize>| {
        let name = nodes.first().map_or("", |&node| model.nodes[node].name.as_str());
        without_number(name.split('/').next().unwrap_or_default())
    };
    let is_drawn = |nodes: &Vec<usize>| !HOUSEKEEPING.contains(&scope(nodes));
    if !members.iter().any(is_drawn) {
        return Vec::new();
    }
    let hidden: BTreeSet<String> =
        members.iter().filter(|nodes| !is_drawn(nodes)).map(|nodes| scope(nodes).to_string()).collect();
    members.retain(is_drawn);
    hidden.into_iter().collect()
}

fn note(drawn: usize, total: usize, has_rest: bool, hidden: &[String]) -> Option<String> {
    let mut sentences = Vec::new();
    if has_rest {
        sentences.push(format!(
            "{drawn} of {} boxes are drawn; the smallest are gathered in one box per device.",
            units::count(total as u64)
        ));
    }
    if !hidden.is_empty() {
        sentences.push(format!("Not drawn without --all: {}.", hidden.join(", ")));
    }
    (!sentences.is_empty()).then(|| sentences.join(" "))
}

/// What nodes of one box have in common.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    device: usize,
    scopes: Vec<String>,
    /// A scope, a node, or a series of nodes.
    label: String,
    series_op: Option<String>,
}

/// The key of each node.
fn group(model: &Model, depth: usize) -> Vec<Key> {
    let mut keys: Vec<Key> =
        model.nodes.iter().map(|node| scope_key(&node.name, node.device, depth)).collect();
    let mut sizes: HashMap<Key, usize> = HashMap::new();
    for key in &keys {
        *sizes.entry(key.clone()).or_default() += 1;
    }
    // Nodes that stand alone and differ in a number only are one series.
    let mut series: HashMap<Key, usize> = HashMap::new();
    let as_series = |key: &Key, op: &str| Key {
        label: without_number(&key.label).to_string(),
        series_op: Some(op.to_string()),
        ..key.clone()
    };
    for (key, node) in keys.iter().zip(&model.nodes) {
        if sizes.get(key) == Some(&1) {
            *series.entry(as_series(key, &node.op)).or_default() += 1;
        }
    }
    for (key, node) in keys.iter_mut().zip(&model.nodes) {
        if sizes.get(key) == Some(&1) {
            let merged = as_series(key, &node.op);
            if series.get(&merged).is_some_and(|&count| count > 1) {
                *key = merged;
            }
        }
    }
    keys
}

fn scope_key(name: &str, device: usize, depth: usize) -> Key {
    let mut parts: Vec<String> = name.split('/').take(depth).map(cut).collect();
    let label = parts.pop().unwrap_or_default();
    Key { device, scopes: parts, label, series_op: None }
}

fn cut(name: &str) -> String {
    match name.char_indices().nth(MAX_NAME) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_string(),
    }
}

/// `Const` for `Const_7`.
fn without_number(name: &str) -> &str {
    match name.rsplit_once('_') {
        Some((stem, number))
            if !stem.is_empty() && !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            stem
        }
        _ => name,
    }
}

/// At most [`MAX_BOXES`] groups: the largest, and for each device one with the rest. The second list says which hold a
/// rest.
fn limit(model: &Model, members: Vec<Vec<usize>>) -> (Vec<Vec<usize>>, Vec<bool>) {
    if members.len() <= MAX_BOXES {
        let is_rest = vec![false; members.len()];
        return (members, is_rest);
    }
    let mut members = members;
    let weight = |nodes: &Vec<usize>| {
        let bytes: u64 =
            nodes.iter().filter_map(|&node| model.nodes[node].variable).map(|volume| volume.weight()).sum();
        (nodes.len(), bytes)
    };
    members.sort_by_key(|nodes| std::cmp::Reverse(weight(nodes)));
    let devices = model.devices.len().min(MAX_BOXES / 2);
    let rest = members.split_off(MAX_BOXES - devices);
    let mut is_rest = vec![false; members.len()];
    let mut by_device: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for nodes in rest {
        // More devices than boxes share what is left of them.
        let device = nodes.first().map_or(0, |&node| model.nodes[node].device.min(devices.saturating_sub(1)));
        by_device.entry(device).or_default().extend(nodes);
    }
    for (_, nodes) in by_device {
        members.push(nodes);
        is_rest.push(true);
    }
    (members, is_rest)
}

fn make_box(model: &Model, nodes: &[usize], key: Option<&Key>, is_rest: bool, depths: &[u32]) -> Box {
    let mut ops: BTreeMap<&str, usize> = BTreeMap::new();
    let mut variables = Volume::default();
    let mut depth = 0.0;
    for &node in nodes {
        *ops.entry(&model.nodes[node].op).or_default() += 1;
        variables += model.nodes[node].variable.unwrap_or_default();
        depth += f64::from(depths[node]);
    }
    let mut by_count: Vec<(&str, usize)> = ops.into_iter().collect();
    by_count.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let told: Vec<String> =
        by_count.iter().take(TOLD_OPS).map(|(op, count)| format!("{count} × {}", cut(op))).collect();
    let more = match by_count.len().saturating_sub(TOLD_OPS) {
        0 => String::new(),
        more => format!(" and {}", units::counted(more, "other op")),
    };
    let (label, scopes) = match key {
        _ if is_rest => ("… the rest".to_string(), Vec::new()),
        Some(Key { label, scopes, series_op: Some(_), .. }) => (format!("{label}_*"), scopes.clone()),
        Some(key) => (key.label.clone(), key.scopes.clone()),
        None => (String::new(), Vec::new()),
    };
    Box {
        label,
        scopes,
        device: nodes.first().map_or(0, |&node| model.nodes[node].device),
        nodes: nodes.len(),
        op: match by_count.as_slice() {
            [(op, _)] => Some(cut(op)),
            _ => None,
        },
        ops: format!("{}{more}", told.join(", ")),
        variables,
        depth: depth / nodes.len().max(1) as f64,
    }
}

/// What leads from one box to another. A tensor that several nodes of a box want counts once.
fn links(model: &Model, box_of: &[Option<usize>]) -> Vec<Link> {
    let mut links: BTreeMap<(usize, usize), Link> = BTreeMap::new();
    let new = |from, to| Link { from, to, tensors: 0, signals: 0, volume: Volume::default() };
    let mut seen = HashSet::new();
    for edge in &model.edges {
        let (Some(from), Some(to)) = (box_of[edge.from], box_of[edge.to]) else { continue };
        if from != to && seen.insert((edge.from, edge.slot, to)) {
            let link = links.entry((from, to)).or_insert_with(|| new(from, to));
            link.tensors += 1;
            link.volume += edge.volume;
        }
    }
    for &(from, to) in &model.control_edges {
        let (Some(from), Some(to)) = (box_of[from], box_of[to]) else { continue };
        if from != to {
            links.entry((from, to)).or_insert_with(|| new(from, to)).signals += 1;
        }
    }
    links.into_values().collect()
}

#[cfg(test)]
mod tests {
    use tensorfleet_proto::tensorflow::{GraphDef, NodeDef};

    use super::*;

    fn drawing(nodes: &[(&str, &str, &[&str])], depth: usize) -> Drawing {
        let node = nodes.iter().map(|(name, op, inputs)| NodeDef {
            name: name.to_string(),
            op: op.to_string(),
            input: inputs.iter().map(|input| input.to_string()).collect(),
            ..Default::default()
        });
        collapse(
            &Model::of(&GraphDef { node: node.collect(), ..Default::default() }, None),
            depth,
            Show::Model,
        )
    }

    #[test]
    fn scopes_and_series_become_boxes() {
        let nodes: &[(&str, &str, &[&str])] = &[
            ("layer/w", "X", &[]),
            ("layer/w/read", "Y", &["layer/w"]),
            ("Const", "Z", &[]),
            ("Const_1", "Z", &[]),
            ("sum", "Add", &["layer/w/read", "Const_1", "^Const"]),
        ];
        let one = drawing(nodes, 1);
        let labels: Vec<(String, String)> =
            one.boxes.iter().map(|b| (b.label.clone(), b.subtitle())).collect();
        let expected = [("layer", "2 nodes"), ("Const_*", "2 × Z"), ("sum", "Add")];
        assert_eq!(labels, expected.map(|(label, subtitle)| (label.to_string(), subtitle.to_string())));
        let links: Vec<(usize, usize, usize, usize)> =
            one.links.iter().map(|link| (link.from, link.to, link.tensors, link.signals)).collect();
        assert_eq!(links, [(0, 2, 1, 0), (1, 2, 1, 1)]);
        let two = drawing(nodes, 2);
        assert_eq!(two.boxes[0].scopes, ["layer"]);
    }

    #[test]
    fn what_saves_and_initializes_is_not_drawn_unless_it_is_all_there_is() {
        let drawn = drawing(&[("v", "X", &[]), ("save/a", "X", &["v"]), ("init_1", "X", &["^v"])], 1);
        assert_eq!(drawn.boxes.iter().map(|b| b.label.as_str()).collect::<Vec<_>>(), ["v"]);
        assert_eq!(drawn.note.as_deref(), Some("Not drawn without --all: init, save."));
        assert_eq!(drawing(&[("save/a", "X", &[])], 1).boxes.len(), 1);
    }

    #[test]
    fn large_graphs_are_cut_with_a_sentence() {
        let names: Vec<String> = (0..5000).map(|n| format!("n{n}x")).collect();
        let nodes: Vec<(&str, &str, &[&str])> =
            names.iter().map(|name| (name.as_str(), "X", &[][..])).collect();
        let drawing = drawing(&nodes, 1);
        assert!(drawing.boxes.len() <= MAX_BOXES);
        assert!(drawing.note.is_some_and(|note| note.contains("of 5,000 boxes")));
        assert_eq!(drawing.boxes.iter().map(|b| b.nodes).sum::<usize>(), 5000);
    }
}
