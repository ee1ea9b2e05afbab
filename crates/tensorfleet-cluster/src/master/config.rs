//! [`SessionConfig`]: what a session's `ConfigProto` asks for, checked once.

use std::sync::Arc;
use std::time::Duration;

use tensorfleet_core::{DeviceName, Result, Status, ensure};
use tensorfleet_proto::Message;
use tensorfleet_proto::tensorflow::ConfigProto;

use crate::address;
use crate::cluster_spec::{ClusterSpec, TaskId};
use crate::default_placement::DefaultPlacement;

/// What a server says of all its sessions.
#[derive(Clone, Debug, Default)]
pub(crate) struct SessionDefaults {
    /// Settings that win over a client's.
    pub(crate) config: ConfigProto,
    /// Where nodes go that fit several tasks.
    pub(crate) default_placement: DefaultPlacement,
}

/// How a session behaves.
#[derive(Clone, Debug)]
pub(super) struct SessionConfig {
    pub(super) allow_soft_placement: bool,
    pub(super) log_device_placement: bool,
    pub(super) simplify: bool,
    /// Tasks and devices the session sees; empty: all.
    pub(super) device_filters: Vec<DeviceName>,
    /// Time-out of operations that do not give their own.
    pub(super) operation_timeout: Option<Duration>,
    pub(super) isolate_state: bool,
    /// Where nodes go that fit several tasks.
    pub(super) default_placement: DefaultPlacement,
    /// A cluster of the session's own, instead of the server's.
    pub(super) cluster: Option<Arc<ClusterSpec>>,
}

impl SessionConfig {
    /// Reads a client's wishes. What the server's own configuration sets comes after and wins.
    pub(super) fn read(client: Option<ConfigProto>, server: &SessionDefaults) -> Result<SessionConfig> {
        let mut proto = client.unwrap_or_default();
        proto
            .merge(&*server.config.encode_to_vec())
            .map_err(|error| Status::internal(format!("merging session configurations: {error}")))?;
        ensure!(
            !proto.use_per_session_threads && proto.session_inter_op_thread_pool.is_empty(),
            InvalidArgument,
            "Distributed session does not support session thread pool options."
        );
        let device_filters = proto.device_filters.iter().map(|filter| {
            filter.parse().map_err(|status: Status| status.context(format!("device filter '{filter}'")))
        });
        let cluster = match &proto.cluster_def {
            Some(def) if !def.job.is_empty() => Some(Arc::new(ClusterSpec::from_cluster_def(def)?)),
            _ => None,
        };
        let experimental = proto.experimental.unwrap_or_default();
        let shares_state = experimental.share_session_state_in_clusterspec_propagation;
        Ok(SessionConfig {
            allow_soft_placement: proto.allow_soft_placement,
            log_device_placement: proto.log_device_placement,
            simplify: simplifies(proto.graph_options.as_ref()),
            device_filters: device_filters.collect::<Result<_>>()?,
            operation_timeout: millis(proto.operation_timeout_in_ms),
            isolate_state: proto.isolate_session_state || (cluster.is_some() && !shares_state),
            default_placement: server.default_placement,
            cluster,
        })
    }

    /// Whether the session sees a task or device.
    pub(super) fn admits(&self, name: &DeviceName) -> bool {
        self.device_filters.is_empty()
            || self.device_filters.iter().any(|filter| filter.is_compatible_with(name))
    }

    /// The server's own name in the session's cluster, found by the address the client called.
    pub(super) fn own_task(&self, cluster: &ClusterSpec, target: &str) -> Result<TaskId> {
        let address = address::from_target(target)?;
        let mut found = cluster.tasks().filter(|(_, _, other)| *other == address);
        let (Some((job, index, _)), None) = (found.next(), found.next()) else {
            return Err(Status::invalid_argument(format!(
                "The session's cluster_def does not name the server it is created on: no task has the address {address}"
            )));
        };
        Ok(TaskId::new(job, index))
    }
}

/// A positive number of milliseconds.
pub(super) fn millis(number: i64) -> Option<Duration> {
    u64::try_from(number).ok().filter(|&number| number > 0).map(Duration::from_millis)
}

/// `OptimizerOptions.opt_level` L0 asks for none.
fn simplifies(options: Option<&tensorfleet_proto::tensorflow::GraphOptions>) -> bool {
    let level =
        options.and_then(|options| options.optimizer_options.as_ref()).map(|options| options.opt_level);
    level != Some(-1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensorfleet_core::Code;

    #[test]
    fn the_servers_values_win_and_thread_pools_are_refused() {
        let config =
            ConfigProto { allow_soft_placement: true, operation_timeout_in_ms: 50, ..Default::default() };
        let server = SessionDefaults { config, ..Default::default() };
        let client = ConfigProto {
            operation_timeout_in_ms: 10,
            device_filters: vec!["/job:ps".to_string()],
            ..Default::default()
        };
        let config = SessionConfig::read(Some(client), &server).unwrap();
        assert!(config.allow_soft_placement);
        assert_eq!(config.operation_timeout, Some(Duration::from_millis(50)));
        assert!(config.admits(&"/job:ps/replica:0/task:3".parse().unwrap()));
        assert!(!config.admits(&"/job:worker/replica:0/task:3".parse().unwrap()));
        let threads = ConfigProto { use_per_session_threads: true, ..Default::default() };
        let status = SessionConfig::read(Some(threads), &SessionDefaults::default()).unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
    }
}
