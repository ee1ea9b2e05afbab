//! [`SessionOptions`]: how a session behaves, wherever it runs.

use std::sync::Arc;
use std::time::Duration;

use tensorfleet_cluster::{ClientId, ClusterSpec, ConnectOptions};
use tensorfleet_core::{GraphLimits, Result};
use tensorfleet_proto::tensorflow::ConfigProto;
use tensorfleet_threads::{ThreadCounts, Threads};

/// How a session behaves; fields have the names they have in TensorFlow's `ConfigProto`.
///
/// ```
/// use tensorfleet::SessionOptions;
///
/// // A session that must not wait for other workers.
/// let options = SessionOptions {
///     device_filters: vec!["/job:ps".into(), "/job:worker/task:0".into()],
///     ..SessionOptions::default()
/// };
/// # assert!(!options.allow_soft_placement);
/// ```
#[doc(alias = "ConfigProto")]
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// Lets nodes that ask for a missing device run on one that exists.
    pub allow_soft_placement: bool,
    /// Prints the device of every node, on the standard output of the process whose master places them: the server, or this
    /// one.
    pub log_device_placement: bool,
    /// Only tasks that one of these matches are part of the session, and waited for; all if there are none.
    pub device_filters: Vec<String>,
    /// Keeps variables to this session; otherwise all sessions of a cluster share them by name.
    pub isolate_session_state: bool,
    /// Time-out of runs that do not give their own.
    pub operation_timeout: Option<Duration>,
    /// How many threads share the work of one op, in a session in this process; 0: one for each core. A server's threads are
    /// sized by its own configuration.
    pub intra_op_parallelism_threads: i32,
    /// How many threads run ops at the same time, in a session in this process; 0: one for each core, negative or 1: the thread
    /// that calls `run`.
    pub inter_op_parallelism_threads: i32,
    /// Gives a session in this process threads of its own even if it says nothing of their number.
    pub use_per_session_threads: bool,
    /// A cluster to use instead of the one the server was started with.
    pub cluster: Option<ClusterSpec>,
    /// How long [`Session::connect_with`](crate::Session::connect_with) waits for the server and the tasks it needs.
    pub connect_timeout: Duration,
    /// Bounds on the graph of a session in this process; a server has its own.
    pub graph_limits: GraphLimits,
    /// Who opens the session, if it is to end those that the same client has lost: their steps end on all tasks that can be
    /// reached, and on the others as soon as they can. Monitored sessions say it by themselves.
    pub client: Option<ClientId>,
}

impl Default for SessionOptions {
    fn default() -> SessionOptions {
        SessionOptions {
            allow_soft_placement: false,
            log_device_placement: false,
            device_filters: Vec::new(),
            isolate_session_state: false,
            operation_timeout: None,
            intra_op_parallelism_threads: 0,
            inter_op_parallelism_threads: 0,
            use_per_session_threads: false,
            cluster: None,
            connect_timeout: ConnectOptions::default().timeout,
            graph_limits: GraphLimits::default(),
            client: None,
        }
    }
}

impl SessionOptions {
    /// What a `ConfigProto` says of sessions. What it says of other things, such as GPUs, is passed over.
    pub fn from_config(config: &ConfigProto) -> Result<SessionOptions> {
        let cluster = config.cluster_def.as_ref().filter(|def| !def.job.is_empty());
        let timeout = u64::try_from(config.operation_timeout_in_ms).ok().filter(|&millis| millis > 0);
        Ok(SessionOptions {
            allow_soft_placement: config.allow_soft_placement,
            log_device_placement: config.log_device_placement,
            device_filters: config.device_filters.clone(),
            isolate_session_state: config.isolate_session_state,
            operation_timeout: timeout.map(Duration::from_millis),
            intra_op_parallelism_threads: config.intra_op_parallelism_threads,
            inter_op_parallelism_threads: config.inter_op_parallelism_threads,
            use_per_session_threads: config.use_per_session_threads,
            cluster: cluster.map(ClusterSpec::from_cluster_def).transpose()?,
            ..SessionOptions::default()
        })
    }

    /// The threads of a session in this process.
    pub(crate) fn threads(&self) -> Result<Arc<Threads>> {
        let counts = ThreadCounts::new(self.intra_op_parallelism_threads, self.inter_op_parallelism_threads)?;
        Ok(match self.use_per_session_threads {
            true => Threads::new(counts),
            false => Threads::with_counts(counts),
        })
    }

    pub(crate) fn for_this_process(self) -> tensorfleet_runtime::SessionOptions {
        tensorfleet_runtime::SessionOptions {
            allow_soft_placement: self.allow_soft_placement,
            log_device_placement: self.log_device_placement,
            operation_timeout: self.operation_timeout,
            graph_limits: self.graph_limits,
            ..Default::default()
        }
    }

    pub(crate) fn for_server(self) -> ConnectOptions {
        let millis = |timeout: Duration| i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX).max(1);
        let config = ConfigProto {
            allow_soft_placement: self.allow_soft_placement,
            log_device_placement: self.log_device_placement,
            device_filters: self.device_filters,
            isolate_session_state: self.isolate_session_state,
            intra_op_parallelism_threads: self.intra_op_parallelism_threads,
            inter_op_parallelism_threads: self.inter_op_parallelism_threads,
            use_per_session_threads: self.use_per_session_threads,
            operation_timeout_in_ms: self.operation_timeout.map_or(0, millis),
            cluster_def: self.cluster.map(|cluster| cluster.as_cluster_def()),
            ..Default::default()
        };
        ConnectOptions { config, timeout: self.connect_timeout, client: self.client }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_reach_the_server_as_its_config() {
        let cluster = ClusterSpec::from_hosts("a:1", "b:1").unwrap();
        let options = SessionOptions {
            allow_soft_placement: true,
            device_filters: vec!["/job:ps".into()],
            isolate_session_state: true,
            operation_timeout: Some(Duration::from_micros(10)),
            cluster: Some(cluster.clone()),
            connect_timeout: Duration::from_secs(7),
            ..SessionOptions::default()
        };
        let ConnectOptions { config, timeout, .. } = options.for_server();
        assert_eq!(timeout, Duration::from_secs(7));
        assert!(config.allow_soft_placement && config.isolate_session_state && !config.log_device_placement);
        assert_eq!(config.device_filters, ["/job:ps"]);
        assert_eq!(config.operation_timeout_in_ms, 1, "0 would mean no time-out");
        assert_eq!(config.cluster_def, Some(cluster.as_cluster_def()));
    }

    #[test]
    fn a_session_has_the_process_s_threads_unless_it_asks_for_others() {
        let threads = |intra_op: i32, inter_op: i32, own: bool| {
            let options = SessionOptions {
                intra_op_parallelism_threads: intra_op,
                inter_op_parallelism_threads: inter_op,
                use_per_session_threads: own,
                ..SessionOptions::default()
            };
            options.threads()
        };
        assert!(Arc::ptr_eq(&threads(0, 0, false).unwrap(), Threads::of_process()));
        assert!(!Arc::ptr_eq(&threads(0, 0, true).unwrap(), Threads::of_process()));
        let own = threads(3, -1, false).unwrap();
        assert_eq!((own.loops().threads(), own.nodes().hands_over()), (3, false));
        assert!(threads(-1, 0, false).is_err());
    }
}
