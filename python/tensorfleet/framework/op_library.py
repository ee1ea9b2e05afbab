"""Makes nodes of any op of the catalogue from the op's declaration.

Values become tensors of the dtype that their argument asks for; type and length attributes follow from the inputs; what
does not fit is said as TensorFlow's generated functions say it.
"""

import collections
import functools

from tensorfleet import _native
from tensorfleet.framework import conversion, dtypes, stacks
from tensorfleet.framework.tensor import Tensor
from tensorfleet.framework.tensor_shape import as_shape

Argument = collections.namedtuple("Argument", "name is_ref dtype type_attr number_attr type_list_attr")
Attribute = collections.namedtuple("Attribute", "name kind is_list minimum texts allowed default")


class Declaration:
    """What an op takes and gives."""

    def __init__(self, name, parts):
        self.name = name
        self.inputs = [Argument(*argument) for argument in parts["inputs"]]
        self.outputs = [Argument(*argument) for argument in parts["outputs"]]
        self.attrs = [Attribute(*attribute) for attribute in parts["attrs"]]
        self.is_stateful = parts["is_stateful"]
        self.by_name = {attribute.name: attribute for attribute in self.attrs}
        inferred = {attr for argument in self.inputs for attr in (argument.type_attr, argument.number_attr, argument.type_list_attr) if attr}
        #: Attributes that a caller gives: those that do not follow from the inputs.
        self.given = [attribute for attribute in self.attrs if attribute.name not in inferred and not attribute.name.startswith("_")]


@functools.lru_cache(maxsize=None)
def declaration(op_type):
    """The declaration of an op; `None` if there is no such op."""
    parts = _native.op_declaration(op_type)
    return None if parts is None else Declaration(op_type, parts)


def op_def(op_type):
    """The declaration as an `OpDef`."""
    from tensorfleet.protobuf import AttrValue, OpDef

    declared = declaration(op_type)
    made = OpDef(name=op_type, is_stateful=declared.is_stateful)
    for arguments, field in ((declared.inputs, made.input_arg), (declared.outputs, made.output_arg)):
        for argument in arguments:
            field.add(
                name=argument.name,
                type=argument.dtype or 0,
                type_attr=argument.type_attr or "",
                number_attr=argument.number_attr or "",
                type_list_attr=argument.type_list_attr or "",
                is_ref=argument.is_ref,
            )
    for attribute in declared.attrs:
        attr = made.attr.add(name=attribute.name, type=f"list({attribute.kind})" if attribute.is_list else attribute.kind)
        if attribute.default is not None:
            attr.default_value.CopyFrom(AttrValue.FromString(attribute.default))
        if attribute.minimum is not None:
            attr.has_minimum, attr.minimum = True, attribute.minimum
    return made


def _default_dtype(attribute):
    from tensorfleet.framework.operation import attr_value

    return attr_value(attribute.default) if attribute is not None and attribute.default is not None else None


def _shown(dtype_numbers):
    return ", ".join(dtypes.DType(number).name for number in dtype_numbers)


class _Binding:
    """The inputs and attributes of one node."""

    def __init__(self, declared, attrs):
        self.declared = declared
        self.attrs = attrs
        self.inferred_from = {}

    def dtype_of(self, argument):
        """The dtype that an argument must have, if it is known, and the one to prefer."""
        if argument.dtype is not None:
            return dtypes.DType(argument.dtype), None
        attribute = argument.type_attr
        if attribute in self.attrs:
            return dtypes.as_dtype(self.attrs[attribute]).base_dtype, None
        return None, _default_dtype(self.declared.by_name.get(attribute))

    def convert(self, argument, value, dtype, preferred, name):
        op, as_ref = self.declared.name, argument.is_ref
        if dtype is not None and dtype.base_dtype == dtypes.DType(20) and not isinstance(value, Tensor):
            value = getattr(value, "handle", value)
        try:
            return conversion.convert_to_tensor(value, dtype, name, preferred, as_ref=as_ref)
        except TypeError as error:
            if dtype is None:
                raise
            shown = f"got {value!r} of type '{type(value).__name__}' instead"
            raise TypeError(f"Expected {dtype.name} passed to parameter '{argument.name}' of op '{op}', {shown}. Error: {error}") from None
        except ValueError:
            # The dtype it has by itself says what is wrong.
            try:
                observed = conversion.convert_to_tensor(value, as_ref=as_ref).dtype.name
            except ValueError as error:
                raise ValueError(f"Tried to convert '{argument.name}' to a tensor and failed. Error: {error}") from None
            if dtype is None:
                raise
            raise self._mismatch(argument, observed, dtype) from None

    def _prefix(self, argument):
        return f"Input '{argument.name}' of '{self.declared.name}' Op"

    def _mismatch(self, argument, found, expected):
        source = self.inferred_from.get(argument.type_attr)
        text = f"{self._prefix(argument)} has type {found} that does not match "
        if source is None:
            return TypeError(f"{text}expected type of {expected.name}.")
        return TypeError(f"{text}type {expected.name} of argument '{source}'.")

    def infer(self, argument, tensor_dtype):
        """Takes the type attribute from a tensor, or checks it."""
        base = tensor_dtype.base_dtype
        if argument.dtype is not None:
            if base.as_datatype_enum != argument.dtype:
                raise self._mismatch(argument, base.name, dtypes.DType(argument.dtype))
            return
        attribute = argument.type_attr
        if attribute in self.attrs:
            expected = dtypes.as_dtype(self.attrs[attribute]).base_dtype
            if expected != base:
                raise self._mismatch(argument, base.name, expected)
            return
        allowed = self.declared.by_name[attribute].allowed
        if allowed is not None and base.as_datatype_enum not in allowed:
            raise TypeError(f"Value passed to parameter '{argument.name}' has DataType {base.name} not in list of allowed values: {_shown(allowed)}")
        self.attrs[attribute] = base
        self.inferred_from[attribute] = argument.name

    def single(self, argument, value):
        dtype, preferred = self.dtype_of(argument)
        tensor = self.convert(argument, value, dtype, preferred, argument.name)
        if argument.is_ref and not tensor.dtype._is_ref_dtype:
            raise TypeError(f"'{self.declared.name}' Op requires that input '{argument.name}' be a mutable tensor (e.g.: a tf.Variable)")
        self.infer(argument, tensor.dtype)
        return tensor._id, [tensor]

    def several(self, argument, values):
        op = self.declared.name
        if not isinstance(values, (list, tuple)):
            raise TypeError(f"Expected list for '{argument.name}' argument to '{op}' Op, not {values}.")
        if argument.type_list_attr is not None:
            return self._mixed(argument, values)
        minimum = self.declared.by_name[argument.number_attr].minimum or 0
        if len(values) < minimum:
            raise ValueError(f"List argument '{argument.name}' to '{op}' Op with length {len(values)} shorter than minimum length {minimum}.")
        dtype, preferred = self.dtype_of(argument)
        if dtype is None:
            dtype = next((value.dtype.base_dtype for value in values if isinstance(getattr(value, "dtype", None), dtypes.DType)), None)
        tensors = []
        for index, value in enumerate(values):
            try:
                tensor = conversion.convert_to_tensor(value, dtype, f"{argument.name}_{index}", preferred, as_ref=argument.is_ref)
            except (TypeError, ValueError):
                found = [getattr(getattr(value, "dtype", None), "name", None) or "<NOT CONVERTIBLE TO TENSOR>" for value in values]
                raise TypeError(f"Tensors in list passed to '{argument.name}' of '{op}' Op have types [{', '.join(found)}] that {'are invalid' if '<NOT' in str(found) else 'do not match expected type ' + dtype.name if argument.dtype is not None else 'don' + chr(39) + 't all match'}.") from None
            dtype = dtype or tensor.dtype.base_dtype
            tensors.append(tensor)
        for tensor in tensors:
            self.infer(argument, tensor.dtype)
        if argument.number_attr not in self.attrs:
            self.attrs[argument.number_attr] = len(tensors)
        elif self.attrs[argument.number_attr] != len(tensors):
            raise ValueError(f"List argument '{argument.name}' to '{op}' Op with length {len(tensors)} must match length {self.attrs[argument.number_attr]} of argument '{self.inferred_from.get(argument.number_attr)}'.")
        self.inferred_from[argument.number_attr] = argument.name
        return [tensor._id for tensor in tensors], tensors

    def _mixed(self, argument, values):
        attribute = argument.type_list_attr
        wanted = self.attrs.get(attribute)
        tensors = []
        for index, value in enumerate(values):
            dtype = dtypes.as_dtype(wanted[index]).base_dtype if wanted is not None and index < len(wanted) else None
            tensors.append(conversion.convert_to_tensor(value, dtype, f"{argument.name}_{index}"))
        found = [tensor.dtype.base_dtype for tensor in tensors]
        if wanted is not None and [dtypes.as_dtype(dtype).base_dtype for dtype in wanted] != found:
            raise TypeError(f"Input '{argument.name}' of '{self.declared.name}' Op has type list of {', '.join(dtype.name for dtype in found)} that does not match expected type list of {', '.join(dtypes.as_dtype(dtype).name for dtype in wanted)}.")
        self.attrs[attribute] = found
        return [tensor._id for tensor in tensors], tensors


def _attr(attribute, value):
    """An attribute's value as the library takes it."""
    if attribute.is_list and type(value).__name__ != "AttrValue":
        if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
            raise TypeError(f"Expected list for attr {attribute.name}")
        return [_one_attr(attribute, item) for item in value]
    return _one_attr(attribute, value)


def _one_attr(attribute, value):
    kind, name = attribute.kind, attribute.name
    if type(value).__name__ == "AttrValue":
        return value
    if kind == "type":
        try:
            dtype = dtypes.as_dtype(value).base_dtype
        except TypeError:
            raise TypeError(f"Expected DataType for argument '{name}' not {value!r}.") from None
        if attribute.allowed is not None and dtype.as_datatype_enum not in attribute.allowed:
            raise TypeError(f"Value passed to parameter '{name}' has DataType {dtype.name} not in list of allowed values: {_shown(attribute.allowed)}")
        return dtype.as_datatype_enum
    if kind == "shape":
        return as_shape(value)._numbers()
    if kind == "string":
        if not isinstance(value, (str, bytes)):
            raise TypeError(f"Expected string for argument '{name}' not {value!r}.")
        text = value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
        if attribute.texts is not None and text not in attribute.texts:
            raise ValueError(f"Attr '{name}' of '{{op}}' Op passed string '{text}' not in: \"" + '", "'.join(attribute.texts) + '".')
        return value
    if kind == "int":
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            try:
                number = int(value)
            except (TypeError, ValueError):
                number = None
            if number is None or number != value:
                raise TypeError(f"Expected int for argument '{name}' not {value!r}.")
        number = int(value)
        if attribute.minimum is not None and not attribute.is_list and number < attribute.minimum:
            raise ValueError(f"Attr '{name}' of '{{op}}' Op passed {number} less than minimum {attribute.minimum}.")
        return number
    if kind == "float":
        try:
            return float(value)
        except (TypeError, ValueError):
            raise TypeError(f"Expected float for argument '{name}' not {value!r}.") from None
    if kind == "bool":
        if not isinstance(value, (bool, int)) and not type(value).__name__.startswith("bool"):
            raise TypeError(f"Expected bool for argument '{name}' not {value!r}.")
        return bool(value)
    if kind == "tensor":
        from tensorfleet.framework import constant, tensor_util

        if type(value).__name__ == "TensorProto":
            array = tensor_util.MakeNdarray(value)
            return array, value.dtype
        array, dtype = constant.to_array(value)
        return array, dtype.as_datatype_enum
    if kind == "func":
        if hasattr(value, "SerializeToString"):
            return value.SerializeToString()
        if hasattr(value, "add_to_graph"):
            value.add_to_graph(stacks.get_default_graph())
        return getattr(value, "name", value)
    raise TypeError(f"attr {name} of kind {kind}")


def _graph_of(values):
    for value in values:
        graph = getattr(value, "graph", None)
        if graph is not None and isinstance(value, Tensor):
            return graph
        if isinstance(value, (list, tuple)):
            found = _graph_of(value)
            if found is not None:
                return found
    return None


def _check_same_graph(graph, tensors):
    for tensor in tensors:
        if tensor.graph is not graph:
            other = next((item for item in tensors if item.graph is graph), None)
            if other is not None:
                raise ValueError(f"{tensor} must be from the same graph as {other}.")
            raise ValueError(f"{tensor} is not from the passed-in graph.")


def apply_op(op_type, name=None, **arguments):
    """Adds a node; the arguments are the op's inputs and attributes by name. Gives what the op gives."""
    op = apply_op_helper(op_type, name, arguments)
    return outputs_of(op)


def apply_op_helper(op_type, name, arguments):
    """Adds a node and gives its operation."""
    declared = declaration(op_type)
    if declared is None:
        raise RuntimeError(f"Unrecognized Op name {op_type}: tensorfleet has no such op")
    graph = stacks.get_default_graph() if stacks.GRAPHS.items else _graph_of(arguments.values()) or stacks.get_default_graph()
    attrs = {}
    for attribute in declared.attrs:
        if attribute.name in arguments:
            value = arguments.pop(attribute.name)
            if value is not None or attribute.default is None and attribute.kind == "shape":
                attrs[attribute.name] = value
    native = graph._native
    if name is None or not name.endswith("/"):
        graph._check_not_finalized()
    with graph.as_default() if not (stacks.GRAPHS.items and stacks.GRAPHS.items[-1] is graph) else _NOTHING, graph.name_scope(name or op_type) as scope:
        binding = _Binding(declared, attrs)
        inputs, tensors = [], []
        for argument in declared.inputs:
            if argument.name not in arguments:
                key = argument.name + "_" if argument.name + "_" in arguments else argument.name
                if key not in arguments:
                    raise TypeError(f"No argument for input {argument.name}")
            else:
                key = argument.name
            value = arguments.pop(key)
            several = argument.number_attr is not None or argument.type_list_attr is not None
            numbers, found = (binding.several if several else binding.single)(argument, value)
            inputs.append(numbers)
            tensors.extend(found)
        if arguments:
            raise TypeError(f"apply_op() got unexpected keyword arguments: {', '.join(sorted(arguments))}")
        _check_same_graph(graph, tensors)
        return _add(graph, declared, inputs, attrs, scope)


class _Nothing:
    def __enter__(self):
        return None

    def __exit__(self, *exception):
        return False


_NOTHING = _Nothing()


def _add(graph, declared, inputs, attrs, scope):
    values = {}
    for attr, value in attrs.items():
        attribute = declared.by_name.get(attr)
        try:
            values[attr] = value if attribute is None else _attr(attribute, value)
        except (TypeError, ValueError) as error:
            raise type(error)(str(error).replace("{op}", declared.name)) from None
    if graph._container and "container" in declared.by_name and declared.is_stateful:
        values.setdefault("container", graph._container)
    return graph._add_node(declared.name, scope, inputs, values)


def create(graph, op_type, inputs, attrs, name):
    """Adds a node from a flat list of inputs, as `Graph.create_op` is given them."""
    declared = declaration(op_type)
    if declared is None:
        raise RuntimeError(f"Unrecognized Op name {op_type}: tensorfleet has no such op")
    _check_same_graph(graph, inputs)
    rest, grouped = [tensor._id for tensor in inputs], []
    from tensorfleet.framework.operation import attr_value

    def given(attr):
        value = attrs[attr]
        return attr_value(value.SerializeToString()) if hasattr(value, "SerializeToString") else value

    for argument in declared.inputs:
        if argument.number_attr is not None:
            count = int(given(argument.number_attr)) if argument.number_attr in attrs else len(rest)
        elif argument.type_list_attr is not None:
            count = len(given(argument.type_list_attr)) if argument.type_list_attr in attrs else len(rest)
        else:
            grouped.append(rest.pop(0))
            continue
        grouped.append(rest[:count])
        rest = rest[count:]
    if rest:
        raise ValueError(f"{op_type} takes {len(inputs) - len(rest)} inputs, got {len(inputs)}")
    return _add(graph, declared, grouped, attrs, name)


@functools.lru_cache(maxsize=None)
def _result_type(op_type):
    return collections.namedtuple(op_type, [argument.name for argument in declaration(op_type).outputs])


def outputs_of(op):
    """What a function for an op gives: a tensor, a list, a tuple with names, or the operation."""
    declared = declaration(op.type)
    outputs, parts, start = op.outputs, [], 0
    if not declared.outputs:
        return op
    for argument in declared.outputs:
        if argument.number_attr is not None:
            count = op.get_attr(argument.number_attr)
        elif argument.type_list_attr is not None:
            count = len(op.get_attr(argument.type_list_attr))
        else:
            parts.append(outputs[start])
            start += 1
            continue
        parts.append(list(outputs[start : start + count]))
        start += count
    if len(parts) == 1:
        # An op whose only output is an empty list gives the operation.
        return parts[0] if parts[0] != [] else op
    return _result_type(op.type)(*parts)
