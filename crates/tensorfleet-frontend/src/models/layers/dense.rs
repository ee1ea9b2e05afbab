//! Fully connected layers.

use tensorfleet_core::{Result, Status};

use super::{Weighted, in_layer, weighted_layer};
use crate::graph::{Graph, Output};

/// A fully connected layer about to be built; see [`Graph::dense`].
#[must_use = "nothing is added to the graph before `build`"]
pub struct Dense {
    graph: Graph,
    units: usize,
    weighted: Weighted,
}

impl Graph {
    /// A fully connected layer of `units` outputs: variables `NAME/kernel` and `NAME/bias`, where the name is `dense`,
    /// `dense_1`, … if none is given.
    ///
    /// ```
    /// # use tensorfleet::{DType, Graph, Output};
    /// let g = Graph::new();
    /// let x = g.placeholder(DType::Float, [-1, 3]);
    /// let hidden = g.dense(5).activation(Output::relu).build(&x)?;
    /// let y = g.dense(1).name("out").build(&hidden)?;
    /// let names: Vec<String> = g.trainable_variables().iter().map(|v| v.name()).collect();
    /// assert_eq!(names, ["dense/kernel", "dense/bias", "out/kernel", "out/bias"]);
    /// assert_eq!(y.shape()?.to_string(), "[?,1]");
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn dense(&self, units: usize) -> Dense {
        Dense { graph: self.clone(), units, weighted: Weighted::new() }
    }
}

weighted_layer!(Dense);

impl Dense {
    /// Builds the layer on a matrix.
    pub fn build(self, x: &Output) -> Result<Output> {
        let (graph, name) = (self.graph.clone(), self.weighted.name.clone());
        in_layer(&graph, name.as_deref(), "dense", || self.layer(x))
    }

    fn layer(mut self, x: &Output) -> Result<Output> {
        let (dtype, shape) = (x.dtype()?, x.shape()?);
        let inputs = match (shape.rank(), shape.dims().and_then(|dims| dims.last().copied().flatten())) {
            (Some(2), Some(inputs)) => inputs,
            _ => {
                return Err(Status::invalid_argument(format!(
                    "A dense layer takes a matrix whose last dimension is known, got the shape {shape}"
                )));
            }
        };
        let (kernel, bias) = self.weighted.variables(&self.graph, dtype, &[inputs, self.units])?;
        let mut y = x.matmul(&kernel)?;
        if let Some(bias) = bias {
            y = y.bias_add(&bias)?;
        }
        self.weighted.activated(y)
    }
}
