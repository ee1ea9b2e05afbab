"""Depthwise and separable convolutions, dilation and erosion."""

import tensorfleet as tf
from tensorfleet.framework import gen, ops
from tensorfleet.framework.export import export
from tensorfleet.ops.nn_activation import renamed_argument
from tensorfleet.ops.space_to_batch import with_space_to_batch


@export("nn.depthwise_conv2d_native")
def depthwise_conv2d_native(input, filter, strides, padding, data_format="NHWC", dilations=[1, 1, 1, 1], name=None):
    """Filters each channel by itself."""
    return gen.DepthwiseConv2dNative(input, filter, strides=strides, padding=padding, data_format=data_format, dilations=dilations, name=name)


@export("nn.depthwise_conv2d_backprop_filter", "nn.depthwise_conv2d_native_backprop_filter")
def depthwise_conv2d_native_backprop_filter(input, filter_sizes, out_backprop, strides, padding, data_format="NHWC", dilations=[1, 1, 1, 1], name=None):
    """The gradient of a depthwise convolution for its filter."""
    return gen.DepthwiseConv2dNativeBackpropFilter(input, filter_sizes, out_backprop, strides=strides, padding=padding, data_format=data_format, dilations=dilations, name=name)


@export("nn.depthwise_conv2d_backprop_input", "nn.depthwise_conv2d_native_backprop_input")
def depthwise_conv2d_native_backprop_input(input_sizes, filter, out_backprop, strides, padding, data_format="NHWC", dilations=[1, 1, 1, 1], name=None):
    """The gradient of a depthwise convolution for its input."""
    return gen.DepthwiseConv2dNativeBackpropInput(input_sizes, filter, out_backprop, strides=strides, padding=padding, data_format=data_format, dilations=dilations, name=name)


@export("nn.depthwise_conv2d")
def depthwise_conv2d(input, filter, strides, padding, rate=None, name=None, data_format=None, dilations=None):
    """Filters each channel by itself, with a dilation if asked."""
    rate = renamed_argument("dilations", dilations, "rate", rate)
    with ops.name_scope(name, "depthwise", [input, filter]) as name:
        input = ops.convert_to_tensor(input, name="tensor_in")
        filter = ops.convert_to_tensor(filter, name="filter_in")
        rate = [1, 1] if rate is None else rate

        def op(tensor, _, effective_padding):
            return gen.DepthwiseConv2dNative(tensor, filter, strides=strides, padding=effective_padding, data_format=data_format, name=name)

        return with_space_to_batch(input=input, filter_shape=tf.shape(filter), dilation_rate=rate, padding=padding, data_format=data_format, op=op)


@export("nn.separable_conv2d")
def separable_conv2d(input, depthwise_filter, pointwise_filter, strides, padding, rate=None, name=None, data_format=None, dilations=None):
    """A depthwise convolution, then one that mixes the channels."""
    rate = renamed_argument("dilations", dilations, "rate", rate)
    with ops.name_scope(name, "separable_conv2d", [input, depthwise_filter, pointwise_filter]) as name:
        input = ops.convert_to_tensor(input, name="tensor_in")
        depthwise_filter = ops.convert_to_tensor(depthwise_filter, name="depthwise_filter")
        pointwise_filter = ops.convert_to_tensor(pointwise_filter, name="pointwise_filter")
        pointwise_shape = pointwise_filter.shape.with_rank(4)
        pointwise_shape.dims[0].assert_is_compatible_with(1)
        pointwise_shape.dims[1].assert_is_compatible_with(1)
        rate = [1, 1] if rate is None else rate

        def op(tensor, _, effective_padding):
            return gen.DepthwiseConv2dNative(tensor, depthwise_filter, strides=strides, padding=effective_padding, data_format=data_format, name="depthwise")

        depthwise = with_space_to_batch(input=input, filter_shape=tf.shape(depthwise_filter), dilation_rate=rate, padding=padding, data_format=data_format, op=op)
        return gen.Conv2D(depthwise, pointwise_filter, strides=[1, 1, 1, 1], padding="VALID", data_format=data_format, name=name)
