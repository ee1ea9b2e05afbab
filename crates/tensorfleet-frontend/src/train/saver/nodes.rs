//! The nodes of a saver, named and placed as TensorFlow 2.21 does for `tf.compat.v1.train.Saver`.

use std::collections::BTreeMap;

use tensorfleet_core::{DType, DeviceName, Result, Shape, Tensor};
use tensorfleet_kernel::builder::NewNode;
use tensorfleet_proto::tensorflow::SaverDef;

use crate::graph::{Graph, Operation, Output, Variable};

/// A variable and the name it is saved under.
type Saved = (String, Variable);

/// Builds the nodes under the name scope `name`, and writes their names into `def`.
pub(super) fn build(graph: &Graph, name: &str, saved: &[Saved], def: &mut SaverDef) -> Result<()> {
    graph.name_scope(name, || {
        let filename = placeholder(graph, "filename", "model")?;
        let filename = placeholder(graph, "Const", &filename)?;
        let (save, restore) = match def.sharded {
            false => (save_all(graph, &filename, saved)?, restore_all(graph, &filename, saved)?),
            true => {
                let shards = by_device(saved)?;
                (save_shards(graph, &filename, &shards)?, restore_shards(graph, &filename, &shards)?)
            }
        };
        def.filename_tensor_name = filename.name();
        def.save_tensor_name = save.name();
        def.restore_op_name = restore.name();
        Ok(())
    })
}

/// A string that may be fed.
fn placeholder(graph: &Graph, name: &str, default: impl crate::Operand) -> Result<Output> {
    let node = graph.op("PlaceholderWithDefault").input(default).name(name);
    node.attr("shape", tensorfleet_core::PartialShape::from(&Shape::scalar())).output()
}

/// A vector of strings.
fn strings<'a>(texts: impl Iterator<Item = &'a str>) -> Result<Tensor> {
    let texts: Vec<bytes::Bytes> = texts.map(|text| bytes::Bytes::copy_from_slice(text.as_bytes())).collect();
    let count = texts.len();
    Tensor::from_strings(texts, &[count])
}

/// The inputs that name the tensors: their names, and which part of them each variable is; nothing stands for the whole.
fn names_and_slices(saved: &[Saved]) -> Result<(Tensor, Tensor)> {
    let spec = |(_, variable): &Saved| variable.slice_info().map_or(String::new(), |slice| slice.spec());
    let specs: Vec<String> = saved.iter().map(spec).collect();
    Ok((strings(saved.iter().map(|(name, _)| name.as_str()))?, strings(specs.iter().map(String::as_str))?))
}

fn save_op(graph: &Graph, filename: &Output, saved: &[Saved]) -> Result<Operation> {
    let (names, slices) = names_and_slices(saved)?;
    let mut values = Vec::with_capacity(saved.len());
    for (_, variable) in saved {
        // A reference is passed as it is, so that it is read when it is saved; no copy of it is kept elsewhere.
        values.push(match variable.is_resource() {
            true => graph.output_at(variable.snapshot_in(graph)?),
            false => variable.handle(),
        });
    }
    graph.op("SaveV2").input(filename).input(names).input(slices).inputs(values).build()
}

/// `output` once `before` is done.
fn after(graph: &Graph, before: &Operation, output: &Output) -> Result<Output> {
    graph.control_dependencies([before], || {
        graph.colocate_with(output, || graph.op("Identity").input(output).name("control_dependency").output())
    })
}

fn save_all(graph: &Graph, filename: &Output, saved: &[Saved]) -> Result<Output> {
    let save = save_op(graph, filename, saved)?;
    after(graph, &save, filename)
}

/// Reads and assigns; gives the assignments.
fn assignments(
    graph: &Graph,
    device: &DeviceName,
    filename: &Output,
    saved: &[Saved],
) -> Result<Vec<Operation>> {
    let (names, slices) = names_and_slices(saved)?;
    let dtypes: Vec<DType> = saved.iter().map(|(_, variable)| variable.dtype()).collect::<Result<_>>()?;
    let restored = graph.device(device.clone(), || {
        graph.op("RestoreV2").input(filename).input(names).input(slices).attr("dtypes", dtypes).build()
    })?;
    let mut assignments = Vec::with_capacity(saved.len());
    for ((_, variable), value) in saved.iter().zip(restored.outputs()?) {
        assignments.push(assignment(graph, variable, &value)?);
    }
    Ok(assignments)
}

fn assignment(graph: &Graph, variable: &Variable, value: &Output) -> Result<Operation> {
    if !variable.is_resource() {
        return graph.op("Assign").input(variable.handle()).input(value).build();
    }
    graph.device(variable.device(), || {
        let value = graph.op("Identity").input(value).output()?;
        graph.op("AssignVariableOp").input(variable.handle()).input(value).build()
    })
}

fn restore_all(graph: &Graph, filename: &Output, saved: &[Saved]) -> Result<Operation> {
    let device = cpu_of(&DeviceName::default());
    graph.group_named("restore_all", assignments(graph, &device, filename, saved)?)
}

/// The variables of each device, in order of the devices' names.
fn by_device(saved: &[Saved]) -> Result<Vec<(DeviceName, Vec<Saved>)>> {
    let mut shards: BTreeMap<String, (DeviceName, Vec<Saved>)> = BTreeMap::new();
    for (name, variable) in saved {
        let device: DeviceName = variable.device().parse()?;
        let shard = shards.entry(device.to_string()).or_insert_with(|| (device, Vec::new()));
        shard.1.push((name.clone(), variable.clone()));
    }
    Ok(shards.into_values().collect())
}

/// Files are written and read by the first processor of a device's task.
fn cpu_of(device: &DeviceName) -> DeviceName {
    DeviceName { device_type: Some("CPU".to_string()), index: Some(0), ..device.clone() }
}

/// Every device saves its own variables beside the final place; then the parts become one checkpoint.
fn save_shards(graph: &Graph, filename: &Output, shards: &[(DeviceName, Vec<Saved>)]) -> Result<Output> {
    let temporary = graph.device("/device:CPU:*", || {
        let is_s3 = graph.op("StaticRegexFullMatch").input(filename).attr("pattern", "^s3://.*").output()?;
        let (part, temporary) = (graph.constant(".part"), graph.constant("_temp/part"));
        let suffix = graph.op("Select").input(is_s3).input(part).input(temporary).output()?;
        graph.op("StringJoin").inputs([filename, &suffix]).output()
    })?;
    let count = graph.constant_named("num_shards", shards.len() as i32);
    let mut parts = Vec::with_capacity(shards.len());
    let mut done = Vec::with_capacity(shards.len());
    let mut last = DeviceName::default();
    for (number, (device, saved)) in shards.iter().enumerate() {
        last = cpu_of(device);
        graph.device(last.clone(), || -> Result<()> {
            let name = graph.op("ShardedFilename").input(&temporary).input(number as i32).input(&count);
            let part = name.output()?;
            let save = save_op(graph, &part, saved)?;
            done.push(after(graph, &save, &part)?.operation());
            parts.push(part);
            Ok(())
        })?;
    }
    graph.device(last, || {
        let merge = graph.name_scope("MergeV2Checkpoints", || {
            let scope = graph.build(|builder| builder.name_scope().to_string());
            let pack = NewNode::new("Pack").name("checkpoint_prefixes");
            let pack = parts
                .iter()
                .map(Output::endpoint)
                .collect::<Result<Vec<_>>>()
                .map(|parts| pack.input_list(parts))?;
            let before: Vec<_> = done.iter().map(Operation::node).collect::<Result<_>>()?;
            let prefixes = graph.emit(before.into_iter().fold(pack, NewNode::control_input))?;
            let merge = graph.op("MergeV2Checkpoints").input(prefixes).input(filename);
            merge.attr("delete_old_dirs", true).name(&format!("{scope}/")).build()
        })?;
        let identity = graph.op("Identity").input(filename).control_input(&merge);
        done.iter().fold(identity, |identity, done| identity.control_input(done)).output()
    })
}

fn restore_shards(
    graph: &Graph,
    filename: &Output,
    shards: &[(DeviceName, Vec<Saved>)],
) -> Result<Operation> {
    let mut restored = Vec::with_capacity(shards.len());
    for (device, saved) in shards {
        let assignments = assignments(graph, &cpu_of(device), filename, saved)?;
        restored.push(graph.group_named("restore_shard", assignments)?);
    }
    graph.group_named("restore_all", restored)
}
