"""Images cut, padded, turned and resized: `tf.image.*`."""

import numpy as np

from tensorfleet.framework import dtypes, gen, ops
from tensorfleet.framework.constant import constant_value
from tensorfleet.framework.export import export
from tensorfleet.framework.tensor import Tensor
from tensorfleet.ops import array, check, math


@export("image.ResizeMethod")
class ResizeMethod:
    """Ways to resize."""

    BILINEAR = 0
    NEAREST_NEIGHBOR = 1
    BICUBIC = 2
    AREA = 3


def checked(image, require_static=False):
    """Assertions that an image has three dimensions or more, none of them empty; none if that is known."""
    dims = image.shape
    if dims.rank is not None and dims.rank < 3:
        raise ValueError("'image' must be at least three-dimensional.")
    if dims.rank is None and require_static:
        raise ValueError("'image' must be fully defined.")
    last = dims._dims[-3:] if dims.rank is not None else (None,)
    if 0 in last:
        raise ValueError(f"inner 3 dims of 'image.shape' must be > 0: {dims}")
    if None in last:
        return [
            check.assert_positive(array.shape(image), ["all dims of 'image.shape' must be > 0."]),
            check.assert_greater_equal(array.rank(image), 3, message="'image' must be at least three-dimensional."),
        ]
    return []


def asserted(image):
    """The image after those assertions."""
    from tensorfleet.ops.control_flow import with_dependencies

    return with_dependencies(checked(image), image)


def sizes_of(image, rank):
    """The lengths of the dimensions: numbers where they are known, nodes elsewhere."""
    if image.shape.is_fully_defined():
        return image.shape.as_list()
    known = image.shape.with_rank(rank).as_list()
    found = array.unstack(array.shape(image), rank)
    return [dynamic if length is None else length for length, dynamic in zip(known, found)]


def _flip(image, axis, scope):
    with ops.name_scope(None, scope, [image]):
        image = ops.convert_to_tensor(image, name="image")
        image = asserted(image)
        rank = image.shape.rank
        if rank == 3 or rank is None:
            result = gen.ReverseV2(image, [axis])
            if rank is not None:
                result.set_shape(image.shape)
            return result
        if rank == 4:
            return gen.ReverseV2(image, [axis + 1])
        raise ValueError("'image' must have either 3 or 4 dimensions.")


@export("image.flip_left_right")
def flip_left_right(image):
    """Mirrored left to right."""
    return _flip(image, 1, "flip_left_right")


@export("image.flip_up_down")
def flip_up_down(image):
    """Mirrored top to bottom."""
    return _flip(image, 0, "flip_up_down")


def _random_flip(image, axis, seed, scope):
    from tensorfleet.ops.control_flow import cond
    from tensorfleet.ops.random import random_uniform

    with ops.name_scope(None, scope, [image]) as scope:
        image = ops.convert_to_tensor(image, name="image")
        image = asserted(image)
        rank = image.shape.rank
        if rank == 3 or rank is None:
            heads = gen.Less(random_uniform([], 0, 1.0, seed=seed), 0.5)
            result = cond(heads, lambda: gen.ReverseV2(image, [axis]), lambda: image, name=scope)
            result.set_shape(image.shape)
            return result
        if rank == 4:
            count = array.shape(image)[0]
            uniform = random_uniform([count], 0, 1.0, seed=seed)
            flips = math.cast(gen.Round(array.reshape(uniform, [count, 1, 1, 1])), image.dtype.base_dtype)
            flipped = gen.ReverseV2(image, [axis + 1])
            return flips * flipped + (1 - flips) * image
        raise ValueError("'image' must have either 3 or 4 dimensions.")


@export("image.random_flip_left_right")
def random_flip_left_right(image, seed=None):
    """Mirrored left to right, or not."""
    return _random_flip(image, 1, seed, "random_flip_left_right")


@export("image.random_flip_up_down")
def random_flip_up_down(image, seed=None):
    """Mirrored top to bottom, or not."""
    return _random_flip(image, 0, seed, "random_flip_up_down")


@export("image.transpose", "image.transpose_image")
def transpose(image, name=None):
    """Rows become columns."""
    with ops.name_scope(name, "transpose", [image]):
        image = asserted(ops.convert_to_tensor(image, name="image"))
        rank = image.shape.rank
        if rank == 3 or rank is None:
            return array.transpose(image, [1, 0, 2], name=name) if name else array.transpose(image, [1, 0, 2])
        if rank == 4:
            return array.transpose(image, [0, 2, 1, 3], name=name) if name else array.transpose(image, [0, 2, 1, 3])
        raise ValueError("'image' must have either 3 or 4 dimensions.")


@export("image.rot90")
def rot90(image, k=1, name=None):
    """Turned against the clock by quarter turns."""
    from tensorfleet.ops.control_flow import case

    with ops.name_scope(name, "rot90", [image, k]) as scope:
        image = asserted(ops.convert_to_tensor(image, name="image"))
        k = ops.convert_to_tensor(k, dtype=dtypes.int32, name="k")
        k.shape.assert_has_rank(0)
        k = gen.FloorMod(k, 4)
        rank = image.shape.rank
        if rank not in (3, None, 4):
            raise ValueError("'image' must have either 3 or 4 dimensions.")
        first = 0 if rank != 4 else 1
        swapped = [1, 0, 2] if first == 0 else [0, 2, 1, 3]
        turns = [
            (gen.Equal(k, 1), lambda: array.transpose(gen.ReverseV2(image, [first + 1]), swapped)),
            (gen.Equal(k, 2), lambda: gen.ReverseV2(image, [first, first + 1])),
            (gen.Equal(k, 3), lambda: gen.ReverseV2(array.transpose(image, swapped), [first + 1])),
        ]
        result = case(turns, default=lambda: image, exclusive=True, name=scope)
        result.set_shape([None, None, image.shape.dims[2]] if first == 0 and rank else [image.shape.dims[0], None, None, image.shape.dims[3]])
        return result


def _with_batch(image):
    """The image with a batch dimension, and whether it had one; its rank must be known or will be asserted."""
    rank = image.shape.rank
    if rank is None:
        image = array.expand_dims(image, 0)
        image.set_shape([None] * 4)
        return image, False
    if rank == 3:
        return array.expand_dims(image, 0), False
    if rank != 4:
        raise ValueError("'image' must have either 3 or 4 dimensions.")
    return image, True


def _assert_that(condition, error, message):
    """An assertion in the graph, or at once if the condition is known."""
    from tensorfleet.ops.control_flow import Assert

    if isinstance(condition, Tensor):
        return [Assert(condition, [message])]
    if not condition:
        raise error(message)
    return []


@export("image.crop_to_bounding_box")
def crop_to_bounding_box(image, offset_height, offset_width, target_height, target_width):
    """A rectangle of the image."""
    from tensorfleet.ops.control_flow import with_dependencies

    with ops.name_scope(None, "crop_to_bounding_box", [image]):
        image, is_batch = _with_batch(ops.convert_to_tensor(image, name="image"))
        asserts = checked(image)
        batch, height, width, depth = sizes_of(image, 4)
        asserts += _assert_that(offset_width >= 0, ValueError, "offset_width must be >= 0.")
        asserts += _assert_that(offset_height >= 0, ValueError, "offset_height must be >= 0.")
        asserts += _assert_that(target_width > 0, ValueError, "target_width must be > 0.")
        asserts += _assert_that(target_height > 0, ValueError, "target_height must be > 0.")
        asserts += _assert_that(width >= target_width + offset_width, ValueError, "width must be >= target + offset.")
        asserts += _assert_that(height >= target_height + offset_height, ValueError, "height must be >= target + offset.")
        image = with_dependencies(asserts, image)
        cropped = array.slice(image, array.stack([0, offset_height, offset_width, 0]), array.stack([-1, target_height, target_width, -1]))
        cropped.set_shape([None if isinstance(dim, Tensor) else dim for dim in (batch, target_height, target_width, depth)])
        return cropped if is_batch else array.squeeze(cropped, axis=[0])


@export("image.pad_to_bounding_box")
def pad_to_bounding_box(image, offset_height, offset_width, target_height, target_width):
    """The image with zeros around it."""
    from tensorfleet.ops.control_flow import with_dependencies

    with ops.name_scope(None, "pad_to_bounding_box", [image]):
        image, is_batch = _with_batch(ops.convert_to_tensor(image, name="image"))
        asserts = checked(image)
        batch, height, width, depth = sizes_of(image, 4)
        after_width = target_width - offset_width - width
        after_height = target_height - offset_height - height
        asserts += _assert_that(offset_height >= 0, ValueError, "offset_height must be >= 0")
        asserts += _assert_that(offset_width >= 0, ValueError, "offset_width must be >= 0")
        asserts += _assert_that(after_width >= 0, ValueError, "width must be <= target - offset")
        asserts += _assert_that(after_height >= 0, ValueError, "height must be <= target - offset")
        image = with_dependencies(asserts, image)
        paddings = array.reshape(array.stack([0, 0, offset_height, after_height, offset_width, after_width, 0, 0]), [4, 2])
        padded = array.pad(image, paddings)
        padded.set_shape([None if isinstance(dim, Tensor) else dim for dim in (batch, target_height, target_width, depth)])
        return padded if is_batch else array.squeeze(padded, axis=[0])


def _larger(a, b):
    return gen.Maximum(a, b) if isinstance(a, Tensor) or isinstance(b, Tensor) else max(a, b)


def _smaller(a, b):
    return gen.Minimum(a, b) if isinstance(a, Tensor) or isinstance(b, Tensor) else min(a, b)


def _same(a, b):
    return gen.Equal(a, b) if isinstance(a, Tensor) or isinstance(b, Tensor) else a == b


@export("image.resize_image_with_crop_or_pad", "image.resize_with_crop_or_pad")
def resize_image_with_crop_or_pad(image, target_height, target_width):
    """The middle of the image, or the image in the middle of zeros."""
    from tensorfleet.ops.control_flow import with_dependencies

    with ops.name_scope(None, "resize_image_with_crop_or_pad", [image]):
        image, is_batch = _with_batch(ops.convert_to_tensor(image, name="image"))
        asserts = checked(image)
        asserts += _assert_that(target_width > 0, ValueError, "target_width must be > 0.")
        asserts += _assert_that(target_height > 0, ValueError, "target_height must be > 0.")
        image = with_dependencies(asserts, image)
        # What is not known comes as nodes; sums of nodes give nodes.
        if isinstance(target_height, Tensor):
            target_height = with_dependencies(asserts, target_height)
        if isinstance(target_width, Tensor):
            target_width = with_dependencies(asserts, target_width)
        _, height, width, _ = sizes_of(image, 4)
        wider = target_width - width
        crop_x, pad_x = _larger(-wider // 2, 0), _larger(wider // 2, 0)
        higher = target_height - height
        crop_y, pad_y = _larger(-higher // 2, 0), _larger(higher // 2, 0)
        cropped = crop_to_bounding_box(image, crop_y, crop_x, _smaller(target_height, height), _smaller(target_width, width))
        resized = pad_to_bounding_box(cropped, pad_y, pad_x, target_height, target_width)
        if resized.shape.rank is None:
            raise ValueError("resized contains no shape.")
        _, height, width, _ = sizes_of(resized, 4)
        asserts = _assert_that(_same(height, target_height), ValueError, "resized height is not correct.")
        asserts += _assert_that(_same(width, target_width), ValueError, "resized width is not correct.")
        resized = with_dependencies(asserts, resized)
        return resized if is_batch else array.squeeze(resized, axis=[0])


@export("image.central_crop")
def central_crop(image, central_fraction):
    """The middle of the image, a fraction of each side."""
    with ops.name_scope(None, "central_crop", [image]):
        image = ops.convert_to_tensor(image, name="image")
        if central_fraction <= 0.0 or central_fraction > 1.0:
            raise ValueError("central_fraction must be within (0, 1]")
        if central_fraction == 1.0:
            return image
        asserted(image)
        rank = image.shape.rank
        if rank not in (3, 4):
            raise ValueError(f"`image` should either be a Tensor with rank = 3 or rank = 4. Had rank = {rank}.")
        row = 0 if rank == 3 else 1

        def length(index):
            known = image.shape._dims[index]
            return (array.shape(image)[index], True) if known is None else (known, False)

        (height, h_dynamic), (width, w_dynamic) = length(row), length(row + 1)

        def begin(size, dynamic):
            if dynamic:
                real = math.cast(size, dtypes.float64)
                return math.cast((real - real * central_fraction) / 2, dtypes.int32)
            return int((size - size * central_fraction) / 2)

        top, left = begin(height, h_dynamic), begin(width, w_dynamic)
        rows, columns = height - top * 2, width - left * 2
        before, after = ([0], [-1]) if rank == 4 else ([], [])
        result = array.slice(image, array.stack([*before, top, left, 0]), array.stack([*after, rows, columns, -1]))
        known = [None if dynamic else value for value, dynamic in ((rows, h_dynamic), (columns, w_dynamic))]
        result.set_shape([*image.shape.as_list()[:row], *known, image.shape.as_list()[-1]])
        return result


def _static_size(size):
    known = constant_value(size)
    return (None, None) if known is None else (int(known[0]), int(known[1]))


def _common_resize(images, resizer, size, preserve_aspect_ratio, name, skip_if_same):
    with ops.name_scope(name, "resize", [images, size]):
        images = ops.convert_to_tensor(images, name="images")
        rank = images.shape.rank
        if rank is None:
            raise ValueError("'images' contains no shape.")
        is_batch = rank == 4
        if rank == 3:
            images = array.expand_dims(images, 0)
        elif rank != 4:
            raise ValueError("'images' must have either 3 or 4 dimensions.")
        _, height, width, _ = images.shape.as_list()
        try:
            size = ops.convert_to_tensor(size, dtypes.int32, name="size")
        except (TypeError, ValueError):
            raise ValueError("'size' must be a 1-D int32 Tensor") from None
        if not size.shape.is_compatible_with([2]):
            raise ValueError("'size' must be a 1-D Tensor of 2 elements: new_height, new_width")
        new_height, new_width = _static_size(size)
        if preserve_aspect_ratio:
            if None not in (height, width, new_height, new_width):
                scale = min(np.float32(new_height) / np.float32(height), np.float32(new_width) / np.float32(width))
                new_height, new_width = int(np.round(scale * height)), int(np.round(scale * width))
            else:
                new_height, new_width = None, None
            size = _scaled(images, size)
        if skip_if_same and None not in (height, width) and width == new_width and height == new_height:
            return images if is_batch else array.squeeze(images, axis=[0])
        images = resizer(images, size)
        images.set_shape([None, new_height, new_width, None])
        return images if is_batch else array.squeeze(images, axis=[0])


def _scaled(images, size):
    """The largest size of the images' shape that fits."""
    _, height, width, _ = sizes_of(images, 4)
    wanted = constant_value(size)
    high, wide = (size[0], size[1]) if wanted is None else (int(wanted[0]), int(wanted[1]))
    scale_height = math.cast(high, dtypes.float32) / math.cast(height, dtypes.float32)
    scale_width = math.cast(wide, dtypes.float32) / math.cast(width, dtypes.float32)
    scale = gen.Minimum(scale_height, scale_width)
    new_height = math.cast(math.round(scale * math.cast(height, dtypes.float32)), dtypes.int32)
    new_width = math.cast(math.round(scale * math.cast(width, dtypes.float32)), dtypes.int32)
    return ops.convert_to_tensor([new_height, new_width], dtypes.int32, name="size")


@export("image.resize", "image.resize_images")
def resize_images(images, size, method=ResizeMethod.BILINEAR, align_corners=False, preserve_aspect_ratio=False, name=None):
    """Images of another size."""

    def resizer(images, size):
        if method in (ResizeMethod.BILINEAR, "bilinear"):
            return gen.ResizeBilinear(images, size, align_corners=align_corners)
        if method in (ResizeMethod.NEAREST_NEIGHBOR, "nearest"):
            return gen.ResizeNearestNeighbor(images, size, align_corners=align_corners)
        if method in (ResizeMethod.BICUBIC, "bicubic", ResizeMethod.AREA, "area"):
            raise NotImplementedError(f"resize method {method}: there are no ops ResizeBicubic and ResizeArea")
        raise ValueError("Resize method is not implemented.")

    return _common_resize(images, resizer, size, preserve_aspect_ratio, name, skip_if_same=True)


@export("image.resize_bilinear")
def resize_bilinear(images, size, align_corners=False, name=None, half_pixel_centers=False):
    """Images of another size, by linear interpolation."""
    return gen.ResizeBilinear(images, size, align_corners=align_corners, half_pixel_centers=half_pixel_centers, name=name)


@export("image.resize_nearest_neighbor")
def resize_nearest_neighbor(images, size, align_corners=False, name=None, half_pixel_centers=False):
    """Images of another size, by the nearest pixel."""
    return gen.ResizeNearestNeighbor(images, size, align_corners=align_corners, half_pixel_centers=half_pixel_centers, name=name)


@export("image.resize_image_with_pad")
def resize_image_with_pad(image, target_height, target_width, method=ResizeMethod.BILINEAR, align_corners=False):
    """The image resized in its proportions, with zeros around it."""
    from tensorfleet.ops.control_flow import with_dependencies

    with ops.name_scope(None, "resize_image_with_pad", [image]):
        image, is_batch = _with_batch(ops.convert_to_tensor(image, name="image"))
        asserts = checked(image)
        asserts += _assert_that(target_width > 0, ValueError, "target_width must be > 0.")
        asserts += _assert_that(target_height > 0, ValueError, "target_height must be > 0.")
        image = with_dependencies(asserts, image)
        _, height, width, _ = sizes_of(image, 4)
        f_height, f_width = math.cast(height, dtypes.float64), math.cast(width, dtypes.float64)
        f_target_height, f_target_width = math.cast(target_height, dtypes.float64), math.cast(target_width, dtypes.float64)
        ratio = gen.Maximum(f_width / f_target_width, f_height / f_target_height)
        resized_height, resized_width = f_height / ratio, f_width / ratio
        new_height = math.cast(gen.Floor(resized_height), dtypes.int32)
        new_width = math.cast(gen.Floor(resized_width), dtypes.int32)
        f_pad_height, f_pad_width = (f_target_height - resized_height) / 2, (f_target_width - resized_width) / 2
        floors = gen.Floor(f_pad_height), gen.Floor(f_pad_width)
        pad_height = gen.Maximum(0, math.cast(floors[0], dtypes.int32))
        pad_width = gen.Maximum(0, math.cast(floors[1], dtypes.int32))
        resized = resize_images(image, [new_height, new_width], method, align_corners)
        lengths = (height, width, target_height, target_width)
        if not any(isinstance(length, Tensor) for length in lengths):
            # Shape inference does not compute this far.
            known = max(width / target_width, height / target_height)
            resized.set_shape([None, int(height / known), int(width / known), None])
        padded = pad_to_bounding_box(resized, pad_height, pad_width, target_height, target_width)
        if padded.shape.rank is None:
            raise ValueError("padded contains no shape.")
        return padded if is_batch else array.squeeze(padded, axis=[0])
