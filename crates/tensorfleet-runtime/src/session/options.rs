//! [`SessionOptions`] and [`RunOptions`]: how a session of this process, and one of its runs, behave.

use std::time::Duration;

use tensorfleet_core::GraphLimits;

/// How a session behaves; the fields have the names they have in TensorFlow's `ConfigProto`.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// Lets nodes that ask for a missing device run on one that exists.
    pub allow_soft_placement: bool,
    /// Prints the device of every node on standard output, whenever the graph is placed.
    pub log_device_placement: bool,
    /// Time-out of runs that do not give their own.
    pub operation_timeout: Option<Duration>,
    /// Bounds on the graph.
    pub graph_limits: GraphLimits,
    /// Whether constant parts of a step are computed when it is planned and superfluous ones left out.
    pub simplify: bool,
}

impl Default for SessionOptions {
    fn default() -> SessionOptions {
        SessionOptions {
            allow_soft_placement: false,
            log_device_placement: false,
            operation_timeout: None,
            graph_limits: GraphLimits::default(),
            simplify: true,
        }
    }
}

/// How one run behaves.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// Gives up after this time with `DeadlineExceeded`; `None` waits for ever.
    pub timeout: Option<Duration>,
}
