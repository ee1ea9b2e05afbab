//! Training: optimizers, replication, checkpoints, supervision.
//!
//! Everything here only builds graph nodes and asks a [`Session`](crate::Session) for runs, so it works on a session of
//! this process, on a cluster, and on servers of TensorFlow alike.

mod checkpoint_state;
mod saver;

pub use checkpoint_state::{
    CheckpointState, checkpoint_exists, get_checkpoint_state, latest_checkpoint, update_checkpoint_state,
};
pub use saver::{SaveOptions, SavedVariable, Saver, SaverBuilder};
