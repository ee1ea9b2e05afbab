"""`tf.layers`: dense, dropout, flatten."""

import tensorfleet as tf
from tensorfleet.framework import gen, ops
from tensorfleet.framework import dtypes
from tensorfleet.framework.export import export
from tensorfleet.framework.tensor_shape import TensorShape
from tensorfleet.modeling.initializers import Zeros
from tensorfleet.modeling.layers.base import InputSpec, Layer

_ZEROS = Zeros()


@export("layers.Dense")
class Dense(Layer):
    """`activation(inputs * kernel + bias)`."""

    def __init__(
        self,
        units,
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
        self.units = int(units) if not isinstance(units, int) else units
        self.activation = activation
        self.use_bias = use_bias
        self.kernel_initializer, self.bias_initializer = kernel_initializer, bias_initializer
        self.kernel_regularizer, self.bias_regularizer = kernel_regularizer, bias_regularizer
        self.kernel_constraint, self.bias_constraint = kernel_constraint, bias_constraint
        self.input_spec = InputSpec(min_ndim=2)
        self.supports_masking = True

    def build(self, input_shape):
        dtype = dtypes.as_dtype(self.dtype or "float32")
        if not (dtype.is_floating or dtype.is_complex):
            raise TypeError(f"Unable to build `Dense` layer with non-floating point dtype {dtype}")
        last = TensorShape(input_shape).as_list()[-1]
        if last is None:
            raise ValueError("The last dimension of the inputs to `Dense` should be defined. Found `None`.")
        self.input_spec = InputSpec(min_ndim=2, axes={-1: last})
        self.kernel = self.add_weight(
            "kernel", shape=[last, self.units], initializer=self.kernel_initializer, regularizer=self.kernel_regularizer, constraint=self.kernel_constraint, dtype=self.dtype, trainable=True
        )
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight(
                "bias", shape=[self.units], initializer=self.bias_initializer, regularizer=self.bias_regularizer, constraint=self.bias_constraint, dtype=self.dtype, trainable=True
            )
        self.built = True

    def call(self, inputs):
        rank = inputs.shape.ndims
        if rank > 2:
            outputs = tf.tensordot(inputs, self.kernel, [[rank - 1], [0]])
            outputs.set_shape(inputs.shape.as_list()[:-1] + [self.units])
        else:
            outputs = gen.MatMul(tf.cast(inputs, self.dtype), self.kernel)
        if self.use_bias:
            outputs = tf.nn.bias_add(outputs, self.bias)
        if self.activation is not None:
            return self.activation(outputs)
        return outputs

    def compute_output_shape(self, input_shape):
        input_shape = TensorShape(input_shape).with_rank_at_least(2)
        if input_shape.as_list()[-1] is None:
            raise ValueError(f"The innermost dimension of input_shape must be defined, but saw: {input_shape}")
        return input_shape[:-1].concatenate(self.units)


@export("layers.dense")
def dense(
    inputs,
    units,
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
    """A dense layer."""
    layer = Dense(
        units,
        activation=activation,
        use_bias=use_bias,
        kernel_initializer=kernel_initializer,
        bias_initializer=bias_initializer,
        kernel_regularizer=kernel_regularizer,
        bias_regularizer=bias_regularizer,
        activity_regularizer=activity_regularizer,
        kernel_constraint=kernel_constraint,
        bias_constraint=bias_constraint,
        trainable=trainable,
        name=name,
        _scope=name,
        _reuse=reuse,
    )
    return layer.apply(inputs)


@export("layers.Dropout")
class Dropout(Layer):
    """Drops a share of the elements while training."""

    def __init__(self, rate=0.5, noise_shape=None, seed=None, name=None, **kwargs):
        super().__init__(name=name, **kwargs)
        self.rate, self.noise_shape, self.seed = rate, noise_shape, seed
        self.supports_masking = True

    def _get_noise_shape(self, inputs):
        if self.noise_shape is None:
            return self.noise_shape
        known = tf.shape(inputs)
        return ops.convert_to_tensor([known[i] if size is None else size for i, size in enumerate(self.noise_shape)])

    def call(self, inputs, training=False):
        def dropped():
            return tf.nn.dropout(inputs, noise_shape=self._get_noise_shape(inputs), seed=self.seed, rate=self.rate)

        return smart_cond(training, dropped, lambda: gen.Identity(inputs))

    def compute_output_shape(self, input_shape):
        return input_shape


def smart_cond(pred, true_fn, false_fn, name=None):
    """`tf.cond`, or one of the functions if the condition is known."""
    value = constant_bool(pred)
    if value is None:
        return tf.cond(pred, true_fn=true_fn, false_fn=false_fn, name=name)
    return true_fn() if value else false_fn()


def constant_bool(pred):
    """A condition as a Python value, or `None` if it is known only when a step runs."""
    from tensorfleet.ops.variables import Variable

    if isinstance(pred, Variable):
        return None
    if isinstance(pred, ops.Tensor):
        value = tf.contrib.util.constant_value(pred)
        return None if value is None else bool(value)
    if pred in (0, 1):
        return bool(pred)
    if isinstance(pred, bool) or pred is None:
        return pred
    raise TypeError(f"`pred` must be a Tensor, or a Python bool, or 1 or 0. Found instead: {type(pred)}")


@export("layers.dropout")
def dropout(inputs, rate=0.5, noise_shape=None, seed=None, training=False, name=None):
    """Dropout while `training`."""
    return Dropout(rate, noise_shape=noise_shape, seed=seed, name=name).apply(inputs, training=training)


@export("layers.Flatten")
class Flatten(Layer):
    """All dimensions but the first as one."""

    def __init__(self, data_format=None, **kwargs):
        super().__init__(**kwargs)
        self.data_format = _data_format(data_format)
        self.input_spec = InputSpec(min_ndim=1)

    def call(self, inputs):
        if self.data_format == "channels_first" and inputs.shape.ndims is not None and inputs.shape.ndims > 1:
            inputs = tf.transpose(inputs, perm=[0] + list(range(2, inputs.shape.ndims)) + [1])
        batch = inputs.shape.as_list()[0] if inputs.shape.ndims is not None else None
        outputs = tf.reshape(inputs, (batch or tf.shape(inputs)[0], -1))
        outputs.set_shape(self.compute_output_shape(inputs.shape))
        return outputs

    def compute_output_shape(self, input_shape):
        dims = TensorShape(input_shape).as_list()
        size = 1
        for dim in dims[1:]:
            size = None if size is None or dim is None else size * dim
        return TensorShape([dims[0], size])


def _data_format(value):
    value = "channels_last" if value is None else value.lower()
    if value not in ("channels_first", "channels_last"):
        raise ValueError('The `data_format` argument must be one of "channels_first", "channels_last". Received: ' + str(value))
    return value


@export("layers.flatten")
def flatten(inputs, name=None, data_format="channels_last"):
    """All dimensions but the first as one."""
    return Flatten(name=name, data_format=data_format).apply(inputs)


