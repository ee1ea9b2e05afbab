//! Which graphs are too new: a graph says which version of TensorFlow may read it, and a server is one.

use tensorfleet_core::{Result, ensure};
use tensorfleet_proto::tensorflow::GraphDef;

/// The graph version that is understood here: that of TensorFlow 2.21.
const GRAPH_VERSION: i32 = 2474;

/// Refuses a graph whose producer rules this version out. Who has made it, and how new that is, does not matter.
pub(crate) fn check(graph: &GraphDef) -> Result<()> {
    let Some(versions) = &graph.versions else { return Ok(()) };
    ensure!(
        versions.min_consumer <= GRAPH_VERSION,
        InvalidArgument,
        "The graph needs a consumer of version {} or newer, this server is of version {GRAPH_VERSION}: it was made by a newer \
         TensorFlow; upgrade the servers",
        versions.min_consumer
    );
    ensure!(
        !versions.bad_consumers.contains(&GRAPH_VERSION),
        InvalidArgument,
        "The graph must not be read by version {GRAPH_VERSION}, which this server has: its producer knows of a fault there; \
         upgrade the servers"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensorfleet_proto::tensorflow::VersionDef;

    #[test]
    fn only_the_producers_word_counts() {
        let graph = |versions| GraphDef { versions: Some(versions), ..Default::default() };
        let new = VersionDef { producer: i32::MAX, min_consumer: 12, ..Default::default() };
        assert!(check(&graph(new)).is_ok());
        let newer = VersionDef { min_consumer: GRAPH_VERSION + 1, ..Default::default() };
        assert!(check(&graph(newer)).is_err());
        let faulty = VersionDef { bad_consumers: vec![GRAPH_VERSION], ..Default::default() };
        assert!(check(&graph(faulty)).is_err());
        assert!(check(&GraphDef::default()).is_ok());
    }
}
