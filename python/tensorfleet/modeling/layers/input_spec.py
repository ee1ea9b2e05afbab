"""`tf.layers.InputSpec`: what a layer expects of its inputs, and the check."""

from tensorfleet.framework import dtypes
from tensorfleet.framework.export import export
from tensorfleet.platform import nest


@export("layers.InputSpec", "keras.layers.InputSpec")
class InputSpec:
    """What a layer expects of its inputs."""

    def __init__(self, dtype=None, shape=None, ndim=None, max_ndim=None, min_ndim=None, axes=None):
        self.dtype = dtypes.as_dtype(dtype).name if dtype is not None else None
        self.ndim = len(shape) if shape is not None else ndim
        self.shape, self.max_ndim, self.min_ndim = shape, max_ndim, min_ndim
        try:
            self.axes = {int(axis): value for axis, value in (axes or {}).items()}
        except (TypeError, ValueError):
            raise TypeError("The keys in axes must be integers.") from None
        if self.axes and (self.ndim is not None or self.max_ndim is not None):
            limit = (self.ndim if self.ndim else self.max_ndim) - 1
            if max(self.axes) > limit:
                raise ValueError(f"Axis {max(self.axes)} is greater than the maximum allowed value: {limit}")

    def __repr__(self):
        fields = ("dtype", "shape", "ndim", "max_ndim", "min_ndim", "axes")
        return "InputSpec({})".format(", ".join(f"{field}={getattr(self, field)}" for field in fields if getattr(self, field)))

    def get_config(self):
        return {field: getattr(self, field) for field in ("dtype", "shape", "ndim", "max_ndim", "min_ndim", "axes")}

    @classmethod
    def from_config(cls, config):
        return cls(**config)


def check_input(spec, inputs, layer_name):
    flat = nest.flatten(inputs)
    specs = spec if isinstance(spec, (list, tuple)) else [spec]
    if len(flat) != len(specs):
        raise ValueError(f"Layer {layer_name} expects {len(specs)} inputs, but it received {len(flat)} input tensors. Inputs received: {inputs}")
    for index, (value, wanted) in enumerate(zip(flat, specs)):
        if wanted is None:
            continue
        name = f"Input {index} of layer {layer_name} is incompatible with the layer: "
        rank = value.shape.ndims
        if (wanted.ndim is not None or wanted.min_ndim is not None or wanted.max_ndim is not None) and rank is None:
            raise ValueError(f"{name}its rank is undefined, but the layer requires a defined rank.")
        if wanted.ndim is not None and rank != wanted.ndim:
            raise ValueError(f"{name}expected ndim={wanted.ndim}, found ndim={rank}. Full shape received: {value.shape.as_list()}")
        if wanted.max_ndim is not None and rank is not None and rank > wanted.max_ndim:
            raise ValueError(f"{name}expected max_ndim={wanted.max_ndim}, found ndim={rank}")
        if wanted.min_ndim is not None and rank is not None and rank < wanted.min_ndim:
            raise ValueError(f"{name}: expected min_ndim={wanted.min_ndim}, found ndim={rank}. Full shape received: {value.shape.as_list()}")
        if wanted.dtype is not None and value.dtype.name != wanted.dtype:
            raise ValueError(f"{name}expected dtype={wanted.dtype}, found dtype={value.dtype}")
        if wanted.axes and rank is not None:
            dims = value.shape.as_list()
            for axis, size in wanted.axes.items():
                if size is not None and dims[axis] not in (size, None):
                    raise ValueError(f"{name}: expected axis {axis} of input shape to have value {size} but received input with shape {dims}")
