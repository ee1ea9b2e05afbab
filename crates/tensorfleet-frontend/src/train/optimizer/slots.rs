//! [`Slots`]: the variables that an optimizer keeps beside those it trains.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use tensorfleet_core::{Result, Status};

use super::Hyperparameter;
use crate::graph::{Graph, Output, Variable};
use crate::variables::{Initial, Initializer, create_slot};

/// The variables that an optimizer keeps: for each variable it trains one in each slot, and some for all of them. An
/// optimizer may work on several graphs. An [`UpdateRule`](super::UpdateRule) makes them in `create_slots`.
#[derive(Debug, Default)]
pub struct Slots {
    slots: Mutex<BTreeMap<String, FxHashMap<Key, Variable>>>,
    shared: Mutex<BTreeMap<(String, usize), Variable>>,
}

/// The graph, and the name of a variable in it.
type Key = (usize, String);

fn key(variable: &Variable) -> Key {
    (variable.graph().address(), variable.name())
}

impl Slots {
    /// The variable in `slot` of `primary`.
    pub fn get(&self, primary: &Variable, slot: &str) -> Option<Variable> {
        self.slots.lock().get(slot)?.get(&key(primary)).cloned()
    }

    /// The variable in `slot` of `primary`, which must have been made.
    pub fn of(&self, primary: &Variable, slot: &str) -> Result<Variable> {
        self.get(primary, slot).ok_or_else(|| {
            Status::failed_precondition(format!(
                "Variable '{}' has no slot '{slot}'; slots are made when gradients are applied",
                primary.name()
            ))
        })
    }

    /// Makes the variable in `slot` of `primary`, unless it exists, with zeros in it.
    pub fn zeros(&self, primary: &Variable, slot: &str, optimizer: &str) -> Result<()> {
        self.make(primary, slot, optimizer, Initializer::zeros())
    }

    /// Makes the variable in `slot` of `primary`, unless it exists. It is named after the optimizer, has the primary's shape
    /// and dtype and stands where the primary does.
    pub fn make(
        &self,
        primary: &Variable,
        slot: &str,
        optimizer: &str,
        initializer: Initializer,
    ) -> Result<()> {
        if self.get(primary, slot).is_some() {
            return Ok(());
        }
        let (graph, dtype, shape) = (primary.graph().clone(), primary.dtype()?, primary.shape()?);
        let shape = shape.to_shape().ok_or_else(|| {
            Status::invalid_argument(format!(
                "Variable '{}' has the shape {shape}; an optimizer with slots needs to know all of it. Give the variable \
                 an initial value of known shape",
                primary.name()
            ))
        })?;
        let initial = Initial::By(Box::new(move || initializer.build(&graph, &shape, dtype)));
        let variable = create_slot(primary, optimizer, initial)?;
        self.slots.lock().entry(slot.to_string()).or_default().insert(key(primary), variable);
        Ok(())
    }

    /// Makes `variable` the one in `slot` of `primary`: for front ends that make slots themselves.
    pub fn put(&self, primary: &Variable, slot: &str, variable: &Variable) {
        self.slots.lock().entry(slot.to_string()).or_default().insert(key(primary), variable.clone());
    }

    /// Makes `variable` the one called `name` for all that is trained in its graph; see [`Slots::put`].
    pub fn put_shared(&self, name: &str, variable: &Variable) {
        self.shared.lock().insert((name.to_string(), variable.graph().address()), variable.clone());
    }

    /// Makes a variable for all that is trained in the graph of `near`, unless it exists; it stands where `near` does.
    pub fn make_shared(&self, name: &str, initial: &Hyperparameter, near: &Variable) -> Result<()> {
        let graph = near.graph();
        let key = (name.to_string(), graph.address());
        if self.shared.lock().contains_key(&key) {
            return Ok(());
        }
        let variable = graph.colocate_with(near, || {
            let variable = graph.new_variable(name).untrainable();
            let variable = if near.is_resource() { variable.resource() } else { variable };
            match initial {
                Hyperparameter::Number(initial) => variable.init(*initial as f32).check(),
                Hyperparameter::Computed(initial) => variable.init(initial).check(),
            }
        })?;
        self.shared.lock().insert(key, variable);
        Ok(())
    }

    /// The variable `name` of [`Slots::make_shared`].
    pub fn shared(&self, graph: &Graph, name: &str) -> Result<Variable> {
        let found = self.shared.lock().get(&(name.to_string(), graph.address())).cloned();
        found.ok_or_else(|| Status::failed_precondition(format!("The optimizer has no variable '{name}'")))
    }

    /// The names of the slots.
    pub fn names(&self) -> Vec<String> {
        self.slots.lock().keys().cloned().collect()
    }

    /// All variables, by name.
    pub fn variables(&self) -> Vec<Variable> {
        let mut all: Vec<Variable> = self.shared.lock().values().cloned().collect();
        all.extend(self.slots.lock().values().flat_map(|slot| slot.values().cloned()));
        all.sort_by_cached_key(Variable::name);
        all
    }
}

/// A value as the dtype of a variable.
pub(super) fn like(value: &Output, variable: &Variable) -> Result<Output> {
    value.cast(variable.dtype()?)
}
