//! [`Queue`]: tensors that wait in the server between runs.

use tensorfleet_core::{DType, PartialShape, Result};

use crate::graph::Graph;
use crate::literal::ShapeLike;
use crate::operand::{Operand, OperandList};
use crate::operation::Operation;
use crate::output::Output;

/// A queue of elements, each of one or more tensors.
///
/// ```
/// # use tensorfleet::{DType, Graph, Session};
/// let g = Graph::new();
/// let queue = g.fifo_queue(10, &[DType::Int32, DType::String])?;
/// let (put, take) = (queue.enqueue((7, "seven"))?, queue.dequeue()?);
/// let session = Session::new(&g);
/// session.run(&put)?;
/// let element = session.run(&take)?;
/// assert_eq!(element[0].to_scalar::<i32>()?, 7);
/// # Ok::<(), tensorfleet::Status>(())
/// ```
#[derive(Clone, Debug)]
pub struct Queue {
    handle: Output,
    name: String,
    types: Vec<DType>,
}

impl Graph {
    /// A queue that gives elements in the order they came; `capacity` is negative for no bound.
    pub fn fifo_queue(&self, capacity: i64, types: &[DType]) -> Result<Queue> {
        self.queue_with("FIFOQueueV2", "fifo_queue", capacity, types, Vec::new())
    }

    /// A queue whose elements have these shapes, so that many can be dequeued as one batch.
    pub fn fifo_queue_of<S: ShapeLike>(
        &self,
        capacity: i64,
        elements: impl IntoIterator<Item = (DType, S)>,
    ) -> Result<Queue> {
        let (mut types, mut shapes) = (Vec::new(), Vec::new());
        for (dtype, shape) in elements {
            types.push(dtype);
            shapes.push(shape.to_partial_shape()?);
        }
        self.queue_with("FIFOQueueV2", "fifo_queue", capacity, &types, shapes)
    }

    fn queue_with(
        &self,
        op: &str,
        name: &str,
        capacity: i64,
        types: &[DType],
        shapes: Vec<PartialShape>,
    ) -> Result<Queue> {
        let node = self.op(op).name(name).attr("component_types", types.to_vec()).attr("capacity", capacity);
        // TensorFlow asks for a CPU, since queues have no other kernels.
        let handle = node.attr("shapes", shapes).device("/device:CPU:*").output()?;
        let name = handle.operation().name();
        Ok(Queue { handle, name, types: types.to_vec() })
    }
}

impl Queue {
    /// The queue's handle.
    pub fn handle(&self) -> &Output {
        &self.handle
    }

    /// Puts one element of one or several tensors; waits while the queue is full.
    pub fn enqueue(&self, element: impl OperandList) -> Result<Operation> {
        let node = self.op("QueueEnqueueV2", "enqueue").inputs(element);
        node.attr("Tcomponents", self.types.clone()).build()
    }

    /// Puts one element for each row of the tensors.
    pub fn enqueue_many(&self, elements: impl OperandList) -> Result<Operation> {
        let node = self.op("QueueEnqueueManyV2", "EnqueueMany").inputs(elements);
        node.attr("Tcomponents", self.types.clone()).build()
    }

    /// Takes one element; waits while the queue is empty.
    pub fn dequeue(&self) -> Result<Vec<Output>> {
        let node = self.op("QueueDequeueV2", "Dequeue").attr("component_types", self.types.clone());
        node.build()?.outputs()
    }

    /// Takes `count` elements as one batch; waits until there are so many.
    pub fn dequeue_many(&self, count: impl Operand) -> Result<Vec<Output>> {
        let node = self.op("QueueDequeueManyV2", "DequeueMany").input(count);
        node.attr("component_types", self.types.clone()).build()?.outputs()
    }

    /// How many elements there are.
    pub fn size(&self) -> Result<Output> {
        self.op("QueueSizeV2", "Size").output()
    }

    /// Refuses further elements; those inside can still be taken. Cancels enqueues that wait if `cancel_pending`.
    pub fn close(&self, cancel_pending: bool) -> Result<Operation> {
        self.op("QueueCloseV2", "Close").attr("cancel_pending_enqueues", cancel_pending).build()
    }

    fn op(&self, op: &str, suffix: &str) -> crate::op_builder::OpBuilder {
        let graph = self.handle.graph();
        // The queue's name holds its scope already; TensorFlow appends to the last part.
        let local = self.name.rsplit('/').next().unwrap_or(&self.name);
        graph.op(op).input(&self.handle).name(&format!("{local}_{suffix}"))
    }
}
