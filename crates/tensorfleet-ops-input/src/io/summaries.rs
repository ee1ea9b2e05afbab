//! Summaries: values under a tag, serialized for event files.

use std::collections::BTreeSet;

use bytes::Bytes;
use num_traits::AsPrimitive;
use prost::Message;
use tensorfleet_core::{PartialShape, Result, Status, Tensor, bail, ensure, memory};
use tensorfleet_proto::tensorflow::summary::{Audio, Value, value};
use tensorfleet_proto::tensorflow::{Summary, SummaryMetadata};

use super::checkpoints::text;
use super::histogram::histogram;
use super::wav;
use tensorfleet_kernel::Work;
use tensorfleet_kernel::kernel::{Context, KernelBox};
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::{ShapeContext, scalars};
use tensorfleet_numeric::dispatch;

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("ScalarSummary", "tags: string, values: T -> summary: string")
        .work(Work::Inputs)
        .not_differentiable()
        .attrs("T: real")
        .shape(scalars)
        .kernel(scalar_summary),
    Op::new("HistogramSummary", "tag: string, values: T -> summary: string")
        .not_differentiable()
        .attrs("T: real = float")
        .shape(tagged_shape)
        .kernel(histogram_summary),
    Op::new("MergeSummary", "inputs: N * string -> summary: string")
        .work(Work::Inputs)
        .not_differentiable()
        .attrs("N: int >= 1")
        .shape(scalars)
        .kernel(merge_summary),
    Op::new("TensorSummary", "tensor: T -> summary: string")
        .work(Work::Inputs)
        .not_differentiable()
        .attrs("T: type; description: string = ''; labels: list(string) = []; display_name: string = ''")
        .shape(scalars)
        .kernel(tensor_summary),
    Op::new(
        "TensorSummaryV2",
        "tag: string, tensor: T, serialized_summary_metadata: string -> summary: string",
    )
    .work(Work::Inputs)
    .not_differentiable()
    .attrs("T: type")
    .shape(tagged_shape)
    .kernel(tensor_summary_v2),
    Op::new("AudioSummary", "tag: string, tensor: float -> summary: string")
        .not_differentiable()
        .attrs("sample_rate: float; max_outputs: int >= 1 = 3")
        .shape(tagged_shape)
        .kernel(audio_summary),
    Op::new("AudioSummaryV2", "tag: string, tensor: float, sample_rate: float -> summary: string")
        .not_differentiable()
        .attrs("max_outputs: int >= 1 = 3")
        .shape(tagged_shape)
        .kernel(audio_summary),
];

pub(super) fn tagged_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    ctx.input_with_rank(0, 0)?;
    scalars(ctx)
}

pub(super) fn set_summary(ctx: &mut Context<'_>, value: Vec<Value>) {
    ctx.set_output(0, Tensor::string(Summary { value }.encode_to_vec()));
}

pub(super) fn tag_in(ctx: &Context<'_>) -> Result<String> {
    let tag = ctx.input(0)?;
    ensure!(tag.is_scalar(), InvalidArgument, "tag must be scalar, got shape {}", tag.shape());
    text(tag.to_string_scalar()?, "tag")
}

pub(super) fn tagged(tag: String, value: value::Value) -> Value {
    Value { tag, value: Some(value), ..Default::default() }
}

fn as_doubles(tensor: &Tensor) -> Result<Vec<f64>> {
    dispatch!(tensor.dtype(), T in real => {
        memory::collect(tensor.as_slice::<T>()?.iter().map(|&value| AsPrimitive::<f64>::as_(value)))
    })
}

fn scalar_summary(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let (tags, values) = (ctx.input(0)?, ctx.input(1)?);
        ensure!(
            tags.shape() == values.shape(),
            InvalidArgument,
            "tags and values are not the same shape: {} != {}",
            tags.shape(),
            values.shape()
        );
        let entry = |(tag, value): (&Bytes, f64)| {
            Ok(tagged(text(tag, "tag")?, value::Value::SimpleValue(value as f32)))
        };
        let values = as_doubles(values)?;
        let entries = tags.as_strings()?.iter().zip(values).map(entry).collect::<Result<_>>()?;
        set_summary(ctx, entries);
        Ok(())
    }))
}

fn histogram_summary(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let name = node.name().to_string();
    Ok(KernelBox::from_fn(move |ctx| {
        let tag = tag_in(ctx)?;
        let values = as_doubles(ctx.input(1)?)?;
        if let Some(odd) = values.iter().find(|value| !value.is_finite()) {
            let what = if odd.is_nan() { "Nan" } else { "Infinity" };
            bail!(InvalidArgument, "{what} in summary histogram for: {name}");
        }
        set_summary(ctx, vec![tagged(tag, value::Value::Histo(histogram(values.into_iter())))]);
        Ok(())
    }))
}

fn merge_summary(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let mut merged = Vec::new();
        let mut tags = BTreeSet::new();
        for index in 0..ctx.num_inputs() {
            for bytes in ctx.input(index)?.as_strings()? {
                let summary = Summary::decode(bytes.clone())
                    .map_err(|_| Status::invalid_argument("Could not parse one of the summary inputs"))?;
                for value in summary.value {
                    // Tensor summaries of the first kind have a node's name in place of a tag.
                    ensure!(
                        value.tag.is_empty() || tags.insert(value.tag.clone()),
                        InvalidArgument,
                        "Duplicate tag {} found in summary inputs",
                        value.tag
                    );
                    merged.push(value);
                }
            }
        }
        set_summary(ctx, merged);
        Ok(())
    }))
}

fn tensor_summary(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let node_name = node.name().to_string();
    Ok(KernelBox::from_fn(move |ctx| {
        let tensor = Some(value::Value::Tensor(ctx.input(0)?.to_proto()));
        set_summary(ctx, vec![Value { node_name: node_name.clone(), value: tensor, ..Default::default() }]);
        Ok(())
    }))
}

fn tensor_summary_v2(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let metadata = SummaryMetadata::decode(ctx.input(2)?.to_string_scalar()?.clone())
            .map_err(|_| Status::invalid_argument("serialized_summary_metadata is not a SummaryMetadata"))?;
        let mut value = tagged(tag_in(ctx)?, value::Value::Tensor(ctx.input(1)?.to_proto()));
        value.metadata = Some(metadata);
        set_summary(ctx, vec![value]);
        Ok(())
    }))
}

/// `AudioSummary` has the sample rate as an attribute, its second version as an input.
fn audio_summary(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let max_outputs: i64 = node.attr("max_outputs")?;
    let fixed_rate: Option<f32> = if node.inputs.len() == 2 { Some(node.attr("sample_rate")?) } else { None };
    Ok(KernelBox::from_fn(move |ctx| {
        let base = tag_in(ctx)?;
        let sample_rate = match fixed_rate {
            Some(rate) => rate,
            None => ctx.input(2)?.to_scalar::<f32>()?,
        };
        ensure!(sample_rate > 0.0, InvalidArgument, "sample_rate must be positive, got {sample_rate}");
        let tensor = ctx.input(1)?;
        let (batch, frames, channels) = match tensor.shape()[..] {
            [batch, frames] => (batch, frames, 1),
            [batch, frames, channels] => (batch, frames, channels),
            _ => bail!(InvalidArgument, "Tensor must be 3-D or 2-D, got: {}", tensor.shape()),
        };
        let clips = tensor.as_slice::<f32>()?.chunks(frames.saturating_mul(channels).max(1));
        let mut values = Vec::new();
        for (index, clip) in clips.take(batch.min(max_outputs as usize)).enumerate() {
            let tag =
                if max_outputs == 1 { format!("{base}/audio") } else { format!("{base}/audio/{index}") };
            let audio = Audio {
                sample_rate,
                num_channels: channels as i64,
                length_frames: frames as i64,
                encoded_audio_string: wav::encode(clip, sample_rate as u32, channels)?.into(),
                content_type: "audio/wav".to_string(),
            };
            values.push(tagged(tag, value::Value::Audio(audio)));
        }
        set_summary(ctx, values);
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestOp, test_op};
    use tensorfleet_core::{Code, DType};

    fn parse(op: TestOp) -> Vec<Value> {
        Summary::decode(op.run_one().unwrap().to_string_scalar().unwrap().clone()).unwrap().value
    }

    fn scalar(tag: &str, value: f32) -> TestOp {
        let op = test_op("ScalarSummary").attr("T", DType::Float);
        op.input(Tensor::string(tag.to_string())).input(Tensor::scalar(value))
    }

    fn merge(summaries: Vec<Tensor>) -> TestOp {
        let op = test_op("MergeSummary").attr("N", summaries.len() as i64);
        summaries.into_iter().fold(op, TestOp::input)
    }

    #[test]
    fn scalars_are_merged_in_order_and_tags_are_unique() {
        let one = |tag: &str, value| scalar(tag, value).run_one().unwrap();
        let values = parse(merge(vec![one("a", 1.0), one("b", 2.0)]));
        assert_eq!(values[0], tagged("a".into(), value::Value::SimpleValue(1.0)));
        assert_eq!(values[1].tag, "b");
        let twice = merge(vec![one("a", 1.0), one("a", 2.0)]).run().unwrap_err();
        assert_eq!(twice.code(), Code::InvalidArgument);
        let garbage = merge(vec![Tensor::string("xyz")]).run().unwrap_err();
        assert_eq!(garbage.code(), Code::InvalidArgument);
        let shapes = test_op("ScalarSummary").attr("T", DType::Float).input(Tensor::string("a"));
        let shapes = shapes.input(Tensor::vector(&[1.0f32]).unwrap()).run().unwrap_err();
        assert_eq!(shapes.code(), Code::InvalidArgument);
    }

    #[test]
    fn histograms_refuse_what_is_no_number() {
        let op = |value: f64| {
            let op = test_op("HistogramSummary").attr("T", DType::Double).input(Tensor::string("h"));
            op.input(Tensor::vector(&[1.0, value]).unwrap())
        };
        let values = parse(op(2.0));
        assert!(matches!(&values[0].value, Some(value::Value::Histo(histo)) if histo.num == 2.0));
        assert_eq!(op(f64::NAN).run().unwrap_err().code(), Code::InvalidArgument);
        assert_eq!(op(f64::INFINITY).run().unwrap_err().code(), Code::InvalidArgument);
    }

    #[test]
    fn tensors_go_in_as_they_are() {
        let tensor = Tensor::vector(&[1.0f32, 2.0]).unwrap();
        let values = parse(test_op("TensorSummary").attr("T", DType::Float).input(tensor.clone()));
        assert_eq!((values[0].tag.as_str(), values[0].node_name.as_str()), ("", "node_under_test"));
        let op = test_op("TensorSummaryV2").attr("T", DType::Float).input(Tensor::string("t"));
        let metadata = SummaryMetadata { display_name: "d".into(), ..Default::default() };
        let values = parse(op.input(tensor.clone()).input(Tensor::string(metadata.encode_to_vec())));
        assert_eq!(values[0].value, Some(value::Value::Tensor(tensor.to_proto())));
        assert_eq!(values[0].metadata, Some(metadata));
    }

    #[test]
    fn audio_clips_are_numbered() {
        let op = |max: i64| {
            let op = test_op("AudioSummaryV2").attr("max_outputs", max).input(Tensor::string("a"));
            let clips = Tensor::from_slice(&[0.5f32, -1.0, 1.0, 2.0], &[2, 1, 2]).unwrap();
            op.input(clips).input(Tensor::scalar(8.0f32))
        };
        let values = parse(op(3));
        assert_eq!(
            values.iter().map(|value| value.tag.as_str()).collect::<Vec<_>>(),
            ["a/audio/0", "a/audio/1"]
        );
        let Some(value::Value::Audio(audio)) = &values[0].value else { panic!("no audio") };
        assert_eq!((audio.num_channels, audio.length_frames), (2, 1));
        assert_eq!(parse(op(1))[0].tag, "a/audio");
    }
}
