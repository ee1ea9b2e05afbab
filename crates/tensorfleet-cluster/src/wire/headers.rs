//! Headers that our own tasks add to calls. Stock TensorFlow ignores them.

/// Says which task calls.
pub(crate) const TASK: &str = "tensorfleet-task";
/// Says which cluster specification a task was started with.
pub(crate) const CLUSTER: &str = "tensorfleet-cluster";
/// Names steps that can be forgotten, in decimal, separated by commas.
pub(crate) const FINISHED_STEPS: &str = "tensorfleet-finished-steps";
