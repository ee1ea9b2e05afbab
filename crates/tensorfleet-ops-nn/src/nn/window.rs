//! The geometry of windows that slide over images: sizes, strides, dilations and padding of pools and convolutions.
//!
//! Kernels work on images as `[batch, height, width, channels]`; other layouts are transposed on the way in and
//! out.

use tensorfleet_core::attr::FromAttr;
use tensorfleet_core::{Dim, Element, PartialShape, Result, Shape, Tensor, bail, ensure};

use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_numeric::transpose::transpose;

/// How images lie in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Layout {
    /// `[batch, height, width, channels]`
    ChannelsLast,
    /// `[batch, channels, height, width]`
    ChannelsFirst,
}

impl Layout {
    /// The layout in the node's `data_format`; ops without one have their channels last.
    pub(crate) fn of(node: &NodeSpec<'_>) -> Result<Layout> {
        if node.signature()?.attr("data_format").is_none() {
            return Ok(Layout::ChannelsLast);
        }
        Ok(match node.attr::<String>("data_format")?.as_str() {
            "NHWC" => Layout::ChannelsLast,
            "NCHW" => Layout::ChannelsFirst,
            other => bail!(Unimplemented, "data format {other} is not supported on CPU"),
        })
    }

    /// Axes of batch, height, width and channels.
    fn axes(self) -> [usize; 4] {
        match self {
            Layout::ChannelsLast => [0, 1, 2, 3],
            Layout::ChannelsFirst => [0, 2, 3, 1],
        }
    }

    /// Reads four values that belong to the axes, in the order batch, height, width, channels.
    pub(crate) fn read<T: Copy>(self, values: [T; 4]) -> [T; 4] {
        self.axes().map(|axis| values[axis])
    }

    /// Brings values in the order batch, height, width, channels into this layout.
    pub(crate) fn write<T: Copy>(self, values: [T; 4]) -> [T; 4] {
        let mut written = values;
        for (axis, value) in self.axes().into_iter().zip(values) {
            written[axis] = value;
        }
        written
    }

    /// The image in channels-last order.
    pub(crate) fn to_channels_last<T: Element>(self, image: &Tensor) -> Result<Tensor> {
        match (self, image.shape().dims()) {
            (Layout::ChannelsFirst, &[batch, channels, height, width]) => {
                transposed::<T>(image, batch, channels, height * width, &[batch, height, width, channels])
            }
            _ => Ok(image.clone()),
        }
    }

    /// A channels-last image in this layout.
    pub(crate) fn restored<T: Element>(self, image: Tensor) -> Result<Tensor> {
        match (self, image.shape().dims()) {
            (Layout::ChannelsFirst, &[batch, height, width, channels]) => {
                transposed::<T>(&image, batch, height * width, channels, &[batch, channels, height, width])
            }
            _ => Ok(image),
        }
    }
}

/// Transposes each of `batch` matrices.
fn transposed<T: Element>(
    image: &Tensor,
    batch: usize,
    rows: usize,
    cols: usize,
    dims: &[usize],
) -> Result<Tensor> {
    let from = image.as_slice::<T>()?;
    Tensor::build::<T>(Shape::new(dims)?, |out| {
        for matrix in 0..batch * usize::from(rows * cols > 0) {
            let (from, out) =
                (&from[matrix * rows * cols..], &mut out[matrix * rows * cols..][..rows * cols]);
            transpose(from, cols, out, rows, cols, rows);
        }
        Ok(())
    })
}

/// How the border of the image is treated.
#[derive(Clone, Copy, Debug)]
enum Padding {
    Same,
    Valid,
    Explicit { before: usize, after: usize },
}

/// The window along one axis of the image, before the image's size is known.
#[derive(Clone, Copy, Debug)]
struct Slide {
    stride: usize,
    dilation: usize,
    padding: Padding,
}

/// What is known of a window before it has a size: the layout of the images, and what is around them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Border {
    /// The layout of the op's images.
    pub(crate) layout: Layout,
    /// Along height and width.
    paddings: [Padding; 2],
}

/// The window of an op: how it moves over height and width.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    height: Slide,
    width: Slide,
    /// The layout of the op's images.
    pub(crate) layout: Layout,
}

/// Taps of a window that lie side by side in an image; `count` may be 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// The first of them.
    pub(crate) first_tap: usize,
    /// Where it lies.
    pub(crate) source: usize,
    /// How many there are.
    pub(crate) count: usize,
}

/// A window along one axis of an image whose size is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Axis {
    /// Size of the image.
    pub(crate) input: usize,
    /// How many times the window fits.
    pub(crate) output: usize,
    /// Number of taps of the window.
    pub(crate) kernel: usize,
    /// Pixels from one position of the window to the next.
    pub(crate) stride: usize,
    /// Pixels from one tap to the next.
    pub(crate) dilation: usize,
    before: usize,
}

impl Axis {
    /// Where tap `tap` of the window at position `at` lies in the image, if it does.
    #[inline(always)]
    pub(crate) fn source(&self, at: usize, tap: usize) -> Option<usize> {
        (at * self.stride + tap * self.dilation)
            .checked_sub(self.before)
            .filter(|&source| source < self.input)
    }

    /// The taps of the window at position `at` that lie in the image, if they lie there side by side.
    #[inline(always)]
    pub(crate) fn run(&self, at: usize) -> Option<Run> {
        if self.dilation != 1 {
            return None;
        }
        Some(self.piece(at * self.stride, self.kernel))
    }

    /// Of `len` pixels from pixel `start` of the padded image on, those that lie in the image.
    #[inline(always)]
    pub(crate) fn piece(&self, start: usize, len: usize) -> Run {
        let first_tap = self.before.saturating_sub(start).min(len);
        // A piece in the padding behind the image begins, with no pixels, at its end.
        let source = (start + first_tap).saturating_sub(self.before).min(self.input);
        let count = (len - first_tap).min(self.input - source);
        Run { first_tap, source, count }
    }

    /// From the first to the last pixel that `positions` positions of the window see, padding included.
    pub(crate) fn span(&self, positions: usize) -> usize {
        if positions == 0 { 0 } else { (positions - 1) * self.stride + (self.kernel - 1) * self.dilation + 1 }
    }

    /// Whether some window sees padding.
    pub(crate) fn is_padded(&self) -> bool {
        self.before > 0 || self.span(self.output) > self.input
    }

    /// The taps of the window at position `at` that lie in the image, with where they lie.
    pub(crate) fn taps(self, at: usize) -> impl Iterator<Item = (usize, usize)> + Clone {
        (0..self.kernel).filter_map(move |tap| self.source(at, tap).map(|source| (tap, source)))
    }

    /// Whether the window is a single tap that visits every pixel.
    pub(crate) fn is_identity(&self) -> bool {
        self.kernel == 1 && self.stride == 1 && self.before == 0 && self.output == self.input
    }
}

impl Border {
    /// Reads data format and padding.
    pub(crate) fn of(node: &NodeSpec<'_>) -> Result<Border> {
        let layout = Layout::of(node)?;
        Ok(Border { layout, paddings: paddings(node, layout)? })
    }
}

impl Window {
    /// Reads strides, dilations (if the op has any) and padding.
    pub(crate) fn of(node: &NodeSpec<'_>) -> Result<Window> {
        let dilations = match node.signature()?.attr("dilations") {
            Some(_) => four(node, "dilations")?,
            None => [1; 4],
        };
        Window::new(Border::of(node)?, four(node, "strides")?, dilations)
    }

    /// A window that moves by `strides`, with taps `dilations` apart, both in the order of the layout.
    pub(crate) fn new(border: Border, strides: [i64; 4], dilations: [i64; 4]) -> Result<Window> {
        let Border { layout, paddings } = border;
        let (strides, dilations) = (layout.read(strides), layout.read(dilations));
        for (name, values) in [("strides", strides), ("dilations", dilations)] {
            ensure!(
                values[0] == 1 && values[3] == 1,
                InvalidArgument,
                "Current implementation does not yet support {name} in the batch and depth dimensions."
            );
            ensure!(
                values.iter().all(|&value| (1..=1 << 31).contains(&value)),
                InvalidArgument,
                "{name} must be positive, got {values:?}"
            );
        }
        let slide = |axis: usize| Slide {
            stride: strides[axis] as usize,
            dilation: dilations[axis] as usize,
            padding: paddings[axis - 1],
        };
        Ok(Window { height: slide(1), width: slide(2), layout })
    }

    /// The window over an image of this height and width, with this many taps along each.
    pub(crate) fn over(&self, image: [usize; 2], kernel: [usize; 2]) -> Result<[Axis; 2]> {
        Ok([self.height.over(image[0], kernel[0])?, self.width.over(image[1], kernel[1])?])
    }

    /// Sizes of the output along height and width, as far as they follow.
    pub(crate) fn partial(&self, image: [Dim; 2], kernel: [Dim; 2]) -> Result<[Dim; 2]> {
        let along = |slide: Slide, image: Dim, kernel: Dim| match (image, kernel) {
            (Some(image), Some(kernel)) => Ok(Some(slide.over(image, kernel)?.output)),
            _ => Ok::<_, tensorfleet_core::Status>(None),
        };
        Ok([along(self.height, image[0], kernel[0])?, along(self.width, image[1], kernel[1])?])
    }
}

impl Slide {
    fn over(self, input: usize, kernel: usize) -> Result<Axis> {
        ensure!(kernel > 0, InvalidArgument, "the window must not be empty");
        let Slide { stride, dilation, padding } = self;
        let reach = (kernel - 1)
            .checked_mul(dilation)
            .and_then(|reach| reach.checked_add(1))
            .filter(|&n| n < 1 << 40);
        let (Some(reach), true) = (reach, input < 1 << 40) else {
            bail!(InvalidArgument, "a window of {kernel} taps at distance {dilation} is too large")
        };
        let (output, before) = match padding {
            Padding::Same => {
                let output = input.div_ceil(stride);
                let needed = output.saturating_sub(1).saturating_mul(stride).saturating_add(reach);
                (output, needed.saturating_sub(input) / 2)
            }
            Padding::Valid | Padding::Explicit { .. } => {
                let (before, after) = match padding {
                    Padding::Explicit { before, after } => (before, after),
                    _ => (0, 0),
                };
                let padded = input.saturating_add(before).saturating_add(after);
                // The quotient is rounded towards 0, and so is not negative if the window is too large by less than a stride.
                let padded_size = i64::try_from(padded).unwrap_or(i64::MAX);
                let size =
                    padded_size.saturating_add(stride as i64).saturating_sub(reach as i64) / stride as i64;
                let Ok(output) = usize::try_from(size) else {
                    bail!(
                        InvalidArgument,
                        "Computed output size would be negative: {size} [input_size: {padded}, effective_filter_size: {reach}, stride: {stride}]"
                    )
                };
                (output, before)
            }
        };
        Ok(Axis { input, output, kernel, stride, dilation, before })
    }
}

/// A list attribute with four values.
pub(crate) fn four(node: &NodeSpec<'_>, name: &str) -> Result<[i64; 4]> {
    four_of(node.attr(name)?, name)
}

/// The sizes or strides of a window, which are four.
pub(crate) fn four_of(values: Vec<i64>, name: &str) -> Result<[i64; 4]> {
    values.try_into().map_err(|values: Vec<i64>| {
        tensorfleet_core::Status::invalid_argument(format!(
            "Sliding window {name} field must specify 4 dimensions, got {}",
            values.len()
        ))
    })
}

fn paddings(node: &NodeSpec<'_>, layout: Layout) -> Result<[Padding; 2]> {
    let explicit = match node.signature()?.attr("explicit_paddings") {
        Some(_) => Vec::<i64>::from_attr(node.raw_attr("explicit_paddings")?)?,
        None => Vec::new(),
    };
    let kind: String = node.attr("padding")?;
    if kind != "EXPLICIT" {
        ensure!(
            explicit.is_empty(),
            InvalidArgument,
            "explicit_paddings attribute must be empty if the padding attribute is not EXPLICIT"
        );
        let padding = if kind == "SAME" { Padding::Same } else { Padding::Valid };
        return Ok([padding; 2]);
    }
    ensure!(
        explicit.len() == 8,
        InvalidArgument,
        "explicit_paddings attribute must contain 8 values, but got: {}",
        explicit.len()
    );
    ensure!(
        explicit.iter().all(|value| (0..=1 << 31).contains(value)),
        InvalidArgument,
        "All elements of explicit_paddings must be nonnegative"
    );
    let pairs: [[i64; 2]; 4] = std::array::from_fn(|axis| [explicit[2 * axis], explicit[2 * axis + 1]]);
    let [batch, height, width, channels] = layout.read(pairs);
    ensure!(
        batch == [0, 0] && channels == [0, 0],
        InvalidArgument,
        "Nonzero explicit padding in the batch or depth dimensions is not supported"
    );
    Ok([height, width]
        .map(|[before, after]| Padding::Explicit { before: before as usize, after: after as usize }))
}

/// The dimensions of an image or filter, which has rank 4.
pub(crate) fn rank_4(shape: &[usize], what: &str) -> Result<[usize; 4]> {
    match *shape {
        [a, b, c, d] => Ok([a, b, c, d]),
        _ => bail!(InvalidArgument, "{what} must be 4-dimensional, got shape {shape:?}"),
    }
}

/// The dimensions of an image or filter for a shape rule.
pub(crate) fn partial_4(shape: &PartialShape) -> [Dim; 4] {
    std::array::from_fn(|axis| shape.dim(axis))
}

/// A shape that an int32 vector describes; it must have rank 4.
pub(crate) fn shape_in(tensor: &Tensor, what: &str) -> Result<Shape> {
    ensure!(
        tensor.shape().rank() == 1,
        InvalidArgument,
        "{what} must be a vector, got shape {}",
        tensor.shape()
    );
    let shape = Shape::from_signed(&tensorfleet_kernel::shape_context::integers_of(tensor)?)?;
    rank_4(&shape, what)?;
    Ok(shape)
}
