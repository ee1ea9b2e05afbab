"""Queues: `tf.FIFOQueue` and the other kinds of `tf.queue`."""

from tensorfleet.framework import dtypes as dtypes_lib
from tensorfleet.framework import gen, ops, random_seed
from tensorfleet.framework.constant import constant_value
from tensorfleet.framework.export import export
from tensorfleet.framework.operation import Operation
from tensorfleet.framework.tensor_shape import TensorShape, as_shape


def _as_type_list(dtypes):
    """One dtype, or a list of them, as a list."""
    return list(dtypes) if isinstance(dtypes, (list, tuple)) else [dtypes]


def _as_shape_list(shapes, dtypes, unknown_dim_allowed=False, unknown_rank_allowed=False):
    """One shape, or a list of them, as a list; `None` if there are none."""
    if shapes is None:
        return None
    if isinstance(shapes, TensorShape):
        shapes = [shapes]
    if not isinstance(shapes, (tuple, list)):
        raise TypeError("shapes must be a TensorShape or a list or tuple of TensorShapes.")
    if all(shape is None or isinstance(shape, int) for shape in shapes):
        # One shape that is given as its numbers.
        shapes = [shapes]
    shapes = [as_shape(shape) for shape in shapes]
    if not unknown_dim_allowed and not all(shape.is_fully_defined() for shape in shapes):
        raise ValueError(f"All shapes must be fully defined: {shapes}")
    if not unknown_rank_allowed and any(shape.rank is None for shape in shapes):
        raise ValueError(f"All shapes must have a defined rank: {shapes}")
    return shapes


def _as_name_list(names, dtypes):
    if names is None:
        return None
    names = list(names) if isinstance(names, (list, tuple)) else [names]
    if len(names) != len(dtypes):
        raise ValueError("List of names must have the same length as the list of dtypes")
    return names


def _shape_common(one, other):
    """The shape that both have; unknown where they differ."""
    one, other = TensorShape(one), TensorShape(other)
    if one.rank is None or one.rank != other.rank:
        return TensorShape(None)
    return TensorShape([a if a is not None and a == b else None for a, b in zip(one.as_list(), other.as_list())])


@export("queue.QueueBase", "QueueBase", "io.QueueBase")
class QueueBase:
    """What all queues have."""

    def __init__(self, dtypes, shapes, names, queue_ref):
        self._dtypes = dtypes
        if shapes is not None:
            if len(shapes) != len(dtypes):
                raise ValueError("Queue shapes must have the same length as dtypes")
            self._shapes = [TensorShape(shape) for shape in shapes]
        else:
            self._shapes = [TensorShape(None) for _ in self._dtypes]
        if names is not None:
            if len(names) != len(dtypes):
                raise ValueError("Queue names must have the same length as dtypes")
            self._names = names
        else:
            self._names = None
        self._queue_ref = queue_ref
        self._name = self._queue_ref.op.name.split("/")[-1]

    @staticmethod
    def from_list(index, queues):
        """The queue at a position that is known when the graph runs."""
        if not queues or not isinstance(queues, list) or not all(isinstance(queue, QueueBase) for queue in queues):
            raise TypeError("A list of queues expected")
        dtypes = queues[0].dtypes
        if not all(dtypes == queue.dtypes for queue in queues[1:]):
            raise TypeError("Queues do not have matching component dtypes.")
        names = queues[0].names
        if not all(names == queue.names for queue in queues[1:]):
            raise TypeError("Queues do not have matching component names.")
        shapes = queues[0].shapes
        for queue in queues[1:]:
            shapes = [_shape_common(one, other) for one, other in zip(shapes, queue.shapes)]
        from tensorfleet.ops import array, indexing

        selected = indexing.gather(array.stack([queue.queue_ref for queue in queues]), index)
        return QueueBase(dtypes=dtypes, shapes=shapes, names=names, queue_ref=selected)

    @property
    def queue_ref(self):
        return self._queue_ref

    @property
    def name(self):
        return self._queue_ref.op.name

    @property
    def dtypes(self):
        return self._dtypes

    @property
    def shapes(self):
        return self._shapes

    @property
    def names(self):
        return self._names

    def _checked(self, vals):
        """The components of what is put in, in order, as tensors."""
        if isinstance(vals, dict):
            if not self._names:
                raise ValueError("Queue must have names to enqueue a dictionary")
            if sorted(self._names, key=str) != sorted(vals.keys(), key=str):
                raise ValueError(
                    "Keys in dictionary to enqueue do not match names of Queue.  "
                    f"Dictionary: ({sorted(vals.keys())}), Queue: ({sorted(self._names)})"
                )
            vals = [vals[name] for name in self._names]
        else:
            if self._names:
                raise ValueError("You must enqueue a dictionary in a Queue with names")
            if not isinstance(vals, (list, tuple)):
                vals = [vals]
        return [
            ops.convert_to_tensor(value, dtype=dtype, name=f"component_{index}")
            for index, (value, dtype) in enumerate(zip(vals, self._dtypes))
        ]

    def _scope_values(self, vals):
        return list(vals.values()) if isinstance(vals, dict) else vals if isinstance(vals, (list, tuple)) else [vals]

    def enqueue(self, vals, name=None):
        """Puts one element in."""
        with ops.name_scope(name, f"{self._name}_enqueue", self._scope_values(vals)) as scope:
            vals = self._checked(vals)
            for value, shape in zip(vals, self._shapes):
                value.shape.assert_is_compatible_with(shape)
            return gen.QueueEnqueueV2(self._queue_ref, vals, name=scope)

    def enqueue_many(self, vals, name=None):
        """Puts in the elements along the first dimension."""
        with ops.name_scope(name, f"{self._name}_EnqueueMany", self._scope_values(vals)) as scope:
            vals = self._checked(vals)
            batch = vals[0].shape.with_rank_at_least(1)[0]
            for value, shape in zip(vals, self._shapes):
                batch = batch.merge_with(value.shape.with_rank_at_least(1)[0])
                value.shape[1:].assert_is_compatible_with(shape)
            return gen.QueueEnqueueManyV2(self._queue_ref, vals, name=scope)

    def _taken(self, tensors):
        tensors = tensors if isinstance(tensors, list) else [tensors]
        if self._names:
            return dict(zip(self._names, tensors))
        return tensors[0] if len(tensors) == 1 else tensors

    def _outputs(self, op):
        return op if not isinstance(op, Operation) else []

    def dequeue(self, name=None):
        """Takes one element out."""
        taken = gen.QueueDequeueV2(self._queue_ref, component_types=self._dtypes, name=name or f"{self._name}_Dequeue")
        taken = taken if isinstance(taken, list) else [taken]
        for tensor, shape in zip(taken, self._shapes):
            tensor.set_shape(shape)
        return self._taken(taken)

    def dequeue_many(self, n, name=None):
        """Takes `n` elements out, as one batch."""
        taken = gen.QueueDequeueManyV2(self._queue_ref, n, component_types=self._dtypes, name=name or f"{self._name}_DequeueMany")
        count = constant_value(_input(taken, 1))
        count = None if count is None else int(count)
        for tensor, shape in zip(taken, self._shapes):
            tensor.set_shape(TensorShape([count]).concatenate(shape))
        return self._taken(taken)

    def dequeue_up_to(self, n, name=None):
        """Takes up to `n` elements out, as one batch; fewer once the queue is closed."""
        taken = gen.QueueDequeueUpToV2(self._queue_ref, n, component_types=self._dtypes, name=name or f"{self._name}_DequeueUpTo")
        for tensor, shape in zip(taken, self._shapes):
            tensor.set_shape(TensorShape([None]).concatenate(shape))
        return self._taken(taken)

    def close(self, cancel_pending_enqueues=False, name=None):
        """Lets nobody put anything in any more."""
        return gen.QueueCloseV2(self._queue_ref, cancel_pending_enqueues=cancel_pending_enqueues, name=name or f"{self._name}_Close")

    def is_closed(self, name=None):
        """Whether it is closed."""
        return gen.QueueIsClosedV2(self._queue_ref, name=name or f"{self._name}_Is_Closed")

    def size(self, name=None):
        """The number of elements."""
        return gen.QueueSizeV2(self._queue_ref, name=name or f"{self._name}_Size")


def _input(taken, index):
    return (taken[0] if isinstance(taken, list) else taken).op.inputs[index]


@export("queue.FIFOQueue", "FIFOQueue")
class FIFOQueue(QueueBase):
    """First in, first out."""

    def __init__(self, capacity, dtypes, shapes=None, names=None, shared_name=None, name="fifo_queue"):
        dtypes = [dtypes_lib.as_dtype(dtype) for dtype in _as_type_list(dtypes)]
        shapes = _as_shape_list(shapes, dtypes)
        names = _as_name_list(names, dtypes)
        ref = gen.FIFOQueueV2(
            component_types=dtypes, shapes=shapes or [], capacity=capacity, shared_name=_shared_name(shared_name), name=name
        )
        super().__init__(dtypes, shapes, names, ref)


@export("queue.RandomShuffleQueue", "RandomShuffleQueue", "io.RandomShuffleQueue")
class RandomShuffleQueue(QueueBase):
    """Elements leave in random order."""

    def __init__(self, capacity, min_after_dequeue, dtypes, shapes=None, names=None, seed=None, shared_name=None, name="random_shuffle_queue"):
        dtypes = [dtypes_lib.as_dtype(dtype) for dtype in _as_type_list(dtypes)]
        shapes = _as_shape_list(shapes, dtypes)
        names = _as_name_list(names, dtypes)
        seed1, seed2 = random_seed.get_seed(seed)
        if seed1 is None and seed2 is None:
            seed1, seed2 = 0, 0
        elif seed is None and shared_name is not None:
            # All who share a queue must give it the same seed.
            seed2 = _seed_of(shared_name)
        ref = gen.RandomShuffleQueueV2(
            component_types=dtypes,
            shapes=shapes or [],
            capacity=capacity,
            min_after_dequeue=min_after_dequeue,
            seed=seed1,
            seed2=seed2,
            shared_name=_shared_name(shared_name),
            name=name,
        )
        super().__init__(dtypes, shapes, names, ref)


def _seed_of(shared_name):
    import hashlib

    text = (str(ops.get_default_graph().seed) + shared_name).encode()
    return int(hashlib.md5(text).hexdigest()[:8], 16) & 0x7FFFFFFF


def _shared_name(shared_name):
    return "" if shared_name is None else shared_name


@export("queue.PaddingFIFOQueue", "PaddingFIFOQueue", "io.PaddingFIFOQueue")
class PaddingFIFOQueue(QueueBase):
    """First in, first out; a batch pads its elements to the size of the largest."""

    def __init__(self, capacity, dtypes, shapes, names=None, shared_name=None, name="padding_fifo_queue"):
        dtypes = [dtypes_lib.as_dtype(dtype) for dtype in _as_type_list(dtypes)]
        if shapes is None:
            raise ValueError("When providing partial shapes, a list of shapes must be provided.")
        shapes = _as_shape_list(shapes, dtypes, unknown_dim_allowed=True)
        names = _as_name_list(names, dtypes)
        if len(dtypes) != len(shapes):
            raise ValueError(f"Shapes must be provided for all components, but received {len(dtypes)} dtypes and {len(shapes)} shapes.")
        ref = gen.PaddingFIFOQueueV2(component_types=dtypes, shapes=shapes, capacity=capacity, shared_name=_shared_name(shared_name), name=name)
        super().__init__(dtypes, shapes, names, ref)


@export("queue.PriorityQueue", "PriorityQueue", "io.PriorityQueue")
class PriorityQueue(QueueBase):
    """Elements leave in the order of an int64 that comes first in each."""

    def __init__(self, capacity, types, shapes=None, names=None, shared_name=None, name="priority_queue"):
        types = [dtypes_lib.as_dtype(dtype) for dtype in _as_type_list(types)]
        shapes = _as_shape_list(shapes, types)
        ref = gen.PriorityQueueV2(
            component_types=types, shapes=shapes or [], capacity=capacity, shared_name=_shared_name(shared_name), name=name
        )
        super().__init__([dtypes_lib.int64] + types, [()] + (shapes or [TensorShape(None)] * len(types)) if shapes else None, names, ref)
