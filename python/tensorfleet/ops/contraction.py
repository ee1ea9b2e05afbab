"""`tf.einsum`: an equation becomes transposes, one matrix product for each pair of factors, and sums."""

import re

from tensorfleet.framework import gen, ops
from tensorfleet.ops import array, math, reductions
from tensorfleet.ops.products import matmul


def _labels(equation, ranks):
    """The labels of each factor's axes, and those of the result."""
    text = equation.replace(" ", "")
    match = re.match("^([a-zA-Z,.]+)(->[a-zA-Z.]*)?$", text)
    if not match:
        raise ValueError(f"Indices have incorrect format: {equation}")
    factors = match.group(1).split(",")
    if len(factors) != len(ranks):
        raise ValueError(f"Got {len(ranks)} arguments for equation \"{equation}\", expecting {len(factors)}")
    unused = sorted(set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") - set(text))
    dots = ""
    for index, labels in enumerate(factors):
        if "..." in labels:
            head, _, tail = labels.partition("...")
            if ranks[index] is None:
                raise ValueError("Unable to statically infer ellipsis axes.")
            count = ranks[index] - len(head) - len(tail)
            if count < 0 or "." in tail:
                raise ValueError(f"Unable to resolve ellipsis: {equation}")
            own = "".join(unused[len(unused) - count :]) if count else ""
            dots = own if len(own) > len(dots) else dots
            factors[index] = head + own + tail
        elif "." in labels:
            raise ValueError(f"Unable to resolve ellipsis: {equation}")
    if match.group(2) is not None:
        result = match.group(2)[2:].replace("...", dots)
    else:
        counts = {}
        for label in "".join(factors):
            counts[label] = counts.get(label, 0) + 1
        result = dots + "".join(sorted(label for label in counts if counts[label] == 1 and label not in dots))
    return factors, result


def _dims(tensor):
    """The lengths of a tensor: numbers where they are known, nodes elsewhere."""
    dims = tensor.shape.as_list()
    if None in dims:
        shape = array.shape(tensor)
        dims = [shape[index] if dim is None else dim for index, dim in enumerate(dims)]
    return dims


def _total(dims):
    product = 1
    for dim in dims:
        product = product * dim
    return product


def _transposed(tensor, perm):
    return tensor if perm == list(range(len(perm))) else array.transpose(tensor, perm=perm)


def _reshaped(tensor, dims):
    own = tensor.shape.as_list()
    if len(own) == len(dims) and all(isinstance(dim, int) and dim == known for dim, known in zip(dims, own)):
        return tensor
    return array.reshape(tensor, dims)


def _pair(first, first_labels, second, second_labels, summed):
    """The product of two factors, summed over some of the axes they share; gives it and its labels."""
    shared = (set(first_labels) & set(second_labels)) - summed
    outer = [set(labels) - shared - summed for labels in (first_labels, second_labels)]

    def place(index, label):
        # Shared axes first; what is summed stands last in the first factor and before its own axes in the second.
        if label in shared:
            return -1, label
        return (0 if label in (outer[0] if index == 0 else summed) else 1), label

    order = [sorted(labels, key=lambda label: place(index, label)) for index, labels in enumerate((first_labels, second_labels))]
    first = _transposed(first, [first_labels.find(label) for label in order[0]])
    second = _transposed(second, [second_labels.find(label) for label in order[1]])
    if not summed:
        for _ in outer[1]:
            first = array.expand_dims(first, -1)
        for _ in outer[0]:
            second = array.expand_dims(second, len(shared))
        return gen.Mul(first, second), "".join(order[0] + order[1][len(shared) :])
    first_dims = _dims(first)
    own = _total(first_dims[len(shared) : len(first_dims) - len(summed)])
    inner = _total(first_dims[len(first_dims) - len(summed) :])
    first = _reshaped(first, [*first_dims[: len(shared)], own, inner])
    second_dims = _dims(second)
    other = _total(second_dims[len(shared) + len(summed) :])
    second = _reshaped(second, [*second_dims[: len(shared)], inner, other])
    product = matmul(first, second)
    kept = len(shared) + len(outer[0])
    rest = len(second_dims) - len(outer[1])
    product = _reshaped(product, first_dims[:kept] + second_dims[rest:])
    return product, "".join(order[0][:kept] + order[1][rest:])


def _of_many(factors, labels, result):
    """Axes that more than two factors share: all factors side by side, multiplied, then summed."""
    every = result + "".join(sorted(set("".join(labels)) - set(result)))
    product = None
    for factor, own in zip(factors, labels):
        ordered = sorted(own, key=every.index)
        factor = _transposed(factor, [own.find(label) for label in ordered])
        for index, label in enumerate(every):
            if label not in own:
                factor = array.expand_dims(factor, index)
        product = factor if product is None else gen.Mul(product, factor)
    extra = list(range(len(result), len(every)))
    return reductions.reduce_sum(product, axis=extra) if extra else product


def einsum(equation, inputs, kwargs):
    """The value of the equation for these factors."""
    name = kwargs.pop("name", None)
    if kwargs:
        raise TypeError(f"invalid keyword arguments for this function: {', '.join(sorted(kwargs))}")
    with ops.name_scope(name, "einsum", [*inputs]):
        # A variable is read where it is used.
        factors = [value if hasattr(value, "get_shape") else ops.convert_to_tensor(value) for value in inputs]
        labels, result = _labels(equation, [factor.shape.rank for factor in factors])
        for own in labels:
            if len(set(own)) != len(own):
                if len(labels) == 1 and own == own[::-1] and "->" not in equation and len(own) == 2:
                    return math.trace(factors[0])
                raise ValueError(f"Subscript not supported: an axis appears more than once: {own}")
        for label in set("".join(labels)):
            if sum(label in own for own in labels) > 2 and label not in result:
                return _of_many(factors, labels, result)
        product, own = factors[0], labels[0]
        for factor, other in zip(factors[1:], labels[1:]):
            product, own = _pair(product, own, factor, other, (set(own) & set(other)) - set(result))
        extra = [index for index, label in enumerate(own) if label not in result]
        if extra:
            product = reductions.reduce_sum(product, axis=extra)
            own = "".join(label for label in own if label in result)
        if sorted(own) != sorted(result):
            raise ValueError(f"Invalid equation: {equation}")
        return _transposed(product, [own.index(label) for label in result])
