//! Comparison of serialised `Summary` messages by meaning: fields and numbers, not bytes.

use tensorfleet_core::{Status, Tensor};
use tensorfleet_proto::Message;
use tensorfleet_proto::tensorflow::summary::{Image, Value as SummaryValue, value::Value};
use tensorfleet_proto::tensorflow::{HistogramProto, Summary};

use crate::case::Tolerance;
use crate::check::{Closeness, Verdict, compare};
use crate::png_pixels::png_pixels;

/// Numbers in summaries agree to this, relative or absolute.
const NUMBERS: Tolerance = Tolerance { rtol: 1e-5, atol: 1e-5 };

/// Checks that two string tensors hold summaries with the same content.
pub fn compare_summaries(got: &Tensor, want: &Tensor) -> Verdict {
    if got.shape() != want.shape() {
        return Err(format!("shape is {}, expected {}", got.shape(), want.shape()));
    }
    let text = |status: Status| status.message();
    let (got, want) = (got.as_strings().map_err(text)?, want.as_strings().map_err(text)?);
    for (got, want) in got.iter().zip(want) {
        let parse = |bytes: &bytes::Bytes| {
            Summary::decode(bytes.clone()).map_err(|error| format!("not a Summary: {error}"))
        };
        let (got, want) = (parse(got)?, parse(want)?);
        if got.value.len() != want.value.len() {
            return Err(format!("the summary has {} values, expected {}", got.value.len(), want.value.len()));
        }
        for (got, want) in got.value.iter().zip(&want.value) {
            compare_value(got, want).map_err(|wrong| format!("summary '{}': {wrong}", want.tag))?;
        }
    }
    Ok(())
}

fn compare_value(got: &SummaryValue, want: &SummaryValue) -> Verdict {
    same("tag", &got.tag, &want.tag)?;
    same("node name", &got.node_name, &want.node_name)?;
    same("metadata", &got.metadata, &want.metadata)?;
    match (&got.value, &want.value) {
        (Some(Value::SimpleValue(got)), Some(Value::SimpleValue(want))) => {
            close("value", &[f64::from(*got)], &[f64::from(*want)])
        }
        (Some(Value::Histo(got)), Some(Value::Histo(want))) => compare_histograms(got, want),
        (Some(Value::Image(got)), Some(Value::Image(want))) => {
            same("height", &got.height, &want.height)?;
            same("width", &got.width, &want.width)?;
            same("colour space", &got.colorspace, &want.colorspace)?;
            // The same picture can be compressed in many ways, so the pixels are compared.
            let pixels = |image: &Image| png_pixels(&image.encoded_image_string);
            if pixels(got)? == pixels(want)? { Ok(()) } else { Err("the pixels differ".into()) }
        }
        (Some(Value::Tensor(got)), Some(Value::Tensor(want))) => {
            let decode = |proto| Tensor::from_proto(proto).map_err(|status| status.message());
            compare(
                &decode(got)?,
                &decode(want)?,
                Closeness { tolerance: Some(NUMBERS), atol_times_max: false },
            )
        }
        (got, want) => same("value", got, want),
    }
}

fn compare_histograms(got: &HistogramProto, want: &HistogramProto) -> Verdict {
    let numbers = |histogram: &HistogramProto| {
        [histogram.min, histogram.max, histogram.num, histogram.sum, histogram.sum_squares]
    };
    close("min, max, num, sum or sum of squares", &numbers(got), &numbers(want))?;
    close("bucket limits", &got.bucket_limit, &want.bucket_limit)?;
    close("buckets", &got.bucket, &want.bucket)
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, got: &T, want: &T) -> Verdict {
    if got == want { Ok(()) } else { Err(format!("{what} is {got:?}, expected {want:?}")) }
}

fn close(what: &str, got: &[f64], want: &[f64]) -> Verdict {
    let tensor = |values: &[f64]| Tensor::vector(values).map_err(|status| status.message());
    let closeness = Closeness { tolerance: Some(NUMBERS), atol_times_max: false };
    compare(&tensor(got)?, &tensor(want)?, closeness).map_err(|wrong| format!("{what}: {wrong}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scalar(tag: &str, value: f32) -> Tensor {
        let value =
            SummaryValue { tag: tag.into(), value: Some(Value::SimpleValue(value)), ..Default::default() };
        Tensor::string(Summary { value: vec![value] }.encode_to_vec())
    }

    fn histogram(bucket: &[f64]) -> Tensor {
        let histo = HistogramProto { bucket: bucket.to_vec(), num: 3.0, ..Default::default() };
        let value = SummaryValue { tag: "h".into(), value: Some(Value::Histo(histo)), ..Default::default() };
        Tensor::string(Summary { value: vec![value] }.encode_to_vec())
    }

    #[test]
    fn scalars_agree_to_five_digits_and_by_tag() {
        assert_eq!(compare_summaries(&scalar("a", 1.000_001), &scalar("a", 1.0)), Ok(()));
        assert!(compare_summaries(&scalar("a", 1.001), &scalar("a", 1.0)).is_err());
        assert!(compare_summaries(&scalar("b", 1.0), &scalar("a", 1.0)).unwrap_err().contains("tag"));
    }

    #[test]
    fn histograms_are_compared_bucket_by_bucket() {
        assert_eq!(compare_summaries(&histogram(&[1.0, 2.0]), &histogram(&[1.0, 2.0])), Ok(()));
        assert!(compare_summaries(&histogram(&[2.0, 1.0]), &histogram(&[1.0, 2.0])).is_err());
        assert!(compare_summaries(&histogram(&[3.0]), &histogram(&[1.0, 2.0])).is_err());
        assert!(compare_summaries(&scalar("h", 1.0), &histogram(&[])).is_err());
    }

    #[test]
    fn bytes_that_are_no_summary_are_reported() {
        let garbage = Tensor::string(vec![0xff; 5]);
        assert!(compare_summaries(&garbage, &scalar("a", 1.0)).unwrap_err().contains("not a Summary"));
        assert!(compare_summaries(&Tensor::scalar(1.0f32), &scalar("a", 1.0)).is_err());
    }
}
