//! [`Queue`]: tensors that wait in the server between runs.

use tensorfleet_core::{DType, PartialShape, Result, ensure};

use crate::graph::{Arg, Graph, Operand, OperandList, Operation, Output, ShapeLike};

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
    /// The shapes of an element's components; empty if they are not known.
    shapes: Vec<PartialShape>,
}

/// A queue about to be built; see [`Graph::new_queue`].
#[must_use = "nothing is added to the graph before a kind of queue is chosen"]
pub struct QueueBuilder {
    graph: Graph,
    types: Vec<DType>,
    shapes: Result<Vec<PartialShape>>,
    capacity: i64,
    seed: Option<i64>,
    shared_name: String,
    name: Option<String>,
}

impl Graph {
    /// A queue that gives elements in the order they came; `capacity` is negative for no bound.
    pub fn fifo_queue(&self, capacity: i64, types: &[DType]) -> Result<Queue> {
        self.new_queue(types).capacity(capacity).fifo()
    }

    /// A queue whose elements have these shapes, so that many can be dequeued as one batch.
    pub fn fifo_queue_of<S: ShapeLike>(
        &self,
        capacity: i64,
        elements: impl IntoIterator<Item = (DType, S)>,
    ) -> Result<Queue> {
        let (types, shapes): (Vec<DType>, Vec<S>) = elements.into_iter().unzip();
        self.new_queue(&types).shapes(shapes).capacity(capacity).fifo()
    }

    /// A queue of which more is to be said, for elements of these types.
    ///
    /// ```
    /// # use tensorfleet::{DType, Graph, Session};
    /// let g = Graph::new();
    /// let queue = g.new_queue(&[DType::Int32]).shapes([()]).capacity(10).seed(7).random_shuffle(0)?;
    /// let (put, take) = (queue.enqueue_many([[1, 2, 3]])?, queue.dequeue_many(3)?);
    /// let session = Session::new(&g);
    /// session.run(&put)?;
    /// let mut drawn = session.run(&take)?[0].as_slice::<i32>()?.to_vec();
    /// drawn.sort();
    /// assert_eq!(drawn, [1, 2, 3]);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn new_queue(&self, types: &[DType]) -> QueueBuilder {
        QueueBuilder {
            graph: self.clone(),
            types: types.to_vec(),
            shapes: Ok(Vec::new()),
            capacity: -1,
            seed: None,
            shared_name: String::new(),
            name: None,
        }
    }
}

impl QueueBuilder {
    /// The shape of each component of an element; without them, elements cannot be dequeued in batches.
    pub fn shapes<S: ShapeLike>(mut self, shapes: impl IntoIterator<Item = S>) -> QueueBuilder {
        self.shapes = shapes.into_iter().map(|shape| shape.to_partial_shape()).collect();
        self
    }

    /// How many elements fit; negative, as when nothing is said, for no bound.
    pub fn capacity(mut self, capacity: i64) -> QueueBuilder {
        self.capacity = capacity;
        self
    }

    /// Seeds the choice of a [`QueueBuilder::random_shuffle`] queue.
    pub fn seed(mut self, seed: i64) -> QueueBuilder {
        self.seed = Some(seed);
        self
    }

    /// Under which sessions on the same task share the queue; that of its node if nothing is said.
    pub fn shared_name(mut self, shared_name: &str) -> QueueBuilder {
        self.shared_name = shared_name.to_string();
        self
    }

    /// Names the queue's node.
    pub fn name(mut self, name: &str) -> QueueBuilder {
        self.name = Some(name.to_string());
        self
    }

    /// Elements leave in the order they came.
    pub fn fifo(self) -> Result<Queue> {
        self.build("FIFOQueueV2", "fifo_queue", &[])
    }

    /// Elements leave in random order, as long as `min_after_dequeue` others stay for the next to be drawn from.
    pub fn random_shuffle(self, min_after_dequeue: i64) -> Result<Queue> {
        let (seed, seed2) = self.graph.seeds_for(self.seed);
        let attrs = [("min_after_dequeue", min_after_dequeue), ("seed", seed), ("seed2", seed2)];
        self.build("RandomShuffleQueueV2", "random_shuffle_queue", &attrs)
    }

    /// Elements may differ in the sizes that [`QueueBuilder::shapes`] leaves open; those dequeued together are padded with
    /// zeros to the largest.
    pub fn padding_fifo(self) -> Result<Queue> {
        if let Ok(shapes) = &self.shapes {
            ensure!(
                shapes.len() == self.types.len(),
                InvalidArgument,
                "Shapes must be provided for all components, but received {} dtypes and {} shapes.",
                self.types.len(),
                shapes.len()
            );
        }
        self.build("PaddingFIFOQueueV2", "padding_fifo_queue", &[])
    }

    /// Each element begins with an int64, not among the types given; the smallest leaves first.
    pub fn priority(self) -> Result<Queue> {
        let mut queue = self.build("PriorityQueueV2", "priority_queue", &[])?;
        queue.types.insert(0, DType::Int64);
        if !queue.shapes.is_empty() {
            queue.shapes.insert(0, PartialShape::scalar());
        }
        Ok(queue)
    }

    fn build(self, op: &str, name: &str, attrs: &[(&str, i64)]) -> Result<Queue> {
        let node = self.graph.op(op).name(self.name.as_deref().unwrap_or(name));
        let node = node.attr("component_types", self.types.clone()).attr("capacity", self.capacity);
        let shapes = self.shapes?;
        let node = node.attr("shapes", shapes.clone()).attr("shared_name", self.shared_name);
        let node = attrs.iter().fold(node, |node, &(name, value)| node.attr(name, value));
        // TensorFlow asks for a CPU for this kind alone.
        let node = if op == "FIFOQueueV2" { node.device("/device:CPU:*") } else { node };
        let handle = node.output()?;
        let name = handle.operation().name();
        Ok(Queue { handle, name, types: self.types, shapes })
    }
}

impl Queue {
    /// The queue's handle.
    pub fn handle(&self) -> &Output {
        &self.handle
    }

    /// The name of its node.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The types of an element's components.
    pub fn types(&self) -> &[DType] {
        &self.types
    }

    /// Puts one element of one or several tensors; waits while the queue is full.
    pub fn enqueue(&self, element: impl OperandList) -> Result<Operation> {
        let node = self.op("QueueEnqueueV2", "enqueue").inputs(element);
        node.attr("Tcomponents", self.types.clone()).build()
    }

    /// Puts one element for each row of the tensors.
    pub fn enqueue_many(&self, elements: impl OperandList) -> Result<Operation> {
        self.enqueue_many_node(elements).build()
    }

    /// The same, and says how the queue is used if it is one of tokens of a synchronous training: `"begin"` by a chief that starts,
    /// which makes it open and empty first, `"round"` for the tokens of a round, which take the place of earlier ones. Servers of
    /// TensorFlow take both as they take any elements.
    pub(crate) fn enqueue_tokens(&self, elements: impl OperandList, token_use: &str) -> Result<Operation> {
        self.enqueue_many_node(elements).attr("_tensorfleet_tokens", token_use).build()
    }

    fn enqueue_many_node(&self, elements: impl OperandList) -> crate::graph::OpBuilder {
        let node = self.op("QueueEnqueueManyV2", "EnqueueMany").inputs(elements);
        node.attr("Tcomponents", self.types.clone())
    }

    /// Takes one element; waits while the queue is empty.
    pub fn dequeue(&self) -> Result<Vec<Output>> {
        let node = self.op("QueueDequeueV2", "Dequeue").attr("component_types", self.types.clone());
        self.shaped(node.build()?.outputs()?, None)
    }

    /// Takes the token of a member of a synchronous training: one of each round. Servers of TensorFlow give any element.
    pub(crate) fn dequeue_token(&self) -> Result<Vec<Output>> {
        let node = self.op("QueueDequeueV2", "Dequeue").attr("component_types", self.types.clone());
        let node = node.attr("_tensorfleet_tokens", "member");
        self.shaped(node.build()?.outputs()?, None)
    }

    /// Takes `count` elements as one batch; waits until there are so many.
    pub fn dequeue_many(&self, count: impl Operand) -> Result<Vec<Output>> {
        self.take_many("QueueDequeueManyV2", "DequeueMany", None, count)
    }

    /// Takes `count` elements as one batch, or what is left if the queue is closed.
    pub fn dequeue_up_to(&self, count: impl Operand) -> Result<Vec<Output>> {
        self.take_many("QueueDequeueUpToV2", "DequeueUpTo", None, count)
    }

    /// A batch under a name of its own.
    pub(crate) fn take_many(
        &self,
        op: &str,
        suffix: &str,
        name: Option<&str>,
        count: impl Operand,
    ) -> Result<Vec<Output>> {
        let count = count.into_arg();
        let size = match &count {
            Arg::Literal(Ok(tensor)) | Arg::Tensor(tensor) if op == "QueueDequeueManyV2" => {
                tensor.to_scalar::<i32>().ok().and_then(|size| usize::try_from(size).ok())
            }
            _ => None,
        };
        let node = self.op(op, suffix).input(count);
        let node = name.into_iter().fold(node, |node, name| node.name(name));
        let outputs = node.attr("component_types", self.types.clone()).build()?.outputs()?;
        self.shaped(outputs, Some(size))
    }

    /// Tells dequeued outputs the shapes of elements, after the size of a batch if they are batches.
    fn shaped(&self, outputs: Vec<Output>, batch: Option<Option<usize>>) -> Result<Vec<Output>> {
        for (output, shape) in outputs.iter().zip(&self.shapes) {
            let Some(dims) = shape.dims() else { continue };
            let dims: Vec<Option<usize>> = batch.into_iter().chain(dims.iter().copied()).collect();
            output.set_shape(dims)?;
        }
        Ok(outputs)
    }

    /// How many elements there are.
    pub fn size(&self) -> Result<Output> {
        self.op("QueueSizeV2", "Size").output()
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> Result<Output> {
        self.op("QueueIsClosedV2", "Is_Closed").output()
    }

    /// Refuses further elements; those inside can still be taken. Cancels enqueues that wait if `cancel_pending`.
    pub fn close(&self, cancel_pending: bool) -> Result<Operation> {
        self.op("QueueCloseV2", "Close").attr("cancel_pending_enqueues", cancel_pending).build()
    }

    fn op(&self, op: &str, suffix: &str) -> crate::graph::OpBuilder {
        let graph = self.handle.graph();
        // The queue's name holds its scope already; TensorFlow appends to the last part.
        let local = self.name.rsplit('/').next().unwrap_or(&self.name);
        graph.op(op).input(&self.handle).name(&format!("{local}_{suffix}"))
    }
}
