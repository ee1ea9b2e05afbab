//! [`TensorArray`]: tensors that a loop writes or reads one after another.
//!
//! The array itself is a resource; what a loop carries is its *flow*, a number without meaning that orders writes before reads.

use tensorfleet_core::{DType, PartialShape, Result};

use super::graph::Graph;
use super::operand::Operand;
use super::output::Output;

/// Tensors of one shape, by index. Each is written once; gradients flow through reads and writes.
///
/// ```
/// # use tensorfleet::{DType, Graph, PartialShape, Session, TensorArray};
/// let g = Graph::new();
/// let squares = TensorArray::new(&g, 4, DType::Float, PartialShape::scalar())?;
/// let start = [g.constant(0), squares.flow().clone()];
/// let [_, flow] = g.while_loop(start, |[i, _]| i.less(4), |[i, flow]| {
///     let square = i.cast(DType::Float)?.square()?;
///     Ok([&i + 1, squares.with_flow(&flow).write(&i, square)?.flow().clone()])
/// })?;
/// let all = squares.with_flow(&flow).stack()?;
/// assert_eq!(Session::new(&g).run(&all)?.as_slice::<f32>()?, [0.0, 1.0, 4.0, 9.0]);
/// # Ok::<(), tensorfleet::Status>(())
/// ```
#[derive(Clone, Debug)]
pub struct TensorArray {
    handle: Output,
    flow: Output,
    dtype: DType,
    element_shape: PartialShape,
}

impl TensorArray {
    /// An array of so many tensors of a shape that may be partly known.
    pub fn new(
        graph: &Graph,
        size: impl Operand,
        dtype: DType,
        element_shape: PartialShape,
    ) -> Result<TensorArray> {
        let array = graph.op("TensorArrayV3").input(size).attr("dtype", dtype);
        let array = array.attr("element_shape", element_shape.clone()).attr("identical_element_shapes", true);
        let array = array.name("TensorArray").build()?;
        Ok(TensorArray { handle: array.output(0), flow: array.output(1), dtype, element_shape })
    }

    /// What orders reads after writes; the loop variable that stands for the array.
    pub fn flow(&self) -> &Output {
        &self.flow
    }

    /// The same array after what `flow` came from.
    pub fn with_flow(&self, flow: &Output) -> TensorArray {
        TensorArray { flow: flow.clone(), ..self.clone() }
    }

    /// Writes a tensor; the array that is returned has it.
    pub fn write(&self, index: impl Operand, value: impl Operand) -> Result<TensorArray> {
        let write = self.handle.op("TensorArrayWriteV3").input(index).input(value).input(&self.flow);
        Ok(self.with_flow(&write.output()?))
    }

    /// Reads a tensor.
    pub fn read(&self, index: impl Operand) -> Result<Output> {
        let read =
            self.handle.op("TensorArrayReadV3").input(index).input(&self.flow).attr("dtype", self.dtype);
        let value = read.output()?;
        value.set_shape(self.element_shape.clone())?;
        Ok(value)
    }

    /// Writes the slices of the first dimension of `value` to the indices 0, 1, ….
    pub fn unstack(&self, value: &Output) -> Result<TensorArray> {
        let graph = value.graph();
        let indices = graph.range(0, value.shape_tensor()?.index(0)?, 1)?;
        let scatter = self.handle.op("TensorArrayScatterV3").input(indices).input(value).input(&self.flow);
        Ok(self.with_flow(&scatter.output()?))
    }

    /// All tensors as one, whose first dimension is the index.
    pub fn stack(&self) -> Result<Output> {
        let graph = self.handle.graph();
        let size = self.handle.op("TensorArraySizeV3").input(&self.flow).output()?;
        let gather = self.handle.op("TensorArrayGatherV3").input(graph.range(0, size, 1)?).input(&self.flow);
        let gather = gather.attr("dtype", self.dtype).attr("element_shape", self.element_shape.clone());
        gather.output()
    }
}
