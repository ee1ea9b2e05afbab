//! [`Workload`]: one thing to measure, as data that both sides understand.

use std::path::Path;

use serde_json::json;
use tensorfleet_core::{Result, Status, Tensor};
use tensorfleet_proto::Message;
use tensorfleet_proto::tensorflow::{GraphDef, NamedTensorProto};

/// A graph, how to prepare it, and the step to measure.
pub(crate) struct Workload {
    /// `group/what`.
    pub(crate) name: String,
    pub(crate) graph: GraphDef,
    /// Run once before: sets variables.
    pub(crate) setup: Run,
    /// Run again and again.
    pub(crate) step: Run,
}

/// One run of a part of a graph.
#[derive(Clone, Default)]
pub(crate) struct Run {
    pub(crate) feeds: Vec<(String, Tensor)>,
    pub(crate) fetches: Vec<String>,
    pub(crate) targets: Vec<String>,
}

impl Run {
    /// A run for its effects.
    pub(crate) fn target(name: &str) -> Run {
        Run { targets: vec![name.to_string()], ..Run::default() }
    }
}

/// Writes workloads as files: `N.graph.pb`, feeds as delimited records, and `workloads.json` with the rest.
pub(crate) fn export(workloads: &[Workload], directory: &Path) -> Result<()> {
    let write = |name: &str, bytes: &[u8]| {
        std::fs::write(directory.join(name), bytes)
            .map_err(|error| Status::internal(format!("{name}: {error}")))
    };
    let mut list = Vec::new();
    for (index, workload) in workloads.iter().enumerate() {
        write(&format!("{index}.graph.pb"), &workload.graph.encode_to_vec())?;
        write(&format!("{index}.setup.pb"), &records(&workload.setup.feeds))?;
        write(&format!("{index}.step.pb"), &records(&workload.step.feeds))?;
        let run = |run: &Run| json!({ "fetches": run.fetches, "targets": run.targets });
        list.push(
            json!({ "name": workload.name, "setup": run(&workload.setup), "step": run(&workload.step) }),
        );
    }
    write("workloads.json", json!(list).to_string().as_bytes())
}

fn records(feeds: &[(String, Tensor)]) -> Vec<u8> {
    let encode = |(name, value): &(String, Tensor)| {
        NamedTensorProto { name: name.clone(), tensor: Some(value.to_proto()) }
            .encode_length_delimited_to_vec()
    };
    feeds.iter().flat_map(encode).collect()
}
