"""`Operation`: a node of a graph."""

import sys

from tensorfleet.framework import dtypes
from tensorfleet.framework.export import export
from tensorfleet.framework.tensor import Tensor

_PACKAGE = __name__.split(".", maxsplit=1)[0] + "."
_RUNNER = "tensorfleet.standin.run"
#: Frames of the program that are kept for messages.
_KEPT_FRAMES = 6


def _frames():
    """Where the program is: file and line of its innermost frames, those of this package left out."""
    frame = sys._getframe(2)
    found = []
    while frame is not None and len(found) < _KEPT_FRAMES:
        module = frame.f_globals.get("__name__", "")
        if module == _RUNNER:
            break  # `python -m tensorfleet`: what is below is not the program's
        if not module.startswith(_PACKAGE) and not module.startswith("importlib"):
            found.append((frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return tuple(found)


@export("Operation")
class Operation:
    """A node of a graph, which computes its outputs from its inputs."""

    __slots__ = ("_graph", "_id", "_name", "_type", "_outputs", "_inputs", "_made", "_control_flow_context", "__weakref__", "__dict__")

    def __init__(self, graph, number, made=()):
        name, op_type, _, inputs, _, types = graph._native.node(number)
        self._graph = graph
        self._id = number
        self._name = name
        self._type = op_type
        self._inputs = inputs
        self._made = made
        self._control_flow_context = None
        self._outputs = [Tensor(self, index, dtypes.DType(dtype)) for index, dtype in enumerate(types)]

    @property
    def name(self):
        return self._name

    @property
    def type(self):
        return self._type

    @property
    def graph(self):
        return self._graph

    @property
    def outputs(self):
        return self._outputs

    def values(self):
        return tuple(self._outputs)

    @property
    def inputs(self):
        # A loop's back edge is added after its node.
        numbers = self._graph._native.node(self._id)[3] if self._type in ("Merge", "RefMerge") else self._inputs
        return InputList([self._graph._tensor(number) for number in numbers])

    @property
    def _input_types(self):
        return [tensor.dtype for tensor in self.inputs]

    @property
    def control_inputs(self):
        return [self._graph._operation(number) for number in self._graph._native.node(self._id)[4]]

    @property
    def _control_outputs(self):
        return [op for op in self._graph.get_operations() if self in op.control_inputs]

    @property
    def device(self):
        return self._graph._native.node(self._id)[2]

    def _set_device(self, device):
        device = device.to_string() if hasattr(device, "to_string") else device
        self._graph._native.set_device(self._id, device or "")

    def _add_control_input(self, op):
        self._add_control_inputs([op])

    def _add_control_inputs(self, ops):
        self._graph._native.add_control_inputs(self._id, [op._id for op in ops])

    def _get_control_flow_context(self):
        return self._control_flow_context

    def _set_control_flow_context(self, context):
        self._control_flow_context = context

    def colocation_groups(self):
        """The groups of operations that share a device with this one."""
        try:
            groups = self.get_attr("_class")
        except ValueError:
            groups = []
        groups = [group for group in groups if group.startswith(b"loc:@")]
        return groups or [b"loc:@" + self._name.encode()]

    @property
    def node_def(self):
        from tensorfleet.protobuf import NodeDef

        return NodeDef.FromString(self._graph._native.node_def(self._id))

    @property
    def op_def(self):
        from tensorfleet.framework import op_library

        return op_library.op_def(self._type)

    def get_attr(self, name):
        """The value of an attribute; dtypes are `DType`s, strings bytes, shapes `TensorShapeProto`s."""
        value = self._graph._native.attr(self._id, name)
        if value is None:
            raise ValueError(f"Operation '{self._name}' has no attr named '{name}'.")
        return attr_value(value)

    def _set_attr(self, name, value):
        self._graph._native.set_attr(self._id, name, value.SerializeToString())

    @property
    def traceback(self):
        """Where the program made the operation."""
        return [(file, line, "", "") for file, line in reversed(self._made)]

    def _made_at(self):
        return self._made

    def run(self, feed_dict=None, session=None):
        """Runs the operation in `session` or the default session."""
        from tensorfleet.framework import stacks

        stacks.run_using_default_session(self, feed_dict, self._graph, session)

    def __str__(self):
        return str(self.node_def)

    def __repr__(self):
        return f"<tf.Operation '{self._name}' type={self._type}>"


class InputList(list):
    """The inputs of an operation."""

    def __repr__(self):
        return f"<tf.Operation._InputList {list(self)}>"


def attr_value(serialized):
    """What an `AttrValue` holds, as `Operation.get_attr` gives it."""
    from tensorfleet.protobuf import AttrValue

    value = AttrValue.FromString(serialized)
    kind = value.WhichOneof("value")
    if kind is None:
        return []
    if kind == "list":
        held = value.list
        for field in ("s", "i", "f", "b", "type", "shape", "tensor", "func"):
            items = list(getattr(held, field))
            if items:
                return [dtypes.as_dtype(item) for item in items] if field == "type" else items
        return []
    held = getattr(value, kind)
    return dtypes.as_dtype(held) if kind == "type" else held
