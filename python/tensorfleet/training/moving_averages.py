"""Moving averages: variables that follow others, or computed values, slowly."""

from tensorfleet.framework import dtypes, gen, ops
from tensorfleet.framework.export import export
from tensorfleet.framework.keys import GraphKeys
from tensorfleet.ops import variable_scope, variables
from tensorfleet.ops.variables import Variable
from tensorfleet.training import slot_creator

_FLOATS = (dtypes.bfloat16, dtypes.float16, dtypes.float32, dtypes.float64)


def assign_moving_average(variable, value, decay, zero_debias=True, name=None):
    """Moves `variable` towards `value`: by the part `1 - decay` of the way."""
    from tensorfleet.ops import math, state

    with ops.name_scope(name, "AssignMovingAvg", [variable, value, decay]) as scope:
        rest = ops.convert_to_tensor(1.0 - decay, name="decay")
        if rest.dtype != variable.dtype.base_dtype:
            rest = math.cast(rest, variable.dtype.base_dtype)
        if zero_debias:
            return _zero_debiased(variable, value, rest)
        return state.assign_sub(variable, (variable - value) * rest, name=scope)


def _free_name(name):
    """`name`, or with a number if the variable scope has such a variable and is not one of reuse."""
    scope = variable_scope.get_variable_scope()
    if scope.reuse:
        return name
    taken = {var.op.name for var in scope.global_variables()}
    index, found = 0, name
    while f"{scope.name}/{found}" in taken:
        index += 1
        found = f"{name}_{index}"
    return found


def _zero_debiased(variable, value, rest):
    """Follows in a variable of its own, and gives `variable` what that lacks because it starts with zero."""
    from tensorfleet.modeling import initializers
    from tensorfleet.ops import math, state

    with variable_scope.variable_scope(variable.op.name, values=[variable, value, rest]):
        with ops.colocate_with(variable):
            biased = variable_scope.get_variable(
                _free_name("biased"),
                shape=variable.get_shape(),
                dtype=variable.dtype,
                initializer=initializers.Zeros(),
                trainable=False,
            )
            local_step = variable_scope.get_variable(
                _free_name("local_step"), shape=[], dtype=variable.dtype, initializer=initializers.Zeros(), trainable=False
            )
    new_biased = state.assign_sub(biased, (biased - value) * rest)
    new_step = local_step.assign_add(1)
    lacking = 1 - math.pow(1.0 - rest, new_step)
    return state.assign(variable, new_biased / lacking, name=ops.get_name_scope() + "/")


def weighted_moving_average(value, decay, weight, truediv=True, collections=None, name=None):
    """The moving average of `value`, in which each value has a weight."""
    from tensorfleet.modeling import initializers
    from tensorfleet.ops import math

    collections = [GraphKeys.GLOBAL_VARIABLES] if collections is None else collections
    with variable_scope.variable_scope(name, "WeightedMovingAvg", [value, weight, decay]) as scope:
        keywords = {"initializer": initializers.Zeros(), "trainable": False, "collections": collections}
        products = variable_scope.get_variable("value_x_weight", shape=value.get_shape(), dtype=value.dtype, **keywords)
        weights = variable_scope.get_variable("weight", shape=weight.get_shape(), dtype=weight.dtype, **keywords)
        numerator = assign_moving_average(products, value * weight, decay, zero_debias=False)
        denominator = assign_moving_average(weights, weight, decay, zero_debias=False)
        return (math.truediv if truediv else math.div)(numerator, denominator, name=scope.name)


@export("train.ExponentialMovingAverage")
class ExponentialMovingAverage:
    """Keeps moving averages of variables and of computed values."""

    def __init__(self, decay, num_updates=None, zero_debias=False, name="ExponentialMovingAverage"):
        self._decay = decay
        self._num_updates = num_updates
        self._zero_debias = zero_debias
        self._name = name
        self._averages = {}

    @property
    def name(self):
        return self._name

    def apply(self, var_list=None):
        """An operation that updates the averages, which are made if they do not exist."""
        from tensorfleet.ops import control_flow

        var_list = variables.trainable_variables() if var_list is None else var_list
        debiased = set()
        for var in var_list:
            if var.dtype.base_dtype not in _FLOATS:
                raise TypeError(f"The variables must be half, float, or double: {var.name}")
            if var not in self._averages:
                self._averages[var] = self._make(var)
                if self._zero_debias and not isinstance(var, Variable):
                    debiased.add(var)
        with ops.name_scope(self.name) as scope:
            decay = self._decay_tensor()
            updates = [assign_moving_average(self._averages[var], var, decay, var in debiased) for var in var_list]
            return control_flow.group(*updates, name=scope)

    def _make(self, var):
        with ops.init_scope():
            if isinstance(var, Variable):
                average = slot_creator.create_slot(var, var.initialized_value(), self.name)
                ops.add_to_collection(GraphKeys.MOVING_AVERAGE_VARIABLES, var)
                return average
            is_variable = var.op.type in ("Variable", "VariableV2", "VarHandleOp")
            return slot_creator.create_zeros_slot(var, self.name, colocate_with_primary=is_variable)

    def _decay_tensor(self):
        from tensorfleet.ops import math

        decay = ops.convert_to_tensor(self._decay, name="decay")
        if self._num_updates is None:
            return decay
        updates = math.cast(self._num_updates, dtypes.float32, name="num_updates")
        return gen.Minimum(decay, (1.0 + updates) / (10.0 + updates))

    def average(self, var):
        """The variable that holds the average of `var`, or `None`."""
        return self._averages.get(var)

    def average_name(self, var):
        """The name under which the average of `var` is or would be saved."""
        if var in self._averages:
            return self._averages[var].op.name
        return ops.get_default_graph().unique_name(f"{var.op.name}/{self.name}", mark_as_used=False)

    def variables_to_restore(self, moving_avg_variables=None):
        """Names in a checkpoint -> variables, so that averages take the places of what they follow."""
        if moving_avg_variables is None:
            moving_avg_variables = variables.trainable_variables() + variables.moving_average_variables()
        averaged = list(dict.fromkeys(moving_avg_variables))
        found = {self.average_name(var): var for var in averaged}
        names = {var.name for var in averaged}
        for var in variables.global_variables():
            if var.name not in names:
                found.setdefault(var.op.name, var)
        return found
