//! A variable and its slots, locked together: what every optimizer kernel writes to.
//!
//! All variables of one update are locked before any of them is looked at, in the order of their addresses, so
//! that two updates that share variables cannot wait for each other. Nothing is written before everything is
//! checked; a failed update leaves all of them as they were.

use std::sync::Arc;

use parking_lot::RwLockWriteGuard;
use tensorfleet_core::{Element, Result, Shape, Status, Tensor, ensure};

use tensorfleet_kernel::kernel::{Context, Value};
use tensorfleet_kernel::variable::Variable;

/// The variable and its slots, in the order of the op's inputs, the variable first.
pub(super) struct Slots<const N: usize> {
    variables: [Arc<Variable>; N],
    /// Reference variables and resource variables fail in different words.
    is_ref: bool,
}

impl<const N: usize> Slots<N> {
    /// The variables in the first `N` inputs.
    pub(super) fn of(ctx: &Context<'_>) -> Result<Slots<N>> {
        let is_ref = matches!(ctx.inputs.first(), Some(Some(Value::Ref(_))));
        let mut variables = Vec::with_capacity(N);
        for index in 0..N {
            let found = ctx.variable(index);
            variables.push(found.map_err(|status| if is_ref { status } else { no_such_variable(status) })?);
        }
        let variables =
            variables.try_into().map_err(|_| Status::internal("an update has as many slots as inputs"))?;
        Ok(Slots { variables, is_ref })
    }

    /// The variable that is updated.
    pub(super) fn variable(&self) -> &Arc<Variable> {
        &self.variables[0]
    }

    /// Locks all, checks that all have values of type `T` and one shape, and that `check` agrees to that shape;
    /// then lets `write` change them.
    pub(super) fn update<T: Element, C>(
        &self,
        check: impl FnOnce(&Shape) -> Result<C>,
        write: impl FnOnce([&mut [T]; N], &Shape, C),
    ) -> Result<()> {
        let mut guards = self.lock()?;
        for (guard, variable) in guards.iter().zip(&self.variables) {
            let value = guard.as_ref().ok_or_else(|| self.uninitialized(variable))?;
            ensure!(
                value.dtype() == T::DTYPE,
                InvalidArgument,
                "variable {} is of type {}, the update of type {}",
                variable.name(),
                value.dtype(),
                T::DTYPE
            );
        }
        let shape = guards[0].as_ref().map(|value| value.shape().clone()).unwrap_or_default();
        for (guard, variable) in guards.iter().zip(&self.variables) {
            ensure!(
                guard.as_ref().is_some_and(|value| value.shape() == &shape),
                InvalidArgument,
                "var and {} do not have the same shape{shape} {}",
                variable.name(),
                guard.as_ref().map(|value| value.shape().to_string()).unwrap_or_default()
            );
        }
        let checked = check(&shape)?;
        let mut slices = Vec::with_capacity(N);
        for guard in &mut guards {
            let value = guard.as_mut().ok_or_else(|| Status::internal("a locked value vanished"))?;
            slices.push(value.make_mut::<T>()?);
        }
        let slices =
            slices.try_into().map_err(|_| Status::internal("an update has as many slots as inputs"))?;
        write(slices, &shape, checked);
        Ok(())
    }

    fn lock(&self) -> Result<[RwLockWriteGuard<'_, Option<Tensor>>; N]> {
        let mut order: [usize; N] = std::array::from_fn(|index| index);
        order.sort_by_key(|&index| Arc::as_ptr(&self.variables[index]).addr());
        for pair in order.windows(2) {
            let [first, second] = [&self.variables[pair[0]], &self.variables[pair[1]]];
            ensure!(
                !Arc::ptr_eq(first, second),
                InvalidArgument,
                "variable {} is given twice: a variable and its slots must be different variables",
                first.name()
            );
        }
        let mut guards: [Option<_>; N] = std::array::from_fn(|_| None);
        for index in order {
            guards[index] = Some(self.variables[index].write());
        }
        let guards: Vec<_> = guards.into_iter().flatten().collect();
        guards.try_into().map_err(|_| Status::internal("every variable of an update is locked"))
    }

    #[cold]
    fn uninitialized(&self, variable: &Variable) -> Status {
        if self.is_ref {
            return variable.uninitialized();
        }
        Status::failed_precondition(format!("Attempting to use uninitialized variables: {}", variable.name()))
    }
}

/// TensorFlow answers an update of a resource variable that nobody created with an internal error.
#[cold]
fn no_such_variable(status: Status) -> Status {
    Status::internal(format!("Invalid variable reference. {}", status.text()))
}
