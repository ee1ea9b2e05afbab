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
//!   [`Graph::max_pool2d`], [`Graph::batch_normalization`] and [`Graph::dropout`]; initial values with [`Initializer`];
//!   [`Graph::op`] for any op that has no method; [`Graph::gradients`].
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
//! This crate re-exports `tensorfleet-frontend`, which builds graphs and asks for runs, and links the ops. What ops mean stands
//! in `tensorfleet-ops`, how they are run in `tensorfleet-runtime` and `tensorfleet-cluster`.

// The ops that programs run: `tensorfleet_runtime::catalogue::linked` finds them by being linked. First, so that linkers which
// read each archive once come to this one after the one that asks.
use tensorfleet_ops as _;

#[cfg(feature = "flags")]
pub use tensorfleet_frontend::flags;
pub use tensorfleet_frontend::{
    Adapts, Arg, Axes, BasicRnnCell, Batch, BatchNorm, CandidateSampler, Candidates, CellStep, ClientId,
    ClusterSpec, Code, Combiner, ConditionalAccumulator, Conv2d, Curve, DType, DataFormat, DefaultPlacement,
    Dense, DeviceAttributes, DeviceName, DeviceScope, Distribution, Dropout, DynamicRnn, Ellipsis,
    EmbeddingParams, Extent, Fan, Fetch, Gate, GetPartitionedVariable, GetVariable, Gradient,
    GradientsBuilder, Graph, GraphDef, GruCell, Index, IndexedSlices, Indices, Initializer, InputProducer,
    IntoTensor, Literal, LoopBuilder, Loss, LstmCell, MatMulOptions, MetaGraph, Metric, MultiRnnCell,
    NewAxis, Node, OpBuilder, Operand, OperandList, Operation, Output, OutputGroup, Padding, PartialRun,
    PartialShape, PartialStep, PartitionStrategy, PartitionedVariable, Partitioner, Pool2d, PreparedRun,
    PsStrategy, Queue, QueueBuilder, Reduction, Regularizer, ReplicaDeviceSetter, Request, Result, Results,
    Reuse, RnnCell, RunMetadata, RunOptions, SampledLoss, Server, ServerOptions, Session, SessionOptions,
    Shape, ShapeLike, SparseTensor, Status, Step, StepStats, Streaming, Task, TaskId, Tensor, TensorArray,
    TfConfig, Timeline, Training, UPDATE_OPS, Variable, VariableBuilder, VariableScope, VariableScopeBuilder,
    data, import_meta_graph, keep_freed_memory, replica_device_setter,
};
pub use tensorfleet_frontend::{checkpoint, prelude, summary, train};
