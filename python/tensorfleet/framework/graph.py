"""`Graph`: a dataflow graph under construction."""

import bisect
import contextlib
import re
import threading

from tensorfleet import _native
from tensorfleet.framework import device as device_lib
from tensorfleet.framework import stacks
from tensorfleet.framework.export import export
from tensorfleet.framework.keys import GraphKeys
from tensorfleet.framework.operation import Operation, _frames
from tensorfleet.framework.tensor import Tensor

#: The version of GraphDefs of TensorFlow 1.15: servers place nodes as it did.
GRAPH_DEF_VERSION = 134
_VALID_OP_NAME = re.compile("^[A-Za-z0-9.][A-Za-z0-9_.\\-/]*$")
_VALID_SCOPE_NAME = re.compile("^[A-Za-z0-9_.\\-/]*$")


@export("Graph")
class Graph:
    """A dataflow graph. Its nodes live in the library; operations are made for those that a program asks for."""

    building_function = False
    outer_graph = None

    def __init__(self):
        self._native = _native.Graph(GRAPH_DEF_VERSION)
        self._lock = threading.RLock()
        self._operations = {}
        # Nodes up to each number were there when the program was at each place; see `_made_at`.
        self._seen, self._places = [0], [()]
        self._collections = {}
        self._finalized = False
        self._unfeedable = set()
        self._unfetchable = set()
        self._attr_scopes = {}
        self._gradient_overrides = {}
        self._container = ""
        self._seed = None
        self._library_variables = {"global": 0, "local": 0}
        self._control_flow_context = None
        self._variable_objects = {}

    # ---- nodes

    def _operation(self, number, is_new=True):
        # Without the lock: whoever asks the library may wait for a thread that wants it. Of two equal objects the first is kept.
        op = self._operations.get(number)
        if op is None:
            op = self._operations.setdefault(number, Operation(self, number, self._made_at(number, is_new)))
        return op

    def _made_at(self, number, is_new):
        """Where the program was when the library made a node by itself. Something of what a call has made is asked for when the
        call returns, and then the place is noted for all of it."""
        if number >= self._seen[-1]:
            if not is_new:
                return ()
            self._note_place(len(self._native), _frames())
        return self._places[min(bisect.bisect_right(self._seen, number), len(self._places) - 1)]

    def _note_place(self, end, place):
        """Notes a place for all nodes before `end` that have none."""
        with self._lock:
            if end > self._seen[-1]:
                self._seen.append(end)
                self._places.append(place)

    def _tensor(self, number):
        return self._operation(number >> 32)._outputs[number & 0xFFFFFFFF]

    def _find_operation(self, name):
        number = self._native.find(name)
        return None if number is None else self._operation(number, is_new=False)

    def _consumers(self, output):
        return [op for op in self.get_operations() if any(tensor._id == output for tensor in op.inputs)]

    def _add_node(self, op_type, name, inputs, attrs, control_inputs=(), device=""):
        """Adds a node: inputs are numbers of outputs, or lists of them, one for each argument; gives its operation."""
        self._check_not_finalized()
        if not _VALID_OP_NAME.match(name):
            scope = "" if name.endswith("/") else self._native.name_scope()
            full_name = f"{scope}/{name}" if scope else name.rstrip("/")
            if not _VALID_OP_NAME.match(full_name):
                raise ValueError(f"'{full_name}' is not a valid node name")
        for key, value in self._attr_scopes.items():
            attrs.setdefault(key, value)
        try:
            number = self._native.add_node(op_type, name, inputs, attrs, [op._id for op in control_inputs], device)
        except ValueError as error:
            from tensorfleet.framework import shape_errors

            full = name[:-1] if name.endswith("/") else self._native.unique_name(name, False)
            raise shape_errors.explained(error, op_type, full, inputs) from None
        op = Operation(self, number, _frames())
        op = self._operations[number] = self._operations.get(number, op)
        # What nobody asked for before this node: its place is not known.
        self._note_place(number, ())
        with self._lock:
            self._seen[-1] = max(self._seen[-1], number + 1)
        op._control_flow_context = self._control_flow_context
        override = self._gradient_overrides.get(op_type)
        if override is not None and "_gradient_op_type" not in attrs:
            from tensorfleet.protobuf import AttrValue

            op._set_attr("_gradient_op_type", AttrValue(s=override.encode()))
        return op

    def create_op(self, op_type, inputs, dtypes=None, input_types=None, name=None, attrs=None, op_def=None, compute_shapes=True, compute_device=True):
        """Adds a node of any op of the catalogue."""
        from tensorfleet.framework import op_library

        for index, tensor in enumerate(inputs):
            if not isinstance(tensor, Tensor):
                raise TypeError(f"Input #{index} is not a tensor: {tensor}")
        if name is not None and not name.endswith("/") and not _VALID_OP_NAME.match(name):
            raise ValueError(f"'{name}' is not a valid node name")
        attrs = dict(attrs or {})
        return op_library.create(self, op_type, list(inputs), attrs, name or op_type)

    def get_operations(self):
        return [self._operation(number) for number in range(len(self._native))]

    def get_operation_by_name(self, name):
        if not isinstance(name, str):
            raise TypeError(f"Operation names are strings (or similar), not {type(name).__name__}.")
        return self.as_graph_element(name, allow_tensor=False, allow_operation=True)

    def get_tensor_by_name(self, name):
        if not isinstance(name, str):
            raise TypeError(f"Tensor names are strings (or similar), not {type(name).__name__}.")
        return self.as_graph_element(name, allow_tensor=True, allow_operation=False)

    def as_graph_element(self, obj, allow_tensor=True, allow_operation=True):
        """The tensor or operation that an object or a name stands for."""
        if not allow_tensor and not allow_operation:
            raise ValueError("allow_tensor and allow_operation can't both be False.")
        kinds = " or ".join(kind for kind, allowed in (("Tensor", allow_tensor), ("Operation", allow_operation)) if allowed)
        convert = getattr(obj, "_as_graph_element", None)
        if convert is not None:
            obj = convert()
        if isinstance(obj, str) or isinstance(obj, bytes):
            name = obj.decode() if isinstance(obj, bytes) else obj
            return self._element_by_name(name, allow_tensor, allow_operation)
        if isinstance(obj, Tensor) and allow_tensor:
            if obj.graph is not self:
                raise ValueError(f"Tensor {obj} is not an element of this graph.")
            return obj
        if isinstance(obj, Operation) and allow_operation:
            if obj.graph is not self:
                raise ValueError(f"Operation {obj!r} is not an element of this graph.")
            return obj
        raise TypeError(f"Can not convert a {type(obj).__name__} into a {kinds}.")

    def _element_by_name(self, name, allow_tensor, allow_operation):
        if ":" in name and allow_tensor:
            op_name, _, slot = name.partition(":")
            try:
                slot = int(slot)
            except ValueError:
                raise ValueError(
                    f"The name {name!r} looks a like a Tensor name, but is not a valid one. Tensor names must be of the form "
                    '"<op_name>:<output_index>".'
                ) from None
            op = self._find_operation(op_name)
            if op is None:
                raise KeyError(
                    f"The name {name!r} refers to a Tensor which does not exist. The operation, {op_name!r}, does not exist in "
                    "the graph."
                )
            if slot < 0 or slot >= len(op.outputs):
                raise KeyError(
                    f"The name {name!r} refers to a Tensor which does not exist. The operation, {op_name!r}, exists but only "
                    f"has {len(op.outputs)} outputs."
                )
            return op.outputs[slot]
        if ":" in name:
            raise ValueError(f"Name {name!r} appears to refer to a Tensor, not a Operation.")
        op = self._find_operation(name)
        if allow_operation:
            if op is None:
                raise KeyError(f"The name {name!r} refers to an Operation not in the graph.")
            return op
        if op is not None:
            raise ValueError(
                f"The name {name!r} refers to an Operation, not a Tensor. Tensor names must be of the form "
                '"<op_name>:<output_index>".'
            )
        raise ValueError(
            f"The name {name!r} looks like an (invalid) Operation name, not a Tensor. Tensor names must be of the form "
            '"<op_name>:<output_index>".'
        )

    # ---- the definition

    def as_graph_def(self, from_version=None, add_shapes=False):
        """The graph as a `GraphDef`."""
        from tensorfleet.protobuf import GraphDef

        def_ = GraphDef.FromString(self._native.graph_def(from_version or 0))
        if add_shapes:
            for node in def_.node:
                op = self._find_operation(node.name)
                if op.outputs:
                    node.attr["_output_shapes"].list.shape.extend([output.shape.as_proto() for output in op.outputs])
        return def_

    @property
    def version(self):
        return len(self._native)

    @property
    def graph_def_versions(self):
        from tensorfleet.protobuf import VersionDef

        producer, min_consumer = self._native.producer()
        return VersionDef(producer=producer, min_consumer=min_consumer)

    @property
    def seed(self):
        return self._seed

    @seed.setter
    def seed(self, seed):
        self._seed = seed
        self._native.set_random_seed(None if seed is None else int(seed))

    @property
    def finalized(self):
        return self._finalized

    def finalize(self):
        self._finalized = True

    def _unsafe_unfinalize(self):
        self._finalized = False

    def _check_not_finalized(self):
        if self._finalized:
            raise RuntimeError("Graph is finalized and cannot be modified.")

    # ---- collections

    @property
    def collections(self):
        self._adopt_variables()
        return list(self._collections)

    def get_all_collection_keys(self):
        self._adopt_variables()
        return [key for key in self._collections if isinstance(key, str)]

    def add_to_collection(self, name, value):
        self._check_not_finalized()
        self._adopt_variables()
        self._collections.setdefault(name, []).append(value)

    def add_to_collections(self, names, value):
        names = (names,) if isinstance(names, str) else list(dict.fromkeys(names))
        for name in names:
            self.add_to_collection(name, value)

    def get_collection_ref(self, name):
        self._adopt_variables()
        return self._collections.setdefault(name, [])

    def get_collection(self, name, scope=None):
        self._adopt_variables()
        held = self._collections.get(name, [])
        if scope is None:
            return list(held)
        matcher = re.compile(scope)
        return [item for item in held if hasattr(item, "name") and matcher.match(item.name)]

    def clear_collection(self, name):
        self._check_not_finalized()
        self._adopt_variables()
        self._collections.pop(name, None)

    def _adopt_variables(self):
        """Lists variables that the library made by itself, such as the slots of optimizers."""
        pending = self.__dict__.get("_unadopted")
        if not pending:
            return
        from tensorfleet.ops import variables

        self._unadopted = False
        variables.adopt(self)

    # ---- scopes

    @contextlib.contextmanager
    def _scope(self, enter):
        depth = self._native.depth()
        result = enter()
        try:
            yield result
        finally:
            self._native.leave(depth)

    @contextlib.contextmanager
    def as_default(self):
        with stacks.GRAPHS.entered(self):
            yield self

    @contextlib.contextmanager
    def name_scope(self, name):
        if name:
            if isinstance(name, bytes):
                name = name.decode()
            # A nested scope may begin with any of its characters, one at the root may not.
            pattern = _VALID_SCOPE_NAME if self._native.name_scope() else _VALID_OP_NAME
            if not pattern.match(name):
                raise ValueError(f"'{name}' is not a valid scope name")
        with self._scope(lambda: self._native.enter_name_scope(name or "")) as prefix:
            yield f"{prefix}/" if prefix else ""

    def get_name_scope(self):
        return self._native.name_scope()

    def unique_name(self, name, mark_as_used=True):
        return self._native.unique_name(name, mark_as_used)

    @contextlib.contextmanager
    def device(self, device_name_or_function):
        with self._scope(lambda: self._native.enter_device(device_lib.for_library(device_name_or_function))):
            yield

    @contextlib.contextmanager
    def control_dependencies(self, control_inputs):
        if control_inputs is None:
            with self._scope(self._native.enter_outside):
                yield
            return
        numbers = []
        for item in control_inputs:
            convert = getattr(item, "_as_graph_element", None)
            # A resource variable stands for its handle, or for its update, not for a read.
            if getattr(item, "_is_resource", False) or (hasattr(item, "indices") and hasattr(item, "op")):
                item = item.op
            elif convert:
                item = convert()
            element = self.as_graph_element(item)
            number = (element.op if isinstance(element, Tensor) else element)._id
            if number not in numbers:
                numbers.append(number)
        with self._scope(lambda: self._native.enter_control_dependencies(numbers)):
            yield

    @contextlib.contextmanager
    def colocate_with(self, op, ignore_existing=False):
        if op is None and not ignore_existing:
            raise ValueError("Trying to reset colocation (op is None) but ignore_existing is not True")
        if op is None:
            with self._scope(self._native.enter_anywhere):
                yield
            return
        element = self.as_graph_element(getattr(op, "op", op)) if not isinstance(op, str) else self.as_graph_element(op)
        number = (element.op if isinstance(element, Tensor) else element)._id

        def enter():
            if ignore_existing:
                self._native.enter_anywhere()
            self._native.enter_colocation(number)

        with self._scope(enter):
            yield

    @contextlib.contextmanager
    def container(self, container_name):
        before, self._container = self._container, container_name
        try:
            yield container_name
        finally:
            self._container = before

    @contextlib.contextmanager
    def _attr_scope(self, attr_map):
        before = self._attr_scopes
        self._attr_scopes = {key: value for key, value in {**before, **attr_map}.items() if value is not None}
        try:
            yield
        finally:
            self._attr_scopes = before

    @contextlib.contextmanager
    def gradient_override_map(self, op_type_map):
        if not isinstance(op_type_map, dict):
            raise TypeError("op_type_map must be a dictionary mapping strings to strings")
        before = self._gradient_overrides
        self._gradient_overrides = {**before, **op_type_map}
        try:
            yield
        finally:
            self._gradient_overrides = before

    # ---- feeding and fetching

    def prevent_feeding(self, tensor):
        self._unfeedable.add(tensor._id)

    def is_feedable(self, tensor):
        return tensor._id not in self._unfeedable

    def prevent_fetching(self, op):
        self._unfetchable.add(op._id)

    def is_fetchable(self, tensor_or_op):
        op = tensor_or_op.op if isinstance(tensor_or_op, Tensor) else tensor_or_op
        return op._id not in self._unfetchable

    def switch_to_thread_local(self):
        """Scopes belong to their thread here anyway."""

    def _get_control_flow_context(self):
        return self._control_flow_context

    def _set_control_flow_context(self, context):
        self._control_flow_context = context


__all__ = ["Graph", "GraphKeys"]
