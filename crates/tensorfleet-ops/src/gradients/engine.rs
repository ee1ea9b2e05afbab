//! The order in which nodes are differentiated.

use rustc_hash::{FxHashMap, FxHashSet};
use tensorfleet_core::{Endpoint, NodeId, Result, Status};

use super::aggregate::{Grad, sum};
use super::differential::Differential;
use crate::builder::{GraphBuilder, NewNode};
use crate::catalogue;
use crate::op::Gradient;

/// How gradients are built.
#[derive(Clone, Debug, Default)]
pub struct GradientOptions {
    /// Gradients that arrive at the `ys`; ones where there is none.
    pub grad_ys: Vec<Option<Endpoint>>,
    /// Values to treat as constant.
    pub stop_gradients: Vec<Endpoint>,
    /// Whether the nodes of a gradient go where the node is that they differentiate.
    pub colocate_with_ops: bool,
}

/// Adds the nodes that compute the gradient of the sum of `ys` with respect to each of `xs`; `None` for an `x` that
/// no `y` depends on in a differentiable way.
pub fn gradients(
    builder: &mut GraphBuilder,
    ys: &[Endpoint],
    xs: &[Endpoint],
    options: &GradientOptions,
) -> Result<Vec<Option<Grad>>> {
    let depth = builder.depth();
    builder.enter_name_scope("gradients")?;
    let result = Engine::new(builder, ys, xs, options).and_then(|engine| engine.run(ys, xs));
    builder.leave(depth);
    result
}

struct Engine<'a> {
    builder: &'a mut GraphBuilder,
    options: &'a GradientOptions,
    /// Nodes on a path from an `x` to a `y`, with the number of edges, among such nodes, that their gradient still waits for.
    waiting: FxHashMap<NodeId, usize>,
    /// What has arrived at each output.
    arrived: FxHashMap<Endpoint, Vec<Grad>>,
    stops: FxHashSet<Endpoint>,
}

impl<'a> Engine<'a> {
    fn new(
        builder: &'a mut GraphBuilder,
        ys: &[Endpoint],
        xs: &[Endpoint],
        options: &'a GradientOptions,
    ) -> Result<Engine<'a>> {
        for &endpoint in ys.iter().chain(xs) {
            builder.facts(endpoint)?;
        }
        let stops = options.stop_gradients.iter().copied().collect();
        let waiting = between(builder, ys, xs, &stops);
        Ok(Engine { builder, options, waiting, arrived: FxHashMap::default(), stops })
    }

    fn run(mut self, ys: &[Endpoint], xs: &[Endpoint]) -> Result<Vec<Option<Grad>>> {
        for (index, &y) in ys.iter().enumerate() {
            let given = self.options.grad_ys.get(index).copied().flatten();
            let grad = self.initial(y, given)?;
            self.arrived.entry(y).or_default().push(Grad::Dense(grad));
        }
        let mut ready: Vec<NodeId> = Vec::new();
        for y in ys {
            if self.waiting.get(&y.node) == Some(&0) && !ready.contains(&y.node) {
                ready.push(y.node);
            }
        }
        let mut results: FxHashMap<Endpoint, Option<Grad>> = FxHashMap::default();
        // The queue is a FIFO so that nodes are built in the order TensorFlow builds them in.
        let mut next = 0;
        while let Some(&node) = ready.get(next) {
            next += 1;
            self.visit(node, xs, &mut results, &mut ready)?;
        }
        // What is not between any y and x may still be one of both.
        xs.iter()
            .map(|&x| match results.get(&x) {
                Some(result) => Ok(*result),
                None => {
                    let arrived = self.arrived.remove(&x).unwrap_or_default();
                    let total = sum(self.builder, &arrived)?;
                    results.insert(x, total);
                    Ok(total)
                }
            })
            .collect()
    }

    /// What arrives at a `y` to begin with.
    fn initial(&mut self, y: Endpoint, given: Option<Endpoint>) -> Result<Endpoint> {
        let facts = self.builder.facts(y)?;
        let (dtype, shape) = (facts.edge.dtype, facts.shape.clone());
        if !dtype.is_floating() && !dtype.is_complex() {
            let name = &self.builder.node(y.node).name;
            return Err(Status::invalid_argument(format!(
                "Gradients of '{name}:{}' do not exist: it is {dtype}, and only floating-point values can be differentiated",
                y.slot
            )));
        }
        let Some(given) = given else {
            return self.builder.emit(NewNode::new("OnesLike").name("grad_ys").input(y));
        };
        let facts = self.builder.facts(given)?;
        if facts.edge.dtype != dtype || facts.shape.merge(&shape).is_err() {
            let name = &self.builder.node(y.node).name;
            return Err(Status::invalid_argument(format!(
                "The gradient given for '{name}:{}' is {} of shape {}, the value itself {dtype} of shape {shape}",
                y.slot, facts.edge.dtype, facts.shape
            )));
        }
        Ok(given)
    }

    /// Differentiates a node all of whose outputs' gradients have arrived.
    fn visit(
        &mut self,
        node: NodeId,
        xs: &[Endpoint],
        results: &mut FxHashMap<Endpoint, Option<Grad>>,
        ready: &mut Vec<NodeId>,
    ) -> Result<()> {
        let arriving = self.totals(node)?;
        for (slot, total) in arriving.iter().enumerate() {
            let endpoint = Endpoint::new(node, slot as u32);
            if xs.contains(&endpoint) {
                results.insert(endpoint, *total);
            }
        }
        let inputs = self.builder.node(node).inputs.clone();
        let grads = match arriving.iter().any(Option::is_some) {
            true => self.differentiate(node, &arriving)?,
            false => vec![None; inputs.len()],
        };
        for (&input, grad) in inputs.iter().zip(grads) {
            if !self.waiting.contains_key(&input.node) || self.stops.contains(&input) {
                continue;
            }
            if let Some(grad) = grad {
                self.arrived.entry(input).or_default().push(grad);
            }
            if let Some(count) = self.waiting.get_mut(&input.node) {
                *count = count.saturating_sub(1);
                if *count == 0 {
                    ready.push(input.node);
                }
            }
        }
        Ok(())
    }

    fn totals(&mut self, node: NodeId) -> Result<Vec<Option<Grad>>> {
        let mut totals = Vec::with_capacity(self.builder.num_outputs(node));
        for slot in 0..self.builder.num_outputs(node) {
            let arrived = self.arrived.remove(&Endpoint::new(node, slot as u32)).unwrap_or_default();
            totals.push(self.beside(node, |builder| sum(builder, &arrived))?);
        }
        Ok(totals)
    }

    fn differentiate(&mut self, node: NodeId, arriving: &[Option<Grad>]) -> Result<Vec<Option<Grad>>> {
        let op = self.builder.node(node).op.to_string();
        let count = self.builder.node(node).inputs.len();
        let function = match catalogue::find(&op).map(|entry| entry.op.gradient) {
            Some(Gradient::By(function)) => function,
            Some(Gradient::None) => return Ok(vec![None; count]),
            _ => {
                let name = &self.builder.node(node).name;
                return Err(Status::not_found(format!(
                    "No gradient defined for operation '{name}' (op type: {op}); \
                     stop_gradient() around it treats it as constant"
                )));
            }
        };
        let scope = format!("{}_grad", self.builder.node(node).name);
        let grads = self.beside(node, |builder| {
            let depth = builder.depth();
            builder.enter_name_scope(&scope)?;
            let grads = function(&mut Differential::new(builder, node, arriving));
            builder.leave(depth);
            grads
        })?;
        match grads.len() == count {
            true => Ok(grads),
            false => Err(Status::internal(format!(
                "the gradient of {op} gave {} gradients for {count} inputs",
                grads.len()
            ))),
        }
    }

    /// Builds where `node` is, if that was asked for.
    fn beside<R>(&mut self, node: NodeId, work: impl FnOnce(&mut GraphBuilder) -> Result<R>) -> Result<R> {
        let depth = self.builder.depth();
        if self.options.colocate_with_ops {
            self.builder.enter_colocation(node);
        }
        let result = work(self.builder);
        self.builder.leave(depth);
        result
    }
}

/// The nodes on paths from `xs` to `ys`, and for each the number of edges to other such nodes.
fn between(
    builder: &GraphBuilder,
    ys: &[Endpoint],
    xs: &[Endpoint],
    stops: &FxHashSet<Endpoint>,
) -> FxHashMap<NodeId, usize> {
    let graph = builder.graph();
    // Backwards from the ys; what they do not need is no business of ours.
    let mut needed: FxHashSet<NodeId> = FxHashSet::default();
    let mut stack: Vec<NodeId> = ys.iter().map(|y| y.node).collect();
    while let Some(node) = stack.pop() {
        if needed.insert(node) {
            stack.extend(graph.node(node).inputs.iter().map(|input| input.node));
        }
    }
    // Forwards from the xs, among those.
    let mut consumers: FxHashMap<NodeId, Vec<NodeId>> = FxHashMap::default();
    for &node in &needed {
        for &input in graph.node(node).inputs.iter().filter(|input| !stops.contains(input)) {
            consumers.entry(input.node).or_default().push(node);
        }
    }
    let mut between: FxHashMap<NodeId, usize> = FxHashMap::default();
    let mut stack: Vec<NodeId> = xs.iter().map(|x| x.node).filter(|node| needed.contains(node)).collect();
    while let Some(node) = stack.pop() {
        if between.insert(node, 0).is_none() {
            stack.extend(consumers.get(&node).into_iter().flatten());
        }
    }
    let nodes: Vec<NodeId> = between.keys().copied().collect();
    for node in nodes {
        for input in graph.node(node).inputs.iter().filter(|input| !stops.contains(input)) {
            if let Some(count) = between.get_mut(&input.node) {
                *count += 1;
            }
        }
    }
    between
}
