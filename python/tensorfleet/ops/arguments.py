"""Arguments that had another name before TensorFlow 1.0, and values of Python beside tensors."""

import numpy as np

from tensorfleet.framework.tensor_shape import Dimension


def renamed(new_name, new_value, old_name, old_value):
    """The value of an argument that may come under its old name."""
    if old_value is not None:
        if new_value is not None:
            raise ValueError(f"Cannot specify both '{old_name}' and '{new_name}'")
        return old_value
    return new_value


def keep_dims_of(keepdims, keep_dims):
    """`keepdims`, or what the old `keep_dims` says."""
    keepdims = renamed("keepdims", keepdims, "keep_dims", keep_dims)
    return False if keepdims is None else keepdims


def is_integer(value):
    """Whether a value is a whole number of Python or numpy, or a `Dimension`."""
    return isinstance(value, (int, np.integer, Dimension)) and not isinstance(value, (bool, np.bool_))
