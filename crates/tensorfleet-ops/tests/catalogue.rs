//! What must hold for all ops.
#![allow(clippy::unwrap_used)]

use std::collections::HashSet;

use tensorfleet_core::DType;
use tensorfleet_kernel::Op;
use tensorfleet_kernel::op::Flow;
use tensorfleet_kernel::signature::{Arg, ArgTypes};
use tensorfleet_ops::catalogue;

#[test]
fn every_declaration_parses_and_every_name_is_unique() {
    let mut names = HashSet::new();
    for op in catalogue().tables() {
        assert!(names.insert(op.name), "op {} stands in two tables", op.name);
        catalogue().find(op.name).unwrap().signature().unwrap();
    }
}

/// The ops of which `holds` is true.
fn ops_that(holds: impl Fn(&Op) -> bool) -> Vec<&'static str> {
    catalogue().all().into_iter().filter(|op| holds(op)).map(|op| op.name).collect()
}

fn inputs(op: &Op) -> &'static [Arg] {
    &catalogue().find(op.name).unwrap().signature().unwrap().inputs
}

/// What the executor would otherwise take for a pass over the whole variable.
#[test]
fn whoever_takes_a_variable_and_indices_says_that_it_touches_rows() {
    let is_variable = |arg: &Arg| {
        let is_resource = matches!(arg.types, ArgTypes::Fixed(DType::Resource));
        (arg.is_ref && !matches!(arg.types, ArgTypes::Fixed(_))) || (is_resource && arg.name != "handle")
    };
    let forgotten = ops_that(|op| {
        let takes_rows = inputs(op).iter().any(|arg| arg.name == "indices");
        let takes_variable = inputs(op).iter().any(is_variable);
        takes_rows && takes_variable && !op.touches_rows
    });
    assert_eq!(forgotten, [""; 0]);
    let without_rows = ops_that(|op| op.touches_rows && !inputs(op).iter().any(|arg| arg.name == "indices"));
    assert_eq!(without_rows, [""; 0]);
}

/// A kernel that waits for a disk keeps others from its thread, however small its inputs are. Asynchronous kernels wait elsewhere;
/// datasets only remember the names.
#[test]
fn whoever_takes_names_of_files_says_that_it_waits_for_the_disk() {
    const NAMES: &[&str] = &["filename", "file_pattern", "pattern", "prefix", "checkpoint_prefixes"];
    // `pattern` is a regular expression here.
    const NO_FILES: &[&str] = &["RegexFullMatch", "RegexReplace"];
    let forgotten = ops_that(|op| {
        let takes_names = inputs(op).iter().any(|arg| NAMES.contains(&&*arg.name));
        let remembers = op.name.ends_with("Dataset") || op.name.ends_with("DatasetV2");
        takes_names && !remembers && !op.waits_for_disk && !NO_FILES.contains(&op.name)
    });
    let tables = ["InitializeTableFromTextFile", "InitializeTableFromTextFileV2"];
    assert_eq!(forgotten, tables, "tables are read once, when a program starts");
}

/// Every op that changes a variable and gives nothing but it. One that is missing here writes again when a request is repeated; one
/// too many passes its input on instead of what it makes.
const WRITERS: &[&str] = &[
    "ApplyAdaMax",
    "ApplyAdadelta",
    "ApplyAdagrad",
    "ApplyAdagradDA",
    "ApplyAdagradV2",
    "ApplyAdam",
    "ApplyAddSign",
    "ApplyCenteredRMSProp",
    "ApplyFtrl",
    "ApplyFtrlV2",
    "ApplyGradientDescent",
    "ApplyMomentum",
    "ApplyPowerSign",
    "ApplyProximalAdagrad",
    "ApplyProximalGradientDescent",
    "ApplyRMSProp",
    "Assign",
    "AssignAdd",
    "AssignAddVariableOp",
    "AssignSub",
    "AssignSubVariableOp",
    "AssignVariableOp",
    "ResourceApplyAdaMax",
    "ResourceApplyAdadelta",
    "ResourceApplyAdagrad",
    "ResourceApplyAdagradDA",
    "ResourceApplyAdagradV2",
    "ResourceApplyAdam",
    "ResourceApplyAdamWithAmsgrad",
    "ResourceApplyAddSign",
    "ResourceApplyCenteredRMSProp",
    "ResourceApplyFtrl",
    "ResourceApplyFtrlV2",
    "ResourceApplyGradientDescent",
    "ResourceApplyKerasMomentum",
    "ResourceApplyMomentum",
    "ResourceApplyPowerSign",
    "ResourceApplyProximalAdagrad",
    "ResourceApplyProximalGradientDescent",
    "ResourceApplyRMSProp",
    "ResourceScatterAdd",
    "ResourceScatterDiv",
    "ResourceScatterMax",
    "ResourceScatterMin",
    "ResourceScatterMul",
    "ResourceScatterNdAdd",
    "ResourceScatterNdMax",
    "ResourceScatterNdMin",
    "ResourceScatterNdSub",
    "ResourceScatterNdUpdate",
    "ResourceScatterSub",
    "ResourceScatterUpdate",
    "ResourceSparseApplyAdadelta",
    "ResourceSparseApplyAdagrad",
    "ResourceSparseApplyAdagradDA",
    "ResourceSparseApplyAdagradV2",
    "ResourceSparseApplyCenteredRMSProp",
    "ResourceSparseApplyFtrl",
    "ResourceSparseApplyFtrlV2",
    "ResourceSparseApplyKerasMomentum",
    "ResourceSparseApplyMomentum",
    "ResourceSparseApplyProximalAdagrad",
    "ResourceSparseApplyProximalGradientDescent",
    "ResourceSparseApplyRMSProp",
    "ResourceStridedSliceAssign",
    "ScatterAdd",
    "ScatterDiv",
    "ScatterMax",
    "ScatterMin",
    "ScatterMul",
    "ScatterNdAdd",
    "ScatterNdMax",
    "ScatterNdMin",
    "ScatterNdSub",
    "ScatterNdUpdate",
    "ScatterSub",
    "ScatterUpdate",
    "SparseApplyAdadelta",
    "SparseApplyAdagrad",
    "SparseApplyAdagradDA",
    "SparseApplyAdagradV2",
    "SparseApplyCenteredRMSProp",
    "SparseApplyFtrl",
    "SparseApplyFtrlV2",
    "SparseApplyMomentum",
    "SparseApplyProximalAdagrad",
    "SparseApplyProximalGradientDescent",
    "SparseApplyRMSProp",
    "StridedSliceAssign",
];

#[test]
fn a_repeated_request_finds_every_op_that_writes_a_variable() {
    assert_eq!(ops_that(|op| op.writes_variable), WRITERS);
    let is_variable = |arg: &Arg| match arg.types {
        // Other resources (tables, writers, iterators) have names of their own.
        ArgTypes::Fixed(dtype) => {
            dtype == DType::Resource && ["resource", "ref", "var"].contains(&&*arg.name)
        }
        _ => arg.is_ref,
    };
    let outputs = |op: &Op| &catalogue().find(op.name).unwrap().signature().unwrap().outputs;
    let gives_only_it = |op: &Op| outputs(op).len() <= 1 && outputs(op).iter().all(|output| output.is_ref);
    let takes_it = |op: &Op| inputs(op).first().is_some_and(is_variable);
    assert_eq!(ops_that(|op| op.writes_variable && !(takes_it(op) && gives_only_it(op))), [""; 0]);
    // Whoever takes a variable and a value for it, and gives nothing else, is not there for anything else.
    let forgotten = ops_that(|op| {
        let is_writer = takes_it(op) && gives_only_it(op) && inputs(op).len() > 1;
        is_writer && op.flow == Flow::Plain && !op.writes_variable
    });
    assert_eq!(forgotten, [""; 0]);
}

#[test]
fn facts_agree_with_declarations() {
    let one_to_one = |op: &Op| {
        let signature = catalogue().find(op.name).unwrap().signature().unwrap();
        signature.inputs.len() == 1
            && signature.outputs.len() == 1
            && format!("{:?}", signature.inputs[0].types) == format!("{:?}", signature.outputs[0].types)
    };
    assert_eq!(ops_that(|op| op.passes_through && !one_to_one(op)), [""; 0]);
    assert_eq!(ops_that(|op| op.passes_references), ["Identity"]);
    assert_eq!(ops_that(|op| op.is_placeholder && !inputs(op).is_empty()), [""; 0]);
    assert_eq!(ops_that(|op| op.reads_shape_only && (inputs(op).len() != 1 || !op.reads_in_place)), [""; 0]);
    // These leave nothing behind if they are broken off. One that learns from what it draws is not among them.
    assert_eq!(
        ops_that(|op| op.is_random),
        [
            "Multinomial",
            "RandomGamma",
            "RandomStandardNormal",
            "RandomUniform",
            "RandomUniformInt",
            "TruncatedNormal"
        ]
    );
    // Folding runs kernels that have no effect and no waiting.
    assert_eq!(ops_that(|op| op.never_longer && (op.stateful || op.waits_for_disk)), [""; 0]);
    // The nodes of functions take the place of a call, so no call has a kernel.
    assert_eq!(ops_that(|op| op.calls.is_some() == op.kernel.is_some() && op.calls.is_some()), [""; 0]);
}
