//! [`Library`]: the functions of a graph, compiled when something asks for them.

use std::sync::Arc;

use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};
use tensorfleet_core::attr::IntoAttr;
use tensorfleet_core::{DType, Graph, GraphLimits, Node, Result, Status, Tensor, ensure};
use tensorfleet_kernel::Catalogue;
use tensorfleet_kernel::cancellation::Cancellation;
use tensorfleet_kernel::functions::{CallContext, Function, Functions, OnReturn};
use tensorfleet_kernel::kernel::StepContext;
use tensorfleet_kernel::resource::ResourceManager;
use tensorfleet_proto::tensorflow::attr_value::Value;
use tensorfleet_proto::tensorflow::{
    AttrValue, FunctionDef, FunctionDefLibrary, GraphDef, NameAttrList, NodeDef,
};

use super::body::{Body, FunctionIndex, signature};
use crate::checked_graph::CheckedGraph;
use crate::executor::{Caller, Executable, Step};
use crate::kernels::Kernels;
use crate::plan::{Signature, prune};
use crate::rendezvous::LocalRendezvous;

/// Functions of one graph, each compiled at most once.
pub(crate) struct Library {
    catalogue: &'static Catalogue,
    definitions: FunctionDefLibrary,
    compiled: Mutex<Vec<(NameAttrList, Arc<CompiledFunction>)>>,
}

impl Library {
    /// The functions that the nodes of `graph` may call.
    pub(crate) fn of(graph: &Graph, catalogue: &'static Catalogue) -> Arc<Library> {
        let definitions = graph.library().cloned().unwrap_or_default();
        Arc::new(Library { catalogue, definitions, compiled: Mutex::default() })
    }
}

impl Functions for Library {
    fn instantiate(self: Arc<Self>, function: &NameAttrList) -> Result<Arc<dyn Function>> {
        let find = || {
            let compiled = self.compiled.lock();
            compiled.iter().find(|(known, _)| known == function).map(|(_, compiled)| compiled.clone())
        };
        if let Some(known) = find() {
            return Ok(known);
        }
        let new = Arc::new(CompiledFunction::new(&self, function)?);
        // Somebody may have been faster; the state of a function's kernels is to be one.
        if let Some(known) = find() {
            return Ok(known);
        }
        self.compiled.lock().push((function.clone(), new.clone()));
        Ok(new)
    }
}

/// A function as an executable whose arguments are its arguments.
struct CompiledFunction {
    arguments: Vec<DType>,
    results: Vec<DType>,
    executable: Arc<Executable>,
}

impl CompiledFunction {
    fn new(library: &Arc<Library>, function: &NameAttrList) -> Result<CompiledFunction> {
        let mut index = FunctionIndex::new(library.catalogue);
        for definition in &library.definitions.function {
            index.insert(&signature(definition)?.name, definition);
        }
        let body = Body::resolve(&index, function)?;
        let (arguments, results) = (body.arguments, body.result_types);
        let mut nodes = Vec::new();
        for (position, &dtype) in arguments.iter().enumerate() {
            nodes.push(placeholder(position, dtype));
        }
        let call = NodeDef {
            name: "call".into(),
            op: "PartitionedCall".into(),
            input: (0..arguments.len()).map(|position| format!("argument_{position}")).collect(),
            attr: [
                ("Tin".to_string(), arguments.clone().into_attr()),
                ("Tout".to_string(), results.clone().into_attr()),
                ("f".to_string(), function.clone().into_attr()),
            ]
            .into(),
            ..Default::default()
        };
        nodes.push(call);
        // Each result goes through a node of its own, so that it can be fetched without the others' barrier.
        for (position, &dtype) in results.iter().enumerate() {
            let input = if position == 0 { "call".to_string() } else { format!("call:{position}") };
            let mut node = NodeDef {
                name: format!("result_{position}"),
                op: "Identity".into(),
                input: vec![input],
                ..Default::default()
            };
            node.attr.insert("T".into(), dtype.into_attr());
            nodes.push(node);
        }
        let def = GraphDef { node: nodes, library: Some(library.definitions.clone()), ..Default::default() };
        let mut checked = CheckedGraph::new(library.catalogue);
        checked.extend(def, &GraphLimits::default())?;
        let names =
            |prefix: &str, count: usize| (0..count).map(|index| format!("{prefix}_{index}")).collect();
        let signature = Signature {
            feeds: names("argument", arguments.len()),
            fetches: names("result", results.len()),
            targets: if results.is_empty() { vec!["call".into()] } else { Vec::new() },
        };
        let pruned = prune(&checked, &signature)?;
        let executable = Executable::compile(&pruned, library.catalogue, &Kernels::for_one_graph())?;
        ensure!(
            !executable.has_transfers(),
            InvalidArgument,
            "function '{}' sends or receives, which a function that is called for each element cannot",
            function.name
        );
        Ok(CompiledFunction { arguments, results, executable: Arc::new(executable) })
    }

    fn step(&self, context: &CallContext, arguments: Vec<Tensor>, done: OnReturn) -> Option<Arc<Step>> {
        // A step that fails cancels itself, and nobody else: its cancellation is its own.
        let cancellation = Arc::new(Cancellation::new());
        let caller = context.cancellation.clone();
        let own = cancellation.clone();
        let token = match caller.register(move |reason| own.cancel(reason)) {
            Ok(token) => token,
            Err(reason) => {
                done(Err(reason));
                return None;
            }
        };
        let context = Arc::new(StepContext {
            step_id: context.step_id,
            device: context.device.clone(),
            resources: context.resources.clone(),
            step_resources: ResourceManager::new("step"),
            rendezvous: Arc::new(LocalRendezvous::new()),
            cancellation,
            functions: self.executable.functions().clone(),
            threads: context.threads.clone(),
        });
        let on_done = Box::new(move |results: Result<Vec<Option<Tensor>>>| {
            caller.deregister(token);
            let dead = || Status::invalid_argument("a result of a function is on a branch not taken");
            done(
                results
                    .and_then(|results| results.into_iter().map(|result| result.ok_or_else(dead)).collect()),
            );
        });
        Step::new(self.executable.clone(), context, arguments, None, on_done)
    }
}

impl Function for CompiledFunction {
    fn arguments(&self) -> &[DType] {
        &self.arguments
    }

    fn results(&self) -> &[DType] {
        &self.results
    }

    fn call(&self, context: &CallContext, arguments: Vec<Tensor>, done: OnReturn) {
        if let Some(step) = self.step(context, arguments, done) {
            step.run(Caller::Waits);
        }
    }

    fn call_elsewhere(&self, context: &CallContext, arguments: Vec<Tensor>, done: OnReturn) {
        if let Some(step) = self.step(context, arguments, done) {
            context.threads.nodes().spawn(move || step.run(Caller::Waits));
        }
    }
}

fn placeholder(position: usize, dtype: DType) -> NodeDef {
    let mut node =
        NodeDef { name: format!("argument_{position}"), op: "Placeholder".into(), ..Default::default() };
    node.attr.insert("dtype".into(), dtype.into_attr());
    node
}

/// The functions of `library` that `nodes` may need, with those that these need.
pub(crate) fn reachable<'a>(
    library: Option<&FunctionDefLibrary>,
    nodes: impl IntoIterator<Item = &'a Node>,
) -> Option<FunctionDefLibrary> {
    let library = library.filter(|library| !library.function.is_empty())?;
    let by_name: FxHashMap<&str, &FunctionDef> = library
        .function
        .iter()
        .filter_map(|function| Some((&*function.signature.as_ref()?.name, function)))
        .collect();
    let mut wanted = Vec::new();
    for node in nodes {
        node.attrs.values().for_each(|value| add_names(value, &mut wanted));
        if by_name.contains_key(&*node.op) {
            wanted.push(node.op.to_string());
        }
    }
    let mut found = FxHashSet::default();
    let mut functions = Vec::new();
    while let Some(name) = wanted.pop() {
        let Some(&function) = by_name.get(&*name) else { continue };
        if !found.insert(name) {
            continue;
        }
        functions.push(function.clone());
        for node in &function.node_def {
            node.attr.values().for_each(|value| add_names(value, &mut wanted));
            if by_name.contains_key(&*node.op) {
                wanted.push(node.op.clone());
            }
        }
    }
    (!functions.is_empty()).then(|| FunctionDefLibrary { function: functions, ..Default::default() })
}

/// The functions an attribute names, those in the attributes of functions included.
fn add_names(value: &AttrValue, names: &mut Vec<String>) {
    let mut stack: Vec<&NameAttrList> = match &value.value {
        Some(Value::Func(function)) => vec![function],
        Some(Value::List(list)) => list.func.iter().collect(),
        _ => return,
    };
    while let Some(function) = stack.pop() {
        names.push(function.name.clone());
        for inner in function.attr.values() {
            match &inner.value {
                Some(Value::Func(function)) => stack.push(function),
                Some(Value::List(list)) => stack.extend(&list.func),
                _ => {}
            }
        }
    }
}
