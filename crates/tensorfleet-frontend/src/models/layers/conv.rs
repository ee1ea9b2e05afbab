//! Convolutions of images.

use tensorfleet_core::{Result, ensure};

use super::{DataFormat, Extent, Padding, Weighted, channels_of, in_layer, weighted_layer};
use crate::graph::{Graph, Output};

/// A convolutional layer about to be built; see [`Graph::conv2d`].
#[must_use = "nothing is added to the graph before `build`"]
pub struct Conv2d {
    graph: Graph,
    filters: usize,
    kernel_size: Extent,
    strides: Extent,
    dilation: Extent,
    padding: Padding,
    data_format: DataFormat,
    weighted: Weighted,
}

impl Graph {
    /// A convolutional layer of so many filters of one size: variables `NAME/kernel` (height, width, channels, filters) and
    /// `NAME/bias`, where the name is `conv2d`, `conv2d_1`, … if none is given.
    ///
    /// ```
    /// # use tensorfleet::{DType, Graph, Output, Padding};
    /// let g = Graph::new();
    /// let images = g.placeholder(DType::Float, [-1, 28, 28, 1]);
    /// let edges = g.conv2d(32, 5).padding(Padding::Same).activation(Output::relu).build(&images)?;
    /// let smaller = g.conv2d(8, [3, 1]).strides(2).use_bias(false).build(&edges)?;
    /// assert_eq!(smaller.shape()?.to_string(), "[?,13,14,8]");
    /// let names: Vec<String> = g.trainable_variables().iter().map(|v| v.name()).collect();
    /// assert_eq!(names, ["conv2d/kernel", "conv2d/bias", "conv2d_1/kernel"]);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn conv2d(&self, filters: usize, kernel_size: impl Into<Extent>) -> Conv2d {
        Conv2d {
            graph: self.clone(),
            filters,
            kernel_size: kernel_size.into(),
            strides: Extent::from(1),
            dilation: Extent::from(1),
            padding: Padding::default(),
            data_format: DataFormat::default(),
            weighted: Weighted::new(),
        }
    }
}

weighted_layer!(Conv2d);

impl Conv2d {
    /// How far the filters move from one position to the next; 1 if nothing is said.
    pub fn strides(mut self, strides: impl Into<Extent>) -> Conv2d {
        self.strides = strides.into();
        self
    }

    /// How far the points are apart that a filter looks at; 1 if nothing is said. Strides must be 1 if it is more.
    pub fn dilation(mut self, dilation: impl Into<Extent>) -> Conv2d {
        self.dilation = dilation.into();
        self
    }

    /// What happens at the borders; filters stay inside if nothing is said.
    pub fn padding(mut self, padding: Padding) -> Conv2d {
        self.padding = padding;
        self
    }

    /// The order of the dimensions; channels are last if nothing is said.
    pub fn data_format(mut self, data_format: DataFormat) -> Conv2d {
        self.data_format = data_format;
        self
    }

    /// Builds the layer on a batch of images.
    pub fn build(self, x: &Output) -> Result<Output> {
        let (graph, name) = (self.graph.clone(), self.weighted.name.clone());
        in_layer(&graph, name.as_deref(), "conv2d", || self.layer(x))
    }

    fn layer(mut self, x: &Output) -> Result<Output> {
        let (dtype, format) = (x.dtype()?, self.data_format);
        let one = Extent::from(1);
        ensure!(
            self.strides == one || self.dilation == one,
            InvalidArgument,
            "strides {:?} and dilation {:?} of a conv2d layer cannot both differ from 1",
            self.strides.0,
            self.dilation.0
        );
        let channels = channels_of(x, format, "conv2d")?;
        let Extent([height, width]) = self.kernel_size;
        let shape = [height, width, channels, self.filters];
        let (kernel, bias) = self.weighted.variables(&self.graph, dtype, &shape)?;
        let convolved = x
            .op("Conv2D")
            .input(&kernel)
            .attr("strides", format.on_axes(self.strides))
            .attr("dilations", format.on_axes(self.dilation))
            .attr("padding", self.padding.as_attr())
            .attr("data_format", format.as_attr());
        let mut y = convolved.output()?;
        if let Some(bias) = bias {
            y = y.op("BiasAdd").input(&bias).attr("data_format", format.as_attr()).output()?;
        }
        self.weighted.activated(y)
    }
}
