//! Summaries: what a run tells of itself, written into event files that TensorBoard shows.
//!
//! Summary ops ([`Graph::scalar_summary`](crate::Graph::scalar_summary) and its siblings) turn values of the graph into
//! serialized `Summary` messages; they are nodes like all others, run with every other node of the step and on any
//! server. A [`FileWriter`] writes what they give into an event file, from a thread of its own so that training does
//! not wait for a disk. [`events`] reads such files back.
//!
//! ```
//! use tensorfleet::{Graph, Session, summary};
//! # let scratch = tempfile::tempdir().map_err(|error| tensorfleet::Status::internal(error.to_string()))?;
//! # let directory = scratch.path().join("logs").display().to_string();
//!
//! let g = Graph::new();
//! let loss = g.constant(0.25f32);
//! g.scalar_summary("loss", &loss)?;
//! let merged = g.merge_all_summaries()?.expect("there is one summary");
//!
//! let writer = summary::FileWriter::new(&directory)?;
//! writer.add_graph(&g)?;
//! writer.add_summary(&Session::new(&g).run(&merged)?, 1)?;
//! writer.close()?;
//!
//! let events = summary::events(&directory)?.collect::<Result<Vec<_>, _>>()?;
//! assert_eq!(events.len(), 3); // The version of the format, the graph, the summary.
//! # Ok::<(), tensorfleet::Status>(())
//! ```
//!
//! What there is, by task:
//!
//! - **Recording values**: [`scalar_summary`](crate::Graph::scalar_summary),
//!   [`histogram_summary`](crate::Graph::histogram_summary) and their siblings; [`Graph::summary`](crate::Graph::summary) says
//!   more with a [`SummaryBuilder`]; [`merge_all_summaries`](crate::Graph::merge_all_summaries) makes one of all.
//! - **Writing**: [`FileWriter`], also for values that no graph computed; during a training a
//!   [`SummarySaverHook`](crate::train::SummarySaverHook) or a [`Supervisor`](crate::train::Supervisor) does it.
//! - **Reading**: [`events`].

mod event_queue;
mod file_writer;
mod ops;
mod reading;

pub(crate) use file_writer::with_shapes;
pub use file_writer::{FileWriter, FileWriterOptions};
pub use ops::{SUMMARIES, SummaryBuilder};
pub use reading::{Events, events};

pub use tensorfleet_proto::tensorflow::event::What;
pub use tensorfleet_proto::tensorflow::session_log::SessionStatus;
pub use tensorfleet_proto::tensorflow::{Event, MetaGraphDef, Summary, SummaryMetadata};
