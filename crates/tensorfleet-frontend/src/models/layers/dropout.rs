//! Dropout that is there in training only.

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
    /// Sets elements to zero with probability `rate` in training ([`Output::dropout`]), and does nothing otherwise. Nothing
    /// is also what it does if it is not told whether it is trained.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session};
    /// let g = Graph::new();
    /// let x = g.constant(vec![1.0f32; 1000]);
    /// let (trained, asked) = (g.dropout(0.5).training(true).seed(1).build(&x)?, g.dropout(0.5).build(&x)?);
    /// let (trained, asked) = Session::new(&g).run((&trained, &asked))?;
    /// assert!(trained.as_slice::<f32>()?.contains(&0.0));
    /// assert_eq!(asked.as_slice::<f32>()?, [1.0; 1000]);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn dropout(&self, rate: f64) -> Dropout {
        Dropout { graph: self.clone(), rate, seed: None, training: Training::No }
    }
}

impl Dropout {
    /// Whether it is trained: a `bool`, or an output that says so in each run.
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
