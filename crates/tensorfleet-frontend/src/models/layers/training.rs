//! [`Training`]: whether a layer runs in training or in inference mode.

use tensorfleet_core::Result;

use crate::graph::{Graph, Output, OutputGroup};

/// Whether a layer that differs between training and inference is in training mode: known when the graph is built (a `bool`),
/// or decided in each run (a scalar bool of the graph, such as a placeholder).
///
/// ```
/// # use tensorfleet::{DType, Graph, Session};
/// let g = Graph::new();
/// let is_training = g.placeholder(DType::Bool, ());
/// let y = g.dropout(0.5).training(&is_training).build(&g.constant([1.0f32, 2.0]))?;
/// let inferred = Session::new(&g).feed(&is_training, false).run(&y)?;
/// assert_eq!(inferred.as_slice::<f32>()?, [1.0, 2.0]);
/// # Ok::<(), tensorfleet::Status>(())
/// ```
#[derive(Clone, Debug)]
pub enum Training {
    /// It is.
    Yes,
    /// It is not.
    No,
    /// It is in runs in which this is true.
    If(Output),
}

impl From<bool> for Training {
    fn from(training: bool) -> Training {
        if training { Training::Yes } else { Training::No }
    }
}

impl From<&Output> for Training {
    fn from(training: &Output) -> Training {
        Training::If(training.clone())
    }
}

impl From<Output> for Training {
    fn from(training: Output) -> Training {
        Training::If(training)
    }
}

impl Training {
    /// What `training` builds in training mode, else what `inference` builds.
    pub(super) fn choose<V: OutputGroup>(
        &self,
        graph: &Graph,
        training: impl FnOnce() -> Result<V>,
        inference: impl FnOnce() -> Result<V>,
    ) -> Result<V> {
        match self {
            Training::Yes => training(),
            Training::No => inference(),
            Training::If(predicate) => graph.cond(predicate, training, inference),
        }
    }
}
