//! Datasets that call a function for each element, one after the other: map, filter, take while, scan.

use std::sync::Arc;

use tensorfleet_core::{DType, Result, Status, Tensor, ensure};

use super::captured::{Captured, CapturedSpec};
use super::dataset::{Cardinality, Dataset, DatasetIterator, Element, ElementSpec, Nesting, input, kernel};
use super::sequence::check_wanted;
use tensorfleet_kernel::functions::CallContext;
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::{Cost, Op};
use tensorfleet_kernel::shape_context::scalars;

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    functional("MapDataset", "input_dataset: variant, other_arguments: Targuments -> handle: variant")
        .attrs(
            "f: func; Targuments: list(type) >= 0; output_types: list(type) >= 1; output_shapes: list(shape) >= 1; \
             use_inter_op_parallelism: bool = true; preserve_cardinality: bool = false; \
             force_synchronous: bool = false; metadata: string = ''",
        )
        .kernel(map),
    functional("FilterDataset", "input_dataset: variant, other_arguments: Targuments -> handle: variant")
        .attrs(PREDICATE)
        .kernel(filter),
    functional("TakeWhileDataset", "input_dataset: variant, other_arguments: Targuments -> handle: variant")
        .attrs(PREDICATE)
        .kernel(take_while),
    functional(
        "ScanDataset",
        "input_dataset: variant, initial_state: Tstate, other_arguments: Targuments -> handle: variant",
    )
    .attrs(
        "f: func; Tstate: list(type) >= 1; Targuments: list(type) >= 0; output_types: list(type) >= 1; \
         output_shapes: list(shape) >= 1; preserve_cardinality: bool = false; use_default_device: bool = true; \
         metadata: string = ''",
    )
    .kernel(scan),
];

const PREDICATE: &str = "predicate: func; Targuments: list(type) >= 0; output_types: list(type) >= 1; \
                         output_shapes: list(shape) >= 1; metadata: string = ''";

const fn functional(name: &'static str, signature: &'static str) -> Op {
    Op::new(name, signature).not_differentiable().cost(Cost::Trivial).shape(scalars)
}

/// What a function's results are for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// They are the element.
    Map,
    /// Whether the element comes.
    Filter,
    /// Whether the walk goes on.
    TakeWhile,
}

struct Functional {
    spec: ElementSpec,
    input: Arc<dyn Dataset>,
    function: Arc<Captured>,
    used_for: Use,
}

fn map(node: &NodeSpec<'_>) -> Result<KernelBox> {
    functional_kernel(node, "f", Use::Map)
}

fn filter(node: &NodeSpec<'_>) -> Result<KernelBox> {
    functional_kernel(node, "predicate", Use::Filter)
}

fn take_while(node: &NodeSpec<'_>) -> Result<KernelBox> {
    functional_kernel(node, "predicate", Use::TakeWhile)
}

fn functional_kernel(node: &NodeSpec<'_>, attr: &str, used_for: Use) -> Result<KernelBox> {
    let (spec, function) = (ElementSpec::of(node)?, CapturedSpec::of(node, attr, 1)?);
    kernel(move |ctx| {
        let input = input(ctx, 0)?;
        let function = function.bind(ctx, &input.spec().dtypes)?;
        let expected = if used_for == Use::Map { &spec.dtypes[..] } else { &[DType::Bool] };
        check_results(&function, expected)?;
        Ok(Arc::new(Functional { spec: spec.clone(), input, function, used_for }))
    })
}

/// Whether a function returns what its dataset announces.
pub(super) fn check_results(function: &Captured, expected: &[DType]) -> Result<()> {
    ensure!(
        function.results() == expected,
        InvalidArgument,
        "the dataset's function returns {:?}, expected {expected:?}",
        function.results()
    );
    Ok(())
}

impl Dataset for Functional {
    fn spec(&self) -> &ElementSpec {
        &self.spec
    }

    fn iterate(self: Arc<Self>, nesting: Nesting) -> Result<Box<dyn DatasetIterator>> {
        let input = self.input.clone().iterate(nesting.inner()?)?;
        Ok(Box::new(Calling { dataset: self, input, has_ended: false }))
    }

    fn cardinality(&self) -> Cardinality {
        if self.used_for == Use::Map { self.input.cardinality() } else { Cardinality::Unknown }
    }
}

struct Calling {
    dataset: Arc<Functional>,
    input: Box<dyn DatasetIterator>,
    has_ended: bool,
}

impl DatasetIterator for Calling {
    fn next(&mut self, ctx: &CallContext) -> Result<Option<Element>> {
        let Functional { function, used_for, .. } = &*self.dataset;
        while !self.has_ended {
            check_wanted(ctx)?;
            let Some(element) = self.input.next(ctx)? else {
                self.has_ended = true;
                break;
            };
            if *used_for == Use::Map {
                return function.call(ctx, element).map(Some);
            }
            let results = function.call(ctx, element.clone())?;
            if is_true(&results)? {
                return Ok(Some(element));
            }
            self.has_ended = *used_for == Use::TakeWhile;
        }
        Ok(None)
    }

    fn is_ready(&self) -> bool {
        false
    }
}

/// The verdict of a predicate.
fn is_true(results: &[Tensor]) -> Result<bool> {
    let [result] = results else {
        return Err(Status::invalid_argument("predicate function has no returns."));
    };
    ensure!(
        result.dtype() == DType::Bool && result.num_elements() == 1,
        InvalidArgument,
        "Filter predicate `f` must return a scalar bool."
    );
    result.to_scalar()
}

/// Elements that depend on those before, through a state.
struct Scan {
    spec: ElementSpec,
    input: Arc<dyn Dataset>,
    initial: Vec<Tensor>,
    function: Arc<Captured>,
}

fn scan(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let states = node.attr::<Vec<DType>>("Tstate")?;
    let (spec, function) = (ElementSpec::of(node)?, CapturedSpec::of(node, "f", 1 + states.len())?);
    kernel(move |ctx| {
        let input = input(ctx, 0)?;
        let initial = (1..=states.len()).map(|index| ctx.input(index).cloned()).collect::<Result<_>>()?;
        let arguments: Vec<DType> = states.iter().chain(&input.spec().dtypes).copied().collect();
        let function = function.bind(ctx, &arguments)?;
        let results: Vec<DType> = states.iter().chain(&spec.dtypes).copied().collect();
        check_results(&function, &results)?;
        Ok(Arc::new(Scan { spec: spec.clone(), input, initial, function }))
    })
}

impl Dataset for Scan {
    fn spec(&self) -> &ElementSpec {
        &self.spec
    }

    fn iterate(self: Arc<Self>, nesting: Nesting) -> Result<Box<dyn DatasetIterator>> {
        let (input, state) = (self.input.clone().iterate(nesting.inner()?)?, self.initial.clone());
        Ok(Box::new(Scanning { dataset: self, input, state }))
    }

    fn cardinality(&self) -> Cardinality {
        self.input.cardinality()
    }
}

struct Scanning {
    dataset: Arc<Scan>,
    input: Box<dyn DatasetIterator>,
    state: Vec<Tensor>,
}

impl DatasetIterator for Scanning {
    fn next(&mut self, ctx: &CallContext) -> Result<Option<Element>> {
        let Some(element) = self.input.next(ctx)? else { return Ok(None) };
        let mut arguments = self.state.clone();
        arguments.extend(element);
        let mut state = self.dataset.function.call(ctx, arguments)?;
        let element = state.split_off(self.state.len());
        self.state = state;
        Ok(Some(element))
    }

    fn is_ready(&self) -> bool {
        false
    }
}
