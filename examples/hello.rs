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
    let hello = session.run(&c)?;
    for text in hello.as_strings()? {
        say!("{}", String::from_utf8_lossy(text));
    }
    Ok(())
}
