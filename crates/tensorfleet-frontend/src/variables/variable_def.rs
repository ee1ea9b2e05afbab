//! Variables as collections of meta graphs describe them: by the names of their nodes.

use std::sync::Arc;

use tensorfleet_core::{Endpoint, Result, Status};
use tensorfleet_proto::tensorflow::VariableDef;

use super::variable_lists::VariableLists;
use crate::graph::{Graph, Variable, VariableKind, VariableParts, VariableSlice};

impl Variable {
    /// The names of the variable's nodes. Whether it is trainable is known to the graph, not to the variable.
    pub fn to_variable_def(&self) -> Result<VariableDef> {
        let snapshot = self.graph().output_at(self.snapshot_in(self.graph())?);
        Ok(VariableDef {
            variable_name: self.handle().name(),
            initializer_name: self.initializer().name(),
            snapshot_name: snapshot.name(),
            is_resource: self.is_resource(),
            initial_value_name: self.initial_value().name(),
            save_slice_info_def: self.slice_info().map(|slice| slice.to_def()),
            ..Default::default()
        })
    }

    /// The variable of `graph` whose nodes have these names.
    pub fn from_variable_def(graph: &Graph, def: &VariableDef) -> Result<Variable> {
        let handle = graph.output(&def.variable_name)?;
        let initializer = graph.operation(&def.initializer_name)?;
        let node = initializer.node()?;
        // Older writers do not name the initial value; it is what the initialiser assigns.
        let initial_value = match def.initial_value_name.as_str() {
            "" => {
                let assigned = graph.build(|builder| builder.node(node).inputs.get(1).copied());
                assigned.ok_or_else(|| {
                    Status::data_loss(format!(
                        "the initialiser of variable '{}' assigns nothing",
                        def.variable_name
                    ))
                })?
            }
            name => graph.output(name)?.endpoint()?,
        };
        let read: Endpoint = match def.snapshot_name.as_str() {
            "" => handle.endpoint()?,
            name => graph.output(name)?.endpoint()?,
        };
        let dtype = graph.build(|builder| builder.dtype(read))?;
        let slice = def.save_slice_info_def.as_ref().map(VariableSlice::from_def).transpose()?.map(Arc::new);
        let kind = if def.is_resource { VariableKind::Resource } else { VariableKind::Reference };
        let parts = VariableParts {
            kind,
            dtype,
            handle: handle.endpoint()?,
            initial_value,
            initializer: node,
            read,
            slice,
        };
        Ok(Variable::new(graph, Ok(parts)))
    }

    pub(crate) fn collect_global(&self) {
        self.graph().registry(|lists: &mut VariableLists| lists.global.extend(self.parts()));
    }

    pub(crate) fn collect_trainable(&self) {
        self.graph().registry(|lists: &mut VariableLists| lists.trainable.extend(self.parts()));
    }

    pub(crate) fn collect_local(&self) {
        self.graph().registry(|lists: &mut VariableLists| lists.local.extend(self.parts()));
    }
}
