"""How alike images look: `tf.image.ssim`."""

from tensorfleet.framework import dtypes, gen, ops
from tensorfleet.framework.constant import constant
from tensorfleet.framework.export import export
from tensorfleet.ops import array, math, reductions
from tensorfleet.ops.image_color import convert_image_dtype, same_shape


def _gauss(size, sigma):
    """A Gaussian window of a size, normalized by a softmax."""
    places = math.cast(math.range(size), sigma.dtype)
    places = places - math.cast(size - 1, sigma.dtype) / 2.0
    logits = gen.Square(places) * (-0.5 / gen.Square(sigma))
    logits = array.reshape(logits, [1, -1]) + array.reshape(logits, [-1, 1])
    return array.reshape(gen.Softmax(array.reshape(logits, [1, -1])), [size, size, 1, 1])


def _compared(x, y, reducer, max_val, k1, k2):
    """The luminance part and the contrast-structure part."""
    c1, c2 = (k1 * max_val) ** 2, (k2 * max_val) ** 2
    mean_x, mean_y = reducer(x), reducer(y)
    product = mean_x * mean_y * 2.0
    squares = gen.Square(mean_x) + gen.Square(mean_y)
    luminance = (product + c1) / (squares + c1)
    both = reducer(x * y) * 2.0
    each = reducer(gen.Square(x) + gen.Square(y))
    c2 = c2 * 1.0
    return luminance, (both - product + c2) / (each - squares + c2)


def _per_channel(img1, img2, max_val, filter_size, filter_sigma, k1, k2):
    from tensorfleet.ops.control_flow import Assert
    from tensorfleet.ops.nn_depthwise import depthwise_conv2d

    filter_size = constant(filter_size, dtype=dtypes.int32)
    filter_sigma = constant(filter_sigma, dtype=img1.dtype)
    shape1, shape2 = array.shape_n([img1, img2])
    checks = [
        Assert(reductions.reduce_all(gen.GreaterEqual(shape[-3:-1], filter_size)), [shape, filter_size], summarize=8) for shape in (shape1, shape2)
    ]
    with ops.control_dependencies(checks):
        img1 = gen.Identity(img1)
    kernel = gen.Tile(_gauss(filter_size, filter_sigma), [1, 1, shape1[-1], 1])

    def reducer(x):
        shape = array.shape(x)
        x = array.reshape(x, array.concat([[-1], shape[-3:]], 0))
        y = depthwise_conv2d(x, kernel, strides=[1, 1, 1, 1], padding="VALID")
        return array.reshape(y, array.concat([shape[:-3], array.shape(y)[1:]], 0))

    luminance, contrast = _compared(img1, img2, reducer, max_val, k1, k2)
    axes = constant([-3, -2], dtype=dtypes.int32)
    return reductions.reduce_mean(luminance * contrast, axes), reductions.reduce_mean(contrast, axes)


@export("image.ssim")
def ssim(img1, img2, max_val, filter_size=11, filter_sigma=1.5, k1=0.01, k2=0.03):
    """The structural similarity of images, from -1 to 1."""
    _, _, checks = same_shape(img1, img2)
    with ops.control_dependencies(checks):
        img1 = gen.Identity(img1)
    max_val = convert_image_dtype(math.cast(max_val, img1.dtype), dtypes.float32)
    img1, img2 = convert_image_dtype(img1, dtypes.float32), convert_image_dtype(img2, dtypes.float32)
    value, _ = _per_channel(img1, img2, max_val, filter_size, filter_sigma, k1, k2)
    return reductions.reduce_mean(value, [-1])
