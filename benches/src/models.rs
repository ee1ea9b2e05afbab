//! Training steps of whole models, built with the Rust front end: a convolutional and a recurrent network.

use tensorfleet::train::{Adam, Optimizer};
use tensorfleet::{DType, Graph, LstmCell, Output, Padding};
use tensorfleet_core::{Result, Tensor};

use crate::workload::{Run, Workload};

/// The network of `examples/lenet.rs`: two convolutions with pools and three dense layers.
pub(crate) fn lenet(batch: usize) -> Result<Workload> {
    let g = Graph::new();
    g.set_random_seed(1);
    let images = g.placeholder(DType::Float, [-1, 784]);
    let labels = g.placeholder(DType::Int32, [-1]);
    let pictures = images.reshape([-1, 28, 28, 1])?;
    let edges =
        g.conv2d(6, 5).name("conv1").padding(Padding::Same).activation(Output::relu).build(&pictures)?;
    let edges = g.max_pool2d(2, 2).build(&edges)?;
    let shapes = g.conv2d(16, 5).name("conv2").activation(Output::relu).build(&edges)?;
    let shapes = g.max_pool2d(2, 2).build(&shapes)?;
    let hidden = g.dense(120).activation(Output::relu).build(&g.flatten(&shapes)?)?;
    let hidden = g.dense(84).activation(Output::relu).build(&hidden)?;
    let logits = g.dense(10).build(&hidden)?;
    let feeds = vec![(images, numbers(&[batch, 784])?), (labels.clone(), classes(&[batch], 10)?)];
    training(&format!("training/LeNet batch {batch}"), &g, &logits, &labels, feeds)
}

/// The network of `examples/char_lstm.rs`: a loop over characters.
pub(crate) fn lstm(batch: usize, steps: usize, units: usize) -> Result<Workload> {
    const CHARACTERS: i32 = 30;
    let g = Graph::new();
    g.set_random_seed(1);
    let [inputs, targets] = [(); 2].map(|()| g.placeholder(DType::Int32, [-1, -1]));
    let state = [(); 2].map(|()| g.placeholder(DType::Float, [-1, units as i64]));
    let cell = LstmCell::new(units);
    let rnn = g.dynamic_rnn(&cell).initial_state(state.to_vec());
    let (outputs, _) = rnn.build(&inputs.one_hot(CHARACTERS)?)?;
    let logits = g.dense(CHARACTERS as usize).build(&outputs.reshape([-1, units as i32])?)?;
    let characters = classes(&[batch, steps], CHARACTERS)?;
    let [memory, output] = state;
    let feeds = vec![
        (inputs, characters.clone()),
        (targets.clone(), characters),
        (memory, numbers(&[batch, units])?),
        (output, numbers(&[batch, units])?),
    ];
    let name = format!("training/LSTM {units} units, {steps} characters, batch {batch}");
    training(&name, &g, &logits, &targets.reshape([-1])?, feeds)
}

/// A step of Adam on the mean cross entropy.
fn training(
    name: &str,
    g: &Graph,
    logits: &Output,
    labels: &Output,
    feeds: Vec<(Output, Tensor)>,
) -> Result<Workload> {
    let loss = logits.sparse_softmax_cross_entropy(labels)?.reduce_mean(..)?;
    let train = Adam::new(0.001).minimize(&loss)?;
    let init = g.global_variables_initializer()?;
    let step = Run {
        feeds: feeds.into_iter().map(|(placeholder, value)| (placeholder.name(), value)).collect(),
        fetches: vec![loss.name()],
        targets: vec![train.name()],
    };
    Ok(Workload { name: name.into(), graph: g.to_graph_def(), setup: Run::target(&init.name()), step })
}

/// Numbers between 0 and 1.
fn numbers(dims: &[usize]) -> Result<Tensor> {
    let count = dims.iter().product();
    let numbers: Vec<f32> = (0..count).map(|i: usize| (i * 37 % 101) as f32 / 101.0).collect();
    Tensor::from_slice(&numbers, dims)
}

/// Classes below a limit.
fn classes(dims: &[usize], limit: i32) -> Result<Tensor> {
    let count = dims.iter().product();
    let classes: Vec<i32> = (0..count).map(|i: usize| (i * 7) as i32 % limit).collect();
    Tensor::from_slice(&classes, dims)
}
