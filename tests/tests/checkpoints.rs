//! Checkpoints between us and TensorFlow, over clusters, damaged in a thousand ways, and on a disk that is full.

#![allow(clippy::unwrap_used)]

#[path = "checkpoints/command.rs"]
mod command;
#[path = "checkpoints/damage.rs"]
mod damage;
#[path = "checkpoints/full_disk.rs"]
mod full_disk;
#[path = "checkpoints/interchange.rs"]
mod interchange;
#[path = "checkpoints/optimizers.rs"]
mod optimizers;
#[path = "checkpoints/over_clusters.rs"]
mod over_clusters;
#[path = "checkpoints/partitioned.rs"]
mod partitioned;
#[path = "checkpoints/trained.rs"]
mod trained;
