//! Cells: what happens in one step of a sequence.

use tensorfleet_core::{DType, Result, Status};

use crate::graph::{Graph, Output};
use crate::variables::Initializer;

/// One step of a cell whose variables exist: from the input and the state to the output and the next state.
pub type CellStep = Box<dyn Fn(&Output, &[Output]) -> Result<(Output, Vec<Output>)>>;

/// A recurrent cell. Its state is a list of matrices (batch × size).
///
/// ```
/// # use tensorfleet::{DType, Graph, GruCell, RnnCell};
/// let g = Graph::new();
/// let (x, h) = (g.placeholder(DType::Float, [8, 5]), g.placeholder(DType::Float, [8, 3]));
/// let step = GruCell::new(3).build(&g, 5, DType::Float)?;
/// let (output, state) = step(&x, &[h])?;
/// assert_eq!((output.shape()?.to_string(), state.len()), ("[8,3]".to_string(), 1));
/// # Ok::<(), tensorfleet::Status>(())
/// ```
pub trait RnnCell {
    /// The size of each part of the state.
    fn state_sizes(&self) -> Vec<usize>;

    /// The size of the output.
    fn output_size(&self) -> usize;

    /// Makes, or finds, the variables in the current variable scope.
    fn build(&self, graph: &Graph, input_size: usize, dtype: DType) -> Result<CellStep>;
}

/// A linear function of two values that stand beside each other: variables `kernel` and `bias` of the scope around.
fn linear(
    graph: &Graph,
    inputs: usize,
    outputs: usize,
    dtype: DType,
    bias: Initializer,
) -> Result<impl Fn(&Output, &Output) -> Result<Output> + use<>> {
    let kernel = graph.get_variable("kernel").shape([inputs, outputs]).dtype(dtype).build()?;
    let bias = graph.get_variable("bias").shape([outputs]).dtype(dtype).initializer(bias).build()?;
    let graph = graph.clone();
    Ok(move |a: &Output, b: &Output| graph.concat([a, b], 1)?.matmul(&kernel)?.bias_add(&bias))
}

fn part(state: &[Output], index: usize) -> Result<&Output> {
    state
        .get(index)
        .ok_or_else(|| Status::invalid_argument(format!("the state of a cell lacks its part {index}")))
}

/// The simplest cell: `tanh` of a linear function of input and state. Variables stand in the scope `basic_rnn_cell`.
#[derive(Clone, Debug)]
pub struct BasicRnnCell {
    units: usize,
}

impl BasicRnnCell {
    /// A cell of so many units.
    pub fn new(units: usize) -> BasicRnnCell {
        BasicRnnCell { units }
    }
}

impl RnnCell for BasicRnnCell {
    fn state_sizes(&self) -> Vec<usize> {
        vec![self.units]
    }

    fn output_size(&self) -> usize {
        self.units
    }

    fn build(&self, graph: &Graph, input_size: usize, dtype: DType) -> Result<CellStep> {
        let sums = graph.variable_scope("basic_rnn_cell", || {
            linear(graph, input_size + self.units, self.units, dtype, Initializer::zeros())
        })?;
        Ok(Box::new(move |input, state| {
            let output = sums(input, part(state, 0)?)?.tanh()?;
            Ok((output.clone(), vec![output]))
        }))
    }
}

/// Long short-term memory (Hochreiter and Schmidhuber, 1997). The state is the memory and the last output; variables stand in the
/// scope `lstm_cell`.
#[derive(Clone, Debug)]
pub struct LstmCell {
    units: usize,
    forget_bias: f64,
    scope: &'static str,
}

impl LstmCell {
    /// A cell of so many units, as `tf.nn.rnn_cell.LSTMCell`.
    pub fn new(units: usize) -> LstmCell {
        LstmCell { units, forget_bias: 1.0, scope: "lstm_cell" }
    }

    /// The same with variables in the scope `basic_lstm_cell`, for checkpoints of `tf.nn.rnn_cell.BasicLSTMCell`.
    pub fn basic(units: usize) -> LstmCell {
        LstmCell { scope: "basic_lstm_cell", ..LstmCell::new(units) }
    }

    /// What is added to the gate that keeps the memory, so that it is open at first; 1 if nothing is said.
    pub fn forget_bias(mut self, forget_bias: f64) -> LstmCell {
        self.forget_bias = forget_bias;
        self
    }
}

impl RnnCell for LstmCell {
    fn state_sizes(&self) -> Vec<usize> {
        vec![self.units; 2]
    }

    fn output_size(&self) -> usize {
        self.units
    }

    fn build(&self, graph: &Graph, input_size: usize, dtype: DType) -> Result<CellStep> {
        let sums = graph.variable_scope(self.scope, || {
            linear(graph, input_size + self.units, 4 * self.units, dtype, Initializer::zeros())
        })?;
        let forget_bias = self.forget_bias;
        Ok(Box::new(move |input, state| {
            let (memory, output) = (part(state, 0)?, part(state, 1)?);
            let [write, candidate, keep, tell] = four(sums(input, output)?.split(4, 1)?)?;
            let kept = memory.mul((&keep + forget_bias).sigmoid()?)?;
            let memory = kept.add(write.sigmoid()?.mul(candidate.tanh()?)?)?;
            let output = memory.tanh()?.mul(tell.sigmoid()?)?;
            Ok((output.clone(), vec![memory, output]))
        }))
    }
}

fn four(parts: Vec<Output>) -> Result<[Output; 4]> {
    parts.try_into().map_err(|_| Status::internal("the sums of a cell have four parts"))
}

/// Gated recurrent units (Cho et al., 2014). Variables stand in the scopes `gru_cell/gates` and `gru_cell/candidate`.
#[derive(Clone, Debug)]
pub struct GruCell {
    units: usize,
}

impl GruCell {
    /// A cell of so many units.
    pub fn new(units: usize) -> GruCell {
        GruCell { units }
    }
}

impl RnnCell for GruCell {
    fn state_sizes(&self) -> Vec<usize> {
        vec![self.units]
    }

    fn output_size(&self) -> usize {
        self.units
    }

    fn build(&self, graph: &Graph, input_size: usize, dtype: DType) -> Result<CellStep> {
        let (inputs, units) = (input_size + self.units, self.units);
        let (gates, candidate) = graph.variable_scope("gru_cell", || -> Result<_> {
            // Gates are half open at first.
            let gates = graph
                .variable_scope("gates", || linear(graph, inputs, 2 * units, dtype, Initializer::ones()))?;
            let candidate = graph
                .variable_scope("candidate", || linear(graph, inputs, units, dtype, Initializer::zeros()))?;
            Ok((gates, candidate))
        })?;
        Ok(Box::new(move |input, state| {
            let state = part(state, 0)?;
            let gates = gates(input, state)?.sigmoid()?.split(2, 1)?;
            let (reset, update) = (part(&gates, 0)?, part(&gates, 1)?);
            let candidate = candidate(input, &reset.mul(state)?)?.tanh()?;
            let output = (update * state + (1.0 - update) * candidate).check()?;
            Ok((output.clone(), vec![output]))
        }))
    }
}

/// Cells on top of each other: each takes the output of the one below. Variables stand in the scopes `multi_rnn_cell/cell_0`, ….
///
/// ```
/// # use tensorfleet::{DType, Graph, GruCell, LstmCell, MultiRnnCell};
/// let g = Graph::new();
/// let cell = MultiRnnCell::new(vec![Box::new(LstmCell::new(8)), Box::new(GruCell::new(4))]);
/// let x = g.placeholder(DType::Float, [2, 5]);
/// let (outputs, state) = g.static_rnn(&cell, &[x], None)?;
/// assert_eq!((outputs[0].shape()?.to_string(), state.len()), ("[2,4]".to_string(), 3));
/// # Ok::<(), tensorfleet::Status>(())
/// ```
pub struct MultiRnnCell {
    cells: Vec<Box<dyn RnnCell>>,
}

impl MultiRnnCell {
    /// These cells, the lowest first.
    pub fn new(cells: Vec<Box<dyn RnnCell>>) -> MultiRnnCell {
        MultiRnnCell { cells }
    }
}

impl RnnCell for MultiRnnCell {
    fn state_sizes(&self) -> Vec<usize> {
        self.cells.iter().flat_map(|cell| cell.state_sizes()).collect()
    }

    fn output_size(&self) -> usize {
        self.cells.last().map_or(0, |cell| cell.output_size())
    }

    fn build(&self, graph: &Graph, input_size: usize, dtype: DType) -> Result<CellStep> {
        let mut steps = Vec::with_capacity(self.cells.len());
        let mut inputs = input_size;
        for (index, cell) in self.cells.iter().enumerate() {
            let scope =
                || graph.variable_scope(&format!("cell_{index}"), || cell.build(graph, inputs, dtype));
            steps.push((graph.variable_scope("multi_rnn_cell", scope)?, cell.state_sizes().len()));
            inputs = cell.output_size();
        }
        Ok(Box::new(move |input, state| {
            let (mut output, mut rest, mut next) = (input.clone(), state, Vec::with_capacity(state.len()));
            for (step, parts) in &steps {
                let (own, above) = rest
                    .split_at_checked(*parts)
                    .ok_or_else(|| Status::invalid_argument("the state of a cell lacks parts"))?;
                let (value, state) = step(&output, own)?;
                (output, rest) = (value, above);
                next.extend(state);
            }
            Ok((output, next))
        }))
    }
}
