//! Gradients: [`Graph::gradients`] and what it gives.

use tensorfleet_core::{Endpoint, Result};
pub use tensorfleet_kernel::gradients::Gate;
use tensorfleet_kernel::gradients::{self as engine, Grad, GradientOptions};

use super::graph::Graph;
use super::operand::{Arg, OperandList};
use super::output::Output;

/// A gradient: dense, or, from gathers, sparse ([`IndexedSlices`]).
///
/// ```
/// # use tensorfleet::{Gradient, Graph, Session};
/// let g = Graph::new();
/// let table = g.variable("table", [[1.0f32], [2.0], [3.0]]);
/// let loss = table.value().gather([2, 0])?.reduce_sum(..)?;
/// let gradient = g.gradients([&loss], [&table])?.remove(0).unwrap();
///
/// let session = Session::new(&g);
/// session.run(table.initializer())?;
/// let Gradient::Slices(rows) = &gradient else { panic!("the gradient of a gather is sparse") };
/// assert_eq!(session.run(&rows.indices)?.as_slice::<i32>()?, [2, 0]);
/// assert_eq!(session.run(gradient.dense()?)?.as_slice::<f32>()?, [1.0, 0.0, 1.0]);
/// # Ok::<(), tensorfleet::Status>(())
/// ```
#[derive(Clone, Debug)]
pub enum Gradient {
    /// A tensor of the shape of what it is the gradient of.
    Dense(Output),
    /// A sparse gradient: rows of a tensor that is zero elsewhere.
    Slices(IndexedSlices),
}

/// A sparse gradient: rows of a tensor that is zero elsewhere. A row may come several times; then its values add up. See [`Gradient`].
#[derive(Clone, Debug)]
pub struct IndexedSlices {
    /// The rows.
    pub values: Output,
    /// Which rows of the whole they are.
    pub indices: Output,
    /// The shape of the whole, an integer vector.
    pub dense_shape: Output,
}

/// Gradients about to be built, of which more is to be said; see [`Graph::new_gradients`].
#[must_use = "nothing is added to the graph before `build`"]
pub struct GradientsBuilder {
    graph: Graph,
    grad_ys: Vec<Arg>,
    stop_gradients: Vec<Arg>,
    colocate_with_ops: bool,
    gate: Gate,
}

impl Graph {
    /// The gradient of the sum of `ys` with respect to each of `xs`: outputs or variables. `None` where no `y` depends on
    /// the `x`.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session};
    /// let g = Graph::new();
    /// let x = g.constant([1.0f32, 2.0, 3.0]);
    /// let slope = g.gradients([x.square()?], [&x])?.remove(0).unwrap();
    /// assert_eq!(Session::new(&g).run(slope.dense()?)?.as_slice::<f32>()?, [2.0, 4.0, 6.0]);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn gradients(&self, ys: impl OperandList, xs: impl OperandList) -> Result<Vec<Option<Gradient>>> {
        self.new_gradients().build(ys, xs)
    }

    /// Gradients of which more is to be said.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session};
    /// let g = Graph::new();
    /// let x = g.constant(3.0f32);
    /// let square = x.square()?;
    /// let gradients = g.new_gradients().grad_ys([10.0f32]).stop_gradients([&square]);
    /// let slope = gradients.build([&square + &x], [&x])?.remove(0).unwrap();
    /// assert_eq!(Session::new(&g).run(slope.dense()?)?.to_scalar::<f32>()?, 10.0);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn new_gradients(&self) -> GradientsBuilder {
        GradientsBuilder {
            graph: self.clone(),
            grad_ys: Vec::new(),
            stop_gradients: Vec::new(),
            colocate_with_ops: false,
            gate: Gate::None,
        }
    }
}

impl GradientsBuilder {
    /// What the gradient with respect to each `y` itself is; ones if nothing is said.
    pub fn grad_ys(mut self, grad_ys: impl OperandList) -> GradientsBuilder {
        self.grad_ys = grad_ys.into_args();
        self
    }

    /// Treats these values as constant.
    pub fn stop_gradients(mut self, values: impl OperandList) -> GradientsBuilder {
        self.stop_gradients = values.into_args();
        self
    }

    /// Places the nodes of each gradient where the node is that they differentiate.
    pub fn colocate_with_ops(mut self, colocate: bool) -> GradientsBuilder {
        self.colocate_with_ops = colocate;
        self
    }

    /// Which gradients wait for one another; none if nothing is said. What changes reference variables with the gradients
    /// needs a gate: a gradient may still be computed from the variable that another one changes.
    pub fn gate(mut self, gate: Gate) -> GradientsBuilder {
        self.gate = gate;
        self
    }

    /// Builds the gradients; see [`Graph::gradients`].
    pub fn build(self, ys: impl OperandList, xs: impl OperandList) -> Result<Vec<Option<Gradient>>> {
        let graph = &self.graph;
        let grad_ys = self
            .grad_ys
            .into_iter()
            .map(|arg| Ok(Some(arg.into_output(graph, "grad_ys", None)?.endpoint_in(graph)?)));
        let options = GradientOptions {
            grad_ys: grad_ys.collect::<Result<_>>()?,
            stop_gradients: sources(graph, self.stop_gradients)?,
            colocate_with_ops: self.colocate_with_ops,
            gate: self.gate,
            ..GradientOptions::default()
        };
        let ys = ys.into_args().into_iter().map(|y| y.into_output(graph, "y", None)?.endpoint_in(graph));
        let ys: Vec<Endpoint> = ys.collect::<Result<_>>()?;
        let xs = sources(graph, xs.into_args())?;
        let grads = graph.build(|builder| engine::gradients(builder, &ys, &xs, &options))?;
        Ok(grads.into_iter().map(|grad| grad.map(|grad| Gradient::from_graph(graph, grad))).collect())
    }
}

/// What gradients are taken with respect to: an output, or the reference or handle of a variable, through which all
/// its reads go.
fn sources(graph: &Graph, args: Vec<Arg>) -> Result<Vec<Endpoint>> {
    let source = |arg: Arg| match arg {
        Arg::Variable(variable) => variable.handle().endpoint_in(graph),
        other => other.into_output(graph, "x", None)?.endpoint_in(graph),
    };
    args.into_iter().map(source).collect()
}

impl Gradient {
    fn from_graph(graph: &Graph, grad: Grad) -> Gradient {
        match grad {
            Grad::Dense(endpoint) => Gradient::Dense(graph.output_at(endpoint)),
            Grad::Slices { values, indices, dense_shape } => Gradient::Slices(IndexedSlices {
                values: graph.output_at(values),
                indices: graph.output_at(indices),
                dense_shape: graph.output_at(dense_shape),
            }),
        }
    }

    /// The gradient as a dense tensor.
    pub fn dense(&self) -> Result<Output> {
        let slices = match self {
            Gradient::Dense(output) => return output.clone().check(),
            Gradient::Slices(slices) => slices,
        };
        let graph = slices.values.graph();
        let grad = Grad::Slices {
            values: slices.values.endpoint()?,
            indices: slices.indices.endpoint_in(graph)?,
            dense_shape: slices.dense_shape.endpoint_in(graph)?,
        };
        let dense = graph.build(|builder| engine::densify(builder, grad))?;
        graph.output_at(dense).check()
    }

    /// The gradient as slices: all rows if it is dense.
    pub fn slices(&self) -> Result<IndexedSlices> {
        let dense = match self {
            Gradient::Slices(slices) => return Ok(slices.clone()),
            Gradient::Dense(dense) => dense,
        };
        let graph = dense.graph();
        let dense_shape = dense.shape_tensor()?;
        let rows = dense_shape.index(0)?;
        Ok(IndexedSlices { values: dense.clone(), indices: graph.range(0, &rows, 1)?, dense_shape })
    }
}
