//! Where a session runs its graph: in this process, or on the master of a server.

use tensorfleet_cluster::{RemoteCallable, RemoteRunOptions, RemoteSession};
use tensorfleet_core::{Result, Tensor};
use tensorfleet_proto::tensorflow::{DeviceAttributes, GraphDef, RunMetadata};
use tensorfleet_runtime::{Callable, DirectSession, RunOptions};

pub(crate) enum Backend {
    Direct(DirectSession),
    Remote(RemoteSession),
}

/// A signature that a backend has prepared.
pub(crate) enum PreparedCall {
    Direct(Callable),
    Remote(RemoteCallable),
}

/// Whether a run is to be recorded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trace {
    Off,
    Full,
}

impl Backend {
    pub(crate) fn extend(&self, def: GraphDef) -> Result<()> {
        match self {
            Backend::Direct(session) => session.extend(def),
            Backend::Remote(session) => session.extend(def),
        }
    }

    pub(crate) fn prepare(&self, feeds: &[&str], fetches: &[&str], targets: &[&str]) -> Result<PreparedCall> {
        Ok(match self {
            Backend::Direct(session) => PreparedCall::Direct(session.make_callable(feeds, fetches, targets)?),
            Backend::Remote(session) => PreparedCall::Remote(session.make_callable(feeds, fetches, targets)),
        })
    }

    pub(crate) fn close(&self) -> Result<()> {
        match self {
            Backend::Direct(session) => session.close(),
            Backend::Remote(session) => session.close(),
        }
    }

    pub(crate) fn list_devices(&self) -> Result<Vec<DeviceAttributes>> {
        match self {
            Backend::Direct(session) => Ok(session.list_devices()),
            Backend::Remote(session) => session.list_devices(),
        }
    }
}

impl PreparedCall {
    pub(crate) fn run(
        &self,
        feeds: Vec<Tensor>,
        options: &RunOptions,
        trace: Trace,
    ) -> Result<(Vec<Tensor>, RunMetadata)> {
        match self {
            PreparedCall::Direct(callable) if trace == Trace::Full => callable.run_traced(feeds, options),
            PreparedCall::Direct(callable) => Ok((callable.run(feeds, options)?, RunMetadata::default())),
            PreparedCall::Remote(callable) => {
                let options = RemoteRunOptions { timeout: options.timeout, is_traced: trace == Trace::Full };
                callable.run(&feeds, &options)
            }
        }
    }
}
