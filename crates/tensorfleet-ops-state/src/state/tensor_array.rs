//! [`TensorArray`]: an array of tensors that loops write and read element by element. It lives as long as the step.
//!
//! An element is written once and, unless told otherwise, read once. The array of gradients that belongs to an array
//! is different: what is written to one element adds up.

use parking_lot::Mutex;
use tensorfleet_core::memory::{self, Kept};
use tensorfleet_core::{DType, PartialShape, Result, Shape, Status, Tensor, ensure};

use tensorfleet_kernel::resource::Resource;
use tensorfleet_numeric::assign::add_assign;
use tensorfleet_threads::Loops;

/// Bounds what one index can make a growing array allocate.
const MAX_SIZE: usize = 1 << 26;

/// How an array behaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// Whether writing past the end makes it longer.
    pub(super) is_dynamic: bool,
    /// Whether reading an element frees it.
    pub(super) clear_after_read: bool,
    /// Whether the first element's shape is that of all.
    pub(super) identical_shapes: bool,
    /// Whether writing to an element again adds to it.
    pub(super) adds_up: bool,
}

/// An array of tensors.
pub(super) struct TensorArray {
    name: String,
    dtype: DType,
    /// The threads of the step that it belongs to.
    loops: Loops,
    state: Mutex<State>,
}

struct State {
    rules: Rules,
    element_shape: PartialShape,
    elements: Vec<Element>,
    kept: Kept,
    is_closed: bool,
}

impl State {
    /// Makes the array longer.
    fn grow_to(&mut self, size: usize) -> Result<()> {
        check_size(size)?;
        let more = size.saturating_sub(self.elements.len());
        self.kept.add(more.saturating_mul(size_of::<Element>()))?;
        memory::make_room(&mut self.elements, more)?;
        self.elements.resize(size, Element::default());
        Ok(())
    }
}

#[derive(Clone, Default)]
struct Element {
    value: Option<Tensor>,
    /// The shape it had when it was written; for gradients, that of the forward element.
    shape: Option<Shape>,
    was_written: bool,
    was_read: bool,
}

impl Resource for TensorArray {
    fn kind() -> &'static str {
        "N10tensorflow11TensorArrayE"
    }
}

impl TensorArray {
    pub(super) fn new(
        name: &str,
        dtype: DType,
        size: usize,
        element_shape: PartialShape,
        rules: Rules,
        loops: Loops,
    ) -> Result<TensorArray> {
        let (elements, kept) = (Vec::new(), Kept::default());
        let mut state = State { rules, element_shape, elements, kept, is_closed: false };
        state.grow_to(size)?;
        Ok(TensorArray { name: name.to_string(), dtype, loops, state: Mutex::new(state) })
    }

    /// The name of the array.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The array of this array's gradients: as long, and with elements of the same shapes.
    pub(super) fn gradients(&self, name: &str) -> Result<TensorArray> {
        self.with(|state| {
            // From now on the two arrays are of one length.
            state.rules.is_dynamic = false;
            let rules = Rules { is_dynamic: false, adds_up: true, ..state.rules };
            let kept = Kept::new(size_of_val(&*state.elements))?;
            let mut elements = memory::vec_with_room(state.elements.len())?;
            let shape_only =
                |element: &Element| Element { shape: element.shape.clone(), ..Element::default() };
            elements.extend(state.elements.iter().map(shape_only));
            let element_shape = state.element_shape.clone();
            let state = Mutex::new(State { rules, element_shape, elements, kept, is_closed: false });
            Ok(TensorArray { name: name.to_string(), dtype: self.dtype, loops: self.loops.clone(), state })
        })
    }

    fn with<R>(&self, change: impl FnOnce(&mut State) -> Result<R>) -> Result<R> {
        let mut state = self.state.lock();
        ensure!(!state.is_closed, InvalidArgument, "Tensor {} has already been closed.", self.name);
        change(&mut state)
    }

    /// The number of elements.
    pub(super) fn size(&self) -> Result<usize> {
        self.with(|state| Ok(state.elements.len()))
    }

    /// Whether it grows when written past its end.
    pub(super) fn is_dynamic(&self) -> Result<bool> {
        self.with(|state| Ok(state.rules.is_dynamic))
    }

    /// What is known of the shape of elements.
    pub(super) fn element_shape(&self) -> Result<PartialShape> {
        self.with(|state| Ok(state.element_shape.clone()))
    }

    /// Frees all elements; later uses are errors.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        state.elements = Vec::new();
        state.kept.clear();
    }

    /// Checks the dtype of a node that handles the array.
    pub(super) fn check_dtype(&self, dtype: DType, verb: &str) -> Result<()> {
        ensure!(
            dtype == self.dtype,
            InvalidArgument,
            "TensorArray dtype is {} but Op is trying to {verb} dtype {dtype}.",
            self.dtype
        );
        Ok(())
    }

    /// Writes element `index`.
    pub(super) fn write(&self, index: i64, value: Tensor) -> Result<()> {
        self.check_dtype(value.dtype(), "write")?;
        self.with(|state| self.write_in(state, index, value))
    }

    /// Writes several elements; makes room for `size` first, if the array may grow.
    pub(super) fn write_many(&self, size: usize, values: Vec<(i64, Tensor)>) -> Result<()> {
        self.with(|state| {
            if state.rules.is_dynamic && size > state.elements.len() {
                state.grow_to(size)?;
            }
            values.into_iter().try_for_each(|(index, value)| {
                self.check_dtype(value.dtype(), "write")?;
                self.write_in(state, index, value)
            })
        })
    }

    fn write_in(&self, state: &mut State, index: i64, value: Tensor) -> Result<()> {
        let name = &self.name;
        let size = state.elements.len();
        let at = usize::try_from(index).ok().filter(|&at| state.rules.is_dynamic || at < size);
        let Some(at) = at else {
            return Err(Status::invalid_argument(format!(
                "TensorArray {name}: Tried to write to index {index} but array is not resizeable and size is: {size}"
            )));
        };
        ensure!(
            state.element_shape.admits(value.shape()),
            InvalidArgument,
            "TensorArray {name}: Could not write to TensorArray index {index} because the value shape is {} which is \
             incompatible with the TensorArray's inferred element shape: {} (consider setting infer_shape=False).",
            value.shape(),
            state.element_shape
        );
        if at >= size {
            state.grow_to(at.saturating_add(1))?;
        }
        if state.rules.identical_shapes {
            state.element_shape = value.shape().into();
        }
        let adds_up = state.rules.adds_up;
        let Some(element) = state.elements.get_mut(at) else {
            return Err(Status::internal("an array element is missing after growth"));
        };
        ensure!(
            !element.was_read,
            InvalidArgument,
            "TensorArray {name}: Could not write to TensorArray index {index} because it has already been read."
        );
        ensure!(
            adds_up || !element.was_written,
            InvalidArgument,
            "TensorArray {name}: Could not write to TensorArray index {index} because it has already been written to."
        );
        match &mut element.value {
            Some(sum) => {
                ensure!(
                    sum.shape() == value.shape(),
                    InvalidArgument,
                    "TensorArray {name}: Could not aggregate to TensorArray index {index} because the existing shape \
                     is {} but the new input shape is {}.",
                    sum.shape(),
                    value.shape()
                );
                add_assign(&self.loops, sum, &value)?;
            }
            None => {
                state.kept.add(value.kept_bytes())?;
                element.shape = Some(value.shape().clone());
                element.value = Some(value);
            }
        }
        element.was_written = true;
        Ok(())
    }

    /// Reads elements, each of which the array may free.
    pub(super) fn read_many(&self, indices: impl IntoIterator<Item = i64>) -> Result<Vec<Tensor>> {
        self.with(|state| indices.into_iter().map(|index| self.read_in(state, index)).collect())
    }

    fn read_in(&self, state: &mut State, index: i64) -> Result<Tensor> {
        let name = &self.name;
        let size = state.elements.len();
        let element = usize::try_from(index).ok().and_then(|at| state.elements.get_mut(at));
        let Some(element) = element else {
            return Err(Status::invalid_argument(format!(
                "TensorArray {name}: Tried to read from index {index} but array size is: {size}"
            )));
        };
        if !element.was_written {
            // Nothing was written: zeros, if their shape is known.
            let shape = element.shape.clone().or_else(|| state.element_shape.to_shape());
            let shape = shape.ok_or_else(|| self.unknown_shape(index, &state.element_shape))?;
            let zeros = Tensor::zeros(self.dtype, shape)?;
            state.kept.add(zeros.kept_bytes())?;
            element.value = Some(zeros);
            element.was_written = true;
        }
        element.was_read = true;
        let value = if state.rules.clear_after_read {
            let value = element.value.take();
            state.kept.remove(value.as_ref().map_or(0, Tensor::kept_bytes));
            value
        } else {
            element.value.clone()
        };
        value.ok_or_else(|| {
            Status::invalid_argument(format!(
                "TensorArray {name}: Could not read index {index} twice because it was cleared after a previous read \
                 (perhaps try setting clear_after_read = false?)."
            ))
        })
    }

    #[cold]
    fn unknown_shape(&self, index: i64, element_shape: &PartialShape) -> Status {
        Status::invalid_argument(format!(
            "TensorArray {}: Could not read from TensorArray index {index}.  Furthermore, the element shape is not \
             fully defined: {element_shape}.  It is possible you are working with a resizeable TensorArray and \
             stop_gradients is not allowing the gradients to be written.  If you set the full element_shape property \
             on the forward TensorArray, the proper all-zeros tensor will be returned instead of incurring this error.",
            self.name
        ))
    }
}

fn check_size(size: usize) -> Result<()> {
    ensure!(size <= MAX_SIZE, ResourceExhausted, "a TensorArray of {size} elements is too large");
    Ok(())
}
