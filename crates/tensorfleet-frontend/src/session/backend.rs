//! Where a session runs its graph: in this process, or on the master of a server.

use tensorfleet_cluster::{RemoteCallable, RemotePartialRun, RemoteRunOptions, RemoteSession};
use tensorfleet_core::{Result, Tensor};
use tensorfleet_proto::tensorflow::{DeviceAttributes, GraphDef, RunMetadata};
use tensorfleet_runtime::{Callable, DirectSession, PartialRun, RunOptions};

pub(crate) enum Backend {
    Direct(DirectSession),
    Remote(RemoteSession),
}

/// A signature that a backend has prepared.
pub(crate) enum PreparedCall {
    Direct(Callable),
    Remote(RemoteCallable),
}

/// A run in parts that a backend has begun.
pub(crate) enum BegunPartialRun {
    Direct(Box<PartialRun>),
    Remote(RemotePartialRun),
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

    pub(crate) fn begin_partial_run(
        &self,
        feeds: &[&str],
        fetches: &[&str],
        targets: &[&str],
    ) -> Result<BegunPartialRun> {
        Ok(match self {
            Backend::Direct(session) => {
                BegunPartialRun::Direct(Box::new(session.begin_partial_run(feeds, fetches, targets)?))
            }
            Backend::Remote(session) => {
                BegunPartialRun::Remote(session.begin_partial_run(feeds, fetches, targets)?)
            }
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

impl BegunPartialRun {
    /// Gives some of the feeds and takes some of the fetches; waits for these.
    pub(crate) fn run(&self, feeds: &[(&str, Tensor)], fetches: &[&str]) -> Result<Vec<Tensor>> {
        match self {
            BegunPartialRun::Direct(run) => run.run(feeds, fetches, &RunOptions::default()),
            BegunPartialRun::Remote(run) => {
                let feeds: Vec<(&str, &Tensor)> = feeds.iter().map(|(name, value)| (*name, value)).collect();
                run.run(&feeds, fetches)
            }
        }
    }
}

impl PreparedCall {
    pub(crate) fn run(
        &self,
        feeds: Vec<Tensor>,
        options: &RunOptions,
        trace: Trace,
        number: Option<u64>,
    ) -> Result<(Vec<Tensor>, RunMetadata)> {
        match self {
            PreparedCall::Direct(callable) if trace == Trace::Full => callable.run_traced(feeds, options),
            PreparedCall::Direct(callable) => Ok((callable.run(feeds, options)?, RunMetadata::default())),
            PreparedCall::Remote(callable) => {
                let is_traced = trace == Trace::Full;
                let options = RemoteRunOptions { timeout: options.timeout, is_traced, number };
                callable.run(&feeds, &options)
            }
        }
    }
}
