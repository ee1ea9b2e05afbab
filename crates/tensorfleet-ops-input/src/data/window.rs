//! Windows: datasets of a few elements each, by place (`window`) or by key (`group_by_window`).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tensorfleet_core::memory::Kept;
use tensorfleet_core::{DType, Result, Status, Tensor, ensure};

use super::captured::{Captured, CapturedSpec};
use super::dataset::{
    Cardinality, Dataset, DatasetIterator, Element, ElementSpec, Nesting, SliceIterator, from_tensor, input,
    keep, kept_bytes, kernel, positive, scalar, to_tensor,
};
use super::functional::check_results;
use super::sequence::check_wanted;
use tensorfleet_kernel::functions::CallContext;
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::{Cost, Op};
use tensorfleet_kernel::shape_context::scalars;

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    windowed(
        "WindowDataset",
        "input_dataset: variant, size: int64, shift: int64, stride: int64, drop_remainder: bool -> handle: variant",
    )
    .attrs("output_types: list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = ''")
    .kernel(window),
    windowed(
        "GroupByWindowDataset",
        "input_dataset: variant, key_func_other_arguments: Tkey_func_other_arguments, \
         reduce_func_other_arguments: Treduce_func_other_arguments, \
         window_size_func_other_arguments: Twindow_size_func_other_arguments -> handle: variant",
    )
    .attrs(
        "key_func: func; reduce_func: func; window_size_func: func; Tkey_func_other_arguments: list(type) >= 0; \
         Treduce_func_other_arguments: list(type) >= 0; Twindow_size_func_other_arguments: list(type) >= 0; \
         output_types: list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = ''",
    )
    .kernel(group_by_window),
];

const fn windowed(name: &'static str, signature: &'static str) -> Op {
    Op::new(name, signature).not_differentiable().cost(Cost::Trivial).shape(scalars)
}

/// Elements that are at hand, as a dataset.
struct Few {
    spec: ElementSpec,
    elements: Arc<[Element]>,
    _kept: Kept,
}

impl Few {
    fn new(spec: ElementSpec, elements: Arc<[Element]>) -> Result<Few> {
        let bytes = elements.iter().map(kept_bytes).fold(0, usize::saturating_add);
        Ok(Few { spec, elements, _kept: Kept::new(bytes)? })
    }
}

impl Dataset for Few {
    fn spec(&self) -> &ElementSpec {
        &self.spec
    }

    fn iterate(self: Arc<Self>, _: Nesting) -> Result<Box<dyn DatasetIterator>> {
        Ok(Box::new(SliceIterator::new(self.elements.clone())))
    }

    fn cardinality(&self) -> Cardinality {
        Cardinality::Finite(self.elements.len() as u64)
    }
}

struct Windows {
    spec: ElementSpec,
    input: Arc<dyn Dataset>,
    /// How many elements from the first to the last of a window, both included.
    reach: u64,
    shift: u64,
    stride: u64,
    drops_remainder: bool,
}

fn window(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let spec = ElementSpec::of(node)?;
    kernel(move |ctx| {
        let input = input(ctx, 0)?;
        let size = positive(ctx, 1, "Window size")?;
        let (shift, stride) = (positive(ctx, 2, "Window shift")?, positive(ctx, 3, "Window stride")?);
        let drops_remainder = scalar(ctx, 4, "drop_remainder")?;
        ensure!(
            spec.dtypes.len() == input.spec().dtypes.len(),
            InvalidArgument,
            "a window of elements with {} components has as many, not {}",
            input.spec().dtypes.len(),
            spec.dtypes.len()
        );
        let reach = (size - 1).checked_mul(stride).and_then(|last| last.checked_add(1));
        let reach = reach.ok_or_else(|| {
            Status::invalid_argument(format!("a window of {size} elements with stride {stride} is too long"))
        })?;
        Ok(Arc::new(Windows { spec: spec.clone(), input, reach, shift, stride, drops_remainder }))
    })
}

impl Dataset for Windows {
    fn spec(&self) -> &ElementSpec {
        &self.spec
    }

    fn iterate(self: Arc<Self>, nesting: Nesting) -> Result<Box<dyn DatasetIterator>> {
        let input = self.input.clone().iterate(nesting.inner()?)?;
        Ok(Box::new(Sliding {
            dataset: self,
            input,
            buffer: VecDeque::new(),
            kept: Kept::default(),
            to_skip: 0,
            has_ended: false,
        }))
    }

    fn cardinality(&self) -> Cardinality {
        self.input.cardinality().map(|count| match (self.drops_remainder, count.checked_sub(self.reach)) {
            (true, None) => 0,
            (true, Some(rest)) => rest / self.shift + 1,
            (false, _) => count.div_ceil(self.shift),
        })
    }
}

struct Sliding {
    dataset: Arc<Windows>,
    input: Box<dyn DatasetIterator>,
    /// Elements from the beginning of the next window on.
    buffer: VecDeque<Element>,
    /// What they take.
    kept: Kept,
    /// Elements between the last window and the next.
    to_skip: u64,
    has_ended: bool,
}

impl Sliding {
    fn pull(&mut self, ctx: &CallContext) -> Result<Option<Element>> {
        check_wanted(ctx)?;
        let element = self.input.next(ctx)?;
        self.has_ended |= element.is_none();
        Ok(element)
    }
}

impl DatasetIterator for Sliding {
    fn next(&mut self, ctx: &CallContext) -> Result<Option<Element>> {
        while self.to_skip > 0 && !self.has_ended {
            self.pull(ctx)?;
            self.to_skip -= 1;
        }
        while (self.buffer.len() as u64) < self.dataset.reach && !self.has_ended {
            if let Some(element) = self.pull(ctx)? {
                keep(&mut self.kept, &element)?;
                self.buffer.push_back(element);
            }
        }
        let is_short = (self.buffer.len() as u64) < self.dataset.reach;
        if self.buffer.is_empty() || (is_short && self.dataset.drops_remainder) {
            self.buffer.clear();
            self.kept.clear();
            return Ok(None);
        }
        let reach = usize::try_from(self.dataset.reach).unwrap_or(usize::MAX);
        let stride = usize::try_from(self.dataset.stride).unwrap_or(usize::MAX);
        let chosen: Vec<&Element> = self.buffer.iter().take(reach).step_by(stride).collect();
        let inner = self.dataset.input.spec();
        let components = inner.dtypes.iter().zip(&inner.shapes).enumerate().map(|(index, (dtype, shape))| {
            let spec = ElementSpec { dtypes: vec![*dtype], shapes: vec![shape.clone()] };
            let component = |element: &&Element| element.get(index).cloned().into_iter().collect();
            let tensors = chosen.iter().filter_map(|element| element.get(index));
            let elements: Arc<[Element]> = chosen.iter().map(component).collect();
            to_tensor(Arc::new(Few::new(spec, elements)?), tensors)
        });
        let window = components.collect::<Result<Element>>()?;
        let passed = self.dataset.shift.min(self.buffer.len() as u64);
        self.kept.remove(self.buffer.drain(..passed as usize).map(|element| kept_bytes(&element)).sum());
        self.to_skip = self.dataset.shift - passed;
        Ok(Some(window))
    }

    fn is_ready(&self) -> bool {
        self.input.is_ready()
    }
}

struct Groups {
    spec: ElementSpec,
    input: Arc<dyn Dataset>,
    key: Arc<Captured>,
    reduce: Arc<Captured>,
    size: Arc<Captured>,
}

fn group_by_window(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let spec = ElementSpec::of(node)?;
    let key = CapturedSpec::bound_by(node, "key_func", 1, "Tkey_func_other_arguments")?;
    let reduce = CapturedSpec::bound_by(node, "reduce_func", key.end(), "Treduce_func_other_arguments")?;
    let size =
        CapturedSpec::bound_by(node, "window_size_func", reduce.end(), "Twindow_size_func_other_arguments")?;
    kernel(move |ctx| {
        let input = input(ctx, 0)?;
        let key = key.bind(ctx, &input.spec().dtypes)?;
        check_results(&key, &[DType::Int64])?;
        let reduce = reduce.bind(ctx, &[DType::Int64, DType::Variant])?;
        check_results(&reduce, &[DType::Variant])?;
        let size = size.bind(ctx, &[DType::Int64])?;
        check_results(&size, &[DType::Int64])?;
        Ok(Arc::new(Groups { spec: spec.clone(), input, key, reduce, size }))
    })
}

impl Dataset for Groups {
    fn spec(&self) -> &ElementSpec {
        &self.spec
    }

    fn iterate(self: Arc<Self>, nesting: Nesting) -> Result<Box<dyn DatasetIterator>> {
        let input = self.input.clone().iterate(nesting.inner()?)?;
        Ok(Box::new(Grouping {
            dataset: self,
            input,
            groups: BTreeMap::new(),
            sizes: BTreeMap::new(),
            open: None,
            has_ended: false,
            nesting,
            kept: Kept::default(),
        }))
    }
}

struct Grouping {
    dataset: Arc<Groups>,
    input: Box<dyn DatasetIterator>,
    /// Elements that wait for others of their key.
    groups: BTreeMap<i64, Vec<Element>>,
    /// How many elements make a window, by key.
    sizes: BTreeMap<i64, usize>,
    /// What the reduction made of the window that was full last.
    open: Option<Box<dyn DatasetIterator>>,
    has_ended: bool,
    nesting: Nesting,
    /// What the groups take.
    kept: Kept,
}

/// What a key takes, whose group may be empty for now.
const KEY_BYTES: usize = 64;

/// The number that a function of keys or sizes gave.
fn number(results: &[Tensor], what: &str) -> Result<i64> {
    let [result] = results else {
        return Err(Status::internal("the function was checked to return one number"));
    };
    ensure!(
        result.is_scalar(),
        InvalidArgument,
        "`{what}` must return a scalar int64, got shape {}",
        result.shape()
    );
    result.to_scalar()
}

impl Grouping {
    fn window_size(&mut self, key: i64, ctx: &CallContext) -> Result<usize> {
        if let Some(&size) = self.sizes.get(&key) {
            return Ok(size);
        }
        let results = self.dataset.size.call(ctx, vec![Tensor::scalar(key)])?;
        let size = number(&results, "window_size_func")?;
        ensure!(size > 0, InvalidArgument, "Window size must be greater than zero, but got {size}.");
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        self.kept.add(KEY_BYTES)?;
        self.sizes.insert(key, size);
        Ok(size)
    }

    fn reduce(
        &self,
        key: i64,
        elements: Vec<Element>,
        ctx: &CallContext,
    ) -> Result<Box<dyn DatasetIterator>> {
        let spec = self.dataset.input.spec().clone();
        let group = Few::new(spec, elements.into())?;
        let elements = group.elements.clone();
        let group = to_tensor(Arc::new(group), elements.iter().flatten())?;
        let results = self.dataset.reduce.call(ctx, vec![Tensor::scalar(key), group])?;
        let [result] = &results[..] else {
            return Err(Status::internal("the function was checked to return one dataset"));
        };
        let dataset = from_tensor(result)?;
        self.dataset.spec.check_dataset(dataset.spec())?;
        dataset.iterate(self.nesting.inner()?)
    }
}

impl DatasetIterator for Grouping {
    fn next(&mut self, ctx: &CallContext) -> Result<Option<Element>> {
        loop {
            check_wanted(ctx)?;
            if let Some(open) = &mut self.open {
                match open.next(ctx)? {
                    Some(element) => return Ok(Some(element)),
                    None => self.open = None,
                }
            }
            if self.has_ended {
                let Some((key, elements)) = self.groups.pop_first() else { return Ok(None) };
                self.kept.remove(elements.iter().map(kept_bytes).sum());
                self.open = Some(self.reduce(key, elements, ctx)?);
                continue;
            }
            let Some(element) = self.input.next(ctx)? else {
                self.has_ended = true;
                continue;
            };
            let key = number(&self.dataset.key.call(ctx, element.clone())?, "key_func")?;
            let size = self.window_size(key, ctx)?;
            keep(&mut self.kept, &element)?;
            let group = self.groups.entry(key).or_default();
            group.push(element);
            if group.len() >= size {
                let elements = std::mem::take(group);
                self.groups.remove(&key);
                self.kept.remove(elements.iter().map(kept_bytes).sum());
                self.open = Some(self.reduce(key, elements, ctx)?);
            }
        }
    }

    fn is_ready(&self) -> bool {
        false
    }
}
