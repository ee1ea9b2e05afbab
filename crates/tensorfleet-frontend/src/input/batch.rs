//! [`Batch`]: batches of elements, which threads gather in a queue.

use tensorfleet_core::{DType, PartialShape, Result, Status, ensure};

use super::input_producer::{CAPACITY, element_shape, fraction_full};
use super::queue::Queue;
use super::queue_runner::QueueRunner;
use crate::graph::{Graph, Operation, Output, ShapeLike};

/// Batches about to be built; see [`Graph::batch`].
#[must_use = "nothing is added to the graph before `build`"]
pub struct Batch {
    graph: Graph,
    /// One list for each thread that enqueues elements of its own.
    sources: Vec<Vec<Output>>,
    batch_size: i64,
    num_threads: usize,
    capacity: i64,
    shapes: Option<Result<Vec<PartialShape>>>,
    mixing: Mixing,
    enqueue_many: bool,
    dynamic_pad: bool,
    allow_smaller_final_batch: bool,
    shared_name: String,
    name: &'static str,
}

/// The order of elements.
#[derive(Clone, Copy)]
enum Mixing {
    InOrder,
    Shuffled { min_after_dequeue: i64, seed: Option<i64> },
}

impl Graph {
    /// Batches of elements, in the order they come.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use tensorfleet::train::Coordinator;
    /// # use tensorfleet::{Graph, Session};
    /// let g = Graph::new();
    /// let number = g.input_producer().num_epochs(1).in_order().range(5)?.dequeue()?.remove(0);
    /// let batch = g.batch(&[number.clone(), &number * &number], 2).allow_smaller_final_batch().build()?;
    /// # let session = Arc::new(Session::new(&g));
    /// # session.run(g.local_variables_initializer()?)?;
    /// # let coordinator = Coordinator::new();
    /// g.start_queue_runners(&session, &coordinator)?;
    /// assert_eq!(session.run(&batch)?[1].as_slice::<i32>()?, [0, 1]);
    /// assert_eq!(session.run(&batch)?[1].as_slice::<i32>()?, [4, 9]);
    /// assert_eq!(session.run(&batch)?[1].as_slice::<i32>()?, [16]);
    /// # coordinator.request_stop();
    /// # coordinator.join()?;
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn batch(&self, tensors: &[Output], batch_size: i64) -> Batch {
        self.new_batch(vec![tensors.to_vec()], batch_size, Mixing::InOrder, "batch")
    }

    /// Batches of the elements of several sources, each filled in by a thread of its own.
    pub fn batch_join(&self, tensors: &[Vec<Output>], batch_size: i64) -> Batch {
        self.new_batch(tensors.to_vec(), batch_size, Mixing::InOrder, "batch_join")
    }

    /// Batches of elements drawn at random from `capacity` at most, and `min_after_dequeue` at least.
    pub fn shuffle_batch(
        &self,
        tensors: &[Output],
        batch_size: i64,
        capacity: i64,
        min_after_dequeue: i64,
    ) -> Batch {
        let mixing = Mixing::Shuffled { min_after_dequeue, seed: None };
        self.new_batch(vec![tensors.to_vec()], batch_size, mixing, "shuffle_batch").capacity(capacity)
    }

    /// Batches of elements of several sources, drawn at random.
    pub fn shuffle_batch_join(
        &self,
        tensors: &[Vec<Output>],
        batch_size: i64,
        capacity: i64,
        min_after_dequeue: i64,
    ) -> Batch {
        let mixing = Mixing::Shuffled { min_after_dequeue, seed: None };
        self.new_batch(tensors.to_vec(), batch_size, mixing, "shuffle_batch_join").capacity(capacity)
    }

    fn new_batch(
        &self,
        sources: Vec<Vec<Output>>,
        batch_size: i64,
        mixing: Mixing,
        name: &'static str,
    ) -> Batch {
        Batch {
            graph: self.clone(),
            sources,
            batch_size,
            num_threads: 1,
            capacity: CAPACITY,
            shapes: None,
            mixing,
            enqueue_many: false,
            dynamic_pad: false,
            allow_smaller_final_batch: false,
            shared_name: String::new(),
            name,
        }
    }
}

impl Batch {
    /// How many threads fill the queue; one if nothing is said. Several sources have one thread each.
    pub fn num_threads(mut self, threads: usize) -> Batch {
        self.num_threads = threads;
        self
    }

    /// How many elements the queue holds; 32 if nothing is said.
    pub fn capacity(mut self, capacity: i64) -> Batch {
        self.capacity = capacity;
        self
    }

    /// The shapes of an element's components; those of the tensors, if nothing is said.
    pub fn shapes<S: ShapeLike>(mut self, shapes: impl IntoIterator<Item = S>) -> Batch {
        self.shapes = Some(shapes.into_iter().map(|shape| shape.to_partial_shape()).collect());
        self
    }

    /// Each row of the tensors is an element.
    pub fn enqueue_many(mut self) -> Batch {
        self.enqueue_many = true;
        self
    }

    /// Elements may differ in the sizes that are not known; those of a batch are padded with zeros to the largest.
    pub fn dynamic_pad(mut self) -> Batch {
        self.dynamic_pad = true;
        self
    }

    /// Gives what is left at the end of the input, instead of dropping what makes no full batch.
    pub fn allow_smaller_final_batch(mut self) -> Batch {
        self.allow_smaller_final_batch = true;
        self
    }

    /// Seeds the order of a shuffled batch.
    pub fn seed(mut self, seed: i64) -> Batch {
        if let Mixing::Shuffled { min_after_dequeue, .. } = self.mixing {
            self.mixing = Mixing::Shuffled { min_after_dequeue, seed: Some(seed) };
        }
        self
    }

    /// Under which sessions on the same task share the queue.
    pub fn shared_name(mut self, shared_name: &str) -> Batch {
        self.shared_name = shared_name.to_string();
        self
    }

    /// The batches: one output for each tensor, with a first dimension of `batch_size`.
    pub fn build(self) -> Result<Vec<Output>> {
        let graph = self.graph.clone();
        if let Mixing::Shuffled { min_after_dequeue, .. } = self.mixing {
            ensure!(
                self.capacity > min_after_dequeue,
                InvalidArgument,
                "capacity {} must be bigger than min_after_dequeue {min_after_dequeue}.",
                self.capacity
            );
        }
        let (types, shapes) = self.element_type()?;
        graph.name_scope(self.name, || {
            let scope = graph.build(|builder| builder.name_scope().to_string());
            let queue = graph.new_queue(&types).shapes(shapes).capacity(self.capacity);
            let queue = queue.shared_name(&self.shared_name);
            let queue = match self.mixing {
                Mixing::Shuffled { min_after_dequeue, seed } => {
                    let queue = seed.into_iter().fold(queue, |queue, seed| queue.seed(seed));
                    queue.random_shuffle(min_after_dequeue)?
                }
                Mixing::InOrder if self.dynamic_pad => queue.padding_fifo()?,
                Mixing::InOrder => queue.fifo()?,
            };
            graph.add_queue_runner(&QueueRunner::new(&queue, self.enqueue_ops(&queue)?)?);
            self.summarise(&queue)?;
            let (op, suffix) = match self.allow_smaller_final_batch {
                true => ("QueueDequeueUpToV2", "DequeueUpTo"),
                false => ("QueueDequeueManyV2", "DequeueMany"),
            };
            let count = i32::try_from(self.batch_size).map_err(|_| {
                Status::invalid_argument(format!("{} is no size of a batch", self.batch_size))
            })?;
            queue.take_many(op, suffix, Some(&format!("{scope}/")), count)
        })
    }

    fn enqueue_ops(&self, queue: &Queue) -> Result<Vec<Operation>> {
        let enqueue = |source: &Vec<Output>| match self.enqueue_many {
            true => queue.enqueue_many(source),
            false => queue.enqueue(source),
        };
        let ops = self.sources.iter().map(enqueue).collect::<Result<Vec<Operation>>>()?;
        Ok(match &ops[..] {
            [only] => vec![only.clone(); self.num_threads.max(1)],
            _ => ops,
        })
    }

    /// Records how full the queue is.
    fn summarise(&self, queue: &Queue) -> Result<()> {
        let (graph, capacity) = (&self.graph, self.capacity);
        let (name, full) = match self.mixing {
            Mixing::InOrder => {
                (format!("fraction_of_{capacity}_full"), fraction_full(graph, queue.size()?, capacity)?)
            }
            Mixing::Shuffled { min_after_dequeue, .. } => {
                let room = capacity - min_after_dequeue;
                let minimum = i32::try_from(min_after_dequeue).unwrap_or(i32::MAX);
                let over = queue.size()? - minimum;
                let over = graph.op("Maximum").input(0).input(&over).output()?;
                (
                    format!("fraction_over_{min_after_dequeue}_of_{room}_full"),
                    fraction_full(graph, over, room)?,
                )
            }
        };
        graph.scalar_summary(&name, full).map(|_| ())
    }

    /// The types and shapes of an element's components, which all sources must agree on.
    fn element_type(&self) -> Result<(Vec<DType>, Vec<PartialShape>)> {
        let first = self.sources.first().filter(|first| !first.is_empty());
        let first =
            first.ok_or_else(|| Status::invalid_argument("Expected at least one tensor in batch()."))?;
        let types_of =
            |source: &Vec<Output>| source.iter().map(Output::dtype).collect::<Result<Vec<DType>>>();
        let types = types_of(first)?;
        for source in &self.sources {
            let others = types_of(source)?;
            ensure!(
                others == types,
                InvalidArgument,
                "Expected types to be consistent: {types:?} vs. {others:?}."
            );
        }
        let shapes = match &self.shapes {
            Some(shapes) => shapes.clone()?,
            None => first
                .iter()
                .map(|tensor| element_shape(tensor, self.enqueue_many))
                .collect::<Result<Vec<_>>>()?,
        };
        for shape in &shapes {
            ensure!(
                self.dynamic_pad || shape.to_shape().is_some(),
                InvalidArgument,
                "All shapes must be fully defined, but one is {shape}; give them with `shapes`, or ask for `dynamic_pad`"
            );
        }
        Ok((types, shapes))
    }
}
