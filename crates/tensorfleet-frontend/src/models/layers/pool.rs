//! Pooling layers: max and average pooling of images.

use tensorfleet_core::{Result, ensure};

use super::{DataFormat, Extent, Padding};
use crate::graph::{Graph, Output};

/// A pooling layer about to be built; see [`Graph::max_pool2d`] and [`Graph::avg_pool2d`].
#[must_use = "nothing is added to the graph before `build`"]
pub struct Pool2d {
    graph: Graph,
    kind: Kind,
    pool_size: Extent,
    strides: Extent,
    padding: Padding,
    data_format: DataFormat,
}

#[derive(Clone, Copy)]
enum Kind {
    Max,
    Average,
}

impl Graph {
    /// Max pooling: the maximum of each window of this size, for each channel; windows begin `strides` apart.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session};
    /// let g = Graph::new();
    /// let image = g.constant([[1.0f32, 2.0, 5.0, 6.0], [3.0, 4.0, 7.0, 8.0]]).reshape([1, 2, 4, 1])?;
    /// let pooled = g.max_pool2d(2, 2).build(&image)?;
    /// assert_eq!(Session::new(&g).run(&pooled)?.as_slice::<f32>()?, [4.0, 8.0]);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn max_pool2d(&self, pool_size: impl Into<Extent>, strides: impl Into<Extent>) -> Pool2d {
        Pool2d::new(self, Kind::Max, pool_size.into(), strides.into())
    }

    /// Average pooling: the mean of each window of this size, for each channel; windows begin `strides` apart.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session};
    /// let g = Graph::new();
    /// let image = g.constant([[1.0f32, 2.0, 5.0, 6.0], [3.0, 4.0, 7.0, 8.0]]).reshape([1, 2, 4, 1])?;
    /// let pooled = g.avg_pool2d(2, 2).build(&image)?;
    /// assert_eq!(Session::new(&g).run(&pooled)?.as_slice::<f32>()?, [2.5, 6.5]);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn avg_pool2d(&self, pool_size: impl Into<Extent>, strides: impl Into<Extent>) -> Pool2d {
        Pool2d::new(self, Kind::Average, pool_size.into(), strides.into())
    }
}

impl Pool2d {
    fn new(graph: &Graph, kind: Kind, pool_size: Extent, strides: Extent) -> Pool2d {
        let (padding, data_format) = (Padding::default(), DataFormat::default());
        Pool2d { graph: graph.clone(), kind, pool_size, strides, padding, data_format }
    }

    /// What happens at the borders; windows stay inside if nothing is said.
    pub fn padding(mut self, padding: Padding) -> Pool2d {
        self.padding = padding;
        self
    }

    /// The order of the dimensions; channels are last if nothing is said.
    pub fn data_format(mut self, data_format: DataFormat) -> Pool2d {
        self.data_format = data_format;
        self
    }

    /// Builds the layer on a batch of images.
    pub fn build(self, x: &Output) -> Result<Output> {
        let (scope, op) = match self.kind {
            Kind::Max => ("max_pooling2d", "MaxPool"),
            Kind::Average => ("average_pooling2d", "AvgPool"),
        };
        let format = self.data_format;
        self.graph.name_scope(scope, || {
            x.op(op)
                .attr("ksize", format.on_axes(self.pool_size))
                .attr("strides", format.on_axes(self.strides))
                .attr("padding", self.padding.as_attr())
                .attr("data_format", format.as_attr())
                .output()
        })
    }

    /// Max pooling with argmax: the second output has, for each maximum, the index of its element in its image (int64). Channels are last.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session};
    /// let g = Graph::new();
    /// let image = g.constant([[1.0f32, 2.0, 8.0, 6.0], [3.0, 4.0, 7.0, 5.0]]).reshape([1, 2, 4, 1])?;
    /// let (maxima, places) = g.max_pool2d(2, 2).build_with_places(&image)?;
    /// let (maxima, places) = Session::new(&g).run((&maxima, &places))?;
    /// assert_eq!((maxima.as_slice::<f32>()?, places.as_slice::<i64>()?), (&[4.0, 8.0][..], &[5, 2][..]));
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn build_with_places(self, x: &Output) -> Result<(Output, Output)> {
        let channels_last = DataFormat::default();
        ensure!(
            matches!(self.kind, Kind::Max) && self.data_format == channels_last,
            InvalidArgument,
            "only a pool of maxima with channels last says where they are"
        );
        self.graph.name_scope("max_pooling2d", || {
            let pool = x
                .op("MaxPoolWithArgmax")
                .attr("ksize", channels_last.on_axes(self.pool_size))
                .attr("strides", channels_last.on_axes(self.strides))
                .attr("padding", self.padding.as_attr())
                .build()?;
            Ok((pool.output(0).check()?, pool.output(1).check()?))
        })
    }
}
