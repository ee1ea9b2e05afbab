//! [`Variable`]: a value that outlives steps, behind reference edges and resource handles alike.
//!
//! Readers get a snapshot by reference count, never a copy. A writer that is the only owner of the value
//! updates it in place; if a reader still holds a snapshot, the writer gets a fresh (recycled) buffer and the
//! reader keeps the old one. So no one ever sees half an update, which TensorFlow's reference variables do not
//! promise.

use parking_lot::{RwLock, RwLockWriteGuard};
use tensorfleet_core::{DType, PartialShape, Result, Status, Tensor};

use crate::resource::Resource;

/// A variable: a name, a dtype, and a value once it is initialised.
pub struct Variable {
    name: String,
    dtype: DType,
    declared_shape: PartialShape,
    /// `None` until initialised. Held for writing during an update, for reading only to take a snapshot or
    /// for one gather.
    value: RwLock<Option<Tensor>>,
}

impl Variable {
    /// A variable without a value.
    pub fn new(name: &str, dtype: DType) -> Variable {
        Variable::with_shape(name, dtype, PartialShape::unknown())
    }

    /// A variable without a value, of which the graph says that values have this shape.
    pub fn with_shape(name: &str, dtype: DType, declared_shape: PartialShape) -> Variable {
        Variable { name: name.to_string(), dtype, declared_shape, value: RwLock::new(None) }
    }

    /// The name it was created under.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The dtype of its values.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The shape the graph declares, which the first checked assignment must have.
    pub fn declared_shape(&self) -> &PartialShape {
        &self.declared_shape
    }

    /// Whether it has a value.
    pub fn is_initialized(&self) -> bool {
        self.value.read().is_some()
    }

    /// Whether somebody is writing it, so that to look at it means to wait.
    pub fn is_being_written(&self) -> bool {
        self.value.try_read().is_none()
    }

    /// The current value, shared; `None` before initialisation.
    pub fn snapshot(&self) -> Option<Tensor> {
        self.value.read().clone()
    }

    /// The current value, shared.
    pub fn read(&self) -> Result<Tensor> {
        self.snapshot().ok_or_else(|| self.uninitialized())
    }

    /// Looks at the current value without taking a snapshot, so that a concurrent writer need not copy. The
    /// writer waits meanwhile: for short looks at large values, such as a gather.
    pub fn inspect<R>(&self, look: impl FnOnce(&Tensor) -> Result<R>) -> Result<R> {
        look(self.value.read().as_ref().ok_or_else(|| self.uninitialized())?)
    }

    /// Replaces the value; the old one is returned.
    pub fn assign(&self, value: Tensor) -> Option<Tensor> {
        self.value.write().replace(value)
    }

    /// Changes the value. `change` gets the tensor itself: if no reader holds it, `make_mut` writes in place.
    /// If it fails before writing, the value is unchanged.
    pub fn update<R>(&self, change: impl FnOnce(&mut Tensor) -> Result<R>) -> Result<R> {
        change(self.value.write().as_mut().ok_or_else(|| self.uninitialized())?)
    }

    /// Like [`Variable::update`], with the value still absent before initialisation.
    pub fn update_or_init<R>(&self, change: impl FnOnce(&mut Option<Tensor>) -> Result<R>) -> Result<R> {
        change(&mut self.value.write())
    }

    /// Locks the value for writing, for an update of several variables at once. Whoever locks several does so
    /// in the order of their addresses.
    pub fn write(&self) -> RwLockWriteGuard<'_, Option<Tensor>> {
        self.value.write()
    }

    /// The error for using a variable that has no value, in TensorFlow's words.
    #[cold]
    pub fn uninitialized(&self) -> Status {
        Status::failed_precondition(format!("Attempting to use uninitialized value {}", self.name))
    }
}

impl Resource for Variable {
    fn kind() -> &'static str {
        "N10tensorflow3VarE"
    }
}

impl std::fmt::Debug for Variable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Variable({}, {})", self.name, self.dtype)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_are_in_place_unless_a_reader_holds_the_value() {
        let variable = Variable::new("v", DType::Float);
        assert_eq!(variable.read().unwrap_err().text(), "Attempting to use uninitialized value v");
        variable.assign(Tensor::vector(&[1.0f32; 100]).unwrap());
        let address = |variable: &Variable| variable.inspect(|t| Ok(t.as_bytes()?.as_ptr().addr())).unwrap();
        let bump = |t: &mut Tensor| {
            t.make_mut::<f32>()?.iter_mut().for_each(|x| *x += 1.0);
            Ok(())
        };
        let first = address(&variable);
        variable.update(bump).unwrap();
        assert_eq!(address(&variable), first);

        let snapshot = variable.read().unwrap();
        variable.update(bump).unwrap();
        assert_ne!(address(&variable), first);
        assert_eq!(snapshot.as_slice::<f32>().unwrap()[0], 2.0);
        assert_eq!(variable.read().unwrap().as_slice::<f32>().unwrap()[0], 3.0);
    }
}
