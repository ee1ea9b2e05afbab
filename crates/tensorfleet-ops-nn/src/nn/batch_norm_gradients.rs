//! Gradients of batch normalisation, and their gradients.

use tensorfleet_core::{DType, Endpoint, Result, Tensor};

use tensorfleet_kernel::builder::NewNode;
use tensorfleet_kernel::gradients::{
    Differential, Formula, Grad, GradientOptions, Grads, Symbol, apply, apply2, gradients, number,
};

/// The gradient with respect to input, scale and offset. That of a batch's statistics is part of the kernel's work; with
/// given statistics, the kernel wants channels last.
pub(super) fn norm_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (mut x, scale, mut dy) = (d.input(0)?, d.input(1)?, d.dy(0)?);
    let (training, format): (bool, String) = (d.attr("is_training")?, d.attr("data_format")?);
    let (version, has_third) = match &*d.node().op {
        "FusedBatchNorm" => ("FusedBatchNormGrad", false),
        "FusedBatchNormV2" => ("FusedBatchNormGradV2", false),
        _ => ("FusedBatchNormGradV3", true),
    };
    let (mean, variance) = match training {
        true => (d.output(3), d.output(4)),
        false => (d.input(3)?, d.input(4)?),
    };
    let turned: Option<(&[i32], &[i32], &str)> = match (training, format.as_str()) {
        (false, "NCHW") => Some((&[0, 2, 3, 1], &[0, 3, 1, 2], "NHWC")),
        (false, "NCDHW") => Some((&[0, 2, 3, 4, 1], &[0, 4, 1, 2, 3], "NDHWC")),
        _ => None,
    };
    if let Some((channels_last, _, _)) = turned {
        x = d.emit(NewNode::new("Transpose").input(x).input(Tensor::vector(channels_last)?))?;
        dy = d.emit(NewNode::new("Transpose").input(dy).input(Tensor::vector(channels_last)?))?;
    }
    let mut inputs = vec![dy, x, scale, mean, variance];
    if has_third {
        inputs.push(d.output(5));
    }
    let format = turned.map_or(format.as_str(), |(_, _, format)| format);
    let gradient = d.with_attrs(version, &inputs, &["epsilon", "is_training"]).attr("data_format", format);
    let gradient = d.add(gradient)?;
    let mut dx = Endpoint::new(gradient, 0);
    if let Some((_, back, _)) = turned {
        dx = d.emit(NewNode::new("Transpose").input(dx).input(Tensor::vector(back)?))?;
    }
    let dense = |slot| Some(Grad::Dense(Endpoint::new(gradient, slot)));
    Ok(vec![Some(Grad::Dense(dx)), dense(1), dense(2), None, None])
}

/// The kernels' gradients have gradients too: those of the same function, written in elementary ops.
pub(super) fn norm_grad_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let outputs = elementary_gradient(d)?;
    let mut options = GradientOptions::default();
    let mut ys = Vec::new();
    for (slot, output) in outputs.into_iter().enumerate() {
        if d.arriving(slot).is_some() {
            options.grad_ys.push(Some(d.dy(slot)?));
            ys.push(output);
        }
    }
    let xs = [d.input(0)?, d.input(1)?, d.input(2)?];
    let mut grads = gradients(d.builder(), &ys, &xs, &options)?;
    grads.resize(d.inputs().len(), None);
    Ok(grads)
}

/// What the node computes, from elementary ops: the gradients of input, scale and offset.
fn elementary_gradient(d: &mut Differential<'_>) -> Result<[Endpoint; 3]> {
    let (training, format): (bool, String) = (d.attr("is_training")?, d.attr("data_format")?);
    let epsilon: f32 = d.attr("epsilon")?;
    let (dtype, wide) = (d.dtype(d.input(1)?)?, DType::Float);
    let mut single = |index| {
        let value = d.input(index)?;
        d.cast(value, wide).map(Symbol)
    };
    let (dy, x, scale) = (single(0)?, single(1)?, single(2)?);
    let (given_mean, given_variance) = (single(3)?, single(4)?);
    let layout = Layout::of(&format);
    let scale = layout.channels(d, scale)?;
    let (mean, variance) = match training {
        true => {
            let mean = layout.reduce(d, "Mean", x, true)?;
            (mean, layout.reduce(d, "Mean", apply2("SquaredDifference", x, mean), true)?)
        }
        false => (layout.channels(d, given_mean)?, layout.channels(d, given_variance)?),
    };
    let deviation = d.share(apply("Rsqrt", variance + number(f64::from(epsilon))))?;
    let normal = d.share((x - mean) * deviation)?;
    let product = d.share(dy * normal)?;
    let dscale = layout.reduce(d, "Sum", product, false)?;
    let doffset = layout.reduce(d, "Sum", dy, false)?;
    let dx = match training {
        true => {
            let mean_dy = layout.reduce(d, "Mean", dy, true)?;
            let mean_product = layout.reduce(d, "Mean", product, true)?;
            d.build(scale * deviation * (dy - mean_dy - normal * mean_product))?
        }
        false => d.build(dy * scale * deviation)?,
    };
    Ok([d.cast(dx, dtype)?, dscale.0, doffset.0])
}

/// Where the channels are.
struct Layout {
    /// All axes but that of the channels.
    others: Vec<i32>,
    channels_first: bool,
}

impl Layout {
    fn of(format: &str) -> Layout {
        let channels_first = format.starts_with("NC");
        let rank = format.len() as i32;
        let axis = if channels_first { 1 } else { rank - 1 };
        Layout { others: (0..rank).filter(|&other| other != axis).collect(), channels_first }
    }

    /// A value for each channel, so that it broadcasts to images.
    fn channels(&self, d: &mut Differential<'_>, value: Symbol) -> Result<Symbol> {
        if !self.channels_first {
            return Ok(value);
        }
        let mut shape = vec![1; self.others.len()];
        if let Some(channels) = shape.first_mut() {
            *channels = -1;
        }
        d.emit(NewNode::new("Reshape").input(value.0).input(Tensor::vector::<i32>(&shape)?)).map(Symbol)
    }

    fn reduce(
        &self,
        d: &mut Differential<'_>,
        op: &str,
        value: impl Into<Formula>,
        keep_dims: bool,
    ) -> Result<Symbol> {
        let value = d.build(value)?;
        let reduced = NewNode::new(op).input(value).input(Tensor::vector(&self.others)?);
        d.emit(reduced.attr("keep_dims", keep_dims)).map(Symbol)
    }
}
