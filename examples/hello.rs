//! The smallest cluster: one server in this process, and a session on it.

use clap::Parser;
use tensorfleet::{Graph, Result, Server, Session};
use tensorfleet_examples::say;

/// Says hello from the smallest cluster: a server in this process, and a session on it.
#[derive(Parser)]
struct Flags {}

fn main() -> Result<()> {
    let Flags {} = tensorfleet::flags::parse();
    let g = Graph::new();
    let c = g.constant("Hello, distributed TensorFlow!");
    let server = Server::local()?;
    let session = Session::connect(&server.target(), &g)?;
    say!("{}", session.run(&c)?);
    Ok(())
}
