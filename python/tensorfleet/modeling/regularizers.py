"""Regularizers: functions that give the penalty of a variable."""

import numbers

import tensorfleet as tf
from tensorfleet.framework import constant, gen, ops
from tensorfleet.framework.export import export


def _check_scale(scale):
    if isinstance(scale, numbers.Integral):
        raise ValueError(f"scale cannot be an integer: {scale}")
    if isinstance(scale, numbers.Real):
        if scale < 0.0:
            raise ValueError(f"Setting a scale less than 0 on a regularizer: {scale:g}")
        if scale == 0.0:
            tf.logging.info("Scale of 0 disables regularizer.")
            return False
    return True


def _nothing(_):
    return None


@export("contrib.layers.l1_regularizer", "contrib.slim.l1_regularizer")
def l1_regularizer(scale, scope=None):
    """A function that gives `scale` times the sum of absolute values."""
    if not _check_scale(scale):
        return _nothing

    def l1(weights, name=None):
        with ops.name_scope(scope, "l1_regularizer", [weights]) as name:
            factor = ops.convert_to_tensor(scale, dtype=weights.dtype.base_dtype, name="scale")
            return gen.Mul(factor, tf.reduce_sum(tf.abs(weights)), name=name)

    return l1


@export("contrib.layers.l2_regularizer", "contrib.slim.l2_regularizer")
def l2_regularizer(scale, scope=None):
    """A function that gives `scale` times half the sum of squares."""
    if not _check_scale(scale):
        return _nothing

    def l2(weights):
        with ops.name_scope(scope, "l2_regularizer", [weights]) as name:
            factor = ops.convert_to_tensor(scale, dtype=weights.dtype.base_dtype, name="scale")
            return gen.Mul(factor, gen.L2Loss(weights), name=name)

    return l2


@export("contrib.layers.l1_l2_regularizer", "contrib.slim.l1_l2_regularizer")
def l1_l2_regularizer(scale_l1=1.0, scale_l2=1.0, scope=None):
    """The sum of both."""
    for scale, name in ((scale_l1, "scale_l1"), (scale_l2, "scale_l2")):
        if isinstance(scale, numbers.Integral):
            raise ValueError(f"{name} cannot be an integer: {scale}")
    scope = scope or "l1_l2_regularizer"
    if scale_l1 == 0.0:
        return l2_regularizer(scale_l2, scope)
    if scale_l2 == 0.0:
        return l1_regularizer(scale_l1, scope)
    return sum_regularizer([l1_regularizer(scale_l1), l2_regularizer(scale_l2)], scope=scope)


@export("contrib.layers.sum_regularizer", "contrib.slim.sum_regularizer")
def sum_regularizer(regularizer_list, scope=None):
    """The sum of several regularizers."""
    regularizer_list = [regularizer for regularizer in regularizer_list if regularizer is not None]
    if not regularizer_list:
        return None

    def sum_reg(weights):
        with ops.name_scope(scope, "sum_regularizer", [weights]) as name:
            penalties = [penalty for penalty in (regularizer(weights) for regularizer in regularizer_list) if penalty is not None]
            return tf.add_n(penalties, name=name) if len(penalties) > 1 else penalties[0]

    return sum_reg


@export("contrib.layers.apply_regularization", "contrib.slim.apply_regularization")
def apply_regularization(regularizer, weights_list=None):
    """The sum of the penalties of a list of weights; it joins the regularization losses."""
    if not weights_list:
        weights_list = ops.get_collection(ops.GraphKeys.WEIGHTS)
    if not weights_list:
        raise ValueError("No weights to regularize.")
    with ops.name_scope("get_regularization_penalty", values=weights_list) as scope:
        penalties = [regularizer(weights) for weights in weights_list]
        penalties = [penalty if penalty is not None else constant.constant(0.0) for penalty in penalties]
        for penalty in penalties:
            if penalty.shape.ndims != 0:
                raise ValueError(f"regularizer must return a scalar Tensor instead of a Tensor with rank {penalty.shape.ndims}.")
        summed = tf.add_n(penalties, name=scope)
        ops.add_to_collection(ops.GraphKeys.REGULARIZATION_LOSSES, summed)
        return summed


@export("keras.regularizers.Regularizer")
class Regularizer:
    """What `tf.keras.regularizers` have in common."""

    def __call__(self, x):
        return 0.0

    @classmethod
    def from_config(cls, config):
        return cls(**config)


class L1L2(Regularizer):
    """`l1` times the sum of absolute values plus `l2` times the sum of squares."""

    def __init__(self, l1=0.0, l2=0.0):
        self.l1, self.l2 = float(l1), float(l2)

    def __call__(self, x):
        if not self.l1 and not self.l2:
            return constant.constant(0.0)
        regularization = 0.0
        if self.l1:
            regularization += tf.reduce_sum(self.l1 * tf.abs(x))
        if self.l2:
            regularization += tf.reduce_sum(self.l2 * gen.Square(x))
        return regularization

    def get_config(self):
        return {"l1": self.l1, "l2": self.l2}


export("keras.regularizers.L1L2")(L1L2)


@export("keras.regularizers.l1")
def l1(l=0.01):
    return L1L2(l1=l)


@export("keras.regularizers.l2")
def l2(l=0.01):
    return L1L2(l2=l)


@export("keras.regularizers.l1_l2")
def l1_l2(l1=0.01, l2=0.01):
    return L1L2(l1=l1, l2=l2)
