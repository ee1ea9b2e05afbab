//! The list of workloads: overhead of a step, single kernels on large tensors, and training steps.
//!
//! Kernels read their operands from resource variables and are run as targets. So neither side can fold them away
//! as constants, and neither pays for carrying large tensors in or out.

use tensorfleet_core::{DType, PartialShape, Result, Shape, Status, Tensor};
use tensorfleet_proto::tensorflow::{AttrValue, GraphDef, NodeDef};
use tensorfleet_tests::case::Step;
use tensorfleet_tests::graph_builder::{Attr, GraphBuilder};
use tensorfleet_tests::packed;

use crate::models;
use crate::workload::{Run, Workload};

const FLOAT: DType = DType::Float;
const MILLION: &[usize] = &[1000, 1000];

/// Every workload.
pub(crate) fn all() -> Result<Vec<Workload>> {
    let mut all = vec![empty_step(), scalar_chain(100)];
    for op in ["AddV2", "Mul", "RealDiv", "Maximum"] {
        all.push(kernel(&format!("elementwise/{op} 1M"), op, &[MILLION, MILLION], &[])?);
    }
    all.push(kernel("elementwise/AddV2 1M + row", "AddV2", &[MILLION, &[1000]], &[])?);
    for op in ["Neg", "Square", "Sqrt", "Exp", "Log", "Tanh", "Sigmoid", "Relu"] {
        all.push(kernel(&format!("elementwise/{op} 1M"), op, &[MILLION], &[])?);
    }
    for op in ["Sum", "Max"] {
        for (what, axes) in [("all", &[0, 1][..]), ("rows", &[1]), ("columns", &[0])] {
            all.push(reduction(&format!("reduction/{op} 1M {what}"), op, axes)?);
        }
    }
    all.push(kernel("nn/Softmax 1000x1000", "Softmax", &[MILLION], &[])?);
    for size in [256, 1024, 2048] {
        let dims = &[size, size][..];
        all.push(kernel(&format!("matmul/{size}"), "MatMul", &[dims, dims], &[])?);
    }
    all.push(seed004("training/seed 004 batch 3", None)?);
    all.push(seed004("training/seed 004 batch 100", Some(100))?);
    all.push(adam(10_000_000)?);
    all.push(models::lenet(100)?);
    all.push(models::lstm(32, 40, 128)?);
    Ok(all)
}

fn empty_step() -> Workload {
    let graph = GraphBuilder::new().node("nothing", "NoOp", &[], &[]).build();
    Workload {
        name: "overhead/empty".into(),
        graph,
        setup: Run::target("nothing"),
        step: Run::target("nothing"),
    }
}

/// A chain of scalar ops, alternating so that no rewriter can shorten it.
fn scalar_chain(length: usize) -> Workload {
    let mut builder = GraphBuilder::new().placeholder("x", FLOAT).typed("n0", "Identity", &["x"], FLOAT);
    for index in 1..=length {
        let op = ["AddV2", "Mul", "Maximum", "Sub"][index % 4];
        builder = builder.typed(&format!("n{index}"), op, &[&format!("n{}", index - 1), "x"], FLOAT);
    }
    let step = Run {
        feeds: vec![("x:0".into(), Tensor::scalar(0.5f32))],
        fetches: vec![format!("n{length}:0")],
        targets: Vec::new(),
    };
    let graph = builder.build();
    Workload { name: format!("overhead/{length} scalar ops"), graph, setup: step.clone(), step }
}

/// Variables `v0`, `v1`… of these shapes with positive random values, their reads `r0`…, and the run that sets them.
fn variables(shapes: &[&[usize]]) -> Result<(GraphBuilder, Run)> {
    let mut builder = GraphBuilder::new();
    let mut setup = Run::default();
    for (index, dims) in shapes.iter().enumerate() {
        let (handle, value) = (format!("v{index}"), format!("value{index}"));
        let shape: PartialShape = (&Shape::new(dims)?).into();
        builder = builder
            .node(
                &handle,
                "VarHandleOp",
                &[],
                &[
                    ("dtype", FLOAT.into()),
                    ("shape", shape.into()),
                    ("shared_name", handle.clone().into()),
                    ("container", String::new().into()),
                ],
            )
            .placeholder(&value, FLOAT)
            .node(&format!("set{index}"), "AssignVariableOp", &[&handle, &value], &[("dtype", FLOAT.into())])
            .node(&format!("r{index}"), "ReadVariableOp", &[&handle], &[("dtype", FLOAT.into())]);
        setup.feeds.push((format!("{value}:0"), positive_values(dims, index as u32)?));
        setup.targets.push(format!("set{index}"));
    }
    Ok((builder, setup))
}

/// Numbers between 0.01 and 1.01, so that logarithms and quotients stay ordinary.
fn positive_values(dims: &[usize], seed: u32) -> Result<Tensor> {
    let mut state = seed.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
    Tensor::build::<f32>(Shape::new(dims)?, |out| {
        for slot in out {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            *slot = 0.01 + (state >> 8) as f32 / (1 << 24) as f32;
        }
        Ok(())
    })
}

/// One op over variables of these shapes.
fn kernel(name: &str, op: &str, shapes: &[&[usize]], attrs: &[(&str, Attr)]) -> Result<Workload> {
    let (builder, setup) = variables(shapes)?;
    let reads: Vec<String> = (0..shapes.len()).map(|index| format!("r{index}")).collect();
    let reads: Vec<&str> = reads.iter().map(String::as_str).collect();
    let mut graph = builder.node("op", op, &reads, attrs).build();
    set_attr(&mut graph, "T", FLOAT);
    Ok(Workload { name: name.into(), graph, setup, step: Run::target("op") })
}

fn reduction(name: &str, op: &str, axes: &[i32]) -> Result<Workload> {
    let (builder, setup) = variables(&[MILLION])?;
    let builder = builder.constant("axes", Tensor::vector(axes)?);
    let attrs = [("T", FLOAT.into()), ("Tidx", DType::Int32.into()), ("keep_dims", false.into())];
    let graph = builder.node("op", op, &["r0", "axes"], &attrs).build();
    Ok(Workload { name: name.into(), graph, setup, step: Run::target("op") })
}

/// Sets an attribute of the node added last.
fn set_attr(graph: &mut GraphDef, key: &str, dtype: DType) {
    let value =
        AttrValue { value: Some(tensorfleet_proto::tensorflow::attr_value::Value::Type(dtype.number())) };
    if let Some(NodeDef { attr, .. }) = graph.node.last_mut() {
        attr.insert(key.to_string(), value);
    }
}

/// The training step of seed 004's full-size model, forward, backward and Adam, as its conformance case has it.
fn seed004(name: &str, batch: Option<usize>) -> Result<Workload> {
    const CASE: &str = "models_seed/seed004_full_size_adam_ref";
    let missing = || Status::not_found(format!("{CASE} does not start with init and a training step"));
    let case = packed::cases()?.into_iter().find(|case| case.name == CASE).ok_or_else(missing)?;
    let [Step::Run(init), Step::Run(train), ..] = &case.steps[..] else { return Err(missing()) };
    let mut step = Run { feeds: Vec::new(), fetches: train.fetches.clone(), targets: train.targets.clone() };
    for record in train.feeds.iter().filter_map(|&index| case.feeds.get(index)) {
        let value = match (batch, &record.value.shape()[..]) {
            (Some(batch), &[_, width]) => positive_values(&[batch, width], 1)?,
            _ => record.value.clone(),
        };
        step.feeds.push((record.name.clone(), value));
    }
    let setup = Run { targets: init.targets.clone(), ..Run::default() };
    Ok(Workload { name: name.into(), graph: case.graph, setup, step })
}

fn adam(parameters: usize) -> Result<Workload> {
    let (mut builder, setup) = variables(&[&[parameters][..]; 4])?;
    let scalars = [
        ("beta1_power", 0.9f32),
        ("beta2_power", 0.999),
        ("lr", 0.001),
        ("beta1", 0.9),
        ("beta2", 0.999),
        ("epsilon", 1e-8),
    ];
    for (name, value) in scalars {
        builder = builder.constant(name, value);
    }
    let inputs = ["v0", "v1", "v2", "beta1_power", "beta2_power", "lr", "beta1", "beta2", "epsilon", "r3"];
    let graph = builder.typed("op", "ResourceApplyAdam", &inputs, FLOAT).build();
    Ok(Workload { name: "training/Adam 10M parameters".into(), graph, setup, step: Run::target("op") })
}
