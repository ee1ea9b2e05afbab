//! `record-calls`: a task of a cluster that keeps what its clients and masters ask.

use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tensorfleet_cluster::{ClusterSpec, Server, ServerOptions};
use tensorfleet_core::Result;
use tensorfleet_rpc::{Limits, Listener, serve};
use tensorfleet_tests::fuzzing::recording::Recorder;

use crate::Outcome;

/// How long calls under way may take at the end.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// What to serve.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The cluster, as JSON: `{"worker": ["localhost:2222"]}`.
    cluster: String,
    /// The job of this task.
    job: String,
    /// Its index.
    task: u32,
    /// The directory for the inputs.
    directory: PathBuf,
}

/// The command.
pub(crate) fn run(options: Options) -> Outcome {
    let written = record(&options).map_err(|status| status.text().to_string())?;
    println!("{written} inputs are in {}", options.directory.display());
    Ok(ExitCode::SUCCESS)
}

fn record(options: &Options) -> Result<usize> {
    let failed = |error: std::io::Error| tensorfleet_core::Status::internal(error.to_string());
    let cluster = ClusterSpec::from_json(&options.cluster)?;
    let address = cluster.address(&options.job, options.task)?.to_string();
    // The server itself listens elsewhere: what the cluster sends to its address is recorded first.
    let server = ServerOptions {
        bind: Some("127.0.0.1:0".to_string()),
        ..ServerOptions::new(cluster, &options.job, options.task)
    };
    let server = Server::start(server)?;
    let recorder = Arc::new(Recorder::new(server.handler()));
    let runtime = tokio::runtime::Runtime::new().map_err(failed)?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let listener = Listener::bind(&address.replace("localhost", "127.0.0.1"))?;
    let shutdown = async { drop(stopped.await) };
    let handler = recorder.clone();
    let serving = runtime.spawn(serve(listener, handler, Limits::default(), shutdown, STOP_TIMEOUT));
    println!("serving {address}; end standard input to stop");
    std::io::stdin().read_to_end(&mut Vec::new()).map_err(failed)?;
    drop(stop);
    runtime.block_on(serving).map_err(|error| tensorfleet_core::Status::internal(error.to_string()))??;
    recorder.write(&options.directory).map_err(failed)
}
