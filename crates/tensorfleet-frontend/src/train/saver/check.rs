//! Whether a checkpoint has what a saver wants, told before anything runs and in words a person can act on.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;
use tensorfleet_core::{Code, DType, PartialShape, Result, Status, notice};
use tensorfleet_proto::tensorflow::SaverDef;

use crate::checkpoint::{CheckpointReader, near_names};
use crate::graph::{Graph, Variable};
use crate::listing::listed_in_quotes;
use crate::variables::mod_tables;

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
pub(super) fn fits(prefix: &str, graph: &Graph, expected: &[Expected]) -> Result<()> {
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
    for warning in scrambled_tables(&reader, &mod_tables::names(graph), expected)? {
        notice::warn(warning);
    }
    Ok(())
}

/// What to say of tables whose rows will belong to other ids, because they come in another number of parts.
fn scrambled_tables(
    reader: &CheckpointReader,
    mod_tables: &BTreeSet<String>,
    expected: &[Expected],
) -> Result<Vec<String>> {
    let mut warnings = Vec::new();
    for name in mod_tables {
        let parts = expected.iter().filter(|expected| expected.name == *name).count();
        if parts == 0 {
            continue;
        }
        let saved = reader.slices(name)?.len().max(1);
        if saved != parts {
            warnings.push(format!(
                "table '{name}' was saved in {saved} parts and is restored in {parts}, and it is looked up by id modulo the number of \
                 parts (PartitionStrategy::Mod): ids get the rows of others; keep {saved} parts, or train with \
                 PartitionStrategy::Div from the beginning"
            ));
        }
    }
    Ok(warnings)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::PartitionStrategy;
    use crate::session::Session;
    use crate::train::Saver;
    use crate::variables::{Initializer, Partitioner};

    /// A model with a table of so many parts.
    fn model(parts: usize, strategy: PartitionStrategy) -> Result<(Graph, Saver)> {
        let g = Graph::new();
        let table = g.get_variable("table").shape([6, 1]).initializer(Initializer::zeros());
        let table = table.partitioner(Partitioner::fixed_size(parts)).build()?;
        g.embedding_lookup(&table, [0, 1], strategy)?;
        let saver = Saver::new(&g)?;
        Ok((g, saver))
    }

    #[test]
    fn a_table_that_goes_round_other_parts_is_warned_of() -> Result<()> {
        let directory = tempfile::tempdir().unwrap();
        let prefix = directory.path().join("model").to_string_lossy().into_owned();
        let (g, saver) = model(2, PartitionStrategy::Mod)?;
        let session = Session::new(&g);
        session.run(g.global_variables_initializer()?)?;
        let prefix = saver.save(&session, &prefix, None)?;
        let reader = CheckpointReader::open(&prefix)?;
        let warnings = |parts: usize, strategy: PartitionStrategy| -> Result<Vec<String>> {
            let (g, saver) = model(parts, strategy)?;
            scrambled_tables(&reader, &mod_tables::names(&g), &saver.expected)
        };
        assert_eq!(warnings(2, PartitionStrategy::Mod)?, Vec::<String>::new());
        assert_eq!(warnings(3, PartitionStrategy::Div)?, Vec::<String>::new());
        let warning = warnings(3, PartitionStrategy::Mod)?.join("");
        assert!(warning.contains("'table' was saved in 2 parts and is restored in 3"), "{warning}");
        Ok(())
    }
}
