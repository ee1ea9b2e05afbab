"""`tf.debugging.assert_shapes`: lengths of several tensors, some of them under one name."""

from tensorfleet.framework import gen, ops
from tensorfleet.framework.export import export
from tensorfleet.framework.tensor import Tensor
from tensorfleet.ops import array, check


def _lengths(x):
    """The lengths of a tensor: numbers where they are known, nodes elsewhere."""
    known = x.shape
    if known.is_fully_defined():
        return known.as_list()
    if known.rank is None:
        return None
    dynamic = array.shape(x)
    return [dynamic[index] if length is None else length for index, length in enumerate(known._dims)]


@export("debugging.assert_shapes")
def assert_shapes(shapes, data=None, summarize=None, message=None, name=None):
    """Asserts the shapes of tensors: `{x: ("N", 3), y: ("N",)}`; `None` and `"."` stand for any length."""
    from tensorfleet.ops.control_flow import Assert, group

    message = message or ""
    shapes = list(shapes.items()) if isinstance(shapes, dict) else list(shapes)
    with ops.name_scope(name, "assert_shapes", [[tensor for tensor, _ in shapes], data]):
        found = []
        for tensor, wanted in shapes:
            if not isinstance(wanted, (list, tuple)):
                wanted = (wanted,)
            tensor = tensor if isinstance(tensor, Tensor) else ops.convert_to_tensor(tensor)
            found.append((tensor, wanted, _lengths(tensor)))
        ranks = [check.assert_rank(tensor, len(wanted), data=data, summarize=summarize, message=message, name=name) for tensor, wanted, _ in found]
        asserts, first = [], {}
        for tensor, wanted, lengths in found:
            if lengths is None:
                lengths = [array.shape(tensor)[index] for index in range(len(wanted))]
            for index, (symbol, length) in enumerate(zip(wanted, lengths)):
                if symbol is None or symbol == ".":
                    continue
                if isinstance(symbol, int):
                    origin, expected = "Specified explicitly", symbol
                elif symbol in first:
                    other, place, expected = first[symbol]
                    origin = f"Specified by tensor {other.name} dimension {place}"
                else:
                    first[symbol] = tensor, index, length
                    continue
                if not isinstance(length, Tensor) and not isinstance(expected, Tensor):
                    if length != expected:
                        raise ValueError(
                            f"{message}.  {origin}.  Tensor {tensor.name} dimension {index} must have size {expected}.  "
                            f"Received size {length}, shape {tensor.shape}"
                        )
                    continue
                condition = gen.Equal(length, expected)
                said = data or [message, origin, f"Tensor {tensor.name} dimension", index, "must have size", expected, "Received shape: ", array.shape(tensor)]
                asserts.append(Assert(condition, said, summarize=summarize))
        return group(*asserts, *ranks)
