//! The order in which nodes are differentiated.
//!
//! A loop is differentiated as a whole, as if it were one node ([`super::loops`]), so the nodes of a graph form levels:
//! those outside all loops, and for each loop those of its body. On each level, nodes and inner loops are the units that
//! gradients arrive at.

use std::fmt;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use tensorfleet_core::attr::FromAttr;
use tensorfleet_core::{DType, Endpoint, Node, NodeId, Result, Status, Tensor};

use super::aggregate::{Grad, sum};
use super::differential::Differential;
use super::gate::{Gate, gated};
use super::paths::{Level, Paths, Unit};
use crate::builder::{FlowId, GraphBuilder, Input, NewNode, adapt_literal};
use crate::op::Gradient;

/// Gradients that a program defines. They come before those of the catalogue.
pub trait CustomGradients: fmt::Debug + Send + Sync {
    /// Whether the program defines the gradient of this op.
    fn defines(&self, op: &str) -> bool;

    /// Builds the gradients of a node's inputs, one for each. The node is of the op, or names it as the one whose gradient it has.
    fn differentiate(&self, op: &str, differential: &mut Differential<'_>) -> Result<Vec<Option<Grad>>>;
}

/// How gradients are built.
#[derive(Clone, Debug)]
pub struct GradientOptions {
    /// Gradients that arrive at the `ys`; ones where there is none.
    pub grad_ys: Vec<Option<Endpoint>>,
    /// Values to treat as constant.
    pub stop_gradients: Vec<Endpoint>,
    /// Whether the nodes of a gradient go where the node is that they differentiate.
    pub colocate_with_ops: bool,
    /// Which gradients wait for one another.
    pub gate: Gate,
    /// The name scope of the new nodes.
    pub name: String,
    /// Gradients that the program defines.
    pub custom: Option<Arc<dyn CustomGradients>>,
}

impl Default for GradientOptions {
    fn default() -> GradientOptions {
        GradientOptions {
            grad_ys: Vec::new(),
            stop_gradients: Vec::new(),
            colocate_with_ops: false,
            gate: Gate::None,
            name: "gradients".to_string(),
            custom: None,
        }
    }
}

/// Adds the nodes that compute the gradient of the sum of `ys` with respect to each of `xs`; `None` for an `x` that
/// no `y` depends on in a differentiable way.
pub fn gradients(
    builder: &mut GraphBuilder,
    ys: &[Endpoint],
    xs: &[Endpoint],
    options: &GradientOptions,
) -> Result<Vec<Option<Grad>>> {
    for &endpoint in ys.iter().chain(xs).chain(&options.stop_gradients) {
        builder.facts(endpoint)?;
    }
    let depth = builder.depth();
    builder.enter_name_scope(&options.name)?;
    let grads = Engine::new(builder, ys, xs, options).and_then(|engine| engine.run(ys, xs));
    let grads = match options.gate {
        Gate::Graph => grads.and_then(|grads| gated(builder, grads)),
        Gate::None | Gate::Op => grads,
    };
    builder.leave(depth);
    grads
}

pub(super) struct Engine<'a> {
    pub(super) builder: &'a mut GraphBuilder,
    options: &'a GradientOptions,
    /// What lies between the `xs` and the `ys`.
    pub(super) paths: Paths,
    /// What has arrived at each output.
    pub(super) arrived: FxHashMap<Endpoint, Vec<Grad>>,
    /// Nodes that nothing flows back through.
    stops: FxHashSet<NodeId>,
    xs: FxHashSet<Endpoint>,
    results: FxHashMap<Endpoint, Option<Grad>>,
}

impl<'a> Engine<'a> {
    fn new(
        builder: &'a mut GraphBuilder,
        ys: &[Endpoint],
        xs: &[Endpoint],
        options: &'a GradientOptions,
    ) -> Result<Engine<'a>> {
        let paths = Paths::between(builder, xs, ys)?;
        Ok(Engine {
            builder,
            options,
            paths,
            arrived: FxHashMap::default(),
            stops: options.stop_gradients.iter().map(|stop| stop.node).collect(),
            xs: xs.iter().copied().collect(),
            results: FxHashMap::default(),
        })
    }

    fn run(mut self, ys: &[Endpoint], xs: &[Endpoint]) -> Result<Vec<Option<Grad>>> {
        for (index, &y) in ys.iter().enumerate() {
            let given = self.options.grad_ys.get(index).copied().flatten();
            let grad = self.initial(index, y, given)?;
            self.arrived.entry(y).or_default().push(Grad::Dense(grad));
        }
        self.run_level(self.paths.base(), ys, &FxHashSet::default())?;
        // What is not between any y and x may still be one of both.
        for x in xs {
            if !self.results.contains_key(x) {
                let total = self.total(*x)?;
                self.results.insert(*x, total);
            }
        }
        Ok(xs.iter().map(|x| self.results.get(x).copied().flatten()).collect())
    }

    /// What arrives at a `y` to begin with.
    fn initial(&mut self, index: usize, y: Endpoint, given: Option<Endpoint>) -> Result<Endpoint> {
        let facts = self.builder.facts(y)?;
        let (dtype, shape) = (facts.edge.dtype, facts.shape.clone());
        let name = format!("{}:{}", self.builder.node(y.node).name, y.slot);
        if !dtype.is_floating() && !dtype.is_complex() {
            return Err(Status::invalid_argument(format!(
                "Gradients of '{name}' do not exist: it is {dtype}, and only floating-point values can be differentiated"
            )));
        }
        let Some(given) = given else {
            let one = adapt_literal(&Tensor::scalar(1i32), dtype).filter(|_| !dtype.is_complex());
            let one = one.ok_or_else(|| {
                Status::invalid_argument(format!(
                    "Gradients of complex tensors must set grad_ys ('{name}' is {dtype})"
                ))
            })?;
            return self.beside(y.node, |builder| {
                let shape = builder.emit(NewNode::new("Shape").input(y))?;
                let fill = NewNode::new("Fill").name(format!("grad_ys_{index}"));
                builder.emit(fill.input(shape).input(Input::Tensor(one)))
            });
        };
        let facts = self.builder.facts(given)?;
        if facts.edge.dtype != dtype || facts.shape.merge(&shape).is_err() {
            return Err(Status::invalid_argument(format!(
                "The gradient given for '{name}' is {} of shape {}, the value itself {dtype} of shape {shape}",
                facts.edge.dtype, facts.shape
            )));
        }
        let named = NewNode::new("Identity").name(format!("grad_ys_{index}")).input(given);
        self.beside(y.node, |builder| builder.emit(named))
    }

    /// Differentiates everything on one level, from what has arrived at the `ys` back to what is `edge`: nodes that are
    /// not differentiated, but at whose outputs gradients may arrive.
    pub(super) fn run_level(
        &mut self,
        level: Level,
        ys: &[Endpoint],
        edge: &FxHashSet<NodeId>,
    ) -> Result<()> {
        let mut waiting = self.paths.waiting(self.builder, level, edge);
        let mut ready: Vec<Unit> = Vec::new();
        let mut seen: FxHashSet<Unit> = FxHashSet::default();
        for y in ys {
            let unit = self.paths.unit(self.builder, level, y.node);
            if let Some(unit) = unit.filter(|unit| waiting.get(unit) == Some(&0) && seen.insert(*unit)) {
                ready.push(unit);
            }
        }
        // The queue is a FIFO so that nodes are built in the order TensorFlow builds them in.
        let mut next = 0;
        while let Some(&unit) = ready.get(next) {
            next += 1;
            let grads = match unit {
                Unit::Node(node) => self.visit_node(node)?,
                Unit::Loop(flow) => self.visit_loop(flow)?,
            };
            for (input, grad) in grads {
                if !self.paths.contains(self.builder, input) {
                    continue;
                }
                if let Some(grad) = grad {
                    self.arrived.entry(input).or_default().push(grad);
                }
                let Some(unit) = self.paths.unit(self.builder, level, input.node) else { continue };
                if let Some(count) = waiting.get_mut(&unit) {
                    *count = count.saturating_sub(1);
                    if *count == 0 {
                        ready.push(unit);
                    }
                }
            }
        }
        Ok(())
    }

    /// Differentiates a node all of whose outputs' gradients have arrived; gives its inputs with theirs.
    fn visit_node(&mut self, node: NodeId) -> Result<Vec<(Endpoint, Option<Grad>)>> {
        let mut arriving = Vec::with_capacity(self.builder.num_outputs(node));
        for slot in 0..self.builder.num_outputs(node) {
            let endpoint = Endpoint::new(node, slot as u32);
            let total = self.total(endpoint)?;
            if self.xs.contains(&endpoint) {
                self.results.insert(endpoint, total);
            }
            arriving.push(total);
        }
        let inputs = self.builder.node(node).inputs.clone();
        let leads_on = inputs.iter().any(|&input| self.paths.contains(self.builder, input));
        let is_open = leads_on && !self.stops.contains(&node) && arriving.iter().any(Option::is_some);
        let grads = match is_open {
            true => self.differentiate(node, &arriving)?,
            false => vec![None; inputs.len()],
        };
        for (&input, grad) in inputs.iter().zip(&grads) {
            self.check_shape(node, input, grad)?;
        }
        Ok(inputs.into_iter().zip(grads).collect())
    }

    /// The sum of what has arrived at an output.
    pub(super) fn total(&mut self, endpoint: Endpoint) -> Result<Option<Grad>> {
        match self.arrived.remove(&endpoint) {
            None => Ok(None),
            Some(arrived) => self.beside(endpoint.node, |builder| sum(builder, &arrived)),
        }
    }

    fn differentiate(&mut self, node: NodeId, arriving: &[Option<Grad>]) -> Result<Vec<Option<Grad>>> {
        let op = differentiated_as(self.builder.node(node))?;
        let count = self.builder.node(node).inputs.len();
        let custom = self.options.custom.clone().filter(|custom| custom.defines(&op));
        let function = match self.builder.catalogue().find(&op).map(|entry| entry.op.gradient) {
            _ if custom.is_some() => None,
            Some(Gradient::By(function)) => Some(function),
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
        // What a loop gives is behind one gate outside: inside, the next iteration would wait for sums that nobody needs there.
        let is_gated = self.gates_ops() && self.builder.current_loop() == self.paths.base();
        let inputs = self.builder.node(node).inputs.clone();
        let leads_on: Vec<bool> =
            inputs.iter().map(|&input| self.paths.contains(self.builder, input)).collect();
        let grads = self.beside(node, |builder| {
            builder.enter_name_scope(&scope)?;
            let mut differential = Differential::new(builder, node, arriving);
            let mut grads = match (function, &custom) {
                (Some(function), _) => function(&mut differential)?,
                (None, Some(custom)) => custom.differentiate(&op, &mut differential)?,
                (None, None) => Vec::new(),
            };
            // What nobody asked for is not waited for: the gradient of a picture costs as much as that of the weights.
            for (grad, leads_on) in grads.iter_mut().zip(leads_on) {
                *grad = grad.take().filter(|_| leads_on);
            }
            if is_gated { gated(builder, grads) } else { Ok(grads) }
        })?;
        match grads.len() == count {
            true => Ok(grads),
            false => Err(Status::internal(format!(
                "the gradient of {op} gave {} gradients for {count} inputs",
                grads.len()
            ))),
        }
    }

    /// Whether the gradients of an op wait for one another.
    pub(super) fn gates_ops(&self) -> bool {
        self.options.gate == Gate::Op
    }

    /// A gradient has the shape of what it is the gradient of; what is known of the one is known of the other.
    fn check_shape(&mut self, node: NodeId, input: Endpoint, grad: &Option<Grad>) -> Result<()> {
        let Some(Grad::Dense(grad)) = *grad else { return Ok(()) };
        if self.builder.dtype(input)? == DType::Resource {
            return Ok(());
        }
        let shape = self.builder.shape(input)?.clone();
        if self.builder.set_shape(grad, &shape).is_ok() {
            return Ok(());
        }
        let (name, op) = (&self.builder.node(node).name, &self.builder.node(node).op);
        Err(Status::internal(format!(
            "Incompatible shapes between op input and calculated input gradient. Forward operation: {name} ({op}). \
             Original input shape: {shape}. Calculated input gradient shape: {}",
            self.builder.shape(grad)?
        )))
    }

    /// Builds where `node` is, if that was asked for.
    pub(super) fn beside<R>(
        &mut self,
        node: NodeId,
        work: impl FnOnce(&mut GraphBuilder) -> Result<R>,
    ) -> Result<R> {
        let depth = self.builder.depth();
        if self.options.colocate_with_ops {
            self.builder.enter_colocation(node);
        }
        let result = work(self.builder);
        self.builder.leave(depth);
        result
    }

    fn visit_loop(&mut self, flow: FlowId) -> Result<Vec<(Endpoint, Option<Grad>)>> {
        super::loops::differentiate(self, flow)
    }
}

/// The op whose gradient a node has: its own, unless an attribute names another one.
fn differentiated_as(node: &Node) -> Result<String> {
    match node.attrs.get("_gradient_op_type") {
        Some(named) => String::from_attr(named),
        None => Ok(node.op.to_string()),
    }
}
