//! What models are made of: layers, cells, losses, metrics, embeddings.

mod embedding;
mod layers;
mod losses;
mod metrics;
mod rnn;
mod sampled_losses;

pub use embedding::{Combiner, EmbeddingParams, PartitionStrategy};
pub use layers::{
    BatchNorm, Conv2d, DataFormat, Dense, Dropout, Extent, Padding, Pool2d, Training, UPDATE_OPS,
};
pub use losses::{Loss, Reduction};
pub use metrics::{Curve, Metric, Streaming};
pub use rnn::{BasicRnnCell, CellStep, DynamicRnn, GruCell, LstmCell, MultiRnnCell, RnnCell};
pub use sampled_losses::{CandidateSampler, Candidates, SampledLoss};
