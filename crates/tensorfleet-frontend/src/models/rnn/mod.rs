//! Recurrent networks: cells, and what applies them to sequences.
//!
//! [`Graph::static_rnn`] builds a cell's nodes once for each step of a sequence of known length; [`Graph::dynamic_rnn`] builds them
//! once, inside a loop, for sequences of any length. Values and names of variables (`rnn/lstm_cell/kernel`, …) are those of
//! TensorFlow 1.15.

mod cells;
mod dynamic;

pub use cells::{BasicRnnCell, CellStep, GruCell, LstmCell, MultiRnnCell, RnnCell};
pub use dynamic::DynamicRnn;

use tensorfleet_core::{DType, Result, Status, ensure};

use crate::graph::{Graph, Output};

impl Graph {
    /// Applies a cell to a sequence, one output (batch × features) for each step, from a state of zeros: the outputs, and
    /// the state at the end. Variables stand in the variable scope `rnn`.
    ///
    /// ```
    /// # use tensorfleet::{DType, Graph, LstmCell};
    /// let g = Graph::new();
    /// let steps: Vec<_> = (0..3).map(|_| g.placeholder(DType::Float, [8, 5])).collect();
    /// let (outputs, state) = g.static_rnn(&LstmCell::new(4), &steps, None)?;
    /// assert_eq!((outputs.len(), outputs[2].shape()?.to_string()), (3, "[8,4]".to_string()));
    /// assert_eq!(state.len(), 2);
    /// let names: Vec<String> = g.trainable_variables().iter().map(|v| v.name()).collect();
    /// assert_eq!(names, ["rnn/lstm_cell/kernel", "rnn/lstm_cell/bias"]);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn static_rnn(
        &self,
        cell: &dyn RnnCell,
        inputs: &[Output],
        initial_state: Option<Vec<Output>>,
    ) -> Result<(Vec<Output>, Vec<Output>)> {
        let Some(first) = inputs.first() else {
            return Err(Status::invalid_argument("static_rnn needs a sequence of at least one step"));
        };
        let (dtype, features) = (first.dtype()?, features_of(first, 1)?);
        self.variable_scope("rnn", || {
            let step = cell.build(self, features, dtype)?;
            let mut state = match initial_state {
                Some(state) => state,
                None => zero_state(self, cell, &batch_size(first, 0)?, dtype)?,
            };
            check_state(cell, &state)?;
            let mut outputs = Vec::with_capacity(inputs.len());
            for input in inputs {
                let (output, next) = step(input, &state)?;
                outputs.push(output);
                state = next;
            }
            Ok((outputs, state))
        })
    }
}

/// How large the batch is: known in advance, or computed.
enum BatchSize {
    Known(usize),
    Computed(Output),
}

fn batch_size(input: &Output, axis: usize) -> Result<BatchSize> {
    match input.shape()?.dim(axis) {
        Some(size) => Ok(BatchSize::Known(size)),
        None => {
            let axis = i32::try_from(axis).unwrap_or(i32::MAX);
            input.shape_tensor()?.index(axis).map(BatchSize::Computed)
        }
    }
}

/// Zeros for each part of a cell's state.
fn zero_state(graph: &Graph, cell: &dyn RnnCell, batch: &BatchSize, dtype: DType) -> Result<Vec<Output>> {
    let zeros = |size: usize| match batch {
        BatchSize::Known(batch) => graph.zeros(dtype, [*batch, size]),
        BatchSize::Computed(batch) => {
            let size = i32::try_from(size)
                .map_err(|_| Status::invalid_argument(format!("a state of {size} numbers is too large")))?;
            let dims = graph.stack([batch.clone(), graph.constant(size)])?;
            graph.fill(dims, graph.literal("zero", 0.0, dtype)?)
        }
    };
    graph.name_scope("zeros", || cell.state_sizes().into_iter().map(zeros).collect())
}

/// The number of features of an input, its last dimension.
fn features_of(input: &Output, axis: usize) -> Result<usize> {
    let shape = input.shape()?;
    let known = shape.dim(axis).filter(|_| shape.rank() == Some(axis + 1));
    known.ok_or_else(|| {
        Status::invalid_argument(format!(
            "A recurrent network takes inputs of {} dimensions of which the last is known, got the shape {shape}",
            axis + 1
        ))
    })
}

fn check_state(cell: &dyn RnnCell, state: &[Output]) -> Result<()> {
    let sizes = cell.state_sizes();
    ensure!(
        sizes.len() == state.len(),
        InvalidArgument,
        "the state of this cell has {} parts (of sizes {sizes:?}), but {} were given",
        sizes.len(),
        state.len()
    );
    Ok(())
}
