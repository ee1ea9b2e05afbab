//! `.meta` files: a graph with what is needed to train it further, above all its variables and its saver.

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use prost::Message;
use tensorfleet_core::{Result, Status, ensure};
use tensorfleet_files::{AtomicFile, io_status};
use tensorfleet_ops::catalogue;
use tensorfleet_proto::tensorflow::collection_def::{BytesList, Kind};
use tensorfleet_proto::tensorflow::meta_graph_def::MetaInfoDef;
use tensorfleet_proto::tensorflow::{CollectionDef, GraphDef, MetaGraphDef, SaverDef, VariableDef};

use crate::graph::Graph;
use crate::train::Saver;
use crate::variables::Variable;

/// The version of TensorFlow whose meta graphs these are like.
const TENSORFLOW_VERSION: &str = "2.21.0";
/// Protobuf's own limit on the size of a message.
const MAX_META_BYTES: u64 = 2 << 30;

const VARIABLES: &str = "variables";
const TRAINABLE_VARIABLES: &str = "trainable_variables";
const LOCAL_VARIABLES: &str = "local_variables";

/// A graph read from a `.meta` file; see [`import_meta_graph`].
#[derive(Debug)]
pub struct MetaGraph {
    /// The graph; its variables are known as such.
    pub graph: Graph,
    /// The saver that the file tells of.
    pub saver: Option<Saver>,
    /// Other collections, as they stand in the file: names of nodes, or messages.
    pub collections: BTreeMap<String, CollectionDef>,
}

/// Reads a `.meta` file, of this library or of TensorFlow.
///
/// ```
/// use tensorfleet::{Graph, Session, import_meta_graph, train::Saver};
///
/// let directory = tempfile::tempdir().unwrap();
/// let path = directory.path().join("model").to_str().unwrap().to_string();
/// let prefix = {
///     let g = Graph::new();
///     let v = g.variable("v", 4.0f32);
///     let saver = Saver::new(&g)?;
///     let session = Session::new(&g);
///     session.run(v.initializer())?;
///     saver.save(&session, &path, None)?
/// };
///
/// let imported = import_meta_graph(&format!("{prefix}.meta"))?;
/// let session = Session::new(&imported.graph);
/// imported.saver.unwrap().restore(&session, &prefix)?;
/// let v = &imported.graph.global_variables()[0];
/// assert_eq!(session.run(v)?.to_scalar::<f32>()?, 4.0);
/// # Ok::<(), tensorfleet::Status>(())
/// ```
pub fn import_meta_graph(path: &str) -> Result<MetaGraph> {
    let bytes = read_bytes(Path::new(path))?;
    let broken = |what: String| Status::data_loss(format!("{path} is not a meta graph: {what}"));
    let mut def = MetaGraphDef::decode(bytes.as_slice()).map_err(|error| broken(error.to_string()))?;
    let graph_def = def.graph_def.take().ok_or_else(|| broken("it holds no graph".to_string()))?;
    let in_file = |status: Status| status.context(format!("Meta graph {path}"));
    let graph = Graph::from_graph_def(graph_def).map_err(in_file)?;
    for (name, is_trainable) in [(VARIABLES, false), (TRAINABLE_VARIABLES, true)] {
        for variable in variables_in(&graph, &def, name).map_err(in_file)? {
            match is_trainable {
                true => variable.collect_trainable(),
                false => variable.collect_global(),
            }
        }
    }
    for variable in variables_in(&graph, &def, LOCAL_VARIABLES).map_err(in_file)? {
        variable.collect_local();
    }
    let saver = def.saver_def.take().filter(|saver| !saver.save_tensor_name.is_empty());
    let saver = saver.map(|saver| Saver::from_saver_def(&graph, saver)).transpose().map_err(in_file)?;
    let known = [VARIABLES, TRAINABLE_VARIABLES, LOCAL_VARIABLES];
    let collections = def.collection_def.into_iter().filter(|(name, _)| !known.contains(&name.as_str()));
    Ok(MetaGraph { graph, saver, collections: collections.collect() })
}

fn read_bytes(path: &Path) -> Result<Vec<u8>> {
    let failed = |error: std::io::Error| io_status(path, &error);
    let len = std::fs::metadata(path).map_err(failed)?.len();
    ensure!(len <= MAX_META_BYTES, InvalidArgument, "{} is too large for a meta graph", path.display());
    std::fs::read(path).map_err(failed)
}

/// The variables of a collection. What else it may hold, such as the names of tensors, is no variable.
fn variables_in(graph: &Graph, def: &MetaGraphDef, name: &str) -> Result<Vec<Variable>> {
    let Some(Kind::BytesList(list)) =
        def.collection_def.get(name).and_then(|collection| collection.kind.as_ref())
    else {
        return Ok(Vec::new());
    };
    let variable = |bytes: &Bytes| {
        let def = VariableDef::decode(bytes.clone()).map_err(|error| {
            Status::data_loss(format!("collection '{name}' holds what is no variable: {error}"))
        })?;
        Variable::from_variable_def(graph, &def)
    };
    list.value.iter().map(variable).collect()
}

/// Writes the graph, its variables and the saver to `path`; the file appears complete or not at all.
pub(crate) fn write(graph: &Graph, saver: Option<&SaverDef>, path: &str) -> Result<()> {
    let def = MetaGraphDef {
        meta_info_def: Some(MetaInfoDef {
            tensorflow_version: TENSORFLOW_VERSION.to_string(),
            tensorflow_git_version: format!("tensorfleet {}", env!("CARGO_PKG_VERSION")),
            stripped_default_attrs: true,
            ..Default::default()
        }),
        graph_def: Some(without_defaults(graph.to_graph_def())),
        saver_def: saver.cloned(),
        collection_def: collections(graph)?,
        ..Default::default()
    };
    let mut file = AtomicFile::create(path)?;
    file.write(&def.encode_to_vec())?;
    file.commit_durably()
}

/// The graph without attributes that have their default. Readers put them back, and one that is older than an attribute
/// need not know it.
fn without_defaults(mut def: GraphDef) -> GraphDef {
    for node in &mut def.node {
        let Some(Ok(signature)) = catalogue::find(&node.op).map(|entry| entry.signature()) else { continue };
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
