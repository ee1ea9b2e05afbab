"""`tf.contrib.staging.StagingArea`: values that wait between two parts of a graph."""

from tensorfleet.framework import dtypes as dtypes_lib
from tensorfleet.framework import gen, ops
from tensorfleet.framework.export import export
from tensorfleet.framework.tensor_shape import TensorShape
from tensorfleet.ops.control_flow import no_op


@export("contrib.staging.StagingArea")
class StagingArea:
    """A queue of tuples that a later step takes."""

    def __init__(self, dtypes, shapes=None, names=None, shared_name=None, capacity=0, memory_limit=0):
        if shared_name is None:
            self._name = ops.get_default_graph().unique_name(type(self).__name__)
        elif isinstance(shared_name, str):
            self._name = shared_name
        else:
            raise ValueError(f"shared_name must be a string, got {shared_name}")
        self._dtypes = [dtypes_lib.as_dtype(dtype) for dtype in dtypes]
        if shapes is not None and len(shapes) != len(self._dtypes):
            raise ValueError("StagingArea shapes must be the same length as dtypes")
        self._shapes = [TensorShape(None)] * len(self._dtypes) if shapes is None else [TensorShape(shape) for shape in shapes]
        if names is not None and len(names) != len(self._dtypes):
            raise ValueError("StagingArea names must be the same length as dtypes")
        self._names = names
        self._capacity, self._memory_limit = capacity, memory_limit
        with ops.name_scope(f"{self._name}_root"):
            self._coloc_op = no_op()

    @property
    def name(self):
        return self._name

    @property
    def dtypes(self):
        return self._dtypes

    @property
    def shapes(self):
        return self._shapes

    @property
    def names(self):
        return self._names

    @property
    def capacity(self):
        return self._capacity

    @property
    def memory_limit(self):
        return self._memory_limit

    @property
    def _attrs(self):
        return {"shared_name": self._name, "capacity": self._capacity, "memory_limit": self._memory_limit}

    def _checked(self, values):
        if isinstance(values, dict):
            if not self._names:
                raise ValueError("Staging areas must have names to enqueue a dictionary")
            if not set(values).issubset(self._names):
                raise ValueError(f"Keys in dictionary to put do not match names of staging area. Dictionary: ({sorted(values)}), Queue: ({sorted(self._names)})")
            values = [values[name] for name in self._names]
        elif self._names:
            raise ValueError("You must enqueue a dictionary in a staging area with names")
        values = list(values) if isinstance(values, (list, tuple)) else [values]
        if len(values) != len(self._dtypes):
            raise ValueError(f"Unexpected number of inputs {len(values)} vs {len(self._dtypes)}")
        for value, dtype, shape in zip(values, self._dtypes, self._shapes):
            if value.dtype != dtype:
                raise ValueError(f"Datatypes do not match. '{value.dtype}' != '{dtype}'")
            value.shape.assert_is_compatible_with(shape)
        return values

    def put(self, values, name=None):
        """Puts a tuple in; waits while there is no room."""
        with ops.name_scope(name, f"{self._name}_put", list(values.values()) if isinstance(values, dict) else values) as scope:
            values = self._checked(values)
            with ops.colocate_with(self._coloc_op):
                return gen.Stage(values, name=scope, **self._attrs)

    def _taken(self, tensors):
        for tensor, shape in zip(tensors, self._shapes):
            tensor.set_shape(shape)
        # TensorFlow leaves a node here for whoever waits for the tuple.
        with ops.colocate_with(None, ignore_existing=True):
            no_op()
        if self._names:
            return dict(zip(self._names, tensors))
        return tensors

    def get(self, name=None):
        """Takes a tuple out; waits until there is one."""
        name = f"{self._name}_get" if name is None else name
        with ops.colocate_with(self._coloc_op):
            tensors = gen.Unstage(dtypes=self._dtypes, name=name, **self._attrs)
        return self._taken(tensors)

    def peek(self, index, name=None):
        """A tuple, which stays."""
        name = f"{self._name}_peek" if name is None else name
        with ops.colocate_with(self._coloc_op):
            tensors = gen.StagePeek(index, dtypes=self._dtypes, name=name, **self._attrs)
        return self._taken(tensors)

    def size(self, name=None):
        """The number of tuples."""
        return gen.StageSize(dtypes=self._dtypes, name=name or f"{self._name}_size", **self._attrs)

    def clear(self, name=None):
        """Takes all out."""
        return gen.StageClear(dtypes=self._dtypes, name=name or f"{self._name}_clear", **self._attrs)
