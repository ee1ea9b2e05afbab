//! Savers and checkpoints. The package builds a saver's nodes, with the names of TensorFlow 1.15; the files, which of them are kept and the
//! state file are the library's.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tensorfleet::checkpoint::CheckpointReader;
use tensorfleet::train::{self, CheckpointState, SaveOptions, Saver};
use tensorfleet_proto::Message;
use tensorfleet_proto::tensorflow::{MetaGraphDef, SaverDef};

use crate::arrays;
use crate::errors::OrRaise;
use crate::graph::PyGraph;
use crate::raised::{self, OrReraise};
use crate::session::PySession;

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PySaver>()?;
    module.add_class::<PyCheckpointReader>()?;
    module.add_function(wrap_pyfunction!(checkpoint_state, module)?)?;
    module.add_function(wrap_pyfunction!(update_checkpoint_state, module)?)?;
    module.add_function(wrap_pyfunction!(latest_checkpoint, module)?)?;
    module.add_function(wrap_pyfunction!(checkpoint_exists, module)?)?;
    module.add_function(wrap_pyfunction!(remove_checkpoint, module)?)?;
    module.add_function(wrap_pyfunction!(write_graph, module)?)
}

/// What saves and restores variables.
#[pyclass(frozen, name = "Saver", module = "tensorfleet._native")]
pub(crate) struct PySaver(pub(crate) Saver);

#[pymethods]
impl PySaver {
    /// The saver whose nodes a serialized `SaverDef` names.
    #[new]
    fn new(py: Python<'_>, graph: &PyGraph, def: &[u8], pad_step_number: bool) -> PyResult<PySaver> {
        let def =
            SaverDef::decode(def).map_err(|error| PyValueError::new_err(format!("saver_def: {error}")))?;
        let made = graph.locked(py, |graph| Saver::from_saver_def(graph, def))?;
        Ok(PySaver(made.pad_step_number(pad_step_number)))
    }

    /// Saves, and gives the prefix of the checkpoint.
    #[expect(clippy::too_many_arguments, reason = "those of tf.train.Saver.save")]
    fn save(
        &self,
        py: Python<'_>,
        session: &PySession,
        path: &str,
        global_step: Option<i64>,
        latest_filename: String,
        meta_graph_suffix: String,
        write_meta_graph: bool,
        write_state: bool,
    ) -> PyResult<String> {
        let session = session.get()?;
        let options =
            SaveOptions { global_step, latest_filename, meta_graph_suffix, write_meta_graph, write_state };
        py.detach(|| self.0.save_with(&session, path, &options)).or_reraise(py)
    }

    fn restore(&self, py: Python<'_>, session: &PySession, prefix: &str) -> PyResult<()> {
        let session = session.get()?;
        py.detach(|| self.0.restore(&session, prefix)).or_reraise(py)
    }

    /// The checkpoints it has written and not deleted, oldest first, each with its time.
    fn last_checkpoints(&self, py: Python<'_>) -> Vec<(String, f64)> {
        py.detach(|| self.0.last_checkpoints_with_time())
    }

    fn set_last_checkpoints(&self, py: Python<'_>, checkpoints: Vec<(String, f64)>) {
        py.detach(|| self.0.set_last_checkpoints_with_time(checkpoints));
    }

    fn recover_last_checkpoints(&self, py: Python<'_>, paths: Vec<String>) {
        py.detach(|| self.0.recover_last_checkpoints(&paths));
    }
}

#[pymethods]
impl PyGraph {
    /// Lets a function make the meta graphs of the graph: it gets a serialized `SaverDef`, or `None`, and gives a serialized
    /// `MetaGraphDef`.
    fn set_meta_graph_source(&self, py: Python<'_>, source: Py<PyAny>) -> PyResult<()> {
        self.locked(py, |graph| {
            graph.set_meta_graph_source(Arc::new(move |saver: Option<&SaverDef>| {
                let saver = saver.map(Message::encode_to_vec);
                raised::call(|py| {
                    let saver = saver.as_ref().map(|saver| PyBytes::new(py, saver));
                    let made = source.bind(py).call1((saver,))?;
                    let bytes: &[u8] = made.extract()?;
                    MetaGraphDef::decode(bytes).map_err(|error| PyValueError::new_err(error.to_string()))
                })
            }));
            Ok(())
        })
    }
}

/// An open checkpoint.
#[pyclass(frozen, name = "CheckpointReader", module = "tensorfleet._native")]
struct PyCheckpointReader(CheckpointReader);

#[pymethods]
impl PyCheckpointReader {
    #[new]
    fn new(py: Python<'_>, prefix: &str) -> PyResult<PyCheckpointReader> {
        Ok(PyCheckpointReader(py.detach(|| CheckpointReader::open(prefix)).or_raise(py)?))
    }

    /// Name, number of the dtype and shape of every tensor.
    fn tensors(&self) -> Vec<(String, i32, Vec<usize>)> {
        self.0
            .iter()
            .map(|tensor| (tensor.name.clone(), tensor.dtype.number(), tensor.shape.dims().to_vec()))
            .collect()
    }

    fn tensor(&self, py: Python<'_>, name: &str) -> PyResult<Py<PyAny>> {
        let value = py.detach(|| self.0.tensor(name)).or_raise(py)?;
        arrays::to_array(py, value)
    }
}

type State = (String, Vec<String>, Vec<f64>, Option<f64>);

/// What a state file says: the newest checkpoint, all, when they were made, and when the last kept one was; `None` without a file.
#[pyfunction]
fn checkpoint_state(py: Python<'_>, dir: &str, filename: &str) -> PyResult<Option<State>> {
    let state = py.detach(|| train::get_checkpoint_state_of(dir, filename)).or_raise(py)?;
    Ok(state.map(|state| {
        let CheckpointState {
            model_checkpoint_path,
            all_model_checkpoint_paths,
            all_model_checkpoint_timestamps,
            last_preserved_timestamp,
        } = state;
        (
            model_checkpoint_path,
            all_model_checkpoint_paths,
            all_model_checkpoint_timestamps,
            last_preserved_timestamp,
        )
    }))
}

/// Writes a state file.
#[pyfunction]
fn update_checkpoint_state(py: Python<'_>, dir: &str, filename: &str, state: State) -> PyResult<()> {
    let state = CheckpointState {
        model_checkpoint_path: state.0,
        all_model_checkpoint_paths: state.1,
        all_model_checkpoint_timestamps: state.2,
        last_preserved_timestamp: state.3,
    };
    py.detach(|| train::write_checkpoint_state(dir, filename, state)).or_raise(py)
}

/// The newest complete checkpoint of a directory.
#[pyfunction]
fn latest_checkpoint(py: Python<'_>, dir: &str, filename: &str) -> PyResult<Option<String>> {
    py.detach(|| train::latest_checkpoint_of(dir, filename)).or_raise(py)
}

#[pyfunction]
fn checkpoint_exists(py: Python<'_>, prefix: &str) -> bool {
    py.detach(|| train::checkpoint_exists(prefix))
}

#[pyfunction]
fn remove_checkpoint(py: Python<'_>, prefix: &str, meta_suffix: &str) {
    py.detach(|| train::remove_checkpoint(prefix, meta_suffix));
}

/// Writes a graph as text.
#[pyfunction]
fn write_graph(py: Python<'_>, graph: &PyGraph, dir: &str, name: &str) -> PyResult<String> {
    py.detach(|| train::write_graph(&graph.graph, dir, name)).or_raise(py)?;
    Ok(format!("{}/{name}", dir.trim_end_matches('/')))
}
