"""Values of images: brightness, colours, formats, measures of likeness."""

import numpy as np

from tensorfleet.framework import dtypes, gen, ops
from tensorfleet.framework.constant import constant
from tensorfleet.framework.export import export
from tensorfleet.ops import array, math, reductions
from tensorfleet.ops.image_shape import asserted


@export("image.adjust_brightness")
def adjust_brightness(image, delta):
    """The image with something added to every value."""
    with ops.name_scope(None, "adjust_brightness", [image, delta]) as name:
        image = ops.convert_to_tensor(image, name="image")
        original = image.dtype.base_dtype
        values = image if original.name in ("float16", "float32") else convert_image_dtype(image, dtypes.float32)
        adjusted = gen.Add(values, math.cast(delta, values.dtype), name=name)
        return convert_image_dtype(adjusted, original, saturate=True)


@export("image.random_brightness")
def random_brightness(image, max_delta, seed=None):
    """The image with a random number added to every value."""
    from tensorfleet.ops.random import random_uniform

    if max_delta < 0:
        raise ValueError("max_delta must be non-negative.")
    return adjust_brightness(image, random_uniform([], -max_delta, max_delta, seed=seed))


@export("image.adjust_gamma")
def adjust_gamma(image, gamma=1, gain=1):
    """`gain * image ** gamma`."""
    with ops.name_scope(None, "adjust_gamma", [image, gamma, gain]):
        image = ops.convert_to_tensor(image, name="image")
        original = image.dtype.base_dtype
        values = image if original.name in ("float16", "float32") else convert_image_dtype(image, dtypes.float32)
        if not isinstance(gamma, ops.Tensor):
            if gamma < 0:
                raise ValueError("Gamma should be a non-negative real number.")
            adjusted = gain * values**gamma
        else:
            from tensorfleet.ops.control_flow import Assert, with_dependencies

            positive = Assert(gamma >= 0, ["Gamma should be a non-negative real number."])
            adjusted = gain * values ** with_dependencies([positive], gamma)
        return convert_image_dtype(adjusted, original, saturate=True)


@export("image.convert_image_dtype")
def convert_image_dtype(image, dtype, saturate=False, name=None):
    """The image as another type, its values scaled to the new type's range."""
    image = ops.convert_to_tensor(image, name="image")
    dtype = dtypes.as_dtype(dtype)
    if dtype == image.dtype.base_dtype:
        return gen.Identity(image, name=name)
    with ops.name_scope(name, "convert_image", [image]) as name:
        own = image.dtype.base_dtype
        cast = math.saturate_cast if saturate else math.cast
        if own.is_integer and dtype.is_integer:
            scale_in, scale_out = own.max, dtype.max
            if scale_in > scale_out:
                scaled = gen.FloorDiv(image, (int(scale_in) + 1) // (int(scale_out) + 1), name="div")
                return cast(scaled, dtype, name=name)
            if saturate:
                values = math.saturate_cast(image, dtype)
            else:
                values = math.cast(image, dtype)
            return gen.Mul(values, (int(scale_out) + 1) // (int(scale_in) + 1), name=name)
        if own.is_floating and dtype.is_floating:
            return math.cast(image, dtype, name=name)
        if own.is_integer:
            return gen.Mul(math.cast(image, dtype), 1.0 / own.max, name=name)
        scaled = gen.Mul(image, dtype.max + 0.5)
        return cast(scaled, dtype, name=name)


@export("image.per_image_standardization")
def per_image_standardization(image):
    """Images with mean zero and variance one."""
    with ops.name_scope(None, "per_image_standardization", [image]) as scope:
        image = ops.convert_to_tensor(image, name="image")
        image = asserted(image)
        count = reductions.reduce_prod(array.shape(image)[-3:])
        image = math.cast(image, dtype=dtypes.float32)
        mean = reductions.reduce_mean(image, axis=[-1, -2, -3], keepdims=True)
        stddev = reductions.reduce_std(image, axis=[-1, -2, -3], keepdims=True)
        least = gen.Rsqrt(math.cast(count, dtypes.float32))
        deviation = gen.Maximum(stddev, least)
        adjusted = gen.RealDiv(image - mean, deviation, name=scope)
        return convert_image_dtype(adjusted, image.dtype.base_dtype, saturate=True)


def _check_last(image, size, message):
    dims = image.shape
    if dims.rank is not None and dims._dims[-1] is not None and dims._dims[-1] != size:
        raise ValueError(message)


@export("image.rgb_to_grayscale")
def rgb_to_grayscale(images, name=None):
    """Grey images."""
    from tensorfleet.ops.products import tensordot

    with ops.name_scope(name, "rgb_to_grayscale", [images]) as name:
        images = ops.convert_to_tensor(images, name="images")
        original = images.dtype.base_dtype
        values = convert_image_dtype(images, dtypes.float32)
        gray = array.expand_dims(tensordot(values, [0.2989, 0.5870, 0.1140], [-1, -1]), -1)
        return convert_image_dtype(gray, original, name=name)


@export("image.grayscale_to_rgb")
def grayscale_to_rgb(images, name=None):
    """Grey images with three equal channels."""
    from tensorfleet.ops.constants import ones
    from tensorfleet.ops.control_flow import with_dependencies

    with ops.name_scope(name, "grayscale_to_rgb", [images]) as name:
        images = ops.convert_to_tensor(images, name="images")
        images = with_dependencies(_one_channel(images), images)
        rank = array.expand_dims(array.rank(images) - 1, 0)
        multiples = array.concat([ones(rank, dtype=dtypes.int32), array.expand_dims(3, 0)], 0)
        rgb = gen.Tile(images, multiples, name=name)
        rgb.set_shape(images.shape[:-1].concatenate([3]))
        return rgb


def _one_channel(image):
    dims = image.shape
    _check_last(image, 1, f"last dimension of a grayscale image should be size 1: {dims}")
    if dims.rank is not None and dims.rank < 2:
        raise ValueError("A grayscale image must be at least two-dimensional.")
    if dims.rank is not None and dims._dims[-1] == 1:
        return []
    from tensorfleet.ops import check

    return [
        check.assert_equal(array.shape(image)[-1], 1, message="Last dimension of a grayscale image should be size 1."),
        check.assert_greater_equal(array.rank(image), 3, message="A grayscale image must be at least two-dimensional."),
    ]


def _by_kernel(images, kernel):
    from tensorfleet.ops.products import tensordot

    images = ops.convert_to_tensor(images, name="images")
    kernel = ops.convert_to_tensor(kernel, dtype=images.dtype.base_dtype, name="kernel")
    return tensordot(images, kernel, axes=[[images.shape.rank - 1], [0]])


_RGB_TO_YIQ = [[0.299, 0.59590059, 0.2115], [0.587, -0.27455667, -0.52273617], [0.114, -0.32134392, 0.31119955]]
_YIQ_TO_RGB = [[1, 1, 1], [0.95598634, -0.27201283, -1.10674021], [0.6208248, -0.64720424, 1.70423049]]
_RGB_TO_YUV = [[0.299, -0.14714119, 0.61497538], [0.587, -0.28886916, -0.51496512], [0.114, 0.43601035, -0.10001026]]
_YUV_TO_RGB = [[1, 1, 1], [0, -0.394642334, 2.03206185], [1.13988303, -0.58062185, 0]]


@export("image.rgb_to_yiq")
def rgb_to_yiq(images):
    """Images in YIQ."""
    return _by_kernel(images, _RGB_TO_YIQ)


@export("image.yiq_to_rgb")
def yiq_to_rgb(images):
    """Images from YIQ."""
    return _by_kernel(images, _YIQ_TO_RGB)


@export("image.rgb_to_yuv")
def rgb_to_yuv(images):
    """Images in YUV."""
    return _by_kernel(images, _RGB_TO_YUV)


@export("image.yuv_to_rgb")
def yuv_to_rgb(images):
    """Images from YUV."""
    return _by_kernel(images, _YUV_TO_RGB)


@export("image.is_jpeg", "io.is_jpeg")
def is_jpeg(contents, name=None):
    """Whether bytes begin as a JPEG does."""
    with ops.name_scope(name, "is_jpeg"):
        return gen.Equal(gen.Substr(contents, 0, 3), b"\xff\xd8\xff", name=name)


@export("image.decode_image", "io.decode_image")
def decode_image(contents, channels=None, dtype=dtypes.uint8, name=None, expand_animations=True):
    """An image from bytes of any format that is known; one node, where TensorFlow 1.15 makes a branch for each format."""
    with ops.name_scope(name, "decode_image"):
        if channels not in (None, 0, 1, 3, 4):
            raise ValueError("channels must be in (None, 0, 1, 3, 4)")
        if dtypes.as_dtype(dtype) not in (dtypes.float32, dtypes.uint8, dtypes.uint16):
            raise ValueError("dtype must be float32, uint8 or uint16")
        return gen.DecodeImage(contents, channels=channels or 0, dtype=dtype, expand_animations=expand_animations)


@export("image.total_variation")
def total_variation(images, name=None):
    """The sum of differences of neighbours."""
    with ops.name_scope(name, "total_variation"):
        rank = images.shape.rank
        if rank == 3:
            vertical, horizontal = images[1:, :, :] - images[:-1, :, :], images[:, 1:, :] - images[:, :-1, :]
            axis = None
        elif rank == 4:
            vertical, horizontal = images[:, 1:, :, :] - images[:, :-1, :, :], images[:, :, 1:, :] - images[:, :, :-1, :]
            axis = [1, 2, 3]
        else:
            raise ValueError("'images' must be either 3 or 4-dimensional.")
        return reductions.reduce_sum(math.abs(vertical), axis=axis) + reductions.reduce_sum(math.abs(horizontal), axis=axis)


@export("image.image_gradients")
def image_gradients(image):
    """Differences to the next row and the next column; zeros in the last."""
    from tensorfleet.ops.constants import zeros

    if image.shape.rank != 4:
        raise ValueError(f"image_gradients expects a 4D tensor [batch_size, h, w, d], not {image.shape}.")
    shape = array.shape(image)
    batch, height, width, depth = array.unstack(shape)
    dy = image[:, 1:, :, :] - image[:, :-1, :, :]
    dx = image[:, :, 1:, :] - image[:, :, :-1, :]
    row = array.stack([batch, 1, width, depth])
    dy = array.reshape(array.concat([dy, zeros(row, image.dtype)], 1), shape)
    column = array.stack([batch, height, 1, depth])
    dx = array.reshape(array.concat([dx, zeros(column, image.dtype)], 2), shape)
    return dy, dx


@export("image.sobel_edges")
def sobel_edges(image):
    """Edges by Sobel's filters, in both directions."""
    from tensorfleet.ops.nn_depthwise import depthwise_conv2d

    static, shape = image.shape, array.shape(image)
    kernels = np.transpose(np.asarray([[[-1, -2, -1], [0, 0, 0], [1, 2, 1]], [[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]]]), (1, 2, 0))
    kernels = constant(np.expand_dims(kernels, -2), dtype=dtypes.float32)
    filters = gen.Tile(kernels, [1, 1, shape[-1], 1], name="sobel_filters")
    padded = array.pad(image, [[0, 0], [1, 1], [1, 1], [0, 0]], mode="REFLECT")
    output = depthwise_conv2d(padded, filters, [1, 1, 1, 1], "VALID")
    output = array.reshape(output, shape=array.concat([shape, [2]], 0))
    output.set_shape(static.concatenate([2]))
    return output


def same_shape(first, second):
    from tensorfleet.ops.control_flow import Assert

    first.shape[-3:].assert_is_compatible_with(second.shape[-3:])
    if first.shape.rank is not None and second.shape.rank is not None:
        for a, b in zip(reversed(first.shape._dims[:-3]), reversed(second.shape._dims[:-3])):
            if not (a == 1 or b == 1 or a is None or b is None or a == b):
                raise ValueError(f"Two images are not compatible: {first.shape} and {second.shape}")
    shapes = array.shape_n([first, second])
    checks = [
        Assert(gen.GreaterEqual(array.size(shapes[0]), 3), shapes, summarize=10),
        Assert(reductions.reduce_all(gen.Equal(shapes[0][-3:], shapes[1][-3:])), shapes, summarize=10),
    ]
    return shapes[0], shapes[1], checks


@export("image.psnr")
def psnr(a, b, max_val, name=None):
    """The peak signal-to-noise ratio, in decibels."""
    with ops.name_scope(name, "PSNR", [a, b]):
        max_val = convert_image_dtype(math.cast(max_val, a.dtype), dtypes.float32)
        a, b = convert_image_dtype(a, dtypes.float32), convert_image_dtype(b, dtypes.float32)
        mse = reductions.reduce_mean(gen.SquaredDifference(a, b), [-3, -2, -1])
        value = gen.Sub(20 * gen.Log(max_val) / gen.Log(10.0), np.float32(10 / np.log(10)) * gen.Log(mse), name="psnr")
        _, _, checks = same_shape(a, b)
        with ops.control_dependencies(checks):
            return gen.Identity(value)
