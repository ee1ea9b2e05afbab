//! [`InputProducer`]: elements of a queue that the graph fills itself; `batch` makes batches of them.
//!
//! Every function here and there adds a queue and a [`QueueRunner`](crate::train::QueueRunner) that fills it;
//! [`Graph::start_queue_runners`], supervisors and monitored sessions start those. Producers that stop after some epochs
//! count them in a local variable, so local variables must be initialised.

use tensorfleet_core::{DType, PartialShape, Result, Status, ensure};

use super::queue::Queue;
use super::queue_runner::QueueRunner;
use crate::graph::{Graph, Operand, Output};

/// How many elements a queue holds if nothing is said, as in TensorFlow.
pub(super) const CAPACITY: i64 = 32;

const NO_STRINGS: &str = "string_input_producer requires a non-null input tensor";

/// A producer of single elements about to be built; see [`Graph::input_producer`].
#[must_use = "nothing is added to the graph before an input is named"]
pub struct InputProducer {
    graph: Graph,
    num_epochs: Option<i64>,
    shuffle: bool,
    seed: Option<i64>,
    capacity: i64,
    shared_name: String,
}

impl Graph {
    /// A producer of the rows of a tensor, the numbers of a range, strings, or slices of several tensors, over and over
    /// in random order unless it is told otherwise.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tensorfleet::train::Coordinator;
    /// use tensorfleet::{Code, Graph, Session};
    ///
    /// let g = Graph::new();
    /// let queue = g.input_producer().num_epochs(2).in_order().rows(g.constant([10, 20]))?;
    /// let next = queue.dequeue()?.remove(0);
    /// let session = Arc::new(Session::new(&g));
    /// session.run(g.local_variables_initializer()?)?;
    /// let coordinator = Coordinator::new();
    /// g.start_queue_runners(&session, &coordinator)?;
    /// let mut seen = Vec::new();
    /// let end = loop {
    ///     match session.run(&next) {
    ///         Ok(element) => seen.push(element.to_scalar::<i32>()?),
    ///         Err(end) => break end,
    ///     }
    /// };
    /// assert_eq!((seen, end.code()), (vec![10, 20, 10, 20], Code::OutOfRange));
    /// coordinator.request_stop();
    /// coordinator.join()?;
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn input_producer(&self) -> InputProducer {
        InputProducer {
            graph: self.clone(),
            num_epochs: None,
            shuffle: true,
            seed: None,
            capacity: CAPACITY,
            shared_name: String::new(),
        }
    }

    /// `tensor`, as often as `num_epochs`, then `OutOfRange`. A local variable counts.
    pub fn limit_epochs(&self, tensor: &Output, num_epochs: i64) -> Result<Output> {
        ensure!(num_epochs > 0, InvalidArgument, "num_epochs must be > 0 not {num_epochs}.");
        self.name_scope("limit_epochs", || {
            let scope = self.build(|builder| builder.name_scope().to_string());
            let zero = self.constant(0i64);
            let epochs = self.new_variable("epochs").local().init(zero);
            let counter = self.op("CountUpTo").input(&epochs).attr("limit", num_epochs).build()?;
            self.op("Identity").input(tensor).control_input(&counter).name(&format!("{scope}/")).output()
        })
    }
}

impl InputProducer {
    /// Ends after so many rounds; it goes on for ever if nothing is said.
    pub fn num_epochs(mut self, epochs: i64) -> InputProducer {
        self.num_epochs = Some(epochs);
        self
    }

    /// In the order of the input, not in random order.
    pub fn in_order(mut self) -> InputProducer {
        self.shuffle = false;
        self
    }

    /// Seeds the random order.
    pub fn seed(mut self, seed: i64) -> InputProducer {
        self.seed = Some(seed);
        self
    }

    /// How many elements its queue holds; 32 if nothing is said.
    pub fn capacity(mut self, capacity: i64) -> InputProducer {
        self.capacity = capacity;
        self
    }

    /// Under which sessions on the same task share the queue.
    pub fn shared_name(mut self, shared_name: &str) -> InputProducer {
        self.shared_name = shared_name.to_string();
        self
    }

    /// The rows of a tensor, whose shape must be known but for the first dimension.
    pub fn rows(self, input: impl Operand) -> Result<Queue> {
        let graph = self.graph.clone();
        graph.name_scope("input_producer", || {
            let input = input.into_arg().into_output(&graph, "input_tensor", None)?;
            self.produce(input, None)
        })
    }

    /// The strings of a vector, e.g. names of files.
    pub fn strings(self, strings: impl Operand) -> Result<Queue> {
        let graph = self.graph.clone();
        graph.name_scope("input_producer", || {
            let scope = graph.build(|builder| builder.name_scope().to_string());
            let strings = strings.into_arg().into_output(&graph, "Const", Some(DType::String))?;
            let is_empty = strings.shape()?.to_shape().is_some_and(|shape| shape.num_elements() == 0);
            ensure!(!is_empty, InvalidArgument, "{NO_STRINGS}");
            // An empty list would keep the thread that enqueues it busy for ever.
            let is_some = strings.size()?.greater(0)?;
            let some = graph.name_scope("Assert", || {
                graph.op("Assert").input(is_some).inputs([NO_STRINGS]).attr("summarize", 3i64).build()
            })?;
            let strings = graph.op("Identity").input(strings).control_input(&some).output()?;
            self.produce(strings, Some(&scope))
        })
    }

    /// The numbers from 0 up to but without `limit`.
    pub fn range(self, limit: impl Operand) -> Result<Queue> {
        let graph = self.graph.clone();
        graph.name_scope("input_producer", || {
            let scope = graph.build(|builder| builder.name_scope().to_string());
            let range = graph.range(0, limit, 1)?;
            self.produce(range, Some(&scope))
        })
    }

    /// One slice along the first dimension of each tensor, all at the same index.
    pub fn slices(self, tensors: &[Output]) -> Result<Vec<Output>> {
        let graph = self.graph.clone();
        let first = tensors.first().ok_or_else(|| {
            Status::invalid_argument("Expected at least one tensor in slice_input_producer().")
        })?;
        graph.name_scope("input_producer", || {
            let size = first.shape_tensor()?.index(0)?;
            let queue = self.range(size)?;
            let index = queue.dequeue()?.into_iter().next();
            let index = index.ok_or_else(|| Status::internal("a queue of one component gave none"))?;
            tensors.iter().map(|tensor| tensor.gather(&index)).collect()
        })
    }

    /// Fills a queue with the rows of `input`; `scope` is the name of the queue, and asks for a summary.
    fn produce(self, input: Output, scope: Option<&str>) -> Result<Queue> {
        let graph = &self.graph;
        let shape = element_shape(&input, true)?;
        let shape = shape.to_shape().ok_or_else(|| {
            Status::invalid_argument(format!(
                "the elements of {} must have a fully defined shape, not {shape}",
                input.name()
            ))
        })?;
        let dtype = input.dtype()?;
        let input = match self.shuffle {
            true => {
                let (seed, seed2) = graph.seeds_for(self.seed);
                graph.op("RandomShuffle").input(&input).attr("seed", seed).attr("seed2", seed2).output()?
            }
            false => input,
        };
        let input = match self.num_epochs {
            Some(num_epochs) => graph.limit_epochs(&input, num_epochs)?,
            None => input,
        };
        let queue = graph.new_queue(&[dtype]).shapes([shape]).capacity(self.capacity);
        let queue = queue.shared_name(&self.shared_name);
        let queue = match scope {
            Some(scope) => queue.name(&format!("{scope}/")).fifo()?,
            None => queue.fifo()?,
        };
        let enqueue = queue.enqueue_many([input])?;
        graph.add_queue_runner(&QueueRunner::new(&queue, [enqueue])?);
        if scope.is_some() {
            let full = fraction_full(graph, queue.size()?, self.capacity)?;
            graph.scalar_summary(&format!("fraction_of_{}_full", self.capacity), full)?;
        }
        Ok(queue)
    }
}

pub(super) fn fraction_full(graph: &Graph, size: Output, capacity: i64) -> Result<Output> {
    let size = size.cast(DType::Float)?;
    graph.op("Mul").input(size).input(1.0 / capacity as f32).name("mul").output()
}

/// The shape of an element, or of a row.
pub(super) fn element_shape(tensor: &Output, is_row: bool) -> Result<PartialShape> {
    let shape = tensor.shape()?;
    let Some(dims) = shape.dims() else {
        return Err(Status::invalid_argument(format!("Cannot infer Tensor's rank: {}", tensor.name())));
    };
    let dims = match (is_row, dims) {
        (false, dims) => dims,
        (true, [_, row @ ..]) => row,
        (true, []) => {
            return Err(Status::invalid_argument(format!("{} is a scalar and has no rows", tensor.name())));
        }
    };
    PartialShape::from_signed(&dims.iter().map(|dim| dim.map_or(-1, |dim| dim as i64)).collect::<Vec<_>>())
}
