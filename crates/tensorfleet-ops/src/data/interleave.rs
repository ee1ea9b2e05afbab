//! Datasets out of datasets that a function makes for each element: flat map and interleave.
//!
//! The parallel forms give the same elements in the same order, one after the other: what they would gain, reading files
//! ahead, a prefetch inside or outside gains as well.

use std::sync::Arc;

use tensorfleet_core::{DType, Result, Status, ensure};

use super::captured::{Captured, CapturedSpec};
use super::dataset::{Dataset, Element, ElementSpec, Iterate, from_tensor, input, kernel, positive, scalar};
use super::functional::check_results;
use super::sequence::check_wanted;
use crate::functions::CallContext;
use crate::kernel::KernelBox;
use crate::node_spec::NodeSpec;
use crate::op::{Cost, Op};
use crate::shape_context::scalars;

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    interleaved("FlatMapDataset", "input_dataset: variant, other_arguments: Targuments -> handle: variant")
        .attrs(
            "f: func; Targuments: list(type) >= 0; output_types: list(type) >= 1; output_shapes: list(shape) >= 1; \
             metadata: string = ''",
        )
        .kernel(flat_map),
    interleaved(
        "InterleaveDataset",
        "input_dataset: variant, other_arguments: Targuments, cycle_length: int64, block_length: int64 -> \
         handle: variant",
    )
    .attrs(
        "f: func; Targuments: list(type) >= 0; output_types: list(type) >= 1; output_shapes: list(shape) >= 1; \
         metadata: string = ''",
    )
    .kernel(interleave),
    interleaved(
        "ParallelInterleaveDatasetV2",
        "input_dataset: variant, other_arguments: Targuments, cycle_length: int64, block_length: int64, \
         num_parallel_calls: int64 -> handle: variant",
    )
    .attrs(
        "f: func; Targuments: list(type) >= 0; output_types: list(type) >= 1; output_shapes: list(shape) >= 1; \
         sloppy: bool = false; metadata: string = ''",
    )
    .kernel(interleave),
    interleaved(
        "ParallelInterleaveDatasetV3",
        "input_dataset: variant, other_arguments: Targuments, cycle_length: int64, block_length: int64, \
         num_parallel_calls: int64 -> handle: variant",
    )
    .attrs(
        "f: func; deterministic: string = 'default'; Targuments: list(type) >= 0; output_types: list(type) >= 1; \
         output_shapes: list(shape) >= 1; metadata: string = ''",
    )
    .kernel(interleave),
    interleaved(
        "ParallelInterleaveDatasetV4",
        "input_dataset: variant, other_arguments: Targuments, cycle_length: int64, block_length: int64, \
         buffer_output_elements: int64, prefetch_input_elements: int64, num_parallel_calls: int64 -> handle: variant",
    )
    .attrs(
        "f: func; deterministic: string = 'default'; Targuments: list(type) >= 0; output_types: list(type) >= 1; \
         output_shapes: list(shape) >= 1; metadata: string = ''",
    )
    .kernel(interleave),
];

const fn interleaved(name: &'static str, signature: &'static str) -> Op {
    Op::new(name, signature).not_differentiable().cost(Cost::Trivial).shape(scalars)
}

/// Datasets walked along at the same time.
const MAX_CYCLE: u64 = 1 << 16;

struct Interleaved {
    spec: ElementSpec,
    input: Arc<dyn Dataset>,
    function: Arc<Captured>,
    cycle: usize,
    block: u64,
}

fn flat_map(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let (spec, function) = (ElementSpec::of(node)?, CapturedSpec::of(node, "f", 1)?);
    kernel(move |ctx| {
        let input = input(ctx, 0)?;
        let function = function.bind(ctx, &input.spec().dtypes)?;
        check_results(&function, &[DType::Variant])?;
        Ok(Arc::new(Interleaved { spec: spec.clone(), input, function, cycle: 1, block: 1 }))
    })
}

fn interleave(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let (spec, function) = (ElementSpec::of(node)?, CapturedSpec::of(node, "f", 1)?);
    kernel(move |ctx| {
        let input = input(ctx, 0)?;
        let first = function.end();
        // -1 leaves the choice to the runtime; TensorFlow takes the number of cores.
        let cycle = match scalar::<i64>(ctx, first, "cycle_length")? {
            -1 => std::thread::available_parallelism().map_or(2, |cores| cores.get()) as u64,
            _ => positive(ctx, first, "cycle_length")?,
        };
        ensure!(cycle <= MAX_CYCLE, InvalidArgument, "cycle_length must be at most {MAX_CYCLE}, got {cycle}");
        let block = positive(ctx, first + 1, "block_length")?;
        let function = function.bind(ctx, &input.spec().dtypes)?;
        check_results(&function, &[DType::Variant])?;
        Ok(Arc::new(Interleaved { spec: spec.clone(), input, function, cycle: cycle as usize, block }))
    })
}

impl Dataset for Interleaved {
    fn spec(&self) -> &ElementSpec {
        &self.spec
    }

    fn iterate(self: Arc<Self>) -> Result<Box<dyn Iterate>> {
        let input = self.input.clone().iterate()?;
        Ok(Box::new(Interleaving {
            dataset: self,
            input,
            has_ended: false,
            open: Vec::new(),
            place: 0,
            taken: 0,
        }))
    }
}

struct Interleaving {
    dataset: Arc<Interleaved>,
    input: Box<dyn Iterate>,
    has_ended: bool,
    /// The datasets of the cycle; a place whose dataset has ended is empty until the cycle comes round to it.
    open: Vec<Option<Box<dyn Iterate>>>,
    place: usize,
    /// How many elements of the present block have been taken.
    taken: u64,
}

impl Interleaving {
    fn advance(&mut self) {
        self.place = (self.place + 1) % self.dataset.cycle;
        self.taken = 0;
    }

    fn open_next(&mut self, ctx: &CallContext) -> Result<Option<Box<dyn Iterate>>> {
        let Some(element) = self.input.next(ctx)? else {
            self.has_ended = true;
            return Ok(None);
        };
        let results = self.dataset.function.call(ctx, element)?;
        let [result] = &results[..] else {
            return Err(Status::internal("the function was checked to return one dataset"));
        };
        let dataset = from_tensor(result)?;
        self.dataset.spec.check_dataset(dataset.spec())?;
        dataset.iterate().map(Some)
    }
}

impl Iterate for Interleaving {
    fn next(&mut self, ctx: &CallContext) -> Result<Option<Element>> {
        loop {
            check_wanted(ctx)?;
            if self.has_ended && self.open.iter().all(Option::is_none) {
                return Ok(None);
            }
            if self.open.len() <= self.place {
                self.open.push(None);
            }
            if self.open[self.place].is_none() {
                if !self.has_ended {
                    self.open[self.place] = self.open_next(ctx)?;
                }
                if self.open[self.place].is_none() {
                    self.advance();
                    continue;
                }
            }
            let Some(inner) = &mut self.open[self.place] else { continue };
            match inner.next(ctx)? {
                Some(element) => {
                    self.taken += 1;
                    if self.taken == self.dataset.block {
                        self.advance();
                    }
                    return Ok(Some(element));
                }
                None => {
                    self.open[self.place] = None;
                    self.advance();
                }
            }
        }
    }

    fn is_ready(&self) -> bool {
        false
    }
}
