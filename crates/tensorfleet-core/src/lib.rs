//! The nouns everybody shares: [`Tensor`], [`DType`], [`Shape`], [`Status`], [`DeviceName`], [`RendezvousKey`],
//! [`Graph`].
//!
//! This crate knows nothing about what operations compute, how a graph is run or how bytes travel. It
//! turns TensorFlow's messages into checked values once, at the edge, so that the layers above work with
//! types instead of strings and never validate twice.

pub mod attr;
mod buffer;
pub mod clock;
mod device_name;
mod dtype;
pub mod entropy;
mod excerpt;
mod graph;
mod graph_def;
pub mod interrupt;
pub mod memory;
pub mod notice;
mod rendezvous_key;
mod resource_handle;
mod shape;
mod status;
mod strings;
mod tensor;
mod tensor_proto;
mod tensor_text;
mod variant;

pub use buffer::{Buffer, WeakBuffer};
pub use device_name::DeviceName;
pub use dtype::{DType, EdgeType, Element};
pub use excerpt::excerpt;
pub use graph::{Endpoint, Graph, Node, NodeId};
pub use graph_def::{GraphLimits, parse_endpoint};
pub use rendezvous_key::{RendezvousEdge, RendezvousKey};
pub use resource_handle::ResourceHandle;
pub use shape::{Dim, PartialShape, Shape};
pub use status::{Code, Result, Status, Unreachable};
pub use strings::StringsBuilder;
pub use tensor::Tensor;
pub use variant::{Variant, VariantExtent, VariantObject};
