//! [`Training`]: whether a graph is trained or asked.

use tensorfleet_core::Result;

use crate::graph::{Graph, Output, OutputGroup};

/// Whether a layer that behaves otherwise in training is trained: known when the graph is built (a `bool`), or decided in
/// each run (a scalar bool of the graph, such as a placeholder).
///
/// ```
/// # use tensorfleet::{DType, Graph, Session};
/// let g = Graph::new();
/// let is_training = g.placeholder(DType::Bool, ());
/// let y = g.dropout(0.5).training(&is_training).build(&g.constant([1.0f32, 2.0]))?;
/// let asked = Session::new(&g).feed(&is_training, false).run(&y)?;
/// assert_eq!(asked.as_slice::<f32>()?, [1.0, 2.0]);
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
    /// What `trained` builds if it is, else what `asked` builds.
    pub(super) fn choose<V: OutputGroup>(
        &self,
        graph: &Graph,
        trained: impl FnOnce() -> Result<V>,
        asked: impl FnOnce() -> Result<V>,
    ) -> Result<V> {
        match self {
            Training::Yes => trained(),
            Training::No => asked(),
            Training::If(predicate) => graph.cond(predicate, trained, asked),
        }
    }
}
