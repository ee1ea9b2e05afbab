//! Data to train on: MNIST and some novels, embedded in the program, and files of one's own.
//!
//! ```
//! use tensorfleet_datasets::mnist;
//!
//! let mut digits = mnist::embedded()?;
//! digits.train.shuffle_with(7);
//! let (images, labels) = digits.train.next_batch(100)?;
//! assert_eq!(images.shape().dims(), [100, 784]);
//! assert_eq!(labels.shape().dims(), [100, 10]);
//! # Ok::<(), tensorfleet_core::Status>(())
//! ```

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests wait in real time and start threads"))]

mod data_set;
mod download;
mod idx;
pub mod mnist;
mod shuffle;
pub mod text;

pub use data_set::{DataSet, DataSets};
