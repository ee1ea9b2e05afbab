//! What is measured on a cluster of one ps and one worker, with the session on the worker.

use tensorfleet_core::{DType, PartialShape, Result, Shape, Tensor};
use tensorfleet_tests::graph_builder::{Attr, GraphBuilder};

use crate::workload::{Run, Workload};

const PS: &str = "/job:ps/task:0";
const WORKER: &str = "/job:worker/task:0";
const FLOAT: DType = DType::Float;
/// 100 MB of floats.
const BIG: usize = 25_000_000;

/// Every workload.
pub(crate) fn all() -> Result<Vec<Workload>> {
    Ok(vec![
        constant(),
        read_variables("scalar variable ps → worker", 1, &[])?,
        read_variables("20 small variables ps → worker", 20, &[10])?,
        pull()?,
        push()?,
    ])
}

/// The least a step over the network can be.
pub(crate) fn constant() -> Workload {
    let graph = GraphBuilder::new().constant("c", 1.0f32).on(WORKER).build();
    let step = Run { fetches: vec!["c:0".to_string()], ..Run::default() };
    Workload { name: "constant over grpc".to_string(), graph, setup: step.clone(), step }
}

/// Reads variables of the ps on the worker and fetches their sum.
fn read_variables(name: &str, count: usize, dims: &[usize]) -> Result<Workload> {
    let (mut builder, mut setup, mut reads) = (GraphBuilder::new(), Vec::new(), Vec::new());
    for index in 0..count {
        builder = variable(builder, &format!("v{index}"), PS, dims)?;
        setup.push(format!("v{index}/assign"));
        reads.push(format!("v{index}/read"));
    }
    let inputs: Vec<&str> = reads.iter().map(String::as_str).collect();
    let attrs = [("N", Attr::from(count as i64)), ("T", Attr::from(FLOAT))];
    let graph = builder.node("sum", "AddN", &inputs, &attrs).on(WORKER).build();
    let step = Run { fetches: vec!["sum:0".to_string()], ..Run::default() };
    Ok(Workload { name: name.to_string(), graph, setup: Run { targets: setup, ..Run::default() }, step })
}

/// Brings a big variable of the ps to the worker.
fn pull() -> Result<Workload> {
    let builder = variable(GraphBuilder::new(), "v", PS, &[BIG])?;
    let graph = builder.typed("here", "Identity", &["v/read"], FLOAT).on(WORKER).build();
    let step = Run::target("here");
    Ok(Workload {
        name: "pull 100 MB ps → worker".to_string(), graph, setup: Run::target("v/assign"), step
    })
}

/// Assigns a big variable of the worker to one of the ps.
fn push() -> Result<Workload> {
    let builder = variable(GraphBuilder::new(), "v", PS, &[BIG])?;
    let builder = variable(builder, "w", WORKER, &[BIG])?;
    let graph = builder
        .node("push", "AssignVariableOp", &["v", "w/read"], &[("dtype", Attr::from(FLOAT))])
        .on(PS)
        .build();
    let setup = Run { targets: vec!["v/assign".to_string(), "w/assign".to_string()], ..Run::default() };
    Ok(Workload { name: "push 100 MB worker → ps".to_string(), graph, setup, step: Run::target("push") })
}

/// A resource variable filled with ones, and a read of it, on `device`.
fn variable(builder: GraphBuilder, name: &str, device: &str, dims: &[usize]) -> Result<GraphBuilder> {
    let sizes: Vec<i32> = dims.iter().map(|&size| size as i32).collect();
    let shape: PartialShape = (&Shape::new(dims)?).into();
    let part = |suffix: &str| format!("{name}/{suffix}");
    let dtype = || Attr::from(FLOAT);
    Ok(builder
        .node(
            name,
            "VarHandleOp",
            &[],
            &[
                ("dtype", dtype()),
                ("shape", Attr::from(shape)),
                ("shared_name", Attr::from(name.to_string())),
            ],
        )
        .on(device)
        .constant(&part("dims"), Tensor::vector(&sizes)?)
        .on(device)
        .constant(&part("one"), 1.0f32)
        .on(device)
        .node(&part("ones"), "Fill", &[&part("dims"), &part("one")], &[("T", dtype())])
        .on(device)
        .node(&part("assign"), "AssignVariableOp", &[name, &part("ones")], &[("dtype", dtype())])
        .on(device)
        .node(&part("read"), "ReadVariableOp", &[name], &[("dtype", dtype())])
        .on(device))
}
