"""What the rest of the package builds graphs with, in one place, under TensorFlow's names."""

import contextlib

from tensorfleet.framework import stacks
from tensorfleet.framework.composite import IndexedSlices, SparseTensor
from tensorfleet.framework.conversion import (
    convert_n_to_tensor,
    convert_n_to_tensor_or_indexed_slices,
    convert_to_tensor,
    convert_to_tensor_or_indexed_slices,
    register_tensor_conversion_function,
)
from tensorfleet.framework.export import export
from tensorfleet.framework.graph import GRAPH_DEF_VERSION, Graph
from tensorfleet.framework.keys import GraphKeys
from tensorfleet.framework.operation import Operation
from tensorfleet.framework.stacks import default_session, get_default_graph, get_default_session, reset_default_graph
from tensorfleet.framework.tensor import Tensor

__all__ = [
    "GRAPH_DEF_VERSION",
    "Graph",
    "GraphKeys",
    "IndexedSlices",
    "Operation",
    "SparseTensor",
    "Tensor",
    "convert_n_to_tensor",
    "convert_n_to_tensor_or_indexed_slices",
    "convert_to_tensor",
    "convert_to_tensor_or_indexed_slices",
    "default_session",
    "get_default_graph",
    "get_default_session",
    "register_tensor_conversion_function",
    "reset_default_graph",
]


def _graph_of_values(values):
    """The graph that the tensors among `values` belong to; those of two graphs are an error."""
    graph, first = None, None
    for value in values or ():
        element = getattr(value, "_as_graph_element", None)
        value = element() if element is not None else value
        own = getattr(value, "graph", None)
        if own is None or not isinstance(value, (Tensor, Operation, IndexedSlices, SparseTensor)):
            continue
        if graph is None:
            graph, first = own, value
        elif own is not graph:
            raise ValueError(f"{value} must be from the same graph as {first}.")
    return graph


@export("name_scope", "keras.backend.name_scope")
class name_scope:
    """A context manager for names of nodes: `with tf.name_scope("layer") as scope:`."""

    def __init__(self, name, default_name=None, values=None):
        self._name = default_name if name is None else name
        self._default_name = default_name
        self._values = values
        self._stack = None

    @property
    def name(self):
        return self._name

    def __enter__(self):
        if self._name is None and self._values is not None:
            raise ValueError(f"At least one of name (None) and default_name ({self._default_name}) must be provided.")
        self._stack = contextlib.ExitStack()
        try:
            graph = _graph_of_values(self._values) if not stacks.GRAPHS.items else None
            if graph is None:
                graph = get_default_graph()
            else:
                self._stack.enter_context(graph.as_default())
            if stacks.GRAPHS.items and self._values and not graph.building_function:
                own = _graph_of_values(self._values)
                if own is not None and own is not graph:
                    value = next(value for value in self._values if getattr(value, "graph", None) is own)
                    raise ValueError(f"{value} is not from the passed-in graph.")
            return self._stack.enter_context(graph.name_scope(self._name))
        except BaseException:
            self._stack.close()
            raise

    def __exit__(self, *exception):
        return self._stack.__exit__(*exception)


@export("op_scope")
@contextlib.contextmanager
def op_scope(values, name, default_name=None):
    """Its name before TensorFlow 1.0, with the arguments in another order."""
    with name_scope(name, default_name=default_name, values=values) as scope:
        yield scope


@export("device")
def device(device_name_or_function):
    """Places the nodes made inside."""
    return get_default_graph().device(device_name_or_function)


@export("control_dependencies")
def control_dependencies(control_inputs):
    """Makes the nodes built inside run after these."""
    return get_default_graph().control_dependencies(control_inputs)


@export("colocate_with")
def colocate_with(op, ignore_existing=False):
    """Places the nodes made inside where `op` is."""
    return get_default_graph().colocate_with(op, ignore_existing)


@export("container")
def container(container_name):
    """Keeps the state of the nodes made inside in a container."""
    return get_default_graph().container(container_name)


@export("init_scope")
@contextlib.contextmanager
def init_scope():
    """Leaves control dependencies, branches, loops and functions for the nodes made inside."""
    graph = get_default_graph()
    while graph.building_function:
        graph = graph.outer_graph
    with graph.as_default() if graph is not get_default_graph() else contextlib.nullcontext(), graph.control_dependencies(None):
        yield


@export("add_to_collection")
def add_to_collection(name, value):
    get_default_graph().add_to_collection(name, value)


@export("add_to_collections")
def add_to_collections(names, value):
    get_default_graph().add_to_collections(names, value)


@export("get_collection")
def get_collection(key, scope=None):
    return get_default_graph().get_collection(key, scope)


@export("get_collection_ref")
def get_collection_ref(key):
    return get_default_graph().get_collection_ref(key)


def get_all_collection_keys():
    return get_default_graph().get_all_collection_keys()


def get_name_scope():
    return get_default_graph().get_name_scope()


def strip_name_scope(name, export_scope):
    """`name` without the scope before it."""
    if export_scope:
        export_scope = export_scope.rstrip("/")
        for mark in ("loc:@", "^", ""):
            if name.startswith(f"{mark}{export_scope}/"):
                return mark + name[len(mark) + len(export_scope) + 1 :]
    return name


def prepend_name_scope(name, import_scope):
    """`name` below a scope."""
    if not import_scope:
        return name
    import_scope = import_scope.rstrip("/")
    for mark in ("loc:@", "^", ""):
        if name.startswith(mark):
            return f"{mark}{import_scope}/{name[len(mark):]}"


def inside_function():
    return get_default_graph().building_function


def executing_eagerly_outside_functions():
    return False
