//! `.meta` files: a graph with what is needed to train it further, above all its variables and its saver. `import_meta_graph`
//! reads them.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use tensorfleet_core::Result;
use tensorfleet_files::{AtomicFile, FileAccess};
use tensorfleet_kernel::Catalogue;
use tensorfleet_proto::tensorflow::collection_def::{BytesList, Kind};
use tensorfleet_proto::tensorflow::meta_graph_def::MetaInfoDef;
use tensorfleet_proto::tensorflow::{CollectionDef, GraphDef, MetaGraphDef, SaverDef};

use crate::graph::{Graph, Variable};

/// The version of TensorFlow whose meta graphs these are like.
const TENSORFLOW_VERSION: &str = "2.21.0";
pub(super) const VARIABLES: &str = "variables";
pub(super) const TRAINABLE_VARIABLES: &str = "trainable_variables";
pub(super) const LOCAL_VARIABLES: &str = "local_variables";

/// Makes the meta graphs of a graph, for a front end that has collections of its own; see [`Graph::set_meta_graph_source`].
pub type MetaGraphSource = Arc<dyn Fn(Option<&SaverDef>) -> Result<MetaGraphDef> + Send + Sync>;

/// The source of a graph's meta graphs, if it has one.
#[derive(Default)]
struct Source(Option<MetaGraphSource>);

impl Graph {
    /// Lets `source` make what is written to `.meta` and event files of this graph, with a description of the saver: a front
    /// end that keeps collections of its own knows more than the graph does.
    pub fn set_meta_graph_source(&self, source: MetaGraphSource) {
        self.registry(|Source(kept)| *kept = Some(source));
    }
}

/// The meta graph as a front end makes it, if there is one that does.
fn by_source(graph: &Graph, saver: Option<&SaverDef>) -> Option<Result<MetaGraphDef>> {
    let source = graph.registry(|Source(source)| source.clone())?;
    Some(source(saver))
}

/// The meta graph with the shapes that are known, for event files.
pub(crate) fn with_shapes(graph: &Graph, saver: Option<&SaverDef>) -> Result<MetaGraphDef> {
    if let Some(made) = by_source(graph, saver) {
        return made;
    }
    let mut def = make(graph, saver)?;
    def.graph_def = Some(crate::summary::with_shapes(graph));
    Ok(def)
}

/// Writes the graph, its variables and the saver to `path`; the file appears complete or not at all.
pub(crate) fn write(graph: &Graph, saver: Option<&SaverDef>, path: &str) -> Result<()> {
    let def = match by_source(graph, saver) {
        Some(made) => made?,
        None => make(graph, saver)?,
    };
    let mut file = AtomicFile::create(&FileAccess::EVERYWHERE, path)?;
    file.write(&def.encode_to_vec())?;
    file.commit_durably()
}

fn make(graph: &Graph, saver: Option<&SaverDef>) -> Result<MetaGraphDef> {
    Ok(MetaGraphDef {
        meta_info_def: Some(MetaInfoDef {
            tensorflow_version: TENSORFLOW_VERSION.to_string(),
            tensorflow_git_version: format!("tensorfleet {}", env!("CARGO_PKG_VERSION")),
            stripped_default_attrs: true,
            ..Default::default()
        }),
        graph_def: Some(without_defaults(graph.to_graph_def(), graph.catalogue())),
        saver_def: saver.cloned(),
        collection_def: collections(graph)?,
        ..Default::default()
    })
}

/// The graph without attributes that have their default. Readers put them back, and one that is older than an attribute
/// need not know it.
fn without_defaults(mut def: GraphDef, catalogue: &'static Catalogue) -> GraphDef {
    for node in &mut def.node {
        let Some(Ok(signature)) = catalogue.find(&node.op).map(|entry| entry.signature()) else {
            continue;
        };
        for attr in &signature.attrs {
            if attr.default.is_some() && node.attr.get(&attr.name) == attr.default.as_ref() {
                node.attr.remove(&attr.name);
            }
        }
    }
    def
}

fn collections(graph: &Graph) -> Result<BTreeMap<String, CollectionDef>> {
    let trainable: Vec<String> = graph.trainable_variables().iter().map(Variable::name).collect();
    let mut collections = BTreeMap::new();
    for (name, variables) in [
        (VARIABLES, graph.global_variables()),
        (TRAINABLE_VARIABLES, graph.trainable_variables()),
        (LOCAL_VARIABLES, graph.local_variables()),
    ] {
        if variables.is_empty() {
            continue;
        }
        let value: Result<Vec<Bytes>> = variables
            .iter()
            .map(|variable| {
                let mut def = variable.to_variable_def()?;
                def.trainable = trainable.contains(&variable.name());
                Ok(def.encode_to_vec().into())
            })
            .collect();
        let kind = Some(Kind::BytesList(BytesList { value: value? }));
        collections.insert(name.to_string(), CollectionDef { kind });
    }
    Ok(collections)
}
