"""The variables of a graph by what they are for, and operations that initialise or check them."""

from tensorfleet.framework import constant, dtypes, gen, ops
from tensorfleet.framework.export import export
from tensorfleet.framework.keys import GraphKeys
from tensorfleet.ops.variable import Variable


def adopt(graph):
    """Puts variables that the library made by itself into the collections."""
    for which, collection in (("global", GraphKeys.GLOBAL_VARIABLES), ("local", GraphKeys.LOCAL_VARIABLES)):
        start = graph._library_variables[which]
        natives = graph._native.listed_variables(which, start)
        graph._library_variables[which] = start + len(natives)
        for native in natives:
            handle = native.parts()[0]
            if handle not in graph._variable_objects:
                made = Variable._of(graph, native, trainable=False)
                graph._collections.setdefault(collection, []).append(made)


def of_native(graph, native):
    """The Python object of a variable that the library gave."""
    adopt(graph)
    found = graph._variable_objects.get(native.parts()[0])
    return found if found is not None else Variable._of(graph, native, trainable=False)


@export("global_variables")
def global_variables(scope=None):
    return ops.get_collection(GraphKeys.GLOBAL_VARIABLES, scope)


@export("all_variables")
def all_variables():
    """The name of `global_variables` before TensorFlow 0.12."""
    return global_variables()


@export("local_variables")
def local_variables(scope=None):
    return ops.get_collection(GraphKeys.LOCAL_VARIABLES, scope)


@export("model_variables")
def model_variables(scope=None):
    return ops.get_collection(GraphKeys.MODEL_VARIABLES, scope)


@export("trainable_variables")
def trainable_variables(scope=None):
    return ops.get_collection(GraphKeys.TRAINABLE_VARIABLES, scope)


@export("moving_average_variables")
def moving_average_variables(scope=None):
    return ops.get_collection(GraphKeys.MOVING_AVERAGE_VARIABLES, scope)


def _all_saveable_objects(scope=None):
    return ops.get_collection(GraphKeys.GLOBAL_VARIABLES, scope) + ops.get_collection(GraphKeys.SAVEABLE_OBJECTS, scope)


@export("initializers.variables", "variables_initializer")
def variables_initializer(var_list, name="init"):
    """An operation that initialises variables."""
    from tensorfleet.ops import control_flow

    return control_flow.group(*[variable.initializer for variable in var_list or ()], name=name)


@export("initialize_variables")
def initialize_variables(var_list, name="init"):
    return variables_initializer(var_list, name)


@export("initializers.global_variables", "global_variables_initializer")
def global_variables_initializer():
    return variables_initializer(global_variables())


@export("initialize_all_variables")
def initialize_all_variables():
    """The name of `global_variables_initializer` before TensorFlow 0.12."""
    return global_variables_initializer()


@export("initializers.local_variables", "local_variables_initializer")
def local_variables_initializer():
    return variables_initializer(local_variables())


@export("initialize_local_variables")
def initialize_local_variables():
    return local_variables_initializer()


@export("is_variable_initialized")
def is_variable_initialized(variable):
    return variable.is_initialized() if isinstance(variable, Variable) else gen.IsVariableInitialized(variable)


@export("assert_variables_initialized")
def assert_variables_initialized(var_list=None):
    """An operation that fails if one of the variables has no value."""
    var_list = global_variables() + local_variables() if var_list is None else var_list
    if not var_list:
        return None
    from tensorfleet.ops import array

    ranks = []
    for variable in var_list:
        with ops.colocate_with(variable.op):
            ranks.append(array.rank_internal(variable, optimize=False))
    return ranks[0] if len(ranks) == 1 else array.stack(ranks)


@export("report_uninitialized_variables")
def report_uninitialized_variables(var_list=None, name="report_uninitialized_variables"):
    """The names of the variables that have no value, as a string vector."""
    if var_list is None:
        var_list = global_variables() + local_variables()
        if not var_list:
            var_list = [op.outputs[0] for op in ops.get_default_graph().get_operations() if op.type in ("Variable", "VariableV2", "AutoReloadVariable")]
    from tensorfleet.ops import array

    with ops.name_scope(name):
        checks = [is_variable_initialized(variable) for variable in var_list] if var_list else []
        with ops.device("/cpu:0"):
            if not var_list:
                return constant.constant([], dtypes.string)
            mask = gen.LogicalNot(array.stack(checks))
            names = constant.constant([variable.op.name for variable in var_list])
            return array.boolean_mask(names, mask)
