//! [`Registry`]: what the modules of this crate keep with a graph, by type.
//!
//! Variables by name, lists of losses, the global step, queue runners: each belongs to a graph, and none is the graph's
//! business. So each module keeps its own under a type that only it knows, and the graph knows none of them.

use std::any::{Any, TypeId};

use rustc_hash::FxHashMap;

/// At most one value of each type.
#[derive(Default)]
pub(super) struct Registry(FxHashMap<TypeId, Box<dyn Any + Send>>);

impl Registry {
    /// The value of this type; at first its default.
    pub(super) fn of<T: Default + Send + 'static>(&mut self) -> &mut T {
        let value = self.0.entry(TypeId::of::<T>()).or_insert_with(|| Box::new(T::default()));
        // The key is the type of the value: nothing else inserts.
        value.downcast_mut().expect("a value stands under its own type")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_has_a_value_of_its_own() {
        #[derive(Default)]
        struct Losses(Vec<u32>);
        #[derive(Default)]
        struct Runners(Vec<u32>);

        let mut registry = Registry::default();
        registry.of::<Losses>().0.push(1);
        registry.of::<Runners>().0.push(2);
        registry.of::<Losses>().0.push(3);
        assert_eq!(registry.of::<Losses>().0, [1, 3]);
        assert_eq!(registry.of::<Runners>().0, [2]);
    }
}
