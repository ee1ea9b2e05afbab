//! Batch normalisation.
//!
//! In training each channel is shifted and scaled to mean 0 and variance 1 over the batch; in inference, by moving
//! averages of what training saw. The averages change when the ops of the collection [`UPDATE_OPS`] run, which a training
//! program must see to. Images go through `FusedBatchNorm`, whose moving variance is, as in TensorFlow, the unbiased one.

use tensorfleet_core::{DType, Result, Status, ensure};

use super::{DataFormat, Training, in_layer};
use crate::graph::{Graph, Operation, Output, Variable};
use crate::variables::Initializer;

/// The collection of ops that should run with each training step; see [`Graph::update_ops`].
pub const UPDATE_OPS: &str = "update_ops";

/// A layer of batch normalisation about to be built; see [`Graph::batch_normalization`].
#[must_use = "nothing is added to the graph before `build`"]
pub struct BatchNorm {
    graph: Graph,
    name: Option<String>,
    training: Training,
    momentum: f64,
    epsilon: f64,
    center: bool,
    scale: bool,
    data_format: DataFormat,
}

impl Graph {
    /// Normalises each channel (the last dimension of a matrix): variables `NAME/gamma`, `NAME/beta`, `NAME/moving_mean` and
    /// `NAME/moving_variance`, where the name is `batch_normalization`, `batch_normalization_1`, … if none is given.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session};
    /// # use tensorfleet::train::{GradientDescent, Optimizer};
    /// let g = Graph::new();
    /// let x = g.constant([[1.0f32, 10.0], [3.0, 30.0]]);
    /// let y = g.batch_normalization().training(true).momentum(0.5).build(&x)?;
    /// let loss = y.square()?.reduce_mean(..)?;
    /// // The moving averages follow with each training step.
    /// let train = g.control_dependencies(g.update_ops(), || GradientDescent::new(0.1).minimize(&loss))?;
    ///
    /// let session = Session::new(&g);
    /// session.run(g.global_variables_initializer()?)?;
    /// let normal = session.run(&y)?;
    /// assert!((normal.as_slice::<f32>()?[0] + 1.0).abs() < 1e-2);
    /// session.run(&train)?;
    /// let moving_mean = &g.global_variables()[2];
    /// assert_eq!(session.run(moving_mean)?.as_slice::<f32>()?, [1.0, 10.0]);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn batch_normalization(&self) -> BatchNorm {
        BatchNorm {
            graph: self.clone(),
            name: None,
            training: Training::No,
            momentum: 0.99,
            epsilon: 1e-3,
            center: true,
            scale: true,
            data_format: DataFormat::default(),
        }
    }

    /// What should run with each training step although no loss depends on it, such as the moving averages of
    /// [`Graph::batch_normalization`]: what the collection [`UPDATE_OPS`] holds.
    pub fn update_ops(&self) -> Vec<Operation> {
        self.collection(UPDATE_OPS).iter().map(Output::operation).collect()
    }
}

impl BatchNorm {
    /// Names the layer.
    pub fn name(mut self, name: &str) -> BatchNorm {
        self.name = Some(name.to_string());
        self
    }

    /// Training or inference mode: a `bool`, or an output that decides in each run. Inference is the default.
    pub fn training(mut self, training: impl Into<Training>) -> BatchNorm {
        self.training = training.into();
        self
    }

    /// Which part of themselves the moving averages keep at each step; 0.99 if nothing is said.
    pub fn momentum(mut self, momentum: f64) -> BatchNorm {
        self.momentum = momentum;
        self
    }

    /// What is added to the variance, so that it is never zero; 0.001 if nothing is said.
    pub fn epsilon(mut self, epsilon: f64) -> BatchNorm {
        self.epsilon = epsilon;
        self
    }

    /// Whether an offset (`beta`) is learned; it is if nothing is said.
    pub fn center(mut self, center: bool) -> BatchNorm {
        self.center = center;
        self
    }

    /// Whether a scale (`gamma`) is learned; it is if nothing is said.
    pub fn scale(mut self, scale: bool) -> BatchNorm {
        self.scale = scale;
        self
    }

    /// The order of the dimensions of images; channels are last if nothing is said.
    pub fn data_format(mut self, data_format: DataFormat) -> BatchNorm {
        self.data_format = data_format;
        self
    }

    /// Builds the layer on a matrix or a batch of images.
    pub fn build(self, x: &Output) -> Result<Output> {
        let graph = self.graph.clone();
        in_layer(&graph, self.name.as_deref(), "batch_normalization", || self.layer(x))
    }

    fn layer(&self, x: &Output) -> Result<Output> {
        let shape = x.shape()?;
        let (rank, axis) = match shape.rank() {
            Some(4) => (4, self.data_format.channel_axis()),
            Some(2) => (2, 1),
            _ => {
                return Err(Status::invalid_argument(format!(
                    "batch_normalization takes a matrix or a batch of images, got the shape {shape}"
                )));
            }
        };
        let channels = shape.dim(axis).ok_or_else(|| {
            Status::invalid_argument(format!(
                "batch_normalization must know the number of channels, got the shape {shape}"
            ))
        })?;
        ensure!(
            (0.0..=1.0).contains(&self.momentum),
            InvalidArgument,
            "the momentum of batch_normalization must lie between 0 and 1, got {}",
            self.momentum
        );
        let own = Own::new(self, x.dtype()?, channels)?;
        let [y, mean, variance] = match rank {
            4 => self.fused(x, &own)?,
            _ => self.of_matrix(x, &own)?,
        };
        if !matches!(self.training, Training::No) {
            for (average, value) in [(&own.moving_mean, &mean), (&own.moving_variance, &variance)] {
                self.follow(average, value)?;
            }
        }
        Ok(y)
    }

    /// The normalised images, and the mean and variance that the averages should follow.
    fn fused(&self, x: &Output, own: &Own) -> Result<[Output; 3]> {
        let graph = &self.graph;
        let fused = |mean: &Output, variance: &Output, is_training: bool| -> Result<[Output; 3]> {
            let op = x.op("FusedBatchNormV3").input(&own.gamma).input(&own.beta).input(mean).input(variance);
            let op = op.attr("epsilon", self.epsilon as f32).attr("is_training", is_training);
            let normal = op.attr("data_format", self.data_format.as_attr()).build()?;
            Ok([normal.output(0), normal.output(1), normal.output(2)])
        };
        let averages = || (own.moving_mean.value(), own.moving_variance.value());
        self.training.choose(
            graph,
            || {
                let none = graph.constant(Vec::<f32>::new());
                fused(&none, &none, true)
            },
            || {
                let (mean, variance) = averages();
                let [y, ..] = fused(&mean, &variance, false)?;
                Ok([y, mean, variance])
            },
        )
    }

    fn of_matrix(&self, x: &Output, own: &Own) -> Result<[Output; 3]> {
        let graph = &self.graph;
        let of_batch = || x.moments(&[0]).map(|(mean, variance)| [mean, variance]);
        let averages = || Ok([own.moving_mean.value(), own.moving_variance.value()]);
        let [mean, variance] = self.training.choose(graph, of_batch, averages)?;
        graph.name_scope("batchnorm", || {
            let factor = (&variance + self.epsilon).check()?.rsqrt()?.mul(&own.gamma)?;
            let offset = (&own.beta - mean.mul(&factor)?).check()?;
            let y = x.mul(&factor)?.add(offset)?;
            Ok([y, mean.clone(), variance.clone()])
        })
    }

    /// Moves an average towards `value`, when the op that is added to the collection runs.
    fn follow(&self, average: &Variable, value: &Output) -> Result<()> {
        let graph = &self.graph;
        let update = graph.name_scope("AssignMovingAvg", || {
            graph.colocate_with(average, || {
                // In runs without training the value is the average itself, and nothing changes.
                let rest = graph.literal("decay", 1.0 - self.momentum, average.dtype()?)?;
                let distance = (average.value() - value).check()?;
                average.assign_sub((distance * rest).check()?)
            })
        })?;
        graph.add_to_collection(UPDATE_OPS, &update)
    }
}

/// What the layer keeps.
struct Own {
    gamma: Output,
    beta: Output,
    moving_mean: Variable,
    moving_variance: Variable,
}

impl Own {
    fn new(layer: &BatchNorm, dtype: DType, channels: usize) -> Result<Own> {
        let graph = &layer.graph;
        let variable = |name: &str, initializer: Initializer| {
            graph.get_variable(name).shape([channels]).dtype(dtype).initializer(initializer)
        };
        let gamma = match layer.scale {
            true => variable("gamma", Initializer::ones()).build()?.value().check()?,
            false => graph.ones(dtype, [channels])?,
        };
        let beta = match layer.center {
            true => variable("beta", Initializer::zeros()).build()?.value().check()?,
            false => graph.zeros(dtype, [channels])?,
        };
        let moving_mean = variable("moving_mean", Initializer::zeros()).untrainable().build()?;
        let moving_variance = variable("moving_variance", Initializer::ones()).untrainable().build()?;
        Ok(Own { gamma, beta, moving_mean, moving_variance })
    }
}
