//! Headers that our own tasks add to calls. Stock TensorFlow ignores them.

/// Says which task calls.
pub(crate) const TASK: &str = "tensorfleet-task";
/// Says which cluster specification a task was started with.
pub(crate) const CLUSTER: &str = "tensorfleet-cluster";
/// Says which client opens a session, and in which turn.
pub(crate) const CLIENT: &str = "tensorfleet-client";
/// Numbers a run that its client repeats if the answer is lost.
pub(crate) const REQUEST: &str = "tensorfleet-request";
/// Names steps that can be forgotten, in decimal, separated by commas.
pub(crate) const FINISHED_STEPS: &str = "tensorfleet-finished-steps";
