//! Dropout: active in training mode only.

use tensorfleet_core::Result;

use super::Training;
use crate::graph::{Graph, Output};

/// A dropout layer about to be built; see [`Graph::dropout`].
#[must_use = "nothing is added to the graph before `build`"]
pub struct Dropout {
    graph: Graph,
    rate: f64,
    seed: Option<i64>,
    training: Training,
}

impl Graph {
    /// Sets elements to zero with probability `rate` in training ([`Output::dropout`]), and does nothing otherwise. Inference
    /// is the default.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session};
    /// let g = Graph::new();
    /// let x = g.constant(vec![1.0f32; 1000]);
    /// let (training, inference) = (g.dropout(0.5).training(true).seed(1).build(&x)?, g.dropout(0.5).build(&x)?);
    /// let (training, inference) = Session::new(&g).run((&training, &inference))?;
    /// assert!(training.as_slice::<f32>()?.contains(&0.0));
    /// assert_eq!(inference.as_slice::<f32>()?, [1.0; 1000]);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn dropout(&self, rate: f64) -> Dropout {
        Dropout { graph: self.clone(), rate, seed: None, training: Training::No }
    }
}

impl Dropout {
    /// Training or inference mode: a `bool`, or an output that decides in each run.
    pub fn training(mut self, training: impl Into<Training>) -> Dropout {
        self.training = training.into();
        self
    }

    /// Makes it choose the same elements in every program.
    pub fn seed(mut self, seed: i64) -> Dropout {
        self.seed = Some(seed);
        self
    }

    /// Builds the layer.
    pub fn build(self, x: &Output) -> Result<Output> {
        self.graph.name_scope("dropout", || {
            self.training.choose(&self.graph, || x.dropout(self.rate, self.seed), || x.identity())
        })
    }
}
