//! [`Library`]: the functions of a graph, compiled when something asks for them, and partitions compiled with theirs.

use std::sync::Arc;

use parking_lot::Mutex;
use tensorfleet_core::attr::IntoAttr;
use tensorfleet_core::{DType, DeviceName, Graph, GraphLimits, Result, Status, Tensor, ensure};
use tensorfleet_kernel::Catalogue;
use tensorfleet_kernel::cancellation::Cancellation;
use tensorfleet_kernel::functions::{CallContext, Function, Functions, OnReturn};
use tensorfleet_proto::tensorflow::{FunctionDefLibrary, GraphDef, NameAttrList, NodeDef};

use crate::checked_graph::CheckedGraph;
use crate::executor::{Caller, KernelSource, Step};
use crate::functions::edge_types;
use crate::kernels::Kernels;
use crate::partition::{CompiledPartition, StepServices};
use crate::plan::{Device, PlanOptions, Signature, Terminals, plan_on};
use crate::rendezvous::LocalRendezvous;

/// Compiles a partition, with the functions that its graph carries.
pub fn compile_partition(
    graph: &Graph,
    catalogue: &'static Catalogue,
    kernels: &dyn KernelSource,
) -> Result<CompiledPartition> {
    CompiledPartition::compile(graph, catalogue, kernels, Library::of(graph, catalogue))
}

/// Functions of one graph, each compiled at most once.
struct Library {
    catalogue: &'static Catalogue,
    definitions: FunctionDefLibrary,
    compiled: Mutex<Vec<(NameAttrList, Arc<CompiledFunction>)>>,
}

impl Library {
    /// The functions that the nodes of `graph` may call.
    fn of(graph: &Graph, catalogue: &'static Catalogue) -> Arc<Library> {
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

/// A function as a partition whose arguments are its arguments.
struct CompiledFunction {
    arguments: Vec<DType>,
    results: Vec<DType>,
    partition: CompiledPartition,
}

impl CompiledFunction {
    fn new(library: &Arc<Library>, function: &NameAttrList) -> Result<CompiledFunction> {
        let (arguments, results) = edge_types(&library.definitions, library.catalogue, function)?;
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
        // It runs wherever its caller does, in a step of its own: one plan, so one counter.
        let device = Device::new(DeviceName::default(), 0);
        let options = PlanOptions { simplify: true, terminals: Terminals::Arguments };
        let (partition, _) = plan_on(&device, &checked, &signature, &mut 0, &options)?;
        let partition = compile_partition(&partition.graph, library.catalogue, &Kernels::for_one_graph())?;
        ensure!(
            !partition.has_transfers(),
            InvalidArgument,
            "function '{}' sends or receives, which a function that is called for each element cannot",
            function.name
        );
        Ok(CompiledFunction { arguments, results, partition })
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
        let services = StepServices {
            step_id: context.step_id,
            session: context.session.clone(),
            applied: None,
            rendezvous: Arc::new(LocalRendezvous::new()),
            cancellation,
        };
        let on_done = Box::new(move |results: Result<Vec<Option<Tensor>>>| {
            caller.deregister(token);
            let dead = || Status::invalid_argument("a result of a function is on a branch not taken");
            done(
                results
                    .and_then(|results| results.into_iter().map(|result| result.ok_or_else(dead)).collect()),
            );
        });
        self.partition.step(services, arguments, None, on_done)
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
            context.session.threads.nodes().spawn(move || step.run(Caller::Waits));
        }
    }
}

fn placeholder(position: usize, dtype: DType) -> NodeDef {
    let mut node =
        NodeDef { name: format!("argument_{position}"), op: "Placeholder".into(), ..Default::default() };
    node.attr.insert("dtype".into(), dtype.into_attr());
    node
}

#[cfg(test)]
mod tests {
    use tensorfleet_core::Code;

    use super::*;
    use crate::plan::testing::graph;

    #[test]
    fn a_result_or_argument_beyond_the_graph_is_refused() {
        let compiled = |text: &str| {
            let checked = graph(text);
            compile_partition(checked.graph(), checked.catalogue(), &Kernels::for_one_graph())
        };
        assert!(
            compiled("x = Const | value=1\nr = _Retval(x) | index=1").unwrap().has_arguments_or_results()
        );
        for text in ["x = Const | value=1\nr = _Retval(x) | index=2147483647", "a = _Arg | index=1000000000"]
        {
            assert_eq!(compiled(text).map(|_| ()).unwrap_err().code(), Code::InvalidArgument, "{text}");
        }
    }
}
