//! TensorFlow's file formats: checkpoints ([`bundle`], and [`slice_file`] for old ones), the sorted tables they rest on ([`table`]), record files
//! ([`record`]) and event files ([`event_file`]).
//!
//! Whoever opens a file says by which right ([`FileAccess`]).
//!
//! This crate knows bytes, tensors and files; it knows no graphs, ops or sessions. What it writes is byte for byte
//! what TensorFlow writes. What it reads may be truncated or made by an enemy: every size and offset is checked
//! against the bytes that are there before it is used, and checksums before contents are believed.

mod atomic_file;
mod beneath;
pub mod bundle;
pub mod checksum;
mod entry;
pub mod event_file;
pub mod file_access;
mod io_status;
mod ordered_code;
pub mod record;
pub mod slice_file;
mod snappy;
pub mod table;
pub mod tensor_slice;
mod varint;

pub use atomic_file::{AtomicFile, remove_leftovers};
pub use entry::Entry;
pub use file_access::FileAccess;
pub use io_status::io_status;
