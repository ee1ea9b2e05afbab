"""Functions in graphs: Python functions traced into `FunctionDef`s, and `Defun`.

A function is built in a graph of its own. A tensor from around becomes an argument, whose value the node that calls the function
passes along; with `capture_by_value` the nodes that compute it are copied instead.
"""

import contextlib
import itertools
import re

from tensorfleet.framework import dtypes, op_library, stacks
from tensorfleet.framework.graph import Graph
from tensorfleet.framework.operation import Operation
from tensorfleet.framework.tensor import Tensor

_numbers = itertools.count()
#: Random numbers need not be drawn for their own sake.
_NOT_FOR_EFFECT = frozenset(
    "RandomUniform RandomUniformInt RandomStandardNormal ParameterizedTruncatedNormal TruncatedNormal RandomShuffle Multinomial RandomGamma RandomGammaGrad "
    "RandomPoisson RandomPoissonV2 VarHandleOp Placeholder".split()
)


class FuncGraph(Graph):
    """The graph of a function's body."""

    building_function = True

    def __init__(self, name, outer_graph, capture_by_value=False):
        super().__init__()
        self.name = name
        self.outer_graph = outer_graph
        self.inputs = []
        self.outputs = []
        #: Number of a tensor of the graph around -> (that tensor, what it is inside).
        self.captures = {}
        self._copies = {}
        self._by_value = capture_by_value
        if outer_graph.seed is not None:
            self.seed = outer_graph.seed
        # Variables that the body makes or uses are those of the program.
        self._collections = outer_graph._collections

    def capture(self, tensor):
        """What a tensor from around is inside."""
        if tensor.graph is self:
            return tensor
        if tensor.graph is not self.outer_graph:
            if not self.outer_graph.building_function:
                raise ValueError(f"{tensor} is not from the graph of function {self.name} or one around it")
            tensor = self.outer_graph.capture(tensor)
        if self._by_value:
            return self._copied(tensor.op).outputs[tensor.value_index]
        held = self.captures.get(tensor._id)
        if held is None:
            held = self.captures[tensor._id] = (tensor, self.placeholder(tensor.dtype.base_dtype, tensor.shape, tensor.op.name))
        return held[1]

    def placeholder(self, dtype, shape, name):
        """A node that stands for an argument."""
        from tensorfleet.framework import gen

        with self.as_default(), self.control_dependencies(None):
            made = gen.Placeholder(dtype=dtype, shape=shape, name=name)
        self.inputs.append(made)
        return made

    def _copied(self, op):
        """A node of the graph around, copied with all it needs."""
        copy = self._copies.get(op._id)
        if copy is not None:
            return copy
        if op.type in ("Placeholder", "PlaceholderV2"):
            raise ValueError(f"Cannot capture a placeholder (name:{op.name}, type:{op.type}) by value.")
        if any(output.dtype._is_ref_dtype or output.dtype == dtypes.resource for output in op.outputs):
            raise ValueError(f"Cannot capture a stateful node (name:{op.name}, type:{op.type}) by value.")
        inputs = [self._copied(tensor.op).outputs[tensor.value_index] for tensor in op.inputs]
        with self.as_default(), self.control_dependencies([self._copied(before) for before in op.control_inputs]):
            attrs = {key: value for key, value in op.node_def.attr.items() if key != "_class"}
            copy = self.create_op(op.type, inputs, name=op.name, attrs=attrs)
        self._copies[op._id] = copy
        return copy

    @contextlib.contextmanager
    def control_dependencies(self, control_inputs):
        """What is outside of the function has run when it is called."""
        if control_inputs is not None:
            inside = []
            for item in control_inputs:
                convert = getattr(item, "_as_graph_element", None)
                item = convert() if convert is not None else item
                if getattr(item, "graph", self) is self:
                    inside.append(item)
            control_inputs = inside
        with super().control_dependencies(control_inputs):
            yield


class DefinedFunction:
    """A function that nodes of a graph may call."""

    def __init__(self, name, graph, outputs, with_effects=True):
        self.name = name
        self.graph = graph
        self.outputs = outputs
        self.captured_inputs = [outer for outer, _ in graph.captures.values()]
        self.captured_types = [outer.dtype.base_dtype for outer in self.captured_inputs]
        self._with_effects = with_effects
        self._definition = None

    @property
    def definition(self):
        """The `FunctionDef`."""
        if self._definition is None:
            self._definition = _definition(self.graph, self.name, self.outputs)
        return self._definition

    def add_to_graph(self, graph):
        """Puts the function, and those it calls, into the library of a graph."""
        from tensorfleet.protobuf import FunctionDefLibrary

        known = graph.__dict__.setdefault("_defined_functions", {})
        if self.name in known:
            return
        for inner in self.graph.__dict__.get("_defined_functions", {}).values():
            inner.add_to_graph(graph)
        known[self.name] = self
        library = FunctionDefLibrary()
        library.function.add().CopyFrom(self.definition)
        graph._native.add_functions(library.SerializeToString())


def _argument_name(name, taken):
    """A node's name as the name of an argument."""
    plain = re.sub("[^a-z0-9]", "_", name.lower()) or "unknown"
    plain = plain if plain[0].isalpha() else f"arg_{plain}"
    unique, number = plain, 0
    while unique in taken:
        number += 1
        unique = f"{plain}_{number}"
    taken.add(unique)
    return unique


def _output_names(op):
    """How a function's body refers to each output of a node."""
    declared, names = op_library.declaration(op.type), []
    for argument in declared.outputs:
        count = 1
        if argument.number_attr is not None:
            count = op.get_attr(argument.number_attr)
        elif argument.type_list_attr is not None:
            count = len(op.get_attr(argument.type_list_attr))
        names += [f"{op.name}:{argument.name}:{index}" for index in range(count)]
    return names


def _definition(graph, name, outputs):
    from tensorfleet.protobuf import FunctionDef

    made = FunctionDef()
    made.signature.name = name
    taken, names = set(), {}
    for tensor in graph.inputs:
        argument = _argument_name(tensor.op.name, taken)
        made.signature.input_arg.add(name=argument, type=tensor.dtype.as_datatype_enum)
        names[tensor._id] = argument
    inputs = {tensor.op._id for tensor in graph.inputs}
    operations = graph.get_operations()
    for op in operations:
        if op._id in inputs:
            continue
        for index, text in enumerate(_output_names(op)):
            names[op._id << 32 | index] = text
    for op in operations:
        if op._id in inputs:
            continue
        node = made.node_def.add()
        node.CopyFrom(op.node_def)
        del node.input[:]
        node.input.extend([names[tensor._id] for tensor in op.inputs])
        node.input.extend([f"^{before.name}" for before in op.control_inputs if before._id not in inputs])
        if op_library.declaration(op.type).is_stateful:
            made.signature.is_stateful = True
    for tensor in outputs:
        argument = _argument_name(tensor.op.name, taken)
        made.signature.output_arg.add(name=argument, type=tensor.dtype.base_dtype.as_datatype_enum)
        made.ret[argument] = names[tensor._id]
    return made


def _after_effects(graph, results):
    """The results, once the nodes with effects are done: nothing else asks for those."""
    from tensorfleet.framework import gen

    operations = graph.get_operations()
    in_flow = any(op.type in ("Switch", "Enter", "RefEnter", "RefSwitch") for op in operations)
    effects = [] if in_flow else [op for op in operations if _has_effects(op)]
    with graph.control_dependencies(effects):
        return [gen.Identity(result) for result in results]


def _has_effects(op):
    if op.type in _NOT_FOR_EFFECT or any(output.dtype == dtypes.variant for output in op.outputs):
        return False
    return op_library.declaration(op.type).is_stateful


def trace(function, name, argument_dtypes, argument_shapes, argument_names=None):
    """A Python function of flat tensors as a `DefinedFunction`. It gives a flat list of tensors."""
    outer = stacks.get_default_graph()
    graph = FuncGraph(name, outer)
    with graph.as_default():
        names = argument_names or [f"args_{index}" for index in range(len(argument_dtypes))]
        arguments = [graph.placeholder(dtype, shape, text) for dtype, shape, text in zip(argument_dtypes, argument_shapes, names)]
        results = [_inside(graph, result) for result in function(*arguments)]
        results = _after_effects(graph, results)
    return DefinedFunction(f"__inference_{name}_{next(_numbers)}", graph, results)


def _inside(graph, result):
    from tensorfleet.framework import conversion

    return graph.capture(result) if isinstance(result, Tensor) and result.graph is not graph else conversion.convert_to_tensor(result)


def trace_by_value(function, name):
    """A function without arguments whose body has copies of all it needs."""
    graph = FuncGraph(name, stacks.get_default_graph(), capture_by_value=True)
    with graph.as_default():
        result = function()
        result = graph.capture(result) if isinstance(result, Tensor) else result
    assert not isinstance(result, Operation)
    for inner in graph.outer_graph.__dict__.get("_defined_functions", {}).values():
        graph.__dict__.setdefault("_defined_functions", {})[inner.name] = inner
    return DefinedFunction(f"{name}_{next(_numbers)}", graph, [result])
