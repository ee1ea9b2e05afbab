//! Convolutions against their definition, and against each other: the gradients are the adjoints of the forward
//! map.

use proptest::prelude::*;
use tensorfleet_core::{Code, DType, Element, Result, Tensor};

use crate::testing::{TestOp, test_op};

fn tensor(dims: &[usize], salt: u64) -> Tensor {
    let count: usize = dims.iter().product();
    let number = |i: usize| ((i as u64 * 31 + salt * 17) % 13) as f64 - 6.0;
    Tensor::from_slice(&(0..count).map(number).collect::<Vec<_>>(), dims).unwrap()
}

fn sizes(dims: &[usize]) -> Tensor {
    Tensor::vector(&dims.iter().map(|&dim| dim as i32).collect::<Vec<_>>()).unwrap()
}

#[derive(Clone, Debug)]
struct Settings {
    stride: [i64; 2],
    dilation: [i64; 2],
    padding: &'static str,
}

impl Settings {
    fn run(&self, op: &str, inputs: &[Tensor]) -> Result<Tensor> {
        let on_axes = |[height, width]: [i64; 2]| vec![1, height, width, 1];
        let dtype = inputs.last().unwrap().dtype();
        let run = test_op(op).attr("T", dtype).attr("padding", self.padding);
        let run = run.attr("strides", on_axes(self.stride)).attr("dilations", on_axes(self.dilation));
        let run = if self.padding == "EXPLICIT" {
            run.attr("explicit_paddings", vec![0i64, 0, 1, 2, 0, 1, 0, 0])
        } else {
            run
        };
        inputs.iter().cloned().fold(run, TestOp::input).run_one()
    }

    /// Rows or columns of padding in front of the image.
    fn before(&self, axis: usize, input: usize, kernel: usize, output: usize) -> i64 {
        let reach = (kernel as i64 - 1) * self.dilation[axis] + 1;
        match self.padding {
            "SAME" => (((output as i64 - 1) * self.stride[axis] + reach - input as i64).max(0)) / 2,
            "EXPLICIT" => [1, 0][axis],
            _ => 0,
        }
    }

    /// The definition. `depthwise` chooses how input channels meet output channels.
    fn naive(&self, x: &Tensor, f: &Tensor, out: &[usize], depthwise: bool) -> Vec<f64> {
        let (xs, fs) = (x.as_slice::<f64>().unwrap(), f.as_slice::<f64>().unwrap());
        let (xd, fd) = (x.shape().to_vec(), f.shape().to_vec());
        let before = [0, 1].map(|axis| self.before(axis, xd[axis + 1], fd[axis], out[axis + 1]));
        let value = |at: usize| {
            let (n, i, j, c) = (
                at / (out[1] * out[2] * out[3]),
                at / (out[2] * out[3]) % out[1],
                at / out[3] % out[2],
                at % out[3],
            );
            let mut sum = 0.0;
            for (p, q, d) in taps(fd[0], fd[1], fd[2]) {
                let y = i as i64 * self.stride[0] + p as i64 * self.dilation[0] - before[0];
                let z = j as i64 * self.stride[1] + q as i64 * self.dilation[1] - before[1];
                if y < 0 || z < 0 || y >= xd[1] as i64 || z >= xd[2] as i64 || (depthwise && d != c / fd[3]) {
                    continue;
                }
                let pixel = ((n * xd[1] + y as usize) * xd[2] + z as usize) * xd[3] + d;
                let tap = ((p * fd[1] + q) * fd[2] + d) * fd[3] + if depthwise { c % fd[3] } else { c };
                sum += xs[pixel] * fs[tap];
            }
            sum
        };
        (0..out.iter().product()).map(value).collect()
    }
}

fn converted<T: Element>(tensor: &Tensor, convert: impl Fn(f64) -> T) -> Tensor {
    let values: Vec<T> = tensor.as_slice::<f64>().unwrap().iter().map(|&x| convert(x)).collect();
    Tensor::from_slice(&values, tensor.shape()).unwrap()
}

#[test]
fn all_dtypes_agree_for_many_and_few_channels() {
    let (single, half) = (|x: f64| x as f32, half::f16::from_f64);
    for (image, kernel, padding, stride, dilation) in [
        ([3, 28, 28, 1], [5, 5, 1, 6], "SAME", [1, 1], [1, 1]),
        ([3, 14, 14, 6], [5, 5, 6, 16], "VALID", [1, 1], [1, 1]),
        ([2, 9, 40, 3], [3, 2, 3, 37], "EXPLICIT", [2, 3], [1, 1]),
        ([1, 45, 50, 5], [3, 3, 5, 19], "SAME", [1, 2], [2, 3]),
        ([1, 70, 33, 17], [1, 4, 17, 9], "VALID", [3, 1], [1, 2]),
    ] {
        let settings = Settings { stride, dilation, padding };
        let (x, f) = (tensor(&image, 1), tensor(&kernel, 2));
        let y = settings.run("Conv2D", &[x.clone(), f.clone()]).unwrap();
        assert_eq!(y.as_slice::<f64>().unwrap(), settings.naive(&x, &f, y.shape(), false));
        let g = tensor(y.shape(), 3);
        for (op, inputs) in [
            ("Conv2D", vec![x.clone(), f.clone()]),
            ("Conv2DBackpropInput", vec![sizes(&image), f.clone(), g.clone()]),
            ("Conv2DBackpropFilter", vec![x.clone(), sizes(&kernel), g.clone()]),
        ] {
            let expected = settings.run(op, &inputs).unwrap();
            let is_float = |tensor: &Tensor| tensor.dtype() == DType::Double;
            let inputs_as = |convert: &dyn Fn(&Tensor) -> Tensor| -> Vec<Tensor> {
                inputs.iter().map(|x| if is_float(x) { convert(x) } else { x.clone() }).collect()
            };
            let found = settings.run(op, &inputs_as(&|x| converted(x, single))).unwrap();
            assert_eq!(found, converted(&expected, single), "{op} of {image:?}");
            let found = settings.run(op, &inputs_as(&|x| converted(x, half))).unwrap();
            assert_eq!(found, converted(&expected, half), "{op} of {image:?} in halves");
        }
    }
}

fn taps(a: usize, b: usize, c: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    (0..a * b * c).map(move |at| (at / (b * c), at / c % b, at % c))
}

fn dot(a: &Tensor, b: &Tensor) -> f64 {
    a.as_slice::<f64>().unwrap().iter().zip(b.as_slice::<f64>().unwrap()).map(|(x, y)| x * y).sum()
}

fn settings() -> impl Strategy<Value = Settings> {
    let padding = prop_oneof![Just("SAME"), Just("VALID"), Just("EXPLICIT")];
    ([1i64..4, 1i64..4], [1i64..3, 1i64..3], padding).prop_map(|(stride, dilation, padding)| Settings {
        stride,
        dilation,
        padding,
    })
}

proptest! {
    #[test]
    fn convolutions_follow_the_definition_and_gradients_are_adjoint(
        settings in settings(),
        image in [1usize..3, 5usize..9, 5usize..9, 1usize..4],
        kernel in [1usize..4, 1usize..4, 1usize..4],
        depthwise: bool,
    ) {
        let prefix = if depthwise { "DepthwiseConv2dNative" } else { "Conv2D" };
        let filter = [kernel[0], kernel[1], image[3], kernel[2]];
        let (x, f) = (tensor(&image, 1), tensor(&filter, 2));
        let y = settings.run(prefix, &[x.clone(), f.clone()]).unwrap();
        prop_assert_eq!(y.as_slice::<f64>().unwrap(), &settings.naive(&x, &f, y.shape(), depthwise)[..]);

        // <g, conv(x, f)> is linear in x and in f, and the gradients are its coefficients.
        let g = tensor(y.shape(), 3);
        let dx = settings.run(&format!("{prefix}BackpropInput"), &[sizes(&image), f.clone(), g.clone()]).unwrap();
        let df = settings.run(&format!("{prefix}BackpropFilter"), &[x.clone(), sizes(&filter), g.clone()]).unwrap();
        prop_assert_eq!(dx.shape(), x.shape());
        prop_assert_eq!(df.shape(), f.shape());
        let expected = dot(&g, &y);
        prop_assert!((dot(&dx, &x) - expected).abs() < 1e-6);
        prop_assert!((dot(&df, &f) - expected).abs() < 1e-6);
    }
}

#[test]
fn large_convolutions_are_cut_into_blocks_without_a_seam() {
    let settings = Settings { stride: [1, 1], dilation: [1, 1], padding: "SAME" };
    for (op, depthwise) in [("Conv2D", false), ("DepthwiseConv2dNative", true)] {
        let (x, f) = (tensor(&[3, 40, 41, 4], 1), tensor(&[5, 5, 4, 3], 2));
        let y = settings.run(op, &[x.clone(), f.clone()]).unwrap();
        assert_eq!(y.as_slice::<f64>().unwrap(), settings.naive(&x, &f, y.shape(), depthwise));
        let g = tensor(y.shape(), 3);
        let df = settings
            .run(&format!("{op}BackpropFilter"), &[x.clone(), sizes(&[5, 5, 4, 3]), g.clone()])
            .unwrap();
        assert!((dot(&df, &f) - dot(&g, &y)).abs() < 1e-3);
    }
}

#[test]
fn channels_first_is_the_same_convolution() {
    let run = |format: &str, x: Tensor, strides: Vec<i64>| {
        let run = test_op("Conv2D").attr("T", DType::Double).attr("padding", "SAME").attr("strides", strides);
        run.attr("data_format", format).input(x).input(tensor(&[2, 2, 1, 1], 2)).run_one().unwrap()
    };
    let last = run("NHWC", tensor(&[1, 4, 5, 1], 1), vec![1, 2, 1, 1]);
    let first = run("NCHW", tensor(&[1, 1, 4, 5], 1), vec![1, 1, 2, 1]);
    assert_eq!(first.shape().dims(), [1, 1, 2, 5]);
    assert_eq!(first.as_slice::<f64>().unwrap(), last.as_slice::<f64>().unwrap());
}

#[test]
fn empty_batches_and_filters_give_empty_outputs() {
    let settings = Settings { stride: [1, 1], dilation: [1, 1], padding: "SAME" };
    let y = settings.run("Conv2D", &[tensor(&[0, 3, 3, 2], 1), tensor(&[2, 2, 2, 4], 2)]).unwrap();
    assert_eq!(y.shape().dims(), [0, 3, 3, 4]);
    let inputs = [tensor(&[0, 3, 3, 2], 1), sizes(&[2, 2, 2, 4]), y];
    let df = settings.run("Conv2DBackpropFilter", &inputs).unwrap();
    assert_eq!(df.as_slice::<f64>().unwrap(), [0.0; 32]);
    let y = settings.run("Conv2D", &[tensor(&[1, 2, 2, 1], 1), tensor(&[1, 1, 1, 0], 2)]).unwrap();
    assert_eq!(y.shape().dims(), [1, 2, 2, 0]);
}

#[test]
fn a_window_too_large_by_less_than_a_stride_sees_nothing() {
    let settings = Settings { stride: [2, 1], dilation: [1, 1], padding: "VALID" };
    for batch in [0, 1] {
        let (x, f) = (tensor(&[batch, 2, 6, 2], 1), tensor(&[5, 3, 2, 1], 2));
        let y = settings.run("Conv2D", &[x.clone(), f.clone()]).unwrap();
        assert_eq!(y.shape().dims(), [batch, 0, 4, 1]);
        let dx = settings.run("Conv2DBackpropInput", &[sizes(&[batch, 2, 6, 2]), f, y.clone()]).unwrap();
        assert_eq!(dx.as_slice::<f64>().unwrap(), vec![0.0; batch * 24]);
        let df = settings.run("Conv2DBackpropFilter", &[x.clone(), sizes(&[5, 3, 2, 1]), y]).unwrap();
        assert_eq!(df.as_slice::<f64>().unwrap(), [0.0; 30]);
        let f = tensor(&[5, 3, 2, 2], 2);
        let y = settings.run("DepthwiseConv2dNative", &[x, f]).unwrap();
        assert_eq!(y.shape().dims(), [batch, 0, 4, 4]);
    }
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    let same = Settings { stride: [1, 1], dilation: [1, 1], padding: "SAME" };
    let valid = Settings { padding: "VALID", ..same.clone() };
    let image = || tensor(&[1, 2, 2, 3], 1);
    for (settings, op, inputs, fragment) in [
        (
            &same,
            "Conv2D",
            vec![image(), tensor(&[1, 1, 2, 2], 2)],
            "input depth must be evenly divisible by filter depth: 3 vs 2",
        ),
        (
            &valid,
            "Conv2D",
            vec![image(), tensor(&[5, 5, 3, 2], 2)],
            "Computed output size would be negative: -2",
        ),
        (&same, "Conv2D", vec![tensor(&[1, 2, 2], 1), tensor(&[5, 5, 3, 2], 2)], "must be 4-dimensional"),
        (
            &same,
            "Conv2DBackpropInput",
            vec![sizes(&[1, 2, 2, 1]), tensor(&[1, 1, 1, 2], 1), tensor(&[1, 3, 2, 2], 2)],
            "Size of out_backprop doesn't match computed",
        ),
        (
            &same,
            "DepthwiseConv2dNative",
            vec![image(), tensor(&[1, 1, 2, 2], 2)],
            "input and filter must have the same depth: 3 vs 2",
        ),
    ] {
        let status = settings.run(op, &inputs).unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.text().contains(fragment), "{op}: {}", status.text());
    }
    let grouped = same.run("Conv2D", &[tensor(&[1, 2, 2, 4], 1), tensor(&[1, 1, 2, 2], 2)]).unwrap_err();
    assert_eq!(grouped.code(), Code::Unimplemented);
    let zero_stride = Settings { stride: [0, 1], ..same };
    assert!(zero_stride.run("Conv2D", &[image(), tensor(&[1, 1, 3, 2], 2)]).is_err());
}

#[test]
fn a_fused_convolution_is_the_convolution_and_what_follows() {
    let image = Tensor::from_slice(&[1.0f32, -2.0, 3.0, -4.0], &[1, 2, 2, 1]).unwrap();
    let filter = Tensor::from_slice(&[1.0f32, 2.0], &[1, 1, 1, 2]).unwrap();
    let fused = |ops: &[&str], args: &[[f32; 2]]| {
        let ops: Vec<String> = ops.iter().map(|op| op.to_string()).collect();
        let mut run = test_op("_FusedConv2D")
            .attr("T", DType::Float)
            .attr("num_args", args.len() as i64)
            .attr("strides", vec![1i64; 4])
            .attr("padding", "VALID")
            .attr("epsilon", 0.0f32)
            .attr("fused_ops", ops)
            .input(image.clone())
            .input(filter.clone());
        for arg in args {
            run = run.input(Tensor::vector(arg).unwrap());
        }
        run.run_one().map(|output| output.as_slice::<f32>().unwrap().to_vec())
    };
    let biased = [1.5, 2.0, -1.5, -4.0, 3.5, 6.0, -3.5, -8.0];
    assert_eq!(fused(&["BiasAdd"], &[[0.5, 0.0]]).unwrap(), biased);
    let rectified = fused(&["BiasAdd", "Relu"], &[[0.5, 0.0]]).unwrap();
    assert_eq!(rectified, biased.map(|value| value.max(0.0)));
    let statistics = [[2.0, 1.0], [0.5, 0.0], [1.0, 0.0], [4.0, 1.0]];
    let normalized = fused(&["FusedBatchNorm"], &statistics).unwrap();
    assert_eq!(normalized, [0.5, 2.0, -2.5, -4.0, 2.5, 6.0, -4.5, -8.0]);
    assert!(fused(&["BiasAdd"], &[[0.5, 0.0], [0.0, 0.0]]).is_err());
    assert!(fused(&["Softmax"], &[[0.5, 0.0]]).is_err());
}
