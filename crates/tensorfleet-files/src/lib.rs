//! TensorFlow's file formats: checkpoints ([`bundle`], and [`slice_file`] for old ones), the sorted tables they rest on ([`table`]), record files
//! ([`record`]) and event files ([`event_file`]).
//!
//! This crate knows bytes, tensors and files; it knows no graphs, ops or sessions. What it writes is byte for byte
//! what TensorFlow writes. What it reads may be truncated or made by an enemy: every size and offset is checked
//! against the bytes that are there before it is used, and checksums before contents are believed.

mod atomic_file;
pub mod bundle;
pub mod checksum;
pub mod event_file;
mod ordered_code;
pub mod record;
pub mod slice_file;
mod snappy;
pub mod table;
pub mod tensor_slice;
mod varint;

pub use atomic_file::{AtomicFile, io_status};
