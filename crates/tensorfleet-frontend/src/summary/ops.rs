//! Summary ops of a graph, named and tagged as `tf.summary` of TensorFlow 1.x does.
//!
//! A summary opens a name scope of its own name, and the scope's full name is both the node's name and the tag: a second
//! `loss` becomes `loss_1`, so tags never collide within a graph.

use tensorfleet_core::{DType, Result, Tensor, ensure};
use tensorfleet_kernel::builder::python_name;
use tensorfleet_proto::Message;
use tensorfleet_proto::tensorflow::SummaryMetadata;
use tensorfleet_proto::tensorflow::summary_metadata::PluginData;

use crate::graph::{Arg, Graph, OpBuilder, Operand, OperandList, Output};

/// The collection that summaries are added to unless they name others.
pub const SUMMARIES: &str = "summaries";

/// What floats that are no number look like in images: opaque red.
const BAD_COLOR: [u8; 4] = [255, 0, 0, 255];

/// How many images or clips of a batch a summary keeps unless told otherwise.
const MAX_OUTPUTS: i64 = 3;

/// A summary about to be built, for those that need more than [`Graph::scalar_summary`] and its siblings offer.
///
/// ```
/// # use tensorfleet::Graph;
/// let g = Graph::new();
/// let accuracy = g.constant(0.9f32);
/// let summary = g.summary("accuracy").family("test").collections(["evaluation"]).scalar(&accuracy)?;
/// assert_eq!(summary.name(), "test/accuracy:0");
/// assert_eq!(g.collection("evaluation").len(), 1);
/// assert!(g.merge_all_summaries()?.is_none());
/// # Ok::<(), tensorfleet::Status>(())
/// ```
#[must_use = "nothing is added to the graph before `scalar`, `histogram`, …"]
pub struct SummaryBuilder {
    graph: Graph,
    name: String,
    family: Option<String>,
    collections: Vec<String>,
}

impl Graph {
    /// A summary with options, or of a rarer kind.
    pub fn summary(&self, name: &str) -> SummaryBuilder {
        let collections = vec![SUMMARIES.to_string()];
        SummaryBuilder { graph: self.clone(), name: name.to_string(), family: None, collections }
    }

    /// A number.
    ///
    /// ```
    /// # use tensorfleet::Graph;
    /// let g = Graph::new();
    /// let summary = g.name_scope("train", || g.scalar_summary("loss", 0.5f32))?;
    /// assert_eq!(summary.name(), "train/loss:0");
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn scalar_summary(&self, name: &str, value: impl Operand) -> Result<Output> {
        self.summary(name).scalar(value)
    }

    /// The distribution of all elements of a tensor.
    pub fn histogram_summary(&self, name: &str, values: impl Operand) -> Result<Output> {
        self.summary(name).histogram(values)
    }

    /// Up to `max_outputs` images of a `[batch, height, width, channels]` tensor with 1, 3 or 4 channels. Bytes are
    /// shown as they are; floats of one image are scaled together: to 0…255 if none is negative, else so that 0
    /// becomes 128. A pixel that is not finite is red.
    pub fn image_summary(&self, name: &str, images: impl Operand, max_outputs: i64) -> Result<Output> {
        self.summary(name).image(images, max_outputs)
    }

    /// Strings.
    pub fn text_summary(&self, name: &str, text: impl Operand) -> Result<Output> {
        self.summary(name).text(text)
    }

    /// Clips of sound, `[batch, frames]` or `[batch, frames, channels]` in −1…1; the first three are kept.
    pub fn audio_summary(
        &self,
        name: &str,
        clips: impl Operand,
        sample_rate: impl Operand,
    ) -> Result<Output> {
        self.summary(name).audio(clips, sample_rate, MAX_OUTPUTS)
    }

    /// One summary with all values of others.
    pub fn merge_summaries(&self, summaries: impl OperandList) -> Result<Output> {
        let summaries = summaries.into_args();
        ensure!(
            !summaries.is_empty(),
            InvalidArgument,
            "List argument 'inputs' to 'MergeSummary' Op with length 0 shorter than minimum length 1."
        );
        self.name_scope("Merge", || self.op("MergeSummary").inputs(summaries).output())
    }

    /// One summary with all values of those in the collection [`SUMMARIES`]; `None` if there are none.
    pub fn merge_all_summaries(&self) -> Result<Option<Output>> {
        self.merge_all_summaries_of(SUMMARIES)
    }

    /// One summary with all values of those in a collection; `None` if there are none.
    pub fn merge_all_summaries_of(&self, collection: &str) -> Result<Option<Output>> {
        let summaries = self.collection(collection);
        if summaries.is_empty() {
            return Ok(None);
        }
        self.merge_summaries(summaries).map(Some)
    }
}

impl SummaryBuilder {
    /// Puts `family/` before the tag, by which TensorBoard groups; in the graph it is a name scope.
    pub fn family(mut self, family: &str) -> SummaryBuilder {
        self.family = Some(family.to_string());
        self
    }

    /// The collections to add the summary to, in place of [`SUMMARIES`].
    pub fn collections<'a>(mut self, keys: impl IntoIterator<Item = &'a str>) -> SummaryBuilder {
        self.collections = keys.into_iter().map(str::to_string).collect();
        self
    }

    /// A number; see [`Graph::scalar_summary`].
    pub fn scalar(self, value: impl Operand) -> Result<Output> {
        self.build("ScalarSummary", |op| Ok(op.input(value)))
    }

    /// A distribution; see [`Graph::histogram_summary`].
    pub fn histogram(self, values: impl Operand) -> Result<Output> {
        self.build("HistogramSummary", |op| Ok(op.input(values)))
    }

    /// Images; see [`Graph::image_summary`].
    pub fn image(self, images: impl Operand, max_outputs: i64) -> Result<Output> {
        let bad_color = Tensor::vector(&BAD_COLOR)?;
        self.build("ImageSummary", |op| {
            Ok(op.input(images).attr("max_images", max_outputs).attr("bad_color", bad_color))
        })
    }

    /// Sound; see [`Graph::audio_summary`].
    pub fn audio(self, clips: impl Operand, sample_rate: impl Operand, max_outputs: i64) -> Result<Output> {
        self.build("AudioSummaryV2", |op| {
            Ok(op.input(clips).input(sample_rate).attr("max_outputs", max_outputs))
        })
    }

    /// Strings; see [`Graph::text_summary`].
    pub fn text(self, text: impl Operand) -> Result<Output> {
        let text = text.into_arg();
        let dtype = match &text {
            Arg::Output(output) => output.dtype()?,
            Arg::Variable(variable) => variable.value().dtype()?,
            Arg::Tensor(tensor) | Arg::Literal(Ok(tensor)) => tensor.dtype(),
            Arg::Literal(Err(status)) => return Err(status.clone()),
        };
        ensure!(
            dtype == DType::String,
            InvalidArgument,
            "a text summary needs a tensor of dtype string, got {}; for numbers there is scalar_summary",
            python_name(dtype)
        );
        let plugin = PluginData { plugin_name: "text".to_string(), ..Default::default() };
        self.tensor(text, SummaryMetadata { plugin_data: Some(plugin), ..Default::default() })
    }

    /// Any tensor, with what a plugin of TensorBoard must know to show it.
    pub fn tensor(self, tensor: impl Operand, metadata: SummaryMetadata) -> Result<Output> {
        self.build("TensorSummaryV2", |op| {
            Ok(op.input(tensor).input(Tensor::string(metadata.encode_to_vec())))
        })
    }

    fn build(self, op: &str, inputs: impl FnOnce(OpBuilder) -> Result<OpBuilder>) -> Result<Output> {
        let name = clean(&self.name);
        ensure!(!name.is_empty(), InvalidArgument, "the summary name '{}' has no usable letter", self.name);
        let family = self.family.as_deref().map(clean);
        let scope = match &family {
            Some(family) => format!("{family}/{name}"),
            None => name,
        };
        let graph = &self.graph;
        let summary = graph.name_scope(&scope, || {
            let full = graph.build(|builder| builder.name_scope().to_string());
            let tag = match &family {
                Some(family) => format!("{family}/{full}"),
                None => full.clone(),
            };
            inputs(graph.op(op).name(&format!("{full}/")).input(Tensor::string(tag)))?.output()
        })?;
        for key in &self.collections {
            graph.add_to_collection(key, &summary)?;
        }
        Ok(summary)
    }
}

/// The name with `_` for what node names cannot contain, and without slashes at its front. TensorFlow cleans so, too.
fn clean(name: &str) -> String {
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || "-/_.".contains(letter);
    let name: String = name.chars().map(|letter| if allowed(letter) { letter } else { '_' }).collect();
    name.trim_start_matches('/').to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cleaned_as_tensorflow_cleans_them() {
        let cleaned: Vec<String> = ["lo ss:0", "/x/y", "a\\b", ".z", "///", "-"].map(clean).into();
        assert_eq!(cleaned, ["lo_ss_0", "x/y", "a_b", ".z", "", "-"]);
    }
}
