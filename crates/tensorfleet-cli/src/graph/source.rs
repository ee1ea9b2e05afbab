//! Finds and decodes a graph: a `GraphDef`, a meta graph, a saved model, an event file, or the newest of these in a
//! directory.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tensorfleet_core::{Result, Status, ensure};
use tensorfleet_files::FileAccess;
use tensorfleet_files::event_file::EventReader;
use tensorfleet_proto::Message;
use tensorfleet_proto::tensorflow::event::What;
use tensorfleet_proto::tensorflow::{GraphDef, MetaGraphDef, SavedModel};

/// Protobuf's own limit on the size of a message.
const MAX_BYTES: u64 = 2 << 30;

/// A graph and where it comes from.
pub(super) struct Source {
    pub(super) path: PathBuf,
    /// What kind of file it is, in words.
    pub(super) kind: &'static str,
    pub(super) graph: GraphDef,
}

/// Reads the graph that a user named.
pub(super) fn read(path: &Path) -> Result<Source> {
    let metadata = std::fs::metadata(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Status::not_found(format!(
            "there is no file {}; name a GraphDef (.pb), a .meta file of a checkpoint, or the directory of a training",
            path.display()
        )),
        _ => Status::internal(format!("{} cannot be read: {error}", path.display())),
    })?;
    match metadata.is_dir() {
        true => newest_in(path),
        false => read_file(path, metadata.len()),
    }
}

/// The graph of the newest `.meta` file of a directory, or else of its newest event file that has one.
fn newest_in(directory: &Path) -> Result<Source> {
    let failed = |error: std::io::Error| {
        Status::internal(format!("{} cannot be listed: {error}", directory.display()))
    };
    let mut files: Vec<(SystemTime, PathBuf)> = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if let Ok(modified) = entry.metadata().and_then(|metadata| metadata.modified()) {
            files.push((modified, entry.path()));
        }
    }
    files.sort();
    files.reverse();
    let named = |ending: &str| {
        let is_named =
            |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(ending));
        files.iter().map(|(_, path)| path).find(|path| is_named(path))
    };
    if let Some(path) = named(".meta").or_else(|| named("saved_model.pb")) {
        return read_file(path, path.metadata().map_or(0, |metadata| metadata.len()));
    }
    let events = files.iter().map(|(_, path)| path).filter(|path| is_event_file(path));
    for path in events {
        if let Ok(source) = from_events(path) {
            return Ok(source);
        }
    }
    if let Some(path) = named(".pb") {
        return read_file(path, path.metadata().map_or(0, |metadata| metadata.len()));
    }
    Err(Status::not_found(format!(
        "{} holds no graph: no .meta file, no .pb file, and no event file with a graph; name the directory that a training \
         saves to, or a file",
        directory.display()
    )))
}

fn is_event_file(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().contains(".tfevents."))
}

fn read_file(path: &Path, len: u64) -> Result<Source> {
    if is_event_file(path) {
        return from_events(path);
    }
    ensure!(
        path.is_file(),
        InvalidArgument,
        "{} is no ordinary file: name a file with a graph, or a directory",
        path.display()
    );
    ensure!(
        len <= MAX_BYTES,
        InvalidArgument,
        "{} is larger than 2 GB, which no graph can be",
        path.display()
    );
    let bytes = std::fs::read(path)
        .map_err(|error| Status::internal(format!("{} cannot be read: {error}", path.display())))?;
    decode(path, &bytes).ok_or_else(|| not_a_graph(path, &bytes))
}

/// The graph in these bytes, whichever of the three messages they are. Their first fields have the same numbers, so each
/// is believed only if it has what makes it one.
fn decode(path: &Path, bytes: &[u8]) -> Option<Source> {
    let source = |kind, graph| Some(Source { path: path.to_path_buf(), kind, graph });
    let is_meta = path.extension().is_some_and(|extension| extension == "meta");
    if !is_meta
        && let Ok(graph) = GraphDef::decode(bytes)
        && is_graph(&graph)
    {
        return source("GraphDef", graph);
    }
    if let Ok(MetaGraphDef { graph_def: Some(graph), .. }) = MetaGraphDef::decode(bytes)
        && is_graph(&graph)
    {
        return source("meta graph", graph);
    }
    if let Ok(model) = SavedModel::decode(bytes) {
        let graph = model.meta_graphs.into_iter().find_map(|meta| meta.graph_def.filter(is_graph))?;
        return source("saved model", graph);
    }
    None
}

fn is_graph(graph: &GraphDef) -> bool {
    !graph.node.is_empty() && graph.node.iter().all(|node| !node.name.is_empty() && !node.op.is_empty())
}

fn not_a_graph(path: &Path, bytes: &[u8]) -> Status {
    let shown = path.display();
    if bytes.is_empty() {
        return Status::invalid_argument(format!("{shown} is empty; name a GraphDef (.pb) or a .meta file"));
    }
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(4096)]).into_owned();
    let is_text = path.extension().is_some_and(|extension| extension == "pbtxt")
        || ["node {", "node:", "graph_def {", "meta_info_def {", "versions {"]
            .iter()
            .any(|word| start.trim_start().starts_with(word));
    if is_text {
        return Status::unimplemented(format!(
            "{shown} is a graph as text, which is not read; use the binary form: the .meta file beside it, or a .pb written with \
             SerializeToString()"
        ));
    }
    if bytes.starts_with(b"model_checkpoint_path") {
        return Status::invalid_argument(format!(
            "{shown} is the state file of checkpoints; name its directory or a .meta file in it"
        ));
    }
    Status::invalid_argument(format!(
        "{shown} is no graph, or a damaged one; a graph is a GraphDef (.pb), a meta graph (.meta) or an event file"
    ))
}

/// The last graph in an event file. One that is still being written may be cut short, which is no error if a graph came
/// before.
fn from_events(path: &Path) -> Result<Source> {
    let mut found = None;
    for event in EventReader::open(&FileAccess::EVERYWHERE, path)? {
        let Ok(event) = event else { break };
        match event.what {
            Some(What::GraphDef(bytes)) => {
                found = GraphDef::decode(&bytes[..]).ok().filter(is_graph).or(found)
            }
            Some(What::MetaGraphDef(bytes)) if found.is_none() => {
                let meta = MetaGraphDef::decode(&bytes[..]).ok();
                found = meta.and_then(|meta| meta.graph_def).filter(is_graph);
            }
            _ => {}
        }
    }
    let graph = found.ok_or_else(|| {
        Status::not_found(format!(
            "{} holds no graph; summaries are written without one if add_graph is never called",
            path.display()
        ))
    })?;
    Ok(Source { path: path.to_path_buf(), kind: "event file", graph })
}
