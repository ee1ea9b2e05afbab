"""`tf.layers`: convolutions, plain and transposed."""

import tensorfleet as tf
from tensorfleet.framework.export import export
from tensorfleet.framework.tensor_shape import TensorShape
from tensorfleet.modeling.initializers import Zeros
from tensorfleet.modeling.layers.base import InputSpec, Layer
from tensorfleet.ops.nn_conv import one_convolution
from tensorfleet.ops.space_to_batch import SpaceToBatch

_ZEROS = Zeros()


def normalize_tuple(value, count, name):
    """One number for each spatial dimension."""
    if isinstance(value, int):
        return (value,) * count
    try:
        numbers = tuple(int(number) for number in value)
    except (TypeError, ValueError):
        raise ValueError(f"The `{name}` argument must be a tuple of {count} integers. Received: {value}") from None
    if len(numbers) != count:
        raise ValueError(f"The `{name}` argument must be a tuple of {count} integers. Received: {value}")
    return numbers


def normalize_padding(value):
    padding = value.lower()
    if padding not in ("valid", "same", "causal"):
        raise ValueError(f'The `padding` argument must be a list/tuple or one of "valid", "same" (or "causal", only for `Conv1D). Received: {padding}')
    return padding


def normalize_data_format(value):
    data_format = "channels_last" if value is None else value.lower()
    if data_format not in ("channels_first", "channels_last"):
        raise ValueError(f'The `data_format` argument must be one of "channels_first", "channels_last". Received: {value}')
    return data_format


def op_data_format(data_format, rank):
    """`NHWC` and the like."""
    spatial = {3: "W", 4: "HW", 5: "DHW"}[rank]
    return f"N{spatial}C" if data_format == "channels_last" else f"NC{spatial}"


def output_length(length, size, padding, stride, dilation=1):
    """How many windows fit into a dimension."""
    if length is None:
        return None
    dilated = size + (size - 1) * (dilation - 1)
    length = length if padding in ("same", "causal") else length - dilated + 1
    return (length + stride - 1) // stride


class Conv(Layer):
    """A convolution over `rank` spatial dimensions."""

    def __init__(
        self,
        rank,
        filters,
        kernel_size,
        strides=1,
        padding="valid",
        data_format=None,
        dilation_rate=1,
        activation=None,
        use_bias=True,
        kernel_initializer=None,
        bias_initializer=_ZEROS,
        kernel_regularizer=None,
        bias_regularizer=None,
        activity_regularizer=None,
        kernel_constraint=None,
        bias_constraint=None,
        trainable=True,
        name=None,
        **kwargs,
    ):
        super().__init__(trainable=trainable, name=name, activity_regularizer=activity_regularizer, **kwargs)
        self.rank, self.filters = rank, filters
        self.kernel_size = normalize_tuple(kernel_size, rank, "kernel_size")
        self.strides = normalize_tuple(strides, rank, "strides")
        self.padding = normalize_padding(padding)
        if self.padding == "causal" and not isinstance(self, Conv1D):
            raise ValueError("Causal padding is only supported for `Conv1D` and ``SeparableConv1D`.")
        self.data_format = normalize_data_format(data_format)
        self.dilation_rate = normalize_tuple(dilation_rate, rank, "dilation_rate")
        self.activation, self.use_bias = activation, use_bias
        self.kernel_initializer, self.bias_initializer = kernel_initializer, bias_initializer
        self.kernel_regularizer, self.bias_regularizer = kernel_regularizer, bias_regularizer
        self.kernel_constraint, self.bias_constraint = kernel_constraint, bias_constraint
        self.input_spec = InputSpec(ndim=self.rank + 2)

    def _input_channels(self, input_shape):
        axis = 1 if self.data_format == "channels_first" else -1
        channels = TensorShape(input_shape).as_list()[axis]
        if channels is None:
            raise ValueError("The channel dimension of the inputs should be defined. Found `None`.")
        self.input_spec = InputSpec(ndim=self.rank + 2, axes={axis: channels})
        return channels

    def _add_bias(self):
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight(
                name="bias", shape=(self.filters,), initializer=self.bias_initializer, regularizer=self.bias_regularizer, constraint=self.bias_constraint, trainable=True, dtype=self.dtype
            )

    def build(self, input_shape):
        channels = self._input_channels(input_shape)
        self.kernel = self.add_weight(
            name="kernel",
            shape=self.kernel_size + (channels, self.filters),
            initializer=self.kernel_initializer,
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
            trainable=True,
            dtype=self.dtype,
        )
        self._add_bias()
        padding = "VALID" if self.padding == "causal" else self.padding.upper()
        data_format = op_data_format(self.data_format, self.rank + 2)
        if any(rate != 1 for rate in self.dilation_rate) and any(stride != 1 for stride in self.strides):
            raise ValueError("strides > 1 not supported in conjunction with dilation_rate > 1")
        self._blocks = SpaceToBatch(TensorShape(input_shape), self.dilation_rate, padding, self.kernel.shape, None, data_format)
        self.built = True

    def _convolve(self, inputs):
        data_format = op_data_format(self.data_format, self.rank + 2)
        return self._blocks.apply(inputs, lambda blocks, _, padding: one_convolution(blocks, self.kernel, padding, data_format, self.strides, None, self.rank))

    def call(self, inputs):
        outputs = self._convolve(inputs)
        if self.use_bias:
            outputs = self._biased(outputs)
        if self.activation is not None:
            return self.activation(outputs)
        return outputs

    def _biased(self, outputs):
        if self.data_format == "channels_first":
            if self.rank == 1:
                # No op adds a bias to such sequences.
                outputs += tf.reshape(self.bias, (1, self.filters, 1))
                return outputs
            return tf.nn.bias_add(outputs, self.bias, data_format="NCHW")
        return tf.nn.bias_add(outputs, self.bias, data_format="NHWC")

    def compute_output_shape(self, input_shape):
        dims = TensorShape(input_shape).as_list()
        first = self.data_format == "channels_first"
        space = dims[2:] if first else dims[1:-1]
        sizes = [output_length(space[i], self.kernel_size[i], self.padding, self.strides[i], self.dilation_rate[i]) for i in range(len(space))]
        return TensorShape([dims[0], self.filters] + sizes if first else [dims[0]] + sizes + [self.filters])


@export("layers.Conv1D")
class Conv1D(Conv):
    """A convolution of sequences."""

    def __init__(
        self,
        filters,
        kernel_size,
        strides=1,
        padding="valid",
        data_format="channels_last",
        dilation_rate=1,
        activation=None,
        use_bias=True,
        kernel_initializer=None,
        bias_initializer=_ZEROS,
        kernel_regularizer=None,
        bias_regularizer=None,
        activity_regularizer=None,
        kernel_constraint=None,
        bias_constraint=None,
        trainable=True,
        name=None,
        **kwargs,
    ):
        super().__init__(
            1, filters, kernel_size, strides, padding, data_format, dilation_rate, activation, use_bias, kernel_initializer, bias_initializer,
            kernel_regularizer, bias_regularizer, activity_regularizer, kernel_constraint, bias_constraint, trainable, name, **kwargs
        )  # fmt: skip

    def call(self, inputs):
        if self.padding == "causal":
            left = self.dilation_rate[0] * (self.kernel_size[0] - 1)
            pads = [[0, 0], [left, 0], [0, 0]] if self.data_format == "channels_last" else [[0, 0], [0, 0], [left, 0]]
            inputs = tf.pad(inputs, pads)
        return super().call(inputs)


@export("layers.Conv2D")
class Conv2D(Conv):
    """A convolution of images."""

    def __init__(
        self,
        filters,
        kernel_size,
        strides=(1, 1),
        padding="valid",
        data_format="channels_last",
        dilation_rate=(1, 1),
        activation=None,
        use_bias=True,
        kernel_initializer=None,
        bias_initializer=_ZEROS,
        kernel_regularizer=None,
        bias_regularizer=None,
        activity_regularizer=None,
        kernel_constraint=None,
        bias_constraint=None,
        trainable=True,
        name=None,
        **kwargs,
    ):
        super().__init__(
            2, filters, kernel_size, strides, padding, data_format, dilation_rate, activation, use_bias, kernel_initializer, bias_initializer,
            kernel_regularizer, bias_regularizer, activity_regularizer, kernel_constraint, bias_constraint, trainable, name, **kwargs
        )  # fmt: skip


def _apply(layer_class, inputs, filters, kernel_size, name, reuse, keywords):
    return layer_class(filters, kernel_size, name=name, _reuse=reuse, _scope=name, **keywords).apply(inputs)


@export("layers.conv1d")
def conv1d(
    inputs,
    filters,
    kernel_size,
    strides=1,
    padding="valid",
    data_format="channels_last",
    dilation_rate=1,
    activation=None,
    use_bias=True,
    kernel_initializer=None,
    bias_initializer=_ZEROS,
    kernel_regularizer=None,
    bias_regularizer=None,
    activity_regularizer=None,
    kernel_constraint=None,
    bias_constraint=None,
    trainable=True,
    name=None,
    reuse=None,
):
    """A convolution of sequences."""
    keywords = dict(locals())
    for key in ("inputs", "filters", "kernel_size", "name", "reuse"):
        del keywords[key]
    return _apply(Conv1D, inputs, filters, kernel_size, name, reuse, keywords)


@export("layers.conv2d")
def conv2d(
    inputs,
    filters,
    kernel_size,
    strides=(1, 1),
    padding="valid",
    data_format="channels_last",
    dilation_rate=(1, 1),
    activation=None,
    use_bias=True,
    kernel_initializer=None,
    bias_initializer=_ZEROS,
    kernel_regularizer=None,
    bias_regularizer=None,
    activity_regularizer=None,
    kernel_constraint=None,
    bias_constraint=None,
    trainable=True,
    name=None,
    reuse=None,
):
    """A convolution of images."""
    keywords = dict(locals())
    for key in ("inputs", "filters", "kernel_size", "name", "reuse"):
        del keywords[key]
    return _apply(Conv2D, inputs, filters, kernel_size, name, reuse, keywords)


@export("layers.Conv2DTranspose")
class Conv2DTranspose(Conv2D):
    """A transposed convolution of images."""

    def __init__(
        self,
        filters,
        kernel_size,
        strides=(1, 1),
        padding="valid",
        data_format="channels_last",
        activation=None,
        use_bias=True,
        kernel_initializer=None,
        bias_initializer=_ZEROS,
        kernel_regularizer=None,
        bias_regularizer=None,
        activity_regularizer=None,
        kernel_constraint=None,
        bias_constraint=None,
        trainable=True,
        name=None,
        **kwargs,
    ):
        super().__init__(
            filters, kernel_size, strides, padding, data_format, (1, 1), activation, use_bias, kernel_initializer, bias_initializer,
            kernel_regularizer, bias_regularizer, activity_regularizer, kernel_constraint, bias_constraint, trainable, name, **kwargs
        )  # fmt: skip
        self.output_padding = None

    def build(self, input_shape):
        if len(TensorShape(input_shape).as_list()) != 4:
            raise ValueError(f"Inputs should have rank 4. Received input shape: {input_shape}")
        channels = self._input_channels(input_shape)
        self.kernel = self.add_weight(
            name="kernel",
            shape=self.kernel_size + (self.filters, channels),
            initializer=self.kernel_initializer,
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
            trainable=True,
            dtype=self.dtype,
        )
        self._add_bias()
        self.built = True

    def call(self, inputs):
        shape = tf.shape(inputs)
        batch = shape[0]
        axes = (2, 3) if self.data_format == "channels_first" else (1, 2)
        lengths = [shape[axis] for axis in axes]
        sizes = [deconv_length(length, self.kernel_size[i], self.padding, self.strides[i]) for i, length in enumerate(lengths)]
        if self.data_format == "channels_first":
            output_shape = (batch, self.filters, sizes[0], sizes[1])
        else:
            output_shape = (batch, sizes[0], sizes[1], self.filters)
        output_shape = tf.stack(output_shape)
        output_shape[0]  # a slice that nobody uses, as in TensorFlow's graph: names of later slices count it
        data_format = op_data_format(self.data_format, 4)
        strides = (1, 1) + self.strides if data_format == "NCHW" else (1,) + self.strides + (1,)
        outputs = tf.nn.conv2d_transpose(inputs, self.kernel, output_shape, strides, padding=self.padding.upper(), data_format=data_format)
        outputs.set_shape(self.compute_output_shape(inputs.shape))
        if self.use_bias:
            outputs = tf.nn.bias_add(outputs, self.bias, data_format=data_format)
        if self.activation is not None:
            return self.activation(outputs)
        return outputs

    def compute_output_shape(self, input_shape):
        dims = TensorShape(input_shape).as_list()
        channel, axes = (1, (2, 3)) if self.data_format == "channels_first" else (3, (1, 2))
        dims[channel] = self.filters
        for i, axis in enumerate(axes):
            dims[axis] = deconv_length(dims[axis], self.kernel_size[i], self.padding, self.strides[i])
        return TensorShape(dims)


def deconv_length(length, size, padding, stride):
    """The length whose convolution has length `length`."""
    if length is None:
        return None
    length = length * stride
    if padding == "valid":
        length = length + max(size - stride, 0)
    return length


@export("layers.conv2d_transpose")
def conv2d_transpose(
    inputs,
    filters,
    kernel_size,
    strides=(1, 1),
    padding="valid",
    data_format="channels_last",
    activation=None,
    use_bias=True,
    kernel_initializer=None,
    bias_initializer=_ZEROS,
    kernel_regularizer=None,
    bias_regularizer=None,
    activity_regularizer=None,
    kernel_constraint=None,
    bias_constraint=None,
    trainable=True,
    name=None,
    reuse=None,
):
    """A transposed convolution of images."""
    keywords = dict(locals())
    for key in ("inputs", "filters", "kernel_size", "name", "reuse"):
        del keywords[key]
    return _apply(Conv2DTranspose, inputs, filters, kernel_size, name, reuse, keywords)
