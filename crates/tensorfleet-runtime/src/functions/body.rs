//! [`Body`]: a function of the library with its attributes filled in and its edges resolved.
//!
//! In a `FunctionDef` an edge names an argument, or a node, one of its output arguments and a position in it; attributes
//! may be placeholders for those of the call. Here an edge is a number, and a placeholder a value.

use std::collections::BTreeMap;
use std::ops::Range;

use rustc_hash::FxHashMap;
use tensorfleet_core::attr::FromAttr;
use tensorfleet_core::{DType, Endpoint, Node, NodeId, Result, Status, bail, ensure};
use tensorfleet_kernel::{Catalogue, NodeSpec, Op};
use tensorfleet_proto::tensorflow::attr_value::Value;
use tensorfleet_proto::tensorflow::op_def::ArgDef;
use tensorfleet_proto::tensorflow::{
    AttrValue, FunctionDef, FunctionDefLibrary, NameAttrList, NodeDef, OpDef,
};

/// Bounds what one int attribute can claim, before anything is allocated for it.
const MAX_REPEATED: i64 = 1 << 16;

/// Bounds functions as attributes of functions as attributes.
const MAX_ATTR_DEPTH: usize = 16;

/// What the op of a node in a body may be: a function of the library, by name, or an op of the catalogue.
pub(super) struct FunctionIndex<'a> {
    functions: FxHashMap<&'a str, &'a FunctionDef>,
    catalogue: &'static Catalogue,
}

impl<'a> FunctionIndex<'a> {
    /// No functions yet.
    pub(super) fn new(catalogue: &'static Catalogue) -> FunctionIndex<'a> {
        FunctionIndex { functions: FxHashMap::default(), catalogue }
    }

    /// Adds the functions, the later ones in the place of earlier ones of the same name.
    pub(super) fn insert(&mut self, name: &'a str, function: &'a FunctionDef) {
        self.functions.insert(name, function);
    }

    /// The function called `name`.
    pub(super) fn get(&self, name: &str) -> Option<&'a FunctionDef> {
        self.functions.get(name).copied()
    }

    /// All functions.
    pub(super) fn functions(&self) -> impl Iterator<Item = &'a FunctionDef> {
        self.functions.values().copied()
    }

    /// The op of the catalogue called `name`.
    pub(super) fn op(&self, name: &str) -> Option<&'static Op> {
        self.catalogue.find(name).map(|entry| entry.op)
    }

    /// Whether an op has state; a function of the library, which is no op of the catalogue, may have.
    pub(super) fn is_stateful(&self, op: &str) -> bool {
        self.op(op).is_none_or(|op| op.stateful)
    }
}

/// Where a value in a body comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// An argument of the function.
    Arg(usize),
    /// An output of a node of the body.
    Node(usize, u32),
}

/// A node of a body: `def` has no inputs, they stand beside it.
pub(super) struct BodyNode {
    pub(super) def: NodeDef,
    pub(super) inputs: Vec<Source>,
    /// Control inputs; the slot of a node means nothing.
    pub(super) controls: Vec<Source>,
}

/// A function, ready to be put in the place of a call.
pub(super) struct Body {
    pub(super) name: String,
    pub(super) arguments: Vec<DType>,
    pub(super) nodes: Vec<BodyNode>,
    pub(super) results: Vec<Source>,
    pub(super) result_types: Vec<DType>,
    /// Nodes that must run though no result may depend on them.
    pub(super) effects: Vec<usize>,
}

impl Body {
    /// Resolves a function for a call with these attributes.
    pub(super) fn resolve(library: &FunctionIndex<'_>, call: &NameAttrList) -> Result<Body> {
        let function = library.get(&call.name).ok_or_else(|| {
            Status::not_found(format!("Function '{}' is not in the graph's library", call.name))
        })?;
        resolve(library, function, &call.attr)
            .map_err(|status| status.context(format!("function '{}'", call.name)))
    }
}

/// The signature of a function.
/// The dtypes of the arguments and results of a function of `library`, called with these attributes.
pub(crate) fn edge_types(
    library: &FunctionDefLibrary,
    catalogue: &'static Catalogue,
    call: &NameAttrList,
) -> Result<(Vec<DType>, Vec<DType>)> {
    let mut index = FunctionIndex::new(catalogue);
    for function in &library.function {
        index.insert(&signature(function)?.name, function);
    }
    let body = Body::resolve(&index, call)?;
    Ok((body.arguments, body.result_types))
}

pub(super) fn signature(function: &FunctionDef) -> Result<&OpDef> {
    function.signature.as_ref().ok_or_else(|| Status::invalid_argument("the function has no signature"))
}

type Attrs = BTreeMap<String, AttrValue>;

/// What a name in a body stands for.
enum Named {
    Argument(Range<usize>),
    Node(usize),
}

struct Resolver {
    names: FxHashMap<String, Named>,
    /// Per node, the slots of each output argument.
    outputs: Vec<FxHashMap<String, Range<usize>>>,
}

fn resolve(library: &FunctionIndex<'_>, function: &FunctionDef, call: &Attrs) -> Result<Body> {
    let signature = signature(function)?;
    let attrs = with_defaults(signature, call);
    let mut resolver = Resolver { names: FxHashMap::default(), outputs: Vec::new() };
    let mut arguments = Vec::new();
    for arg in &signature.input_arg {
        let first = arguments.len();
        arguments.extend(types_of(arg, &attrs)?);
        resolver.name(&arg.name, Named::Argument(first..arguments.len()))?;
    }
    let mut defs = Vec::with_capacity(function.node_def.len());
    for (index, node) in function.node_def.iter().enumerate() {
        resolver.name(&node.name, Named::Node(index))?;
        let mut def = node.clone();
        for value in def.attr.values_mut() {
            substitute(value, &attrs, 0)
                .map_err(|status| status.at_node(&node.name, &node.op, &node.device))?;
        }
        resolver.outputs.push(output_slots(library, &def)?);
        defs.push(def);
    }
    let mut nodes = Vec::with_capacity(defs.len());
    for mut def in defs {
        let (mut inputs, mut controls) = (Vec::new(), Vec::new());
        for input in std::mem::take(&mut def.input) {
            match input.strip_prefix('^') {
                Some(before) => controls.push(resolver.control(before, &def.name)?),
                None => inputs.push(resolver.source(&input, &def.name)?),
            }
        }
        nodes.push(BodyNode { def, inputs, controls });
    }
    let (mut results, mut result_types) = (Vec::new(), Vec::new());
    for arg in &signature.output_arg {
        let types = types_of(arg, &attrs)?;
        let name = function.ret.get(&arg.name).ok_or_else(|| {
            Status::invalid_argument(format!("nothing is returned for the result '{}'", arg.name))
        })?;
        let range = resolver.sources(name, "the results")?;
        ensure!(
            range.len() == types.len(),
            InvalidArgument,
            "result '{}' has {} values, '{name}' gives {}",
            arg.name,
            types.len(),
            range.len()
        );
        results.extend(range);
        result_types.extend(types);
    }
    let effects = resolver.effects(library, function, &nodes)?;
    Ok(Body { name: signature.name.clone(), arguments, nodes, results, result_types, effects })
}

impl Resolver {
    fn name(&mut self, name: &str, what: Named) -> Result<()> {
        ensure!(
            self.names.insert(name.to_string(), what).is_none(),
            InvalidArgument,
            "the name '{name}' is not unique in the function"
        );
        Ok(())
    }

    fn find(&self, name: &str, user: &str) -> Result<&Named> {
        self.names.get(name).ok_or_else(|| {
            Status::invalid_argument(format!("Node '{user}': Unknown input '{name}' in the function"))
        })
    }

    fn control(&self, name: &str, user: &str) -> Result<Source> {
        Ok(match self.find(name, user)? {
            Named::Node(index) => Source::Node(*index, 0),
            Named::Argument(range) if !range.is_empty() => Source::Arg(range.start),
            Named::Argument(_) => bail!(InvalidArgument, "Node '{user}': '{name}' is an empty list"),
        })
    }

    fn source(&self, text: &str, user: &str) -> Result<Source> {
        match self.sources(text, user)?[..] {
            [source] => Ok(source),
            ref sources => {
                bail!(InvalidArgument, "Node '{user}': '{text}' is {} values, expected one", sources.len())
            }
        }
    }

    /// The values behind `argument`, `argument:index`, `node:output` or `node:output:index`.
    fn sources(&self, text: &str, user: &str) -> Result<Vec<Source>> {
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        let bad =
            || Status::invalid_argument(format!("Node '{user}': '{text}' names no value of the function"));
        let named = self.find(name, user)?;
        let (range, index) = match named {
            Named::Argument(range) => (range.clone(), parts.next()),
            Named::Node(node) => {
                let output = parts.next().ok_or_else(bad)?;
                (self.outputs[*node].get(output).ok_or_else(bad)?.clone(), parts.next())
            }
        };
        let wrap = |position: usize| match named {
            Named::Argument(_) => Source::Arg(position),
            Named::Node(node) => Source::Node(*node, position as u32),
        };
        if parts.next().is_some() {
            return Err(bad());
        }
        let Some(index) = index else { return Ok(range.map(wrap).collect()) };
        let index: usize = index.parse().map_err(|_| bad())?;
        let position = range.clone().nth(index).ok_or_else(bad)?;
        Ok(vec![wrap(position)])
    }

    /// TensorFlow 2 lists the nodes with effects; earlier clients do not, and expect all stateful nodes to run.
    fn effects(
        &self,
        library: &FunctionIndex<'_>,
        function: &FunctionDef,
        nodes: &[BodyNode],
    ) -> Result<Vec<usize>> {
        let mut effects = Vec::with_capacity(function.control_ret.len());
        for node in function.control_ret.values() {
            match self.find(node, "the control results")? {
                Named::Node(index) => effects.push(*index),
                Named::Argument(_) => bail!(InvalidArgument, "the control result '{node}' is an argument"),
            }
        }
        let is_listed = !function.control_ret.is_empty();
        if !is_listed {
            let stateful = nodes.iter().enumerate().filter(|(_, node)| library.is_stateful(&node.def.op));
            effects.extend(stateful.map(|(index, _)| index));
        }
        effects.sort_unstable();
        effects.dedup();
        Ok(effects)
    }
}

fn with_defaults(signature: &OpDef, call: &Attrs) -> Attrs {
    let mut attrs = call.clone();
    for attr in &signature.attr {
        if let Some(default) = &attr.default_value {
            attrs.entry(attr.name.clone()).or_insert_with(|| default.clone());
        }
    }
    attrs
}

/// The dtypes an argument stands for.
fn types_of(arg: &ArgDef, attrs: &Attrs) -> Result<Vec<DType>> {
    let attr = |name: &str| {
        attrs.get(name).ok_or_else(|| {
            Status::invalid_argument(format!("argument '{}' needs the attr '{name}'", arg.name))
        })
    };
    if !arg.type_list_attr.is_empty() {
        return Vec::<DType>::from_attr(attr(&arg.type_list_attr)?);
    }
    let dtype = if arg.type_attr.is_empty() {
        DType::from_number(arg.r#type)?
    } else {
        DType::from_attr(attr(&arg.type_attr)?)?
    };
    if arg.number_attr.is_empty() {
        return Ok(vec![dtype]);
    }
    let count = i64::from_attr(attr(&arg.number_attr)?)?;
    ensure!(
        (0..=MAX_REPEATED).contains(&count),
        InvalidArgument,
        "argument '{}' cannot have {count} values",
        arg.name
    );
    Ok(vec![dtype; count as usize])
}

/// Puts the values of the call's attributes in the place of placeholders.
fn substitute(value: &mut AttrValue, attrs: &Attrs, depth: usize) -> Result<()> {
    ensure!(depth < MAX_ATTR_DEPTH, InvalidArgument, "attributes nest deeper than {MAX_ATTR_DEPTH}");
    match &mut value.value {
        Some(Value::Placeholder(name)) => {
            let known = attrs.get(name.as_str()).ok_or_else(|| {
                Status::invalid_argument(format!(
                    "the call gives no value for the attr placeholder '${name}'"
                ))
            })?;
            ensure!(
                !matches!(known.value, Some(Value::Placeholder(_))),
                InvalidArgument,
                "the attr '{name}' of a call is a placeholder itself"
            );
            *value = known.clone();
        }
        Some(Value::Func(function)) => {
            for inner in function.attr.values_mut() {
                substitute(inner, attrs, depth + 1)?;
            }
        }
        Some(Value::List(list)) => {
            for function in &mut list.func {
                for inner in function.attr.values_mut() {
                    substitute(inner, attrs, depth + 1)?;
                }
            }
        }
        _ => {}
    }
    Ok(())
}

/// The slots of each output argument of a node.
fn output_slots(library: &FunctionIndex<'_>, def: &NodeDef) -> Result<FxHashMap<String, Range<usize>>> {
    let mut slots = FxHashMap::default();
    let mut next = 0;
    let mut add = |name: &str, count: usize| {
        slots.insert(name.to_string(), next..next + count);
        next += count;
    };
    if let Some(function) = library.get(&def.op) {
        let signature = signature(function)?;
        let attrs = with_defaults(signature, &def.attr);
        for arg in &signature.output_arg {
            add(&arg.name, types_of(arg, &attrs)?.len());
        }
        return Ok(slots);
    }
    let mut node = Node::new(def.name.as_str(), def.op.as_str());
    node.attrs = def.attr.clone();
    let data = def.input.iter().filter(|input| !input.starts_with('^')).count();
    node.inputs = vec![Endpoint::new(NodeId::from_index(0), 0); data];
    for (name, count) in NodeSpec::resolve(&node, library.catalogue)?.output_counts()? {
        add(name, count);
    }
    Ok(slots)
}
