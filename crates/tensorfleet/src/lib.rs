//! Distributed TensorFlow in Rust: build a dataflow graph, run it, train with it.
//!
//! ```
//! use tensorfleet::{Graph, Session};
//!
//! let g = Graph::new();
//! let a = g.variable("a", 1.0f32);
//! let b = &a + 2.0;
//! let c = &a + &b;
//!
//! let session = Session::new(&g);
//! session.run(a.initializer())?;
//! assert_eq!(session.run(&c)?.to_scalar::<f32>()?, 4.0);
//! # Ok::<(), tensorfleet::Status>(())
//! ```
//!
//! A [`Graph`] is a handle; an [`Output`] is a value it will compute and knows its graph, so expressions are written with
//! operators and methods. Graphs are TensorFlow's: ops, attributes, devices and node names are those that TensorFlow's
//! Python front end would produce, and [`Graph::to_graph_def`] exports them. Dtypes and shapes are checked while the graph
//! is built; [`Output`] explains how mistakes are reported. A [`Session`] runs parts of the graph.
//!
//! `use tensorfleet::prelude::*;` brings what most programs need; see [`prelude`]. What there is, by task:
//!
//! - **Building graphs**: [`Graph`], [`Output`], [`Operation`]; [`Variable`], by name with [`Graph::get_variable`] and
//!   [`Graph::variable_scope`]; [`Graph::cond`] and [`Graph::while_loop`]; layers with [`Graph::dense`], [`Graph::conv2d`],
//!   [`Graph::max_pool2d`], [`Graph::batch_normalization`] and [`Graph::dropout`]; first values with [`Initializer`]; [`Graph::op`] for any op that has no method; [`Graph::gradients`].
//! - **Running them**: [`Session`], in this process or on a server; [`Session::prepare`] for runs that are repeated,
//!   [`Session::partial_run`] for one in parts, [`Step::run_traced`] and [`Timeline`] to see what took how long.
//! - **Clusters**: a [`ClusterSpec`] says which tasks there are, a [`Server`] is one of them, [`Session::connect`] uses them;
//!   [`Graph::device`] and [`replica_device_setter`] say where nodes go. With the feature `flags`, the module `flags` has the
//!   command-line flags of a task (`--ps_hosts`, `--job_name`, …) and `TF_CONFIG`.
//! - **Training**: [`train`] has the optimizers, synchronous and in-graph replication, checkpoints, supervision and hooks.
//! - **Models**: [`Graph::dense`], [`Graph::conv2d`] and other layers; [`LstmCell`] and [`Graph::dynamic_rnn`];
//!   [`Graph::embedding_lookup`] over a [`PartitionedVariable`]; [`Loss`], [`SampledLoss`], [`Metric`].
//! - **Input**: [`data`] for batches made ahead of time by this process; [`Graph::input_producer`] and [`Graph::batch`],
//!   [`Queue`] for those that the graph makes.
//! - **Looking inside**: [`summary`] for TensorBoard, [`checkpoint`] for what a checkpoint holds, [`import_meta_graph`] for
//!   graphs that were saved with one.
//!
//! This crate builds graphs and asks for runs; it computes nothing itself. What ops mean stands in `tensorfleet-ops`, how
//! they are run in `tensorfleet-runtime`.

mod accumulator;
mod array;
mod backend;
pub mod checkpoint;
mod collections;
mod control_flow;
pub mod data;
mod embedding;
mod fetch;
#[cfg(feature = "flags")]
pub mod flags;
mod gradients;
mod graph;
mod initializers;
mod input;
mod layers;
mod literal;
mod losses;
mod math;
mod meta_graph;
mod metrics;
mod nn;
mod op_builder;
mod operand;
mod operation;
mod operators;
mod output;
mod partial_run;
mod partitioned_variable;
pub mod prelude;
mod queue;
mod random;
mod regularizers;
mod replica_device_setter;
mod rnn;
mod sampled_losses;
mod session;
mod session_options;
mod sources;
mod sparse_tensor;
pub mod summary;
mod tensor_array;
mod timeline;
pub mod train;
mod uninitialized;
mod variable;
mod variable_def;
mod variable_scope;
mod variable_slice;

pub use accumulator::ConditionalAccumulator;
pub use array::{Ellipsis, Index, Indices, NewAxis};
pub use control_flow::{LoopBuilder, OutputGroup};
pub use embedding::{Combiner, EmbeddingParams, PartitionStrategy};
pub use fetch::{Fetch, Request, Results};
pub use gradients::{Gate, Gradient, GradientsBuilder, IndexedSlices};
pub use graph::Graph;
pub use initializers::{Distribution, Fan, Initializer};
pub use input::{Batch, InputProducer};
pub use layers::{
    BatchNorm, Conv2d, DataFormat, Dense, Dropout, Extent, Padding, Pool2d, Training, UPDATE_OPS,
};
pub use literal::{Adapts, IntoTensor, Literal, ShapeLike};
pub use losses::{Loss, Reduction};
pub use math::Axes;
pub use meta_graph::{MetaGraph, import_meta_graph};
pub use metrics::{Curve, Metric, Streaming};
pub use op_builder::OpBuilder;
pub use operand::{Arg, Operand, OperandList};
pub use operation::Operation;
pub use output::Output;
pub use partial_run::{PartialRun, PartialStep};
pub use partitioned_variable::{GetPartitionedVariable, PartitionedVariable, Partitioner};
pub use queue::{Queue, QueueBuilder};
pub use regularizers::Regularizer;
pub use replica_device_setter::{PsStrategy, ReplicaDeviceSetter, replica_device_setter};
pub use rnn::{BasicRnnCell, CellStep, DynamicRnn, GruCell, LstmCell, MultiRnnCell, RnnCell};
pub use sampled_losses::{CandidateSampler, Candidates, SampledLoss};
pub use session::{PreparedRun, Session, Step};
pub use session_options::SessionOptions;
pub use sparse_tensor::SparseTensor;
pub use tensor_array::TensorArray;
pub use timeline::Timeline;
pub use variable::{Variable, VariableBuilder};
pub use variable_scope::{GetVariable, Reuse, VariableScope, VariableScopeBuilder};

pub use tensorfleet_cluster::{ClusterSpec, Server, ServerOptions, TaskId, TfConfig};
pub use tensorfleet_core::{Code, DType, DeviceName, Node, PartialShape, Result, Shape, Status, Tensor};
pub use tensorfleet_ops::builder::DeviceScope;
pub use tensorfleet_proto::tensorflow::{DeviceAttributes, GraphDef, RunMetadata, StepStats};
pub use tensorfleet_runtime::{RunOptions, Task};
