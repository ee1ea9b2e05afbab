//! The front end: build a dataflow graph, run it, train with it.
//!
//! Programs depend on the crate `tensorfleet`, which re-exports this one and links the ops; the examples here are written
//! as programs write them. This crate builds graphs and asks for runs; it computes nothing itself: how graphs are run stands
//! in `tensorfleet-runtime` and `tensorfleet-cluster`.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests wait in real time and start threads"))]

pub mod checkpoint;
mod coordinator;
#[cfg(feature = "flags")]
pub mod flags;
mod graph;
mod input;
mod listing;
mod models;
pub mod prelude;
mod session;
pub mod summary;
pub mod train;
mod variables;

pub use graph::{
    Adapts, Arg, Axes, Ellipsis, Gate, Gradient, GradientsBuilder, Graph, Index, IndexedSlices, Indices,
    IntoTensor, Literal, LoopBuilder, MatMulOptions, NewAxis, OpBuilder, Operand, OperandList, Operation,
    Output, OutputGroup, ShapeLike, SparseTensor, TensorArray, Variable,
};
pub use input::{Batch, ConditionalAccumulator, InputProducer, Queue, QueueBuilder, data};
pub use models::{
    BasicRnnCell, BatchNorm, CandidateSampler, Candidates, CellStep, Combiner, Conv2d, Curve, DataFormat,
    Dense, Dropout, DynamicRnn, EmbeddingParams, Extent, GruCell, Loss, LstmCell, Metric, MultiRnnCell,
    Padding, PartitionStrategy, Pool2d, Reduction, RnnCell, SampledLoss, Streaming, Training, UPDATE_OPS,
};
pub use session::{
    EndpointsPartialRun, Fetch, PartialRun, PartialStep, PreparedRun, Request, Results, Session,
    SessionOptions, Step, Timeline,
};
pub use train::{MetaGraph, PsStrategy, ReplicaDeviceSetter, import_meta_graph, replica_device_setter};
pub use variables::{
    Distribution, Fan, GetPartitionedVariable, GetVariable, Initializer, PartitionedVariable, Partitioner,
    Regularizer, Reuse, VariableBuilder, VariableScope, VariableScopeBuilder,
};

pub use tensorfleet_cluster::{
    ClientId, ClusterSpec, DefaultPlacement, Server, ServerOptions, TaskId, TfConfig, keep_freed_memory,
};
pub use tensorfleet_core::{Code, DType, DeviceName, Node, PartialShape, Result, Shape, Status, Tensor};
pub use tensorfleet_kernel::builder::DeviceScope;
pub use tensorfleet_proto::tensorflow::{DeviceAttributes, GraphDef, RunMetadata, StepStats};
pub use tensorfleet_runtime::{RunOptions, Task};

// The catalogue that tests link.
#[cfg(test)]
use tensorfleet_ops as _;
