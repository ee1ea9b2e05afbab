//! Whether a checkpoint has what a saver wants, told before anything runs and in words a person can act on.

use rustc_hash::FxHashMap;
use tensorfleet_core::{Code, DType, PartialShape, Result, Status};
use tensorfleet_proto::tensorflow::SaverDef;

use crate::checkpoint::{CheckpointReader, near_names};
use crate::graph::{Graph, Variable};
use crate::listing::listed_in_quotes;

/// A tensor that a restore will look for.
#[derive(Clone, Debug)]
pub(super) struct Expected {
    /// Its name in the checkpoint.
    name: String,
    /// The variable it is for; empty if only the name is known.
    variable: String,
    dtype: DType,
    shape: PartialShape,
}

impl Expected {
    pub(super) fn of(name: &str, variable: &Variable) -> Result<Expected> {
        let dtype = variable.dtype()?;
        // A part is taken out of the whole, which may have been saved in other parts.
        let shape = match variable.slice_info() {
            Some(slice) => slice.full_shape().into(),
            None => variable.shape()?,
        };
        Ok(Expected { name: name.to_string(), variable: variable.name(), dtype, shape })
    }
}

/// What a saver that came with its graph will look for: all that its `RestoreV2` nodes name.
pub(super) fn expected_by(graph: &Graph, def: &SaverDef) -> Result<Vec<Expected>> {
    let scope = def.restore_op_name.rsplit_once('/').map_or(String::new(), |(scope, _)| format!("{scope}/"));
    let restores: Vec<String> = graph.build(|builder| {
        let nodes = builder.graph().nodes().iter();
        let restores = nodes.filter(|node| &*node.op == "RestoreV2" && node.name.starts_with(&scope));
        restores.map(|node| node.name.to_string()).collect()
    });
    let variables = graph.global_variables().into_iter().map(|variable| (variable.name(), variable));
    let variables: FxHashMap<String, Variable> = variables.collect();
    let mut expected = Vec::new();
    for restore in restores {
        let texts = |input: &str| {
            let value =
                graph.output(&format!("{restore}/{input}")).ok().and_then(|output| output.constant_value());
            let value = value.as_ref().and_then(|value| value.as_strings().ok());
            value.map(|texts| {
                texts.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect::<Vec<_>>()
            })
        };
        let (Some(names), Some(slices)) = (texts("tensor_names"), texts("shape_and_slices")) else {
            continue;
        };
        let outputs = graph.operation(&restore)?.outputs()?;
        for ((name, slice), output) in names.into_iter().zip(slices).zip(outputs) {
            let shape = match variables.get(&name) {
                Some(variable) if slice.is_empty() => variable.shape()?,
                _ => PartialShape::unknown(),
            };
            expected.push(Expected { variable: name.clone(), name, dtype: output.dtype()?, shape });
        }
    }
    Ok(expected)
}

/// Fails if the checkpoint lacks something, or has it with another dtype or shape. A checkpoint that this process
/// cannot see is left to those who restore it.
pub(super) fn fits(prefix: &str, expected: &[Expected]) -> Result<()> {
    let reader = match CheckpointReader::open(prefix) {
        Ok(reader) => reader,
        Err(status) if status.code() == Code::NotFound => return Ok(()),
        Err(status) => return Err(status),
    };
    let missing: Vec<&str> = expected
        .iter()
        .map(|expected| expected.name.as_str())
        .filter(|name| reader.find(name).is_none())
        .collect();
    if let Some(first) = missing.first() {
        return Err(Status::not_found(missing_text(first, &missing, expected.len(), &reader)));
    }
    for Expected { name, variable, dtype, shape } in expected {
        let Some(stored) = reader.find(name) else { continue };
        if stored.dtype != *dtype {
            return Err(Status::invalid_argument(format!(
                "Variable '{variable}' is {dtype}, but tensor '{name}' of checkpoint {prefix} is {}",
                stored.dtype
            )));
        }
        if !shape.admits(&stored.shape) {
            return Err(Status::invalid_argument(format!(
                "Variable '{variable}' has shape {shape}, but tensor '{name}' of checkpoint {prefix} has shape {}",
                stored.shape
            )));
        }
    }
    Ok(())
}

fn missing_text(first: &str, missing: &[&str], wanted: usize, reader: &CheckpointReader) -> String {
    let prefix = reader.prefix();
    let names = reader.names();
    if missing.len() == wanted && wanted > 1 {
        return format!(
            "Checkpoint {prefix} is of another model: it has none of the {wanted} variables to restore ({}), but {} \
             others ({})",
            listed_in_quotes(missing),
            names.len(),
            listed_in_quotes(&names)
        );
    }
    let others = match missing {
        [_] => String::new(),
        [_, others @ ..] => format!(". Also missing: {}", listed_in_quotes(others)),
        [] => String::new(),
    };
    format!(
        "Key {first} not found in checkpoint {prefix}{}{others}. A saver of some variables only, or one with the names \
         of the checkpoint (Saver::builder), restores the rest",
        near_names(first, &names)
    )
}
