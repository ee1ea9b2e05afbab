"""Functions that change variables."""

from tensorfleet.framework import gen, ops
from tensorfleet.framework.export import export
from tensorfleet.framework.tensor import Tensor
from tensorfleet.ops.variables import Variable


def _reference(ref):
    return ref._ref() if isinstance(ref, Variable) else ref


def _is_resource(ref):
    return isinstance(ref, Variable) and ref._is_resource


@export("assign")
def assign(ref, value, validate_shape=None, use_locking=None, name=None):
    """Gives a variable a value."""
    if isinstance(ref, Tensor) and ref.dtype._is_ref_dtype or not _is_resource(ref):
        keywords = {}
        if validate_shape is not None:
            keywords["validate_shape"] = validate_shape
        if use_locking is not None:
            keywords["use_locking"] = use_locking
        return gen.Assign(_reference(ref), value, name=name, **keywords)
    return ref.assign(value, name=name)


@export("assign_add")
def assign_add(ref, value, use_locking=None, name=None):
    """Adds to a variable."""
    if not _is_resource(ref):
        return gen.AssignAdd(_reference(ref), value, use_locking=bool(use_locking), name=name)
    return ref.assign_add(value)


@export("assign_sub")
def assign_sub(ref, value, use_locking=None, name=None):
    """Subtracts from a variable."""
    if not _is_resource(ref):
        return gen.AssignSub(_reference(ref), value, use_locking=bool(use_locking), name=name)
    return ref.assign_sub(value)


@export("count_up_to")
def count_up_to(ref, limit, name=None):
    """Increments a variable until it reaches `limit`; then the run ends with `OutOfRangeError`."""
    if _is_resource(ref):
        return gen.ResourceCountUpTo(ref.handle, limit=limit, T=ref.dtype, name=name)
    return gen.CountUpTo(_reference(ref), limit=limit, name=name)


def scatter(kind, ref, indices, updates, use_locking=False, name=None):
    """`Scatter{kind}` of rows of a variable."""
    if not _is_resource(ref):
        return getattr(gen, f"Scatter{kind}")(_reference(ref), indices, updates, use_locking=bool(use_locking), name=name)
    updates = ops.convert_to_tensor(updates, dtype=ref.dtype)
    op = getattr(gen, f"ResourceScatter{kind}")(ref.handle, indices, updates, name=name)
    return ref._after(op)


def scatter_nd(kind, ref, indices, updates, use_locking=True, name=None):
    """`ScatterNd{kind}` of slices of a variable."""
    if not _is_resource(ref):
        return getattr(gen, f"ScatterNd{kind}")(_reference(ref), indices, updates, use_locking=use_locking, name=name)
    updates = ops.convert_to_tensor(updates, dtype=ref.dtype)
    op = getattr(gen, f"ResourceScatterNd{kind}")(ref.handle, indices, updates, use_locking=use_locking, name=name)
    return ref._after(op)


@export("scatter_update")
def scatter_update(ref, indices, updates, use_locking=True, name=None):
    return scatter("Update", ref, indices, updates, use_locking, name)


@export("scatter_add")
def scatter_add(ref, indices, updates, use_locking=False, name=None):
    return scatter("Add", ref, indices, updates, use_locking, name)


@export("scatter_sub")
def scatter_sub(ref, indices, updates, use_locking=False, name=None):
    return scatter("Sub", ref, indices, updates, use_locking, name)


@export("scatter_mul")
def scatter_mul(ref, indices, updates, use_locking=False, name=None):
    return scatter("Mul", ref, indices, updates, use_locking, name)


@export("scatter_div")
def scatter_div(ref, indices, updates, use_locking=False, name=None):
    return scatter("Div", ref, indices, updates, use_locking, name)


@export("scatter_max")
def scatter_max(ref, indices, updates, use_locking=False, name=None):
    return scatter("Max", ref, indices, updates, use_locking, name)


@export("scatter_min")
def scatter_min(ref, indices, updates, use_locking=False, name=None):
    return scatter("Min", ref, indices, updates, use_locking, name)


@export("scatter_nd_update")
def scatter_nd_update(ref, indices, updates, use_locking=True, name=None):
    return scatter_nd("Update", ref, indices, updates, use_locking, name)


@export("scatter_nd_add")
def scatter_nd_add(ref, indices, updates, use_locking=False, name=None):
    return scatter_nd("Add", ref, indices, updates, use_locking, name)


@export("scatter_nd_sub")
def scatter_nd_sub(ref, indices, updates, use_locking=False, name=None):
    return scatter_nd("Sub", ref, indices, updates, use_locking, name)


@export("batch_scatter_update")
def batch_scatter_update(ref, indices, updates, use_locking=True, name=None):
    """`scatter_update` of each batch by itself."""
    from tensorfleet.ops import array, math

    with ops.name_scope(name):
        indices = ops.convert_to_tensor(indices, name="indices")
        indices_shape = array.shape(indices)
        depth = indices.shape.ndims
        nd_indices = array.expand_dims(indices, axis=-1)
        parts = []
        for axis in range(depth - 1):
            positions = math.cast(math.range(0, indices_shape[axis]), dtype=indices.dtype)
            extent = array.concat([[1] * axis, array.shape(positions), [1] * (depth - axis)], axis=0)
            positions = array.reshape(positions, extent)
            tiles = array.concat([indices_shape[:axis], [1], indices_shape[axis + 1 :], [1]], axis=0)
            parts.append(array.tile(positions, multiples=tiles))
        full = array.concat(parts + [nd_indices], axis=-1)
        return scatter_nd_update(ref, full, updates, use_locking, name=name)


def init_variable(v, init, name="init"):
    """An operation that gives a variable its first value."""
    with ops.name_scope(None, f"{v.op.name}/", [v, init]), ops.name_scope(name) as scope, ops.colocate_with(v):
        if callable(init):
            value = init(v.shape.as_list(), v.dtype.base_dtype)
        else:
            value = ops.convert_to_tensor(init, name="init")
        return gen.Assign(v._ref(), value, name=scope)
