//! The network of TensorFlow's `mnist_replica` tutorial: one hidden layer, softmax, the cross entropy minimised by Adam.

use std::time::Duration;

use tensorfleet::train::{Adam, MinimizeOptions, Optimizer, SyncReplicasHook, SyncReplicasOptimizer};
use tensorfleet::{
    ClusterSpec, DType, Graph, Operation, Output, Result, TaskId, Variable, replica_device_setter,
};

use super::arguments::MnistArguments;

/// How long a round waits for a worker that it can do without.
const PATIENCE: Duration = Duration::from_secs(10);

/// Pixels of a digit: 28 rows of 28.
const IMAGE_PIXELS: u32 = 28;
const PIXELS: u32 = IMAGE_PIXELS * IMAGE_PIXELS;
pub(super) const CLASSES: usize = 10;

/// A worker's copy of the graph; its variables are everybody's.
pub(super) struct DigitsModel {
    pub(super) graph: Graph,
    pub(super) images: Output,
    pub(super) labels: Output,
    pub(super) global_step: Variable,
    /// One step.
    pub(super) train: Operation,
    /// The cross entropy per digit. What is minimised is the sum, as in the tutorial; a mean can be compared between batches.
    pub(super) loss: Output,
    /// The part of the digits that is recognised.
    pub(super) accuracy: Output,
    /// The digit that each image is taken for.
    pub(super) guess: Output,
    /// The hook of synchronous training.
    pub(super) sync_hook: Option<SyncReplicasHook>,
}

impl DigitsModel {
    pub(super) fn build(
        arguments: &MnistArguments,
        cluster: &ClusterSpec,
        task: &TaskId,
    ) -> Result<DigitsModel> {
        let graph = Graph::new();
        graph.set_random_seed(arguments.seed.into());
        let worker_device = format!("/job:worker/task:{}", task.index);
        let devices = replica_device_setter().cluster(cluster).worker_device(&worker_device);
        graph.clone().device(devices, || {
            let global_step = graph.get_or_create_global_step()?;
            let images = graph.placeholder_named("images", DType::Float, [-1, PIXELS as i64]);
            let labels = graph.placeholder_named("labels", DType::Float, [-1, CLASSES as i64]);
            let (scores, probabilities) = layers(&graph, &images, arguments.hidden_units)?;
            let cross_entropy =
                (&labels * probabilities.clip_by_value(1e-10, 1.0)?.log()?).reduce_sum(..)?.neg()?;
            let guess = scores.argmax(1)?;
            let is_right = guess.equal(labels.argmax(1)?)?.cast(DType::Float)?;
            let digits = labels.reduce_sum(..)?;
            let loss = cross_entropy.div(&digits)?;
            graph.scalar_summary("loss", &loss)?;
            let accuracy = is_right.reduce_mean(..)?;
            graph.scalar_summary("accuracy", &accuracy)?;
            let (train, sync_hook) = optimize(
                arguments,
                &cross_entropy,
                &global_step,
                cluster.num_tasks("worker")?,
                task.index == 0,
            )?;
            Ok(DigitsModel {
                graph: graph.clone(),
                images,
                labels,
                global_step,
                train,
                loss,
                accuracy,
                guess,
                sync_hook,
            })
        })
    }
}

/// The scores of the ten classes, and the same as probabilities.
fn layers(graph: &Graph, images: &Output, hidden_units: u32) -> Result<(Output, Output)> {
    let (units, classes) = (hidden_units as i32, CLASSES as i32);
    let weights =
        |inputs: i32, outputs: i32, stddev: f32| graph.truncated_normal([inputs, outputs], 0.0, stddev);
    let hid_w = graph.variable("hid_w", weights(PIXELS as i32, units, 1.0 / IMAGE_PIXELS as f32)?);
    let hid_b = graph.variable("hid_b", graph.zeros(DType::Float, [units])?);
    let sm_w = graph.variable("sm_w", weights(units, classes, 1.0 / (units as f32).sqrt())?);
    let sm_b = graph.variable("sm_b", graph.zeros(DType::Float, [classes])?);
    let hidden = images.xw_plus_b(&hid_w, &hid_b)?.relu()?;
    let scores = hidden.xw_plus_b(&sm_w, &sm_b)?;
    let probabilities = scores.softmax()?;
    Ok((scores, probabilities))
}

fn optimize(
    arguments: &MnistArguments,
    cross_entropy: &Output,
    global_step: &Variable,
    num_workers: usize,
    is_chief: bool,
) -> Result<(Operation, Option<SyncReplicasHook>)> {
    let options = MinimizeOptions { global_step: Some(global_step.clone()), ..MinimizeOptions::default() };
    let adam = Adam::new(arguments.learning_rate);
    if !arguments.sync {
        return Ok((adam.minimize_with(cross_entropy, &options)?, None));
    }
    let aggregated = num_workers.saturating_sub(arguments.backup);
    let mut optimizer = SyncReplicasOptimizer::new(adam, aggregated).total_num_replicas(num_workers);
    if let Some(count) = arguments.min_replicas {
        optimizer = optimizer.min_replicas(count, PATIENCE);
    }
    let train = optimizer.minimize_with(cross_entropy, &options)?;
    Ok((train, Some(optimizer.make_session_hook(is_chief)?)))
}
