//! [`expand`]: puts the nodes of functions in the place of the nodes that call them.
//!
//! A call `c` becomes the body's nodes under `c/_body/`. What used an output of `c` uses the body's result directly; the
//! name `c` itself stays as an `IdentityN` of the results, which can be fetched and waited for. The body keeps the
//! promises of a call: it begins after the control inputs of `c`, it is dead if the inputs of `c` are, and results are
//! there only after its effects.
//!
//! There is no recursion here: bodies go to a list of nodes still to be looked at. A function that calls itself, at
//! whatever distance, is refused, so the list ends.

use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};
use tensorfleet_core::attr::{FromAttr, IntoAttr};
use tensorfleet_core::{DType, DeviceName, GraphLimits, Result, Status, bail, ensure, parse_endpoint};
use tensorfleet_kernel::Catalogue;
use tensorfleet_kernel::op::{Call, Flow};
use tensorfleet_proto::tensorflow::{AttrValue, FunctionDefLibrary, GraphDef, NameAttrList, NodeDef};

use super::body::{Body, FunctionIndex, Source, signature};
use super::size::{check_size, most_added};

/// Calls within calls. Names grow with each level.
const MAX_DEPTH: usize = 64;

/// Marks nodes that only give a dissolved call its name; such a node may hold handles of several devices.
pub(crate) const CALL_RESULTS: &str = "_call_results";

/// The graph `def` without calls of functions, which stand in its own library or in `known`.
pub(crate) fn expand(
    mut def: GraphDef,
    known: Option<&FunctionDefLibrary>,
    limits: &GraphLimits,
    catalogue: &'static Catalogue,
) -> Result<GraphDef> {
    let library = def.library.take();
    let functions = known.into_iter().chain(&library).flat_map(|library| &library.function);
    let mut index = FunctionIndex::new(catalogue);
    for function in functions {
        index.insert(&signature(function)?.name, function);
    }
    let is_call = |node: &NodeDef| kind_of(&index, &node.op).is_some();
    if !def.node.iter().any(is_call) {
        drop(index);
        def.library = library;
        return Ok(def);
    }
    let in_functions = index.functions().map(|function| function.node_def.len());
    let most = most_added(def.node.len().saturating_add(in_functions.sum()));
    check_size(&index, &def.node, most)?;
    let is_conditional = def
        .node
        .iter()
        .any(|node| index.op(&node.op).is_some_and(|op| matches!(op.flow, Flow::Switch | Flow::Enter)));
    let mut expander = Expander {
        library: index,
        is_conditional,
        out: Vec::with_capacity(def.node.len()),
        pending: Vec::new(),
        aliases: FxHashMap::default(),
        added: FxHashSet::default(),
        max_nodes: limits.max_nodes.min(def.node.len().saturating_add(most)),
    };
    for node in std::mem::take(&mut def.node) {
        expander.pending.push(Pending { node, chain: None });
        expander.run()?;
    }
    def.node = expander.finish()?;
    def.library = library;
    Ok(def)
}

/// How a node calls functions.
#[derive(Clone, Copy)]
enum Kind {
    /// By its op.
    Op(Call),
    /// By the function's name, which stands where others have an op.
    ByName,
}

fn kind_of(library: &FunctionIndex<'_>, op: &str) -> Option<Kind> {
    let call = library.op(op).and_then(|op| op.calls).map(Kind::Op);
    call.or_else(|| library.get(op).map(|_| Kind::ByName))
}

/// The functions that are being expanded around a node.
pub(super) struct Chain {
    function: String,
    depth: usize,
    outer: Option<Rc<Chain>>,
}

struct Pending {
    node: NodeDef,
    chain: Option<Rc<Chain>>,
}

/// When the nodes of a body may begin.
pub(super) struct Gate {
    /// The node to wait for.
    pub(super) node: String,
    /// Whether nodes that take only arguments wait as well.
    pub(super) holds_arguments: bool,
    /// Whether constants wait: they must where a body may not run at all, or runs again and again.
    pub(super) holds_constants: bool,
}

/// A body that has been put into the graph.
pub(super) struct Inlined {
    /// The tensors it returns.
    pub(super) results: Vec<String>,
    /// The nodes whose effects must have happened.
    pub(super) effects: Vec<String>,
    /// Whether any of its nodes waits for the gate.
    pub(super) uses_gate: bool,
}

/// A node that calls functions, taken apart.
pub(super) struct Caller {
    pub(super) name: String,
    pub(super) device: String,
    pub(super) inputs: Vec<String>,
    /// Control inputs, as they stand in a graph: `^name`.
    pub(super) controls: Vec<String>,
    pub(super) attrs: std::collections::BTreeMap<String, AttrValue>,
    pub(super) chain: Option<Rc<Chain>>,
}

impl Caller {
    pub(super) fn attr<A: FromAttr>(&self, name: &str) -> Result<A> {
        let value = self.attrs.get(name);
        let value = value.ok_or_else(|| Status::not_found(format!("No attr named '{name}' in NodeDef")))?;
        A::from_attr(value).map_err(|status| status.context(format!("attr '{name}'")))
    }

    /// A new node beside the call.
    pub(super) fn node(&self, name: &str, op: &str, inputs: Vec<String>) -> NodeDef {
        let name = format!("{}/{name}", self.name);
        NodeDef { name, op: op.into(), input: inputs, device: self.device.clone(), ..Default::default() }
    }

    /// A new node with a dtype.
    pub(super) fn typed(&self, name: &str, op: &str, inputs: Vec<String>, dtype: DType) -> NodeDef {
        let mut node = self.node(name, op, inputs);
        node.attr.insert("T".into(), dtype.into_attr());
        node
    }
}

pub(super) struct Expander<'a> {
    pub(super) library: FunctionIndex<'a>,
    /// Whether nodes may be dead or in loops.
    is_conditional: bool,
    out: Vec<NodeDef>,
    pending: Vec<Pending>,
    /// What to use instead of an output of a call.
    aliases: FxHashMap<String, String>,
    /// Names of nodes that were added once and may be asked for again.
    added: FxHashSet<String>,
    max_nodes: usize,
}

impl Expander<'_> {
    fn run(&mut self) -> Result<()> {
        while let Some(Pending { node, chain }) = self.pending.pop() {
            let Some(kind) = kind_of(&self.library, &node.op) else {
                self.emit(node)?;
                continue;
            };
            let (name, op, device) = (node.name.clone(), node.op.clone(), node.device.clone());
            self.dissolve(kind, node, chain).map_err(|status| status.at_node(&name, &op, &device))?;
        }
        Ok(())
    }

    /// All nodes, with edges that lead to real ones.
    fn finish(mut self) -> Result<Vec<NodeDef>> {
        let mut out = std::mem::take(&mut self.out);
        for node in &mut out {
            for input in &mut node.input {
                if input.starts_with('^') {
                    continue;
                }
                let mut steps = 0;
                while let Some(target) = self.aliases.get(&*canonical_text(input)) {
                    ensure!(
                        steps <= self.aliases.len(),
                        InvalidArgument,
                        "Node '{}': its input '{input}' is in a cycle of function calls",
                        node.name
                    );
                    *input = target.clone();
                    steps += 1;
                }
            }
        }
        Ok(out)
    }

    pub(super) fn emit(&mut self, node: NodeDef) -> Result<()> {
        ensure!(
            self.out.len() + self.pending.len() < self.max_nodes,
            ResourceExhausted,
            "with its functions expanded the graph would have more than {} nodes",
            self.max_nodes
        );
        self.out.push(node);
        Ok(())
    }

    /// Adds a node unless it is there already, and gives its name.
    pub(super) fn emit_once(&mut self, node: NodeDef) -> Result<String> {
        let name = node.name.clone();
        if self.added.insert(name.clone()) {
            self.emit(node)?;
        }
        Ok(name)
    }

    fn dissolve(&mut self, kind: Kind, mut node: NodeDef, chain: Option<Rc<Chain>>) -> Result<()> {
        let (controls, inputs): (Vec<String>, Vec<String>) =
            std::mem::take(&mut node.input).into_iter().partition(|input| input.starts_with('^'));
        let (name, device, attrs) = (node.name, node.device, node.attr);
        let caller = Caller { name, device, inputs, controls, attrs, chain };
        match kind {
            Kind::Op(Call::Function) => {
                let function: NameAttrList = caller.attr("f")?;
                self.call(&caller, &function)
            }
            Kind::ByName => {
                let function = NameAttrList { name: node.op, attr: caller.attrs.clone() };
                self.call(&caller, &function)
            }
            Kind::Op(Call::If) => self.branch_on_condition(&caller),
            Kind::Op(Call::Case) => self.branch_on_index(&caller),
            Kind::Op(Call::While) => self.repeat(&caller),
        }
    }

    fn call(&mut self, caller: &Caller, function: &NameAttrList) -> Result<()> {
        let body = self.body(caller, function, caller.inputs.len())?;
        let gate = Gate {
            node: format!("{}/_start", caller.name),
            holds_arguments: !caller.controls.is_empty(),
            holds_constants: self.is_conditional || caller.chain.is_some(),
        };
        let inlined = self.inline(caller, "_body", &body, &caller.inputs, &gate)?;
        if inlined.uses_gate {
            let mut before = caller.controls.clone();
            let is_value = |dtype: &DType| *dtype != DType::Resource;
            let values = caller.inputs.iter().zip(&body.arguments).filter(|(_, dtype)| is_value(dtype));
            before.extend(values.map(|(input, _)| control_on(input)));
            if before.is_empty() {
                before.extend(caller.inputs.iter().map(|input| control_on(input)));
            }
            before.sort_unstable();
            before.dedup();
            self.emit(caller.node("_start", "NoOp", before))?;
        }
        let done = if inlined.effects.is_empty() {
            None
        } else {
            let done =
                caller.node("_done", "NoOp", inlined.effects.iter().map(|node| format!("^{node}")).collect());
            Some(self.emit_once(done)?)
        };
        self.give_results(caller, inlined.results, &body.result_types, done)
    }

    /// The body of a function that is called with `arguments` values.
    pub(super) fn body(&self, caller: &Caller, function: &NameAttrList, arguments: usize) -> Result<Body> {
        let depth = caller.chain.as_ref().map_or(0, |chain| chain.depth);
        ensure!(depth < MAX_DEPTH, ResourceExhausted, "functions call each other more than {MAX_DEPTH} deep");
        let mut outer = caller.chain.as_deref();
        while let Some(chain) = outer {
            if chain.function == function.name {
                bail!(
                    Unimplemented,
                    "function '{}' calls itself. Tensorfleet expands functions where they are called and does not \
                     support recursion; use a while loop",
                    function.name
                );
            }
            outer = chain.outer.as_deref();
        }
        let body = Body::resolve(&self.library, function)?;
        ensure!(
            body.arguments.len() == arguments,
            InvalidArgument,
            "function '{}' takes {} arguments, the call gives {arguments}",
            function.name,
            body.arguments.len()
        );
        Ok(body)
    }

    /// Puts the nodes of a body into the graph, under `label`, with `arguments` for its arguments.
    pub(super) fn inline(
        &mut self,
        caller: &Caller,
        label: &str,
        body: &Body,
        arguments: &[String],
        gate: &Gate,
    ) -> Result<Inlined> {
        let prefix = format!("{}/{label}/", caller.name);
        let depth = caller.chain.as_ref().map_or(0, |chain| chain.depth) + 1;
        let chain = Rc::new(Chain { function: body.name.clone(), depth, outer: caller.chain.clone() });
        let name_of = |index: usize| format!("{prefix}{}", body.nodes[index].def.name);
        let endpoint = |source: &Source| match *source {
            Source::Arg(index) => arguments[index].clone(),
            Source::Node(index, slot) => canonical(&name_of(index), slot),
        };
        let outer_device: DeviceName = caller.device.parse()?;
        let mut uses_gate = false;
        for (index, node) in body.nodes.iter().enumerate() {
            let mut def = node.def.clone();
            def.input = node.inputs.iter().map(endpoint).collect();
            def.input.extend(node.controls.iter().map(|source| control_on(&endpoint(source))));
            let is_inner = |source: &Source| matches!(source, Source::Node(..));
            if !node.inputs.iter().chain(&node.controls).any(is_inner) {
                let waits = match &*def.op {
                    "Const" => gate.holds_constants,
                    op => node.inputs.is_empty() || gate.holds_arguments || self.library.is_stateful(op),
                };
                if waits {
                    def.input.push(format!("^{}", gate.node));
                    uses_gate = true;
                }
            }
            def.name = name_of(index);
            def.device = if def.device.is_empty() {
                caller.device.clone()
            } else {
                outer_device.overridden_by(&def.device.parse()?).to_string()
            };
            rename_colocation(&mut def, &prefix, body);
            ensure!(
                self.out.len() + self.pending.len() < self.max_nodes,
                ResourceExhausted,
                "with its functions expanded the graph would have more than {} nodes",
                self.max_nodes
            );
            self.pending.push(Pending { node: def, chain: Some(chain.clone()) });
        }
        let results = body.results.iter().map(endpoint).collect();
        let effects = body.effects.iter().map(|&index| name_of(index)).collect();
        Ok(Inlined { results, effects, uses_gate })
    }

    /// Lets the users of a call's outputs use `results`, after `done`, and leaves a node of the call's name.
    pub(super) fn give_results(
        &mut self,
        caller: &Caller,
        results: Vec<String>,
        types: &[DType],
        done: Option<String>,
    ) -> Result<()> {
        let mut finals = Vec::with_capacity(results.len());
        for (index, (result, &dtype)) in results.into_iter().zip(types).enumerate() {
            let result = match &done {
                Some(done) => {
                    let inputs = vec![result, format!("^{done}")];
                    self.emit_once(caller.typed(&format!("_result_{index}"), "Identity", inputs, dtype))?
                }
                None => result,
            };
            self.aliases.insert(canonical(&caller.name, index as u32), result.clone());
            finals.push(result);
        }
        let mut named = NodeDef {
            name: caller.name.clone(),
            device: caller.device.clone(),
            op: if finals.is_empty() { "NoOp" } else { "IdentityN" }.into(),
            input: finals,
            ..Default::default()
        };
        if named.op == "IdentityN" {
            named.attr.insert("T".into(), types.to_vec().into_attr());
            named.attr.insert(CALL_RESULTS.into(), true.into_attr());
        } else if done.is_none() {
            named.input.extend(caller.inputs.iter().map(|input| control_on(input)));
            named.input.extend(caller.controls.iter().cloned());
            named.input.sort_unstable();
            named.input.dedup();
        }
        named.input.extend(done.map(|done| format!("^{done}")));
        self.emit(named)
    }
}

/// A tensor's name as graphs write it: the first output has no number.
pub(super) fn canonical(node: &str, slot: u32) -> String {
    if slot == 0 { node.to_string() } else { format!("{node}:{slot}") }
}

fn canonical_text(input: &str) -> std::borrow::Cow<'_, str> {
    match parse_endpoint(input) {
        Ok((node, 0)) => node.into(),
        Ok((node, slot)) => canonical(node, slot).into(),
        // The import will say what is wrong with it.
        Err(_) => input.into(),
    }
}

/// A control input on the node that makes a tensor.
pub(super) fn control_on(input: &str) -> String {
    let node = input.rsplit_once(':').map_or(input, |(node, _)| node);
    format!("^{node}")
}

/// Nodes of a body are colocated with each other under their new names; other requests mean nothing outside.
fn rename_colocation(def: &mut NodeDef, prefix: &str, body: &Body) {
    let Some(class) = def.attr.get("_class") else { return };
    let Ok(entries) = Vec::<String>::from_attr(class) else { return };
    let names: FxHashSet<&str> = body.nodes.iter().map(|node| &*node.def.name).collect();
    let renamed: Vec<String> = entries
        .iter()
        .filter_map(|entry| entry.strip_prefix("loc:@"))
        .filter(|name| names.contains(name))
        .map(|name| format!("loc:@{prefix}{name}"))
        .collect();
    if renamed.is_empty() {
        def.attr.remove("_class");
    } else {
        def.attr.insert("_class".into(), renamed.into_attr());
    }
}
