"""What a run is asked for, and in which form it answers.

A fetch is a tensor, an operation, a name, or a nested structure of these. A `Plan` says once which outputs and nodes a structure
needs and how to put the results back; sessions keep the plans of structures they have seen.
"""

import collections.abc

from tensorfleet.framework.composite import IndexedSlices, IndexedSlicesValue, SparseTensor, SparseTensorValue
from tensorfleet.framework.tensor import Tensor

#: (type, function that gives the parts and how to join them, as `register_session_run_conversion_functions` adds).
EXPANSIONS = []


def register_session_run_conversion_functions(tensor_type, fetch_function, feed_function=None, feed_function_for_partial_run=None):
    """Lets sessions fetch and feed values of a program's own type."""
    for registered, *_ in EXPANSIONS:
        if issubclass(tensor_type, registered):
            raise ValueError(f"{tensor_type} has already been registered so ignore it.")
    EXPANSIONS.insert(0, (tensor_type, fetch_function, feed_function, feed_function_for_partial_run))


class Plan:
    """The outputs and nodes that a structure of fetches needs, and how its results are put together."""

    __slots__ = ("fetches", "targets", "_join", "_position")

    def __init__(self, graph, fetches):
        self.fetches = []
        self.targets = []
        self._position = {}
        self._join = self._plan(graph, fetches)

    def join(self, values):
        """The structure with the values in place of the fetches."""
        return self._join(values)

    def _take(self, tensor):
        number = tensor._id
        position = self._position.get(number)
        if position is None:
            position = self._position[number] = len(self.fetches)
            self.fetches.append(number)
        return position

    def _plan(self, graph, fetch):
        if fetch is None:
            raise TypeError(f"Fetch argument {fetch!r} has invalid type {type(fetch)!r}")
        if isinstance(fetch, (list, tuple)) and not hasattr(fetch, "_fields"):
            parts = [self._plan(graph, item) for item in fetch]
            kind = type(fetch)
            return (lambda values: [part(values) for part in parts]) if kind is list else (lambda values: kind(part(values) for part in parts))
        if isinstance(fetch, tuple) and hasattr(fetch, "_fields"):
            parts, kind = [self._plan(graph, item) for item in fetch], type(fetch)
            return lambda values: kind(*[part(values) for part in parts])
        if isinstance(fetch, collections.abc.Mapping):
            parts, kind = {key: self._plan(graph, item) for key, item in fetch.items()}, type(fetch)
            if issubclass(kind, collections.defaultdict):
                return lambda values: {key: part(values) for key, part in parts.items()}
            return lambda values: kind((key, part(values)) for key, part in parts.items())
        if isinstance(fetch, SparseTensor):
            parts = [self._plan(graph, item) for item in (fetch.indices, fetch.values, fetch.dense_shape)]
            return lambda values: SparseTensorValue(*[part(values) for part in parts])
        if isinstance(fetch, IndexedSlices):
            shape = [] if fetch.dense_shape is None else [fetch.dense_shape]
            parts = [self._plan(graph, item) for item in [fetch.values, fetch.indices] + shape]
            return lambda values: IndexedSlicesValue(*([part(values) for part in parts] + [None] * (3 - len(parts))))
        for kind, fetch_function, *_ in EXPANSIONS:
            if isinstance(fetch, kind) and fetch_function is not None:
                items, contract = fetch_function(fetch)
                parts = [self._plan(graph, item) for item in items]
                return lambda values: contract([part(values) for part in parts])
        return self._element(graph, fetch)

    def _element(self, graph, fetch):
        try:
            element = graph.as_graph_element(fetch, allow_tensor=True, allow_operation=True)
        except TypeError as error:
            raise TypeError(f"Fetch argument {fetch!r} has invalid type {type(fetch)!r}, must be a string or Tensor. ({error})") from None
        except ValueError as error:
            raise ValueError(f"Fetch argument {fetch!r} cannot be interpreted as a Tensor. ({error})") from None
        except KeyError as error:
            raise ValueError(f"Fetch argument {fetch!r} cannot be interpreted as a Tensor. ({error})") from None
        if not graph.is_fetchable(element):
            name = element.op.name if isinstance(element, Tensor) else element.name
            raise ValueError(f"Operation {name!r} has been marked as not fetchable.")
        if isinstance(element, Tensor):
            position = self._take(element)
            return lambda values: values[position]
        if element._id not in self.targets:
            self.targets.append(element._id)
        return lambda values: None
