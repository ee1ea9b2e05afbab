//! Elements at other places: padded, reversed, scattered, sorted, grouped.

use tensorfleet_core::{DType, Result, Status};

use super::graph::Graph;
use super::operand::{Operand, OperandList};
use super::output::Output;

impl Output {
    /// With zeros around it: for every dimension, how many before and after.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session};
    /// let g = Graph::new();
    /// let x = g.constant([1, 2]).pad([[1, 2]])?;
    /// assert_eq!(Session::new(&g).run(&x)?.as_slice::<i32>()?, [0, 1, 2, 0, 0]);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn pad(&self, paddings: impl Operand) -> Result<Output> {
        self.binary("Pad", paddings)
    }

    /// With `value` around it.
    pub fn pad_with(&self, paddings: impl Operand, value: impl Operand) -> Result<Output> {
        self.op("PadV2").input(paddings).input(value).output()
    }

    /// Back to front along `axes`.
    pub fn reverse(&self, axes: impl Operand) -> Result<Output> {
        self.binary("ReverseV2", axes)
    }

    /// The first elements of each row back to front, as many as `lengths` says, along `axis`; rows are counted along dimension 0.
    pub fn reverse_sequence(&self, lengths: impl Operand, axis: i64) -> Result<Output> {
        self.op("ReverseSequence").input(lengths).attr("seq_dim", axis).output()
    }

    /// Repeated until it has `shape`, as arithmetic does it.
    pub fn broadcast_to(&self, shape: impl Operand) -> Result<Output> {
        self.binary("BroadcastTo", shape)
    }

    /// Ones of the same shape.
    pub fn ones_like(&self) -> Result<Output> {
        let graph = self.graph();
        graph.name_scope("ones_like", || {
            let scope = format!("{}/", graph.current_name_scope());
            let shape = match self.shape()?.to_shape() {
                Some(shape) => {
                    let dims: Vec<i32> = shape.iter().map(|&dim| dim as i32).collect();
                    graph.name_scope("Shape", || graph.constant_named("shape_as_tensor", dims))
                }
                None => self.shape_tensor()?,
            };
            let one = graph.literal("Const", 1.0, self.dtype()?)?;
            graph.op("Fill").input(shape).input(one).name(&scope).output()
        })
    }

    /// Slices by coordinates: one for each row of `indices`.
    pub fn gather_nd(&self, indices: impl Operand) -> Result<Output> {
        self.binary("GatherNd", indices)
    }

    /// Parts of these sizes along `axis`.
    pub fn split_sizes(&self, sizes: &[i64], axis: i32) -> Result<Vec<Output>> {
        let split = self.graph().op("SplitV").input(self).input(sizes.to_vec()).input(axis);
        split.attr("num_split", sizes.len() as i64).name("split").build()?.outputs()
    }

    /// The slices along `axis`, whose size must be known.
    pub fn unstack_along(&self, axis: i64) -> Result<Vec<Output>> {
        let shape = self.shape()?;
        let unknown = || Status::invalid_argument(format!("Cannot infer argument `num` from shape {shape}"));
        let rank = shape.rank().ok_or_else(unknown)? as i64;
        let at = if axis < 0 { axis + rank } else { axis };
        let count = usize::try_from(at).ok().and_then(|at| shape.dim(at)).ok_or_else(unknown)?;
        let node = self.op("Unpack").attr("num", count as i64).attr("axis", axis);
        node.name("unstack").build()?.outputs()
    }

    /// The elements of the last dimension in order, smallest first.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session};
    /// let g = Graph::new();
    /// let (sorted, order) = (g.constant([3, 1, 2]).sort()?, g.constant([3, 1, 2]).argsort()?);
    /// let (sorted, order) = Session::new(&g).run((&sorted, &order))?;
    /// assert_eq!((sorted.to_string(), order.to_string()), ("[1 2 3]".into(), "[1 2 0]".into()));
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn sort(&self) -> Result<Output> {
        self.graph().name_scope("sort", || self.neg()?.top_k(self.last_size()?)?.0.neg())
    }

    /// The places of the elements of the last dimension in order, smallest first.
    pub fn argsort(&self) -> Result<Output> {
        self.graph().name_scope("argsort", || Ok(self.neg()?.top_k(self.last_size()?)?.1))
    }

    fn last_size(&self) -> Result<Output> {
        self.shape_tensor()?.index(-1)
    }

    /// The elements of a vector without repetitions, and for each element which of them it is.
    pub fn unique(&self) -> Result<(Output, Output)> {
        let unique = self.op("Unique").build()?;
        Ok((unique.output(0), unique.output(1)))
    }

    /// Rows sorted into `count` values, by the number that `partitions` gives each.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session};
    /// let g = Graph::new();
    /// let parts = g.constant([10, 20, 30]).dynamic_partition([0, 1, 0], 2)?;
    /// assert_eq!(Session::new(&g).run(&parts[0])?.as_slice::<i32>()?, [10, 30]);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn dynamic_partition(&self, partitions: impl Operand, count: i64) -> Result<Vec<Output>> {
        self.op("DynamicPartition").input(partitions).attr("num_partitions", count).build()?.outputs()
    }

    /// For each of these lengths a row of `max_length` bools, as many of them true.
    pub fn sequence_mask(&self, max_length: i32) -> Result<Output> {
        let graph = self.graph();
        graph.name_scope("SequenceMask", || {
            let places = graph.range(0, max_length, 1)?;
            places.less(self.expand_dims(-1)?.cast(DType::Int32)?)
        })
    }

    /// The sums of the rows that have the same of `count` numbers.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session};
    /// let g = Graph::new();
    /// let sums = g.constant([1, 2, 3]).unsorted_segment_sum([0, 1, 0], 2)?;
    /// assert_eq!(Session::new(&g).run(&sums)?.as_slice::<i32>()?, [4, 2]);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn unsorted_segment_sum(&self, numbers: impl Operand, count: impl Operand) -> Result<Output> {
        self.op("UnsortedSegmentSum").input(numbers).input(count).output()
    }

    /// The largest of the rows that have the same of `count` numbers.
    pub fn unsorted_segment_max(&self, numbers: impl Operand, count: impl Operand) -> Result<Output> {
        self.op("UnsortedSegmentMax").input(numbers).input(count).output()
    }

    /// The sums of rows with the same number; numbers stand in order.
    pub fn segment_sum(&self, numbers: impl Operand) -> Result<Output> {
        self.binary("SegmentSum", numbers)
    }

    /// The means of rows with the same number; numbers stand in order.
    pub fn segment_mean(&self, numbers: impl Operand) -> Result<Output> {
        self.binary("SegmentMean", numbers)
    }

    /// The largest of rows with the same number; numbers stand in order.
    pub fn segment_max(&self, numbers: impl Operand) -> Result<Output> {
        self.binary("SegmentMax", numbers)
    }

    /// The rows in another order in each run.
    pub fn random_shuffle(&self) -> Result<Output> {
        let (seed, seed2) = self.graph().seeds();
        self.op("RandomShuffle").attr("seed", seed).attr("seed2", seed2).output()
    }
}

impl Graph {
    /// Values of one shape stacked along a new dimension.
    pub fn stack_along(&self, values: impl OperandList, axis: i64) -> Result<Output> {
        self.op("Pack").inputs(values).attr("axis", axis).name("stack").output()
    }

    /// The opposite of [`Output::dynamic_partition`]: the rows of each value at the places that its indices name.
    pub fn dynamic_stitch(&self, indices: impl OperandList, values: impl OperandList) -> Result<Output> {
        self.op("DynamicStitch").inputs(indices).inputs(values).output()
    }

    /// Zeros of shape `shape` with the rows of `updates` added at `indices`.
    pub fn scatter_nd(
        &self,
        indices: impl Operand,
        updates: impl Operand,
        shape: impl Operand,
    ) -> Result<Output> {
        self.op("ScatterNd").input(indices).input(updates).input(shape).output()
    }

    /// So many numbers from `start` to `stop`, both included, at equal distances.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session};
    /// let g = Graph::new();
    /// assert_eq!(Session::new(&g).run(g.linspace(0.0f32, 1.0f32, 3)?)?.as_slice::<f32>()?, [0.0, 0.5, 1.0]);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn linspace(&self, start: impl Operand, stop: impl Operand, count: impl Operand) -> Result<Output> {
        self.op("LinSpace").input(start).input(stop).input(count).output()
    }
}
