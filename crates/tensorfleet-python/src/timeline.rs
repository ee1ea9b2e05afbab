//! The record of a step as a picture for a browser.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tensorfleet_frontend::Timeline;
use tensorfleet_proto::Message;
use tensorfleet_proto::tensorflow::StepStats;

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(timeline, module)?)
}

/// Chrome's trace format of a `StepStats` message.
#[pyfunction]
fn timeline(py: Python<'_>, step_stats: &[u8], show_dataflow: bool, show_memory: bool) -> PyResult<String> {
    let stats = StepStats::decode(step_stats).map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(py.detach(|| {
        Timeline::from_step_stats(&stats).show_dataflow(show_dataflow).show_memory(show_memory).chrome_trace()
    }))
}
