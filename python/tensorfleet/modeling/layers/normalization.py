"""`tf.layers`: batch normalization."""

import tensorfleet as tf
from tensorfleet.framework import constant, dtypes, ops
from tensorfleet.framework.export import export
from tensorfleet.framework.tensor_shape import TensorShape
from tensorfleet.modeling.initializers import Ones, Zeros
from tensorfleet.modeling.layers.base import InputSpec, Layer
from tensorfleet.modeling.layers.core import constant_bool, smart_cond

_ZEROS, _ONES = Zeros(), Ones()


@export("layers.BatchNormalization")
class BatchNormalization(Layer):
    """Normalizes with the batch's mean and variance while training, with their moving averages otherwise."""

    def __init__(
        self,
        axis=-1,
        momentum=0.99,
        epsilon=1e-3,
        center=True,
        scale=True,
        beta_initializer=_ZEROS,
        gamma_initializer=_ONES,
        moving_mean_initializer=_ZEROS,
        moving_variance_initializer=_ONES,
        beta_regularizer=None,
        gamma_regularizer=None,
        beta_constraint=None,
        gamma_constraint=None,
        renorm=False,
        renorm_clipping=None,
        renorm_momentum=0.99,
        fused=None,
        trainable=True,
        virtual_batch_size=None,
        adjustment=None,
        name=None,
        **kwargs,
    ):
        super().__init__(name=name, trainable=trainable, **kwargs)
        if renorm or virtual_batch_size is not None or adjustment is not None:
            raise NotImplementedError("batch renormalization, virtual batches and adjustments of tf.layers.BatchNormalization")
        if isinstance(axis, list):
            self.axis = axis[:]
        elif isinstance(axis, int):
            self.axis = axis
        else:
            raise TypeError(f"axis must be int or list, type given: {type(axis)}")
        self.momentum, self.epsilon, self.center, self.scale = momentum, epsilon, center, scale
        self.beta_initializer, self.gamma_initializer = beta_initializer, gamma_initializer
        self.moving_mean_initializer, self.moving_variance_initializer = moving_mean_initializer, moving_variance_initializer
        self.beta_regularizer, self.gamma_regularizer = beta_regularizer, gamma_regularizer
        self.beta_constraint, self.gamma_constraint = beta_constraint, gamma_constraint
        self.renorm, self.virtual_batch_size, self.adjustment = False, None, None
        self.supports_masking = True
        if fused is None:
            fused = True if not isinstance(axis, list) or len(axis) == 1 else False
        elif fused and isinstance(axis, list) and len(axis) != 1:
            raise ValueError("Passing fused=True is only supported when axis is one of 1 or 3")
        self.fused = fused

    def _weight(self, name, shape, dtype, initializer, regularizer=None, constraint=None, trainable=True):
        return self.add_weight(name=name, shape=shape, dtype=dtype, initializer=initializer, regularizer=regularizer, constraint=constraint, trainable=trainable)

    def build(self, input_shape):
        dims = TensorShape(input_shape).as_list()
        rank = len(dims)
        axes = [self.axis] if isinstance(self.axis, int) else self.axis
        axes = [rank + axis if axis < 0 else axis for axis in axes]
        for axis in axes:
            if axis < 0 or axis >= rank:
                raise ValueError(f"Invalid axis: {axis}")
        if len(axes) != len(set(axes)):
            raise ValueError(f"Duplicate axis: {axes}")
        self.axis = axes
        if self.fused:
            self.fused = rank == 4 and axes in ([1], [3])
        self._data_format = "NCHW" if axes == [1] else "NHWC"
        for axis in axes:
            if dims[axis] is None:
                raise ValueError("Input has undefined `axis` dimension. Input shape: ", TensorShape(dims))
        self.input_spec = InputSpec(ndim=rank, axes={axis: dims[axis] for axis in axes})
        if len(axes) == 1:
            shape = (dims[axes[0]],)
        else:
            shape = [dims[i] if i in axes else 1 for i in range(rank)]
        dtype = dtypes.as_dtype(self.dtype or "float32")
        if dtype in (dtypes.float16, dtypes.bfloat16):
            dtype = dtypes.float32
        self._param_dtype = dtype
        self.gamma = self.beta = None
        if self.scale:
            self.gamma = self._weight("gamma", shape, dtype, self.gamma_initializer, self.gamma_regularizer, self.gamma_constraint)
        elif self.fused:
            self._gamma_const = constant.constant(1.0, dtype=dtype, shape=list(shape))
        if self.center:
            self.beta = self._weight("beta", shape, dtype, self.beta_initializer, self.beta_regularizer, self.beta_constraint)
        elif self.fused:
            self._beta_const = constant.constant(0.0, dtype=dtype, shape=list(shape))
        # The averages follow the batches, no optimizer does; the scope's partitioner is not for them.
        scope = self._scope
        partitioner = scope.partitioner if scope else None
        if scope:
            scope.set_partitioner(None)
        try:
            self.moving_mean = self._weight("moving_mean", shape, dtype, self.moving_mean_initializer, trainable=False)
            self.moving_variance = self._weight("moving_variance", shape, dtype, self.moving_variance_initializer, trainable=False)
        finally:
            if scope:
                scope.set_partitioner(partitioner)
        self.built = True

    def _assign_moving_average(self, variable, value, momentum):
        with ops.name_scope("AssignMovingAvg") as scope:
            with ops.colocate_with(variable):
                decay = ops.convert_to_tensor(1.0 - momentum, name="decay")
                if decay.dtype != variable.dtype.base_dtype:
                    decay = tf.cast(decay, variable.dtype.base_dtype)
                delta = (variable - tf.cast(value, variable.dtype.base_dtype)) * decay
                return tf.assign_sub(variable, delta, name=scope)

    def _fused(self, inputs, training):
        beta = self.beta if self.center else self._beta_const
        gamma = self.gamma if self.scale else self._gamma_const

        def trained():
            return tf.nn.fused_batch_norm(inputs, gamma, beta, epsilon=self.epsilon, data_format=self._data_format)

        def inferred():
            return tf.nn.fused_batch_norm(
                inputs, gamma, beta, mean=self.moving_mean, variance=self.moving_variance, epsilon=self.epsilon, is_training=False, data_format=self._data_format
            )

        output, mean, variance = smart_cond(training, trained, inferred)
        known = constant_bool(training)
        if known is None:
            momentum = smart_cond(training, lambda: self.momentum, lambda: 1.0)
        else:
            momentum = ops.convert_to_tensor(self.momentum)
        if known or known is None:
            self.add_update(lambda: self._assign_moving_average(self.moving_mean, mean, momentum))
            self.add_update(lambda: self._assign_moving_average(self.moving_variance, variance, momentum))
        return output

    def call(self, inputs, training=False):
        if self.fused:
            return self._fused(inputs, training)
        rank = inputs.shape.ndims
        reduced = [i for i in range(rank) if i not in self.axis]
        shape = [1] * rank
        shape[self.axis[0]] = inputs.shape.as_list()[self.axis[0]]

        def spread(value):
            if value is not None and value.shape.ndims != rank and reduced != list(range(rank - 1)):
                return tf.reshape(value, shape)
            return value

        scale, offset = spread(self.gamma), spread(self.beta)
        known = constant_bool(training)
        if known is False:
            mean, variance = self.moving_mean, self.moving_variance
        else:
            mean, variance = self._training_moments(inputs, reduced, training)
        mean = tf.cast(mean, inputs.dtype)
        variance = tf.cast(variance, inputs.dtype)
        if offset is not None:
            offset = tf.cast(offset, inputs.dtype)
        if scale is not None:
            scale = tf.cast(scale, inputs.dtype)
        outputs = tf.nn.batch_normalization(inputs, spread(mean), spread(variance), offset, scale, self.epsilon)
        outputs.set_shape(inputs.shape)
        return outputs

    def _training_moments(self, inputs, reduced, training):
        mean, variance = tf.nn.moments(inputs, reduced, keep_dims=len(self.axis) > 1)
        batch_mean, batch_variance = mean, variance
        mean = smart_cond(training, lambda: batch_mean, lambda: ops.convert_to_tensor(self.moving_mean))
        variance = smart_cond(training, lambda: batch_variance, lambda: ops.convert_to_tensor(self.moving_variance))

        def update(average, value):
            def moved():
                return self._assign_moving_average(average, value, self.momentum)

            return smart_cond(training, moved, lambda: average)

        self.add_update(lambda: update(self.moving_mean, mean))
        self.add_update(lambda: update(self.moving_variance, variance))
        return mean, variance

    def compute_output_shape(self, input_shape):
        return input_shape


@export("layers.batch_normalization")
def batch_normalization(
    inputs,
    axis=-1,
    momentum=0.99,
    epsilon=1e-3,
    center=True,
    scale=True,
    beta_initializer=_ZEROS,
    gamma_initializer=_ONES,
    moving_mean_initializer=_ZEROS,
    moving_variance_initializer=_ONES,
    beta_regularizer=None,
    gamma_regularizer=None,
    beta_constraint=None,
    gamma_constraint=None,
    training=False,
    trainable=True,
    name=None,
    reuse=None,
    renorm=False,
    renorm_clipping=None,
    renorm_momentum=0.99,
    fused=None,
    virtual_batch_size=None,
    adjustment=None,
):
    """Batch normalization; the updates of the averages join `tf.GraphKeys.UPDATE_OPS`."""
    keywords = dict(locals())
    for key in ("inputs", "training", "reuse"):
        del keywords[key]
    return BatchNormalization(**keywords, _reuse=reuse, _scope=name).apply(inputs, training=training)
