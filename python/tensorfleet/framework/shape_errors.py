"""What is said of inputs whose shapes do not fit: the library's sentence in TensorFlow's frame, with the node's name and op."""

import re

from tensorfleet.framework import op_library

_SHAPES = " with input shapes: "
_VALUES = " and with computed input tensors: "
_PAIR = re.compile(r" for shapes \S+ and \S+$")
_VALUE = re.compile(r"input\[(\d+)\] = <(.*?)>(?:, |\.$)", re.DOTALL)


def _asked_for(op_type, inputs):
    """The inputs whose values decide the shape: lengths, axes and positions have a type of their own."""
    declared, position, found = op_library.declaration(op_type), 0, set()
    types = {"T", *(argument.type_attr for argument in declared.outputs)}
    for argument, given in zip(declared.inputs, inputs):
        count = len(given) if isinstance(given, list) else 1
        if argument.type_attr is None and argument.type_list_attr is None or argument.type_attr is not None and argument.type_attr not in types:
            found.update(range(position, position + count))
        position += count
    return found


def _summary(text):
    """A value as TensorFlow sums it up: the outermost brackets left out."""
    text = re.sub(r"\]\s*\[", "][", " ".join(text.split()))
    return text[1:-1] if text.startswith("[") else text


def _reshape(sentence, values):
    match = re.fullmatch(r"Input to reshape is a tensor with (\d+) values, but the requested shape has (\d+)", sentence)
    if match is None or "1" not in values:
        return None
    shape = f"[{','.join(values['1'].split())}]"
    frame = f" and with input tensors computed as partial shapes: input[1] = {shape.replace('-1', '?')}."
    return f"Cannot reshape a tensor with {match[1]} elements to shape {shape} ({match[2]} elements)", frame


def _expand_dims(sentence, values):
    match = re.fullmatch(r"Tried to expand dim index (-?\d+) for tensor with (\d+) dimensions\.", sentence)
    return None if match is None else (f"dim {match[1]} not in the interval [{-int(match[2]) - 1}, {match[2]}].", None)


def _equal_shapes(sentence, values):
    match = re.fullmatch(r"Shapes must be equal, but are \[(.*)\] and \[(.*)\]", sentence)
    if match is None:
        return None
    pairs = [pair for pair in zip(match[1].split(","), match[2].split(",")) if pair != ("?", "?")]
    if match[1].count(",") != match[2].count(",") or all(a == b for a, b in pairs):
        return None
    index = next(index for index, (a, b) in enumerate(pairs) if a != b)
    shapes = [",".join(side) for side in zip(*pairs)]
    a, b = pairs[index]
    return f"Dimension {index} in both shapes must be equal, but are {a} and {b}. Shapes are [{shapes[0]}] and [{shapes[1]}].", None


def _packed(sentence, values):
    found = _equal_shapes(sentence, values)
    return None if found is None else (f"{found[0]}\n\tFrom merging shape 0 with other shapes.", None)


#: TensorFlow's sentences for the mistakes that programs make most.
_SENTENCES = {"Reshape": _reshape, "ExpandDims": _expand_dims, "ConcatV2": _equal_shapes, "Pack": _packed}


def explained(error, op_type, name, inputs):
    """The error with the node's name and op in it; as it is if it is not about shapes."""
    said = str(error)
    sentence, mark, rest = said.partition(_SHAPES)
    if not mark:
        return error
    shapes, _, rest = rest.partition(_VALUES)
    asked = _asked_for(op_type, inputs)
    values = {index: _summary(value) for index, value in _VALUE.findall(rest) if int(index) in asked}
    sentence, frame = _SENTENCES.get(op_type, lambda *_: None)(sentence, values) or (_PAIR.sub("", sentence), None)
    if frame is None:
        shown = ", ".join(f"input[{index}] = <{value}>" for index, value in values.items())
        frame = f"{_VALUES}{shown}." if shown else "."
    return type(error)(f"{sentence} for '{name}' (op: '{op_type}'){_SHAPES}{shapes.rstrip('.')}{frame}")
