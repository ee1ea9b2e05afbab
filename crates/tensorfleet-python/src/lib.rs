//! `tensorfleet._native`: what the Python package asks of the Rust library.
//!
//! Graphs, sessions, servers and training are the library's; this crate gives them to Python and knows nothing of its own.
//! Nodes are numbers here, and outputs are `node << 32 | slot`: the Python classes `Operation` and `Tensor` hold these
//! numbers, so that a run passes a few integers and arrays through the border.
//!
//! Two locks meet at the border: the interpreter's and the graph's. A thread never waits for a graph while it holds the
//! interpreter (`PyGraph::locked` in `graph.rs`), and never runs a step or waits for a server while it holds it.

mod arrays;
mod attributes;
mod callbacks;
mod catalogue;
mod control_flow;
mod coordinator;
mod datasets;
mod device;
mod device_setter;
mod errors;
mod fork;
mod gradients;
mod graph;
mod interrupt;
mod monitored;
mod notices;
mod optimizers;
mod py_func;
mod raised;
mod records;
mod saver;
mod server;
mod session;
mod summaries;
mod supervision;
mod sync_replicas;
mod timeline;
mod variable;

use pyo3::prelude::*;

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    interrupt::install();
    notices::install();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    for add in [
        arrays::add,
        catalogue::add,
        control_flow::add,
        coordinator::add,
        datasets::add,
        device::add,
        fork::add,
        device_setter::add,
        graph::add,
        optimizers::add,
        py_func::add,
        records::add,
        monitored::add,
        notices::add,
        saver::add,
        server::add,
        session::add,
        summaries::add,
        supervision::add,
        sync_replicas::add,
        timeline::add,
        variable::add,
    ] {
        add(module)?;
    }
    Ok(())
}
