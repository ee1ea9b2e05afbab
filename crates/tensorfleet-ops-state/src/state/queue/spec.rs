//! [`QueueSpec`]: what a queue holds, and the checks that its elements pass before they get in.

use std::collections::VecDeque;

use tensorfleet_core::{DType, PartialShape, Result, Shape, Tensor, bail, ensure, memory};

use super::store::{Heap, Store, Tuple, check_priority};
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_numeric::philox::Singles;
use tensorfleet_ops_tensor::random::stream::Stream;

/// The kinds of queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// First in, first out.
    Fifo,
    /// First in, first out; batches are padded where elements differ in size.
    PaddingFifo,
    /// At random.
    RandomShuffle,
    /// Smallest first component first.
    Priority,
}

impl Kind {
    /// The name error messages use.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Fifo => "FIFOQueue",
            Kind::PaddingFifo => "PaddingFIFOQueue",
            Kind::RandomShuffle => "RandomShuffleQueue",
            Kind::Priority => "PriorityQueue",
        }
    }
}

/// The attributes of a queue.
#[derive(Clone, PartialEq, Debug)]
pub struct QueueSpec {
    /// In which order elements leave.
    pub kind: Kind,
    /// The dtypes of an element's components.
    pub types: Vec<DType>,
    /// Their shapes; empty if the node gives none.
    pub shapes: Vec<PartialShape>,
    /// How many elements fit.
    pub capacity: usize,
    /// How many elements a shuffled queue keeps back while it is open.
    pub min_after_dequeue: usize,
    /// Of the order, if that is random.
    pub seeds: (i64, i64),
}

impl QueueSpec {
    /// Reads the attributes of a node that makes a queue of this kind.
    pub fn from_node(node: &NodeSpec<'_>, kind: Kind) -> Result<QueueSpec> {
        let capacity: i64 = node.attr("capacity")?;
        let mut spec = QueueSpec {
            kind,
            types: node.attr("component_types")?,
            shapes: node.attr("shapes")?,
            // Negative means unbounded.
            capacity: usize::try_from(capacity).unwrap_or(usize::MAX),
            min_after_dequeue: 0,
            seeds: (0, 0),
        };
        if kind == Kind::RandomShuffle {
            let least: i64 = node.attr("min_after_dequeue")?;
            ensure!(least >= 0, InvalidArgument, "min_after_dequeue {least} must be >= 0");
            ensure!(
                capacity < 0 || least < capacity,
                InvalidArgument,
                "min_after_dequeue {least} must be < capacity {capacity}"
            );
            spec.min_after_dequeue = usize::try_from(least).unwrap_or(usize::MAX);
            spec.seeds = (node.attr("seed")?, node.attr("seed2")?);
        }
        if kind == Kind::Priority {
            // The graph does not mention the priority, which goes first.
            spec.types.insert(0, DType::Int64);
            spec.shapes.insert(0, PartialShape::scalar());
        }
        spec.check()?;
        Ok(spec)
    }

    fn check(&self) -> Result<()> {
        let (types, shapes) = (self.types.len(), self.shapes.len());
        let may_omit = matches!(self.kind, Kind::Fifo | Kind::RandomShuffle);
        ensure!(
            shapes == types || (shapes == 0 && may_omit),
            InvalidArgument,
            "Shapes must be provided for all components, but received {types} dtypes and {shapes} shapes."
        );
        for shape in &self.shapes {
            if self.kind == Kind::PaddingFifo {
                ensure!(shape.rank().is_some(), InvalidArgument, "shape {shape} must have known rank.");
            } else {
                ensure!(shape.to_shape().is_some(), InvalidArgument, "Shape {shape} is not fully defined");
            }
        }
        Ok(())
    }

    pub(super) fn new_store(&self) -> Result<Store> {
        Ok(match self.kind {
            Kind::Fifo | Kind::PaddingFifo => Store::Fifo(VecDeque::new()),
            Kind::RandomShuffle => {
                let stream = Stream::new(self.seeds.0, self.seeds.1)?;
                Store::Shuffled { elements: Vec::new(), random: Singles::new(stream.reserve_u32s(0)) }
            }
            Kind::Priority => Store::ByPriority(Heap::default()),
        })
    }

    /// Checks that another node means the same queue.
    pub(super) fn check_same(&self, wanted: &QueueSpec, name: &str) -> Result<()> {
        let shown = |capacity: usize| i64::try_from(capacity).unwrap_or(-1);
        ensure!(
            self.capacity == wanted.capacity,
            InvalidArgument,
            "Shared queue '{name}' has capacity {} but requested capacity was {}",
            shown(self.capacity),
            shown(wanted.capacity)
        );
        ensure!(
            self.types == wanted.types,
            InvalidArgument,
            "Shared queue '{name}' has component types {} but requested component types were {}",
            list(&self.types),
            list(&wanted.types)
        );
        ensure!(
            self.shapes == wanted.shapes,
            InvalidArgument,
            "Shared queue '{name}' has component shapes [{}] but requested component shapes were [{}]",
            list(&self.shapes),
            list(&wanted.shapes)
        );
        ensure!(
            self.min_after_dequeue == wanted.min_after_dequeue,
            InvalidArgument,
            "Shared queue '{name}' has min_after_dequeue {} but requested min_after_dequeue was {}.",
            self.min_after_dequeue,
            wanted.min_after_dequeue
        );
        // Zeros ask for any order.
        ensure!(
            self.seeds == wanted.seeds || wanted.seeds == (0, 0),
            InvalidArgument,
            "Shared queue '{name}' has random seeds {:?} but requested seeds are {:?}.",
            self.seeds,
            wanted.seeds
        );
        Ok(())
    }

    /// Checks that the components a node handles are those of the queue.
    pub(super) fn check_components(&self, types: &[DType]) -> Result<()> {
        ensure!(
            types == self.types,
            InvalidArgument,
            "Signature mismatch: the node's components are {}, expected {}",
            list(types),
            list(&self.types)
        );
        Ok(())
    }

    /// Checks one element.
    pub(super) fn check_element(&self, tuple: &Tuple) -> Result<()> {
        self.check_types(tuple)?;
        for (index, (component, expected)) in tuple.iter().zip(&self.shapes).enumerate() {
            ensure!(
                expected.admits(component.shape()),
                InvalidArgument,
                "Shape mismatch in tuple component {index}. Expected {expected}, got {}",
                component.shape()
            );
        }
        if self.kind == Kind::Priority {
            check_priority(tuple)?;
        }
        Ok(())
    }

    fn check_types(&self, components: &[Tensor]) -> Result<()> {
        let fits = components.len() == self.types.len()
            && components.iter().zip(&self.types).all(|(component, &dtype)| component.dtype() == dtype);
        if !fits {
            self.check_components(&components.iter().map(Tensor::dtype).collect::<Vec<_>>())?;
        }
        Ok(())
    }

    /// Cuts a checked batch into elements.
    pub(super) fn rows_of(&self, batch: &[Tensor]) -> Result<Vec<Tuple>> {
        self.check_types(batch)?;
        let Some(rows) = batch.first().map(|first| first.shape().first().copied()) else {
            bail!(InvalidArgument, "a batch has at least one component")
        };
        for (index, component) in batch.iter().enumerate() {
            let fits = match (component.shape().split_first(), rows, self.shapes.get(index)) {
                (Some((&len, row)), Some(rows), expected) => {
                    len == rows
                        && expected.is_none_or(|shape| Shape::new(row).is_ok_and(|row| shape.admits(&row)))
                }
                _ => false,
            };
            ensure!(
                fits,
                InvalidArgument,
                "Shape mismatch in tuple component {index}. Expected {}, got {}",
                self.shown_batch(rows, index),
                component.shape()
            );
        }
        let row = |row: usize| batch.iter().map(|component| component.row(row)).collect::<Result<Tuple>>();
        // Rows of no elements take no bytes in the batch, but each is an element of the queue.
        let rows = rows.unwrap_or(0);
        memory::check_fits(rows.saturating_mul(batch.len()).saturating_mul(size_of::<Tensor>()))?;
        let mut elements = memory::vec_with_room(rows)?;
        for index in 0..rows {
            elements.push(row(index)?);
        }
        Ok(elements)
    }

    fn shown_batch(&self, rows: Option<usize>, index: usize) -> PartialShape {
        match self.shapes.get(index).and_then(PartialShape::dims) {
            Some(dims) => PartialShape::new(std::iter::once(rows).chain(dims.iter().copied())),
            None => PartialShape::vector(rows),
        }
    }
}

fn list(items: &[impl std::fmt::Display]) -> String {
    items.iter().map(|item| item.to_string()).collect::<Vec<_>>().join(", ")
}
