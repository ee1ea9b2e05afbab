//! [`Output`]: a value that a graph will compute.

use std::fmt;

use tensorfleet_core::{DType, EdgeType, Endpoint, PartialShape, Result, Status, Tensor};
use tensorfleet_kernel::builder::{NewNode, adapt_literal};

use super::graph::Graph;
use super::literal::{Adapts, IntoTensor, ShapeLike};

/// One output of a node: a value that will exist when the graph runs.
///
/// # When something does not fit
///
/// Methods such as [`Output::matmul`] return a `Result`: a wrong dtype or shape is reported where it is written.
/// Operators (`&a + &b`) cannot, nor should the sources of a graph, such as [`Graph::constant`], need a `?`. They give
/// an `Output` that carries the error, as a NaN carries on through arithmetic, but with the reason and the place in the
/// program. The next method that returns a `Result`, and every run that fetches it, reports that reason; so
/// does [`Output::check`]. Nothing else is affected: the graph and the session stay usable. (The other way, an error
/// state of the whole graph, would let one bad expression spoil unrelated code that shares the graph.)
///
/// ```
/// # use tensorfleet::Graph;
/// let g = Graph::new();
/// let a = g.constant([1.0f32, 2.0]);
/// let sum = &a + g.constant([1.0f32, 2.0, 3.0]);
/// let error = sum.relu().unwrap_err();
/// assert!(error.message().contains("Dimensions must be equal, but are 2 and 3"));
/// assert!((&a * 2.0).check().is_ok());
/// ```
#[derive(Clone)]
pub struct Output {
    graph: Graph,
    at: Result<(Endpoint, EdgeType)>,
}

impl Output {
    pub(crate) fn new(graph: &Graph, at: Result<(Endpoint, EdgeType)>) -> Output {
        Output { graph: graph.clone(), at }
    }

    /// The result of something fallible as an output, which carries the error if there is one.
    pub(crate) fn from_result(graph: &Graph, result: Result<Output>) -> Output {
        result.unwrap_or_else(|status| Output::new(graph, Err(status)))
    }

    /// The graph it belongs to.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The output itself if it is valid, or the error it carries.
    pub fn check(self) -> Result<Output> {
        match &self.at {
            Ok(_) => Ok(self),
            Err(status) => Err(status.clone()),
        }
    }

    /// Which output of which node it is, or the error it carries.
    pub fn endpoint(&self) -> Result<Endpoint> {
        Ok(self.at.clone()?.0)
    }

    pub(crate) fn endpoint_in(&self, graph: &Graph) -> Result<Endpoint> {
        let endpoint = self.endpoint()?;
        if !self.graph.is_same(graph) {
            return Err(Status::invalid_argument(format!(
                "Tensor '{}' is not an element of this graph.",
                self.name()
            )));
        }
        Ok(endpoint)
    }

    /// The name, `NODE:SLOT`; empty if it could not be built.
    pub fn name(&self) -> String {
        match self.at {
            Ok((Endpoint { node, slot }, _)) => {
                self.graph.build(|builder| format!("{}:{slot}", builder.node(node).name))
            }
            Err(_) => String::new(),
        }
    }

    /// The device asked for its operation.
    pub fn device(&self) -> String {
        self.operation().device()
    }

    /// The element type.
    pub fn dtype(&self) -> Result<DType> {
        Ok(self.at.clone()?.1.dtype)
    }

    /// The shape, as far as it is known.
    pub fn shape(&self) -> Result<PartialShape> {
        let endpoint = self.endpoint()?;
        self.graph.build(|builder| builder.shape(endpoint).cloned())
    }

    /// The value, if it is constant and small.
    pub fn constant_value(&self) -> Option<Tensor> {
        let endpoint = self.endpoint().ok()?;
        self.graph.build(|builder| builder.facts(endpoint).ok()?.value.clone())
    }

    /// Tells what you know about the shape beyond what could be inferred.
    pub fn set_shape(&self, shape: impl ShapeLike) -> Result<()> {
        let (endpoint, shape) = (self.endpoint()?, shape.to_partial_shape()?);
        self.graph.build(|builder| builder.set_shape(endpoint, &shape))
    }

    /// A value to feed in place of this output: a literal takes its dtype.
    pub(crate) fn adapted(&self, value: impl IntoTensor) -> Result<Tensor> {
        let (tensor, adapts) = value.into_tensor();
        let tensor = tensor?;
        match adapts {
            Adapts::Yes => Ok(adapt_literal(&tensor, self.dtype()?).unwrap_or(tensor)),
            Adapts::No => Ok(tensor),
        }
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.at {
            Ok((_, edge)) => {
                let shape = self.shape().unwrap_or_default();
                write!(f, "Output({}, shape={shape}, dtype={})", self.name(), edge.dtype)
            }
            Err(status) => write!(f, "Output({status})"),
        }
    }
}

impl Graph {
    /// An output of this graph, by the number of its node.
    pub fn output_at(&self, endpoint: Endpoint) -> Output {
        Output::new(self, self.build(|builder| Ok((endpoint, builder.edge_type(endpoint)?))))
    }

    /// Adds a node and gives its first output.
    pub(crate) fn emit(&self, node: NewNode) -> Result<Output> {
        self.build(|builder| {
            let endpoint = builder.emit(node)?;
            let edge = builder.edge_type(endpoint)?;
            Ok(Output::new(self, Ok((endpoint, edge))))
        })
    }
}
