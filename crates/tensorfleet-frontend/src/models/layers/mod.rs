//! Layers: functions of a value that bring their own variables.
//!
//! Each is begun by a method of [`Graph`], told what differs from the usual, and built on a value. Variables have the names,
//! shapes and initial values that `tf.layers` of TensorFlow 1.15 gives them (`conv2d/kernel`, `conv2d_1/bias`, …), so that
//! checkpoints fit. A layer without a name gets one of its own; one with a name that is built again inside a scope that shares
//! variables ([`crate::Reuse`]) finds them.

mod batch_norm;
mod conv;
mod dense;
mod dropout;
mod pool;
mod training;

pub use batch_norm::{BatchNorm, UPDATE_OPS};
pub use conv::Conv2d;
pub use dense::Dense;
pub use dropout::Dropout;
pub use pool::Pool2d;
pub use training::Training;

use tensorfleet_core::{DType, Result, Status};

use crate::graph::{Graph, Output, Variable};
use crate::variables::{Initializer, Regularizer};

type Activation = Box<dyn FnOnce(&Output) -> Result<Output>>;

/// What layers with a kernel and a bias have in common.
struct Weighted {
    name: Option<String>,
    use_bias: bool,
    activation: Option<Activation>,
    kernel_initializer: Option<Initializer>,
    bias_initializer: Initializer,
    kernel_regularizer: Option<Regularizer>,
}

impl Weighted {
    fn new() -> Weighted {
        Weighted {
            name: None,
            use_bias: true,
            activation: None,
            kernel_initializer: None,
            bias_initializer: Initializer::zeros(),
            kernel_regularizer: None,
        }
    }

    /// The variables `kernel` and `bias` of the scope around.
    fn variables(
        &mut self,
        graph: &Graph,
        dtype: DType,
        shape: &[usize],
    ) -> Result<(Variable, Option<Variable>)> {
        let mut kernel = graph.get_variable("kernel").shape(shape).dtype(dtype);
        if let Some(initializer) = self.kernel_initializer.take() {
            kernel = kernel.initializer(initializer);
        }
        if let Some(regularizer) = self.kernel_regularizer.take() {
            kernel = kernel.regularizer(regularizer);
        }
        let kernel = kernel.build()?;
        let bias = match (self.use_bias, shape.last()) {
            (true, Some(&units)) => {
                let bias = graph.get_variable("bias").shape([units]).dtype(dtype);
                Some(bias.initializer(self.bias_initializer.clone()).build()?)
            }
            _ => None,
        };
        Ok((kernel, bias))
    }

    fn activated(&mut self, sums: Output) -> Result<Output> {
        match self.activation.take() {
            Some(activation) => activation(&sums),
            None => Ok(sums),
        }
    }
}

/// The methods of layers with a kernel and a bias, in a field `weighted`.
macro_rules! weighted_layer {
    ($layer:ident) => {
        impl $layer {
            /// Names the layer.
            pub fn name(mut self, name: &str) -> $layer {
                self.weighted.name = Some(name.to_string());
                self
            }

            /// Whether there are biases; there are if nothing is said.
            pub fn use_bias(mut self, use_bias: bool) -> $layer {
                self.weighted.use_bias = use_bias;
                self
            }

            /// What is applied to the sums, such as [`Output::relu`](crate::Output::relu).
            pub fn activation(
                mut self,
                activation: impl FnOnce(&crate::Output) -> tensorfleet_core::Result<crate::Output> + 'static,
            ) -> $layer {
                self.weighted.activation = Some(Box::new(activation));
                self
            }

            /// What the weights start with; that of the variable scope if nothing is said.
            pub fn kernel_initializer(mut self, initializer: crate::Initializer) -> $layer {
                self.weighted.kernel_initializer = Some(initializer);
                self
            }

            /// What the biases start with; zeros if nothing is said.
            pub fn bias_initializer(mut self, initializer: crate::Initializer) -> $layer {
                self.weighted.bias_initializer = initializer;
                self
            }

            /// What keeps the weights small.
            pub fn kernel_regularizer(mut self, regularizer: crate::Regularizer) -> $layer {
                self.weighted.kernel_regularizer = Some(regularizer);
                self
            }
        }
    };
}
use weighted_layer;

/// Builds inside the variable scope of a layer: the one that is named, or a new one called after its kind.
fn in_layer<R>(graph: &Graph, name: Option<&str>, kind: &str, body: impl FnOnce() -> R) -> R {
    match name {
        Some(name) => graph.variable_scope(name, body),
        None => graph.unique_variable_scope(kind, body),
    }
}

/// How windows that slide over an image treat its borders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Padding {
    /// Windows stay inside the image.
    #[default]
    Valid,
    /// The image is surrounded by as much nothing as makes the result, with strides of 1, as large as the image.
    Same,
}

impl Padding {
    pub(crate) fn as_attr(self) -> &'static str {
        match self {
            Padding::Valid => "VALID",
            Padding::Same => "SAME",
        }
    }
}

/// The order of the dimensions of a batch of images.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DataFormat {
    /// Batch, height, width, channels.
    #[default]
    Nhwc,
    /// Batch, channels, height, width.
    Nchw,
}

impl DataFormat {
    pub(crate) fn as_attr(self) -> &'static str {
        match self {
            DataFormat::Nhwc => "NHWC",
            DataFormat::Nchw => "NCHW",
        }
    }

    fn channel_axis(self) -> usize {
        match self {
            DataFormat::Nhwc => 3,
            DataFormat::Nchw => 1,
        }
    }

    /// A number for each dimension: `extent` for those of the image, 1 for the others.
    fn on_axes(self, Extent([height, width]): Extent) -> Vec<i64> {
        let (height, width) = (height as i64, width as i64);
        match self {
            DataFormat::Nhwc => vec![1, height, width, 1],
            DataFormat::Nchw => vec![1, 1, height, width],
        }
    }
}

/// Two numbers for height and width: `3` stands for `[3, 3]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent(pub [usize; 2]);

impl From<usize> for Extent {
    fn from(both: usize) -> Extent {
        Extent([both; 2])
    }
}

impl From<[usize; 2]> for Extent {
    fn from(extent: [usize; 2]) -> Extent {
        Extent(extent)
    }
}

/// The number of channels of a batch of images.
fn channels_of(x: &Output, format: DataFormat, layer: &str) -> Result<usize> {
    let shape = x.shape()?;
    let channels = match shape.rank() {
        Some(4) => shape.dim(format.channel_axis()),
        _ => None,
    };
    channels.ok_or_else(|| {
        Status::invalid_argument(format!(
            "A {layer} layer takes images in the format {} whose number of channels is known, got the shape {shape}",
            format.as_attr()
        ))
    })
}

impl Graph {
    /// Each image, or whatever the first dimension counts, as one row.
    ///
    /// ```
    /// # use tensorfleet::{DType, Graph};
    /// let g = Graph::new();
    /// let images = g.placeholder(DType::Float, [-1, 7, 7, 64]);
    /// assert_eq!(g.flatten(&images)?.shape()?.to_string(), "[?,3136]");
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn flatten(&self, x: &Output) -> Result<Output> {
        let shape = x.shape()?;
        self.name_scope("flatten", || {
            let rest =
                shape.dims().and_then(|dims| dims.get(1..)?.iter().copied().collect::<Option<Vec<_>>>());
            let length = rest.and_then(|rest| rest.iter().try_fold(1usize, |all, &dim| all.checked_mul(dim)));
            match length.and_then(|length| i32::try_from(length).ok()) {
                // With a known length an empty batch has a shape as well.
                Some(length) if length > 0 => x.reshape([-1, length]),
                _ => {
                    let batch = x.shape_tensor()?.index(0)?;
                    x.reshape(self.stack([batch, self.constant(-1)])?)
                }
            }
        })
    }
}
