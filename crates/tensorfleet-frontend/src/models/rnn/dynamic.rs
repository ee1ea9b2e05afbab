//! [`DynamicRnn`]: a cell in a loop.

use tensorfleet_core::{DType, PartialShape, Result, Status, ensure};

use super::{RnnCell, batch_size, check_state, features_of, zero_state};
use crate::graph::{Graph, Operand, Output, TensorArray};

/// A recurrent network about to be built; see [`Graph::dynamic_rnn`].
#[must_use = "nothing is added to the graph before `build`"]
pub struct DynamicRnn<'a> {
    graph: Graph,
    cell: &'a dyn RnnCell,
    sequence_length: Option<Result<Output>>,
    initial_state: Option<Vec<Output>>,
    is_time_major: bool,
}

impl Graph {
    /// Applies a cell to sequences (batch × time × features) of any length, from a state of zeros if no other is given.
    /// Variables stand in the variable scope `rnn`.
    ///
    /// ```
    /// # use tensorfleet::{DType, Graph, LstmCell};
    /// let g = Graph::new();
    /// let texts = g.placeholder(DType::Float, [-1, -1, 5]);
    /// let (outputs, state) = g.dynamic_rnn(&LstmCell::new(4)).sequence_length([7, 3]).build(&texts)?;
    /// assert_eq!(outputs.shape()?.to_string(), "[?,?,4]");
    /// assert_eq!(state.len(), 2);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn dynamic_rnn<'a>(&self, cell: &'a dyn RnnCell) -> DynamicRnn<'a> {
        DynamicRnn {
            graph: self.clone(),
            cell,
            sequence_length: None,
            initial_state: None,
            is_time_major: false,
        }
    }
}

impl DynamicRnn<'_> {
    /// How long each sequence of the batch is. Beyond its end outputs are zero and the state stays as it is.
    pub fn sequence_length(mut self, lengths: impl Operand) -> Self {
        let lengths = lengths.into_arg().into_output(&self.graph, "sequence_length", Some(DType::Int32));
        self.sequence_length = Some(lengths);
        self
    }

    /// What the state starts with, instead of zeros.
    pub fn initial_state(mut self, state: Vec<Output>) -> Self {
        self.initial_state = Some(state);
        self
    }

    /// Inputs and outputs have time as their first dimension and the batch as their second, which saves two transpositions.
    pub fn time_major(mut self) -> Self {
        self.is_time_major = true;
        self
    }

    /// Builds the network: the outputs, and the state after the last step.
    pub fn build(self, inputs: &Output) -> Result<(Output, Vec<Output>)> {
        let graph = self.graph.clone();
        graph.variable_scope("rnn", || {
            if self.is_time_major {
                return self.over_time(inputs);
            }
            let rank = inputs.shape()?.rank();
            ensure!(
                rank == Some(3),
                InvalidArgument,
                "dynamic_rnn takes inputs of three dimensions, got the shape {}",
                inputs.shape()?
            );
            let (outputs, state) = self.over_time(&inputs.transpose([1, 0, 2])?)?;
            Ok((outputs.transpose([1, 0, 2])?, state))
        })
    }

    fn over_time(self, inputs: &Output) -> Result<(Output, Vec<Output>)> {
        let (graph, dtype, shape) = (&self.graph, inputs.dtype()?, inputs.shape()?);
        let features = features_of(inputs, 2)?;
        let step = self.cell.build(graph, features, dtype)?;
        let state = match self.initial_state {
            Some(state) => state,
            None => zero_state(graph, self.cell, &batch_size(inputs, 1)?, dtype)?,
        };
        check_state(self.cell, &state)?;
        let lengths = match self.sequence_length.transpose()? {
            Some(lengths) => Some(lengths.cast(DType::Int32)?.expand_dims(1)?),
            None => None,
        };
        let time_steps = inputs.shape_tensor()?.index(0)?;
        let array = |size: usize| {
            let element = PartialShape::new([shape.dim(1), Some(size)]);
            TensorArray::new(graph, &time_steps, dtype, element)
        };
        let read = array(features)?.unstack(inputs)?;
        let written = array(self.cell.output_size())?;

        // What goes round: the time, the flow of what is written, and the state.
        let mut start = vec![graph.constant_named("time", 0), written.flow().clone()];
        start.extend(state);
        let parts = |mut variables: Vec<Output>| {
            let state = variables.split_off(2.min(variables.len()));
            <[Output; 2]>::try_from(variables)
                .map(|[time, flow]| (time, flow, state))
                .map_err(|_| Status::internal("the loop of a dynamic_rnn carries a time and a flow"))
        };
        let ended = graph.while_loop(
            start,
            |variables| parts(variables)?.0.less(&time_steps),
            |variables| {
                let (time, flow, state) = parts(variables)?;
                let (mut output, mut next) = step(&read.read(&time)?, &state)?;
                if let Some(lengths) = &lengths {
                    let goes_on = lengths.greater(&time)?;
                    let choose = |then: &Output, otherwise: &Output| {
                        graph.op("SelectV2").input(&goes_on).input(then).input(otherwise).output()
                    };
                    output = choose(&output, &output.zeros_like()?)?;
                    for (next, before) in next.iter_mut().zip(&state) {
                        *next = choose(next, before)?;
                    }
                }
                let written = written.with_flow(&flow).write(&time, &output)?;
                let mut round = vec![(&time + 1).check()?, written.flow().clone()];
                round.extend(next);
                Ok(round)
            },
        )?;
        let (_, flow, state) = parts(ended)?;
        let outputs = written.with_flow(&flow).stack()?;
        let output_shape = [shape.dim(0), shape.dim(1), Some(self.cell.output_size())];
        outputs.set_shape(PartialShape::new(output_shape))?;
        Ok((outputs, state))
    }
}
