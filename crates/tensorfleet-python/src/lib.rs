//! `tensorfleet._native`: what the Python package asks of the Rust library.
//!
//! Graphs, sessions, servers and training are the library's; this crate gives them to Python and knows nothing of its own.
//! Nodes are numbers here, and outputs are `node << 32 | slot`: the Python classes `Operation` and `Tensor` hold these
//! numbers, so that a run passes a few integers and arrays through the border.
//!
//! Two locks meet at the border: the interpreter's and the graph's. A thread never waits for a graph while it holds the
//! interpreter ([`graph::PyGraph::locked`]), and never runs a step or waits for a server while it holds it.

mod arrays;
mod attributes;
mod catalogue;
mod control_flow;
mod datasets;
mod device;
mod errors;
mod gradients;
mod graph;
mod interrupt;
mod server;
mod session;
mod timeline;
mod variable;

use pyo3::prelude::*;

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    interrupt::install();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    for add in [
        arrays::add,
        catalogue::add,
        control_flow::add,
        datasets::add,
        device::add,
        graph::add,
        server::add,
        session::add,
        timeline::add,
        variable::add,
    ] {
        add(module)?;
    }
    Ok(())
}
