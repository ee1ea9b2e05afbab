//! Slots: variables that accompany others, such as the momentum an optimizer keeps of each.

use std::sync::Arc;

use tensorfleet_core::Result;

use super::variable_builder::Initial;
use crate::graph::Variable;

/// Makes a variable that accompanies another one, as TensorFlow names and places them:
/// `PRIMARY/NAME` in the current variable scope, with a suffix if there is one already, where `primary` is.
pub(crate) fn create_slot(primary: &Variable, name: &str, initial: Initial) -> Result<Variable> {
    let graph = primary.graph();
    let slice = primary.slice_info();
    graph.unique_variable_scope(&format!("{}/{name}", primary.name()), || {
        let full_name = graph.current_variable_scope().name().to_string();
        graph.colocate_with(primary, || {
            let slot = graph.new_variable(&format!("{full_name}/")).untrainable();
            let slot = if primary.is_resource() { slot.resource() } else { slot };
            // What accompanies a part is a part of what accompanies the whole, and saved as that.
            let own_name =
                full_name.rsplit_once(&format!("{}/", primary.name())).map_or(name, |(_, name)| name);
            let slot = slot.slice(slice.map(|slice| Arc::new(slice.slot(own_name))));
            slot.init_with(initial).check()
        })
    })
}
