//! [`Collections`]: what a graph remembers about its own parts, by purpose.
//!
//! TensorFlow keeps these lists under string keys; here each purpose is a field, so that what is in it has a type.

use tensorfleet_core::Endpoint;

use crate::variables::Parts;

/// The lists of a graph, in the order things were added.
#[derive(Default)]
pub(crate) struct Collections {
    /// Variables that are saved and shared.
    pub(crate) global: Vec<Parts>,
    /// Variables that training changes.
    pub(crate) trainable: Vec<Parts>,
    /// Variables of one process, not saved.
    pub(crate) local: Vec<Parts>,
    /// Variables of which moving averages are kept.
    pub(crate) moving_average: Vec<Parts>,
    /// The variable that counts training steps.
    pub(crate) global_step: Option<Parts>,
    /// What is to be minimised.
    pub(crate) losses: Vec<Endpoint>,
    /// What is added to the losses to keep variables small.
    pub(crate) regularization_losses: Vec<Endpoint>,
    /// What keeps the queues filled.
    pub(crate) queue_runners: Vec<std::sync::Arc<crate::train::QueueRunnerParts>>,
}
