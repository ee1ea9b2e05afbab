//! [`import_meta_graph`]: reads `.meta` files, of this library or of TensorFlow.

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use prost::Message;
use tensorfleet_core::{Result, Status, ensure};
use tensorfleet_files::io_status;
use tensorfleet_proto::tensorflow::collection_def::Kind;
use tensorfleet_proto::tensorflow::{CollectionDef, MetaGraphDef, VariableDef};

use super::meta_graph::{LOCAL_VARIABLES, TRAINABLE_VARIABLES, VARIABLES};
use super::saver::Saver;
use crate::graph::{Graph, Variable};

/// Protobuf's own limit on the size of a message.
const MAX_META_BYTES: u64 = 2 << 30;

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
