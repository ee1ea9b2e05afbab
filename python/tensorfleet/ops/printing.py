"""`tf.Print`, `tf.print`, `tf.strings.format`: values into logs and texts."""

import pprint
import random
import sys

from tensorfleet.framework import gen
from tensorfleet.framework.composite import SparseTensor
from tensorfleet.framework.export import export
from tensorfleet.framework.tensor import Tensor


@export("Print")
def Print(input_, data, message=None, first_n=None, summarize=None, name=None):
    """The tensor as it is; when it runs, `data` is printed."""
    return gen.Print(input_, data, message=message, first_n=first_n, summarize=summarize, name=name)


def _is_tensor(value):
    return isinstance(value, Tensor) or hasattr(value, "_as_graph_element")


def _unused_placeholder(texts):
    """A mark that none of the texts has in it."""
    mark = "{}"
    while any(mark in text for text in texts):
        mark = f"<{''.join(random.choice('abcdefghijklmnopqrstuvwxyz') for _ in range(20))}>"  # noqa: S311 no secret
    return mark


class _Mark:
    """Stands for a tensor inside a structure that is printed."""

    def __init__(self, text):
        self.text = text

    def __repr__(self):
        return self.text


def _marked(item, tensors, mark):
    """The structure with marks for its tensors, which are collected."""
    if isinstance(item, SparseTensor):
        tensors += [item.indices, item.values, item.dense_shape]
        return _Mark(f"'SparseTensor(indices={mark}, values={mark}, shape={mark})'")
    if _is_tensor(item):
        tensors.append(item)
        return _Mark(mark)
    if isinstance(item, dict):
        return {key: _marked(item[key], tensors, mark) for key in sorted(item)}
    if isinstance(item, tuple) and hasattr(item, "_fields"):
        return type(item)(*(_marked(part, tensors, mark) for part in item))
    if isinstance(item, (list, tuple)):
        return type(item)(_marked(part, tensors, mark) for part in item)
    return item


@export("print")
def print_v2(*inputs, **kwargs):
    """An operation that prints its arguments when it runs."""
    end = kwargs.pop("end", "\n")
    output_stream = kwargs.pop("output_stream", sys.stderr)
    summarize = kwargs.pop("summarize", 3)
    sep = kwargs.pop("sep", " ")
    name = kwargs.pop("name", None)
    if kwargs:
        raise ValueError(f"Unrecognized keyword arguments for tf.print: {kwargs}")
    fmt_name = None if not name else f"{name}_format"
    streams = {id(sys.stdout): "stdout", id(sys.stderr): "stderr"}
    if isinstance(output_stream, str) and output_stream.startswith("file://"):
        stream = output_stream
    elif id(output_stream) in streams or output_stream in ("stdout", "stderr"):
        stream = streams.get(id(output_stream), output_stream)
    else:
        raise ValueError(f"Unsupported output stream, logging level, or file.{output_stream}. Supported streams are sys.stdout, sys.stderr, tf.logging.info, tf.logging.warning, tf.logging.error. File needs to be in the form of 'file://<filepath>'.")
    if len(inputs) == 1 and _is_tensor(inputs[0]) and inputs[0].dtype.base_dtype.name == "string" and inputs[0].shape.rank == 0:
        text = inputs[0]
    else:
        plain = [item for item in inputs if isinstance(item, str)]
        mark = _unused_placeholder(plain)
        tensors, parts = [], []
        for item in inputs:
            marked = _marked(item, tensors, mark)
            parts.append(item if isinstance(item, str) else pprint.pformat(marked))
        text = string_format(sep.join(parts), tensors, placeholder=mark, summarize=summarize, name=fmt_name)
    return gen.PrintV2(text, output_stream=stream, name=name, end=end)


@export("strings.format")
def string_format(template, inputs, placeholder="{}", summarize=3, name=None):
    """A text with the values of tensors in the places of the placeholder."""
    if isinstance(inputs, tuple):
        inputs = list(inputs)
    elif not isinstance(inputs, list):
        inputs = [inputs]
    found = template.count(placeholder)
    if found != len(inputs):
        raise ValueError(f"{found} placeholder(s) in template does not match {len(inputs)} tensor(s) provided as input")
    return gen.StringFormat(inputs, template=template, placeholder=placeholder, summarize=summarize, name=name)
