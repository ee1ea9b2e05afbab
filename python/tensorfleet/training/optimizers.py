"""The optimizers: `tf.train.AdamOptimizer` and others.

Each makes its slots and its tensors here; how a variable changes is the library's rule of the same name.
"""

from tensorfleet import _native
from tensorfleet.framework import ops
from tensorfleet.framework.export import export
from tensorfleet.framework.tensor import Tensor
from tensorfleet.ops.variables import Variable
from tensorfleet.training.optimizer import Optimizer


class _RuleOptimizer(Optimizer):
    """An optimizer whose updates are a rule of the library."""

    #: The library's name of the rule.
    _RULE = None
    #: The library's name of a number -> the attribute that holds its tensor after `_prepare`.
    _TENSORS = {"learning_rate": "_learning_rate_tensor"}
    #: Its slots.
    _SLOTS = ()

    def _tensor(self, value, name):
        return ops.convert_to_tensor(self._call_if_callable(value), name=name)

    def _options(self):
        """What the rule is told beside its tensors."""
        return {}

    def _common(self):
        """The variables of all that is trained, by name."""
        return {}

    def _rule(self, graph):
        options = {name: getattr(self, attribute)._id for name, attribute in self._TENSORS.items()}
        options.update(self._options(), use_locking=bool(self._use_locking))
        return _native.UpdateRule(graph._native, self._RULE, options)

    def _slot_names(self):
        return self._SLOTS

    def _apply_rule(self, var, *gradient):
        graph = var.graph
        slots = {name: self.get_slot(var, name)._variable_native for name in self._slot_names()}
        numbers = [tensor._id for tensor in gradient]
        node = self._rule(graph).apply(graph._native, var._variable_native, slots, self._common(), numbers)
        return graph._operation(node)

    def _apply_dense(self, grad, var):
        return self._apply_rule(var, grad)

    def _resource_apply_dense(self, grad, var):
        return self._apply_rule(var, grad)

    def _apply_sparse(self, grad, var):
        return self._apply_rule(var, grad.values, grad.indices)

    def _resource_apply_sparse(self, grad, var, indices):
        return self._apply_rule(var, grad, indices)


def _filled(value, var, name):
    """A constant of the shape of a variable, where the variable is."""
    from tensorfleet.framework.constant import constant

    with ops.colocate_with(var):
        return constant(value, dtype=var.dtype.base_dtype, shape=var.get_shape(), name=name)


def _check_positive(name, value):
    if value <= 0.0:
        raise ValueError(f"{name} must be positive: {value}")


@export("train.GradientDescentOptimizer")
class GradientDescentOptimizer(_RuleOptimizer):
    """Subtracts the gradient times the learning rate."""

    _RULE = "GradientDescent"

    def __init__(self, learning_rate, use_locking=False, name="GradientDescent"):
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._learning_rate_tensor = None

    def _prepare(self):
        self._learning_rate_tensor = self._tensor(self._learning_rate, "learning_rate")

    # Rows that come several times are subtracted one after the other, which is the same.
    def _apply_sparse_duplicate_indices(self, grad, var):
        return self._apply_rule(var, grad.values, grad.indices)

    def _resource_apply_sparse_duplicate_indices(self, grad, handle, indices):
        return self._apply_rule(handle, grad, indices)


@export("train.MomentumOptimizer")
class MomentumOptimizer(_RuleOptimizer):
    """The change is a running sum of gradients."""

    _RULE = "Momentum"
    _TENSORS = {"learning_rate": "_learning_rate_tensor", "momentum": "_momentum_tensor"}
    _SLOTS = ("momentum",)

    def __init__(self, learning_rate, momentum, use_locking=False, name="Momentum", use_nesterov=False):
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._momentum = momentum
        self._use_nesterov = use_nesterov

    def _create_slots(self, var_list):
        for var in var_list:
            self._zeros_slot(var, "momentum", self._name)

    def _prepare(self):
        self._learning_rate_tensor = self._tensor(self._learning_rate, "learning_rate")
        self._momentum_tensor = self._tensor(self._momentum, "momentum")

    def _options(self):
        return {"use_nesterov": bool(self._use_nesterov)}


@export("train.AdagradOptimizer")
class AdagradOptimizer(_RuleOptimizer):
    """Each element has its own rate, which falls with the squares of its gradients."""

    _RULE = "Adagrad"
    _SLOTS = ("accumulator",)

    def __init__(self, learning_rate, initial_accumulator_value=0.1, use_locking=False, name="Adagrad"):
        _check_positive("initial_accumulator_value", initial_accumulator_value)
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._initial_accumulator_value = initial_accumulator_value
        self._learning_rate_tensor = None

    def _create_slots(self, var_list):
        from tensorfleet.modeling import initializers

        for var in var_list:
            dtype = var.dtype.base_dtype
            initial = initializers.Constant(self._initial_accumulator_value, dtype=dtype)
            if not var.get_shape().is_fully_defined():
                initial = self._fill(var, dtype)
            self._get_or_make_slot_with_initializer(var, initial, var.get_shape(), dtype, "accumulator", self._name)

    def _fill(self, var, dtype):
        from tensorfleet.framework import gen
        from tensorfleet.ops import array, math

        return lambda: math.cast(gen.Fill(array.shape(var), self._initial_accumulator_value), dtype)

    def _prepare(self):
        self._learning_rate_tensor = self._tensor(self._learning_rate, "learning_rate")


@export("train.AdadeltaOptimizer")
class AdadeltaOptimizer(_RuleOptimizer):
    """Gradients times the ratio of the running means of changes and gradients."""

    _RULE = "Adadelta"
    _TENSORS = {"learning_rate": "_lr_t", "rho": "_rho_t", "epsilon": "_epsilon_t"}
    _SLOTS = ("accum", "accum_update")

    def __init__(self, learning_rate=0.001, rho=0.95, epsilon=1e-8, use_locking=False, name="Adadelta"):
        super().__init__(use_locking, name)
        self._lr, self._rho, self._epsilon = learning_rate, rho, epsilon
        self._lr_t = self._rho_t = self._epsilon_t = None

    def _create_slots(self, var_list):
        for var in var_list:
            self._zeros_slot(var, "accum", self._name)
            self._zeros_slot(var, "accum_update", self._name)

    def _prepare(self):
        self._lr_t = self._tensor(self._lr, "lr")
        self._rho_t = self._tensor(self._rho, "rho")
        self._epsilon_t = self._tensor(self._epsilon, "epsilon")


@export("train.RMSPropOptimizer")
class RMSPropOptimizer(_RuleOptimizer):
    """Gradients divided by the root of the running mean of their squares."""

    _RULE = "RMSProp"
    _TENSORS = {
        "learning_rate": "_learning_rate_tensor",
        "decay": "_decay_tensor",
        "momentum": "_momentum_tensor",
        "epsilon": "_epsilon_tensor",
    }

    def __init__(self, learning_rate, decay=0.9, momentum=0.0, epsilon=1e-10, use_locking=False, centered=False, name="RMSProp"):
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._decay = decay
        self._momentum = momentum
        self._epsilon = epsilon
        self._centered = centered
        self._learning_rate_tensor = self._decay_tensor = self._momentum_tensor = self._epsilon_tensor = None

    def _slot_names(self):
        return ("mg", "rms", "momentum") if self._centered else ("rms", "momentum")

    def _create_slots(self, var_list):
        from tensorfleet.modeling import initializers
        from tensorfleet.ops import constants

        for var in var_list:
            dtype, shape = var.dtype.base_dtype, var.get_shape()
            ones = initializers.Ones(dtype=dtype) if shape.is_fully_defined() else constants.ones_like(var)
            self._get_or_make_slot_with_initializer(var, ones, shape, dtype, "rms", self._name)
            if self._centered:
                self._zeros_slot(var, "mg", self._name)
            self._zeros_slot(var, "momentum", self._name)

    def _prepare(self):
        self._learning_rate_tensor = self._tensor(self._learning_rate, "learning_rate")
        self._decay_tensor = self._tensor(self._decay, "decay")
        self._momentum_tensor = self._tensor(self._momentum, "momentum")
        self._epsilon_tensor = self._tensor(self._epsilon, "epsilon")

    def _options(self):
        return {"centered": bool(self._centered)}


@export("train.AdamOptimizer")
class AdamOptimizer(_RuleOptimizer):
    """Steps of the running mean of the gradients, divided by the root of that of their squares."""

    _RULE = "Adam"
    _TENSORS = {"learning_rate": "_lr_t", "beta1": "_beta1_t", "beta2": "_beta2_t", "epsilon": "_epsilon_t"}
    _SLOTS = ("m", "v")

    def __init__(self, learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8, use_locking=False, name="Adam"):
        super().__init__(use_locking, name)
        self._lr, self._beta1, self._beta2, self._epsilon = learning_rate, beta1, beta2, epsilon
        self._lr_t = self._beta1_t = self._beta2_t = self._epsilon_t = None

    def _get_beta_accumulators(self):
        graph = ops.get_default_graph()
        return self._get_non_slot_variable("beta1_power", graph), self._get_non_slot_variable("beta2_power", graph)

    def _common(self):
        powers = zip(("beta1_power", "beta2_power"), self._get_beta_accumulators())
        return {name: power._variable_native for name, power in powers}

    def _create_slots(self, var_list):
        # With the variable whose name comes first, so that all workers agree.
        first = min(var_list, key=lambda var: var.name)
        self._create_non_slot_variable(self._beta1, "beta1_power", first)
        self._create_non_slot_variable(self._beta2, "beta2_power", first)
        for var in var_list:
            self._zeros_slot(var, "m", self._name)
            self._zeros_slot(var, "v", self._name)

    def _prepare(self):
        # All are called before the first becomes a tensor: what they add comes first.
        numbers = [self._call_if_callable(value) for value in (self._lr, self._beta1, self._beta2, self._epsilon)]
        self._lr_t = self._tensor(numbers[0], "learning_rate")
        self._beta1_t = self._tensor(numbers[1], "beta1")
        self._beta2_t = self._tensor(numbers[2], "beta2")
        self._epsilon_t = self._tensor(numbers[3], "epsilon")

    def _finish(self, update_ops, name_scope):
        from tensorfleet.ops import control_flow

        graph = ops.get_default_graph()
        updates = [(update.op if isinstance(update, (Tensor, Variable)) else update)._id for update in update_ops]
        done = self._rule(graph).finish(graph._native, self._common(), updates)
        return control_flow.group(*[graph._operation(number) for number in done], name=name_scope)


@export("train.FtrlOptimizer")
class FtrlOptimizer(_RuleOptimizer):
    """Follow the regularized leader: sparse models through regularization inside the update."""

    _RULE = "Ftrl"
    _TENSORS = {
        "learning_rate": "_learning_rate_tensor",
        "l1": "_l1_regularization_strength_tensor",
        "l2": "_l2_regularization_strength_tensor",
        "l2_shrinkage": "_l2_shrinkage_regularization_strength_tensor",
        "learning_rate_power": "_learning_rate_power_tensor",
    }
    _SLOTS = ("accum", "linear")

    def __init__(
        self,
        learning_rate,
        learning_rate_power=-0.5,
        initial_accumulator_value=0.1,
        l1_regularization_strength=0.0,
        l2_regularization_strength=0.0,
        use_locking=False,
        name="Ftrl",
        accum_name=None,
        linear_name=None,
        l2_shrinkage_regularization_strength=0.0,
    ):
        super().__init__(use_locking, name)
        for what, value in (
            ("initial_accumulator_value", initial_accumulator_value),
            ("l1_regularization_strength", l1_regularization_strength),
            ("l2_regularization_strength", l2_regularization_strength),
            ("l2_shrinkage_regularization_strength", l2_shrinkage_regularization_strength),
        ):
            if value < 0.0:
                raise ValueError("%s %f needs to be positive or zero" % (what, value))
        if learning_rate_power > 0.0:
            raise ValueError("learning_rate_power %f needs to be negative or zero" % learning_rate_power)
        self._learning_rate = learning_rate
        self._learning_rate_power = learning_rate_power
        self._initial_accumulator_value = initial_accumulator_value
        self._l1_regularization_strength = l1_regularization_strength
        self._l2_regularization_strength = l2_regularization_strength
        self._l2_shrinkage_regularization_strength = l2_shrinkage_regularization_strength
        self._accum_name, self._linear_name = accum_name, linear_name

    def _create_slots(self, var_list):
        for var in var_list:
            with ops.colocate_with(var):
                initial = _filled(self._initial_accumulator_value, var, "Const")
                self._get_or_make_slot(var, initial, "accum", self._accum_name or self._name)
                self._zeros_slot(var, "linear", self._linear_name or self._name)

    def _prepare(self):
        self._learning_rate_tensor = self._tensor(self._learning_rate, "learning_rate")
        for name in (
            "l1_regularization_strength",
            "l2_regularization_strength",
            "l2_shrinkage_regularization_strength",
            "learning_rate_power",
        ):
            setattr(self, f"_{name}_tensor", self._tensor(getattr(self, f"_{name}"), name))


class _StrengthsMixin:
    """The tensors of optimizers with L1 and L2 regularization."""

    def _prepare(self):
        self._learning_rate_tensor = self._tensor(self._learning_rate, "learning_rate")
        for name in ("l1_regularization_strength", "l2_regularization_strength"):
            setattr(self, f"_{name}_tensor", self._tensor(getattr(self, f"_{name}"), name))


_WITH_STRENGTHS = {
    "learning_rate": "_learning_rate_tensor",
    "l1": "_l1_regularization_strength_tensor",
    "l2": "_l2_regularization_strength_tensor",
}


@export("train.ProximalGradientDescentOptimizer")
class ProximalGradientDescentOptimizer(_StrengthsMixin, _RuleOptimizer):
    """Gradient descent with regularization that makes elements exactly zero."""

    _RULE = "ProximalGradientDescent"
    _TENSORS = _WITH_STRENGTHS

    def __init__(
        self,
        learning_rate,
        l1_regularization_strength=0.0,
        l2_regularization_strength=0.0,
        use_locking=False,
        name="ProximalGradientDescent",
    ):
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._l1_regularization_strength = l1_regularization_strength
        self._l2_regularization_strength = l2_regularization_strength


@export("train.ProximalAdagradOptimizer")
class ProximalAdagradOptimizer(_StrengthsMixin, _RuleOptimizer):
    """Adagrad with regularization that makes elements exactly zero."""

    _RULE = "ProximalAdagrad"
    _TENSORS = _WITH_STRENGTHS
    _SLOTS = ("accumulator",)

    def __init__(
        self,
        learning_rate,
        initial_accumulator_value=0.1,
        l1_regularization_strength=0.0,
        l2_regularization_strength=0.0,
        use_locking=False,
        name="ProximalAdagrad",
    ):
        _check_positive("initial_accumulator_value", initial_accumulator_value)
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._initial_accumulator_value = initial_accumulator_value
        self._l1_regularization_strength = l1_regularization_strength
        self._l2_regularization_strength = l2_regularization_strength

    def _create_slots(self, var_list):
        for var in var_list:
            self._get_or_make_slot(var, _filled(self._initial_accumulator_value, var, "Const"), "accumulator", self._name)


@export("train.AdagradDAOptimizer")
class AdagradDAOptimizer(_RuleOptimizer):
    """Adagrad dual averaging: elements follow from the sums of their gradients and of the squares, and the number of steps."""

    _RULE = "AdagradDA"
    _SLOTS = ("gradient_accumulator", "gradient_squared_accumulator")

    def __init__(
        self,
        learning_rate,
        global_step,
        initial_gradient_squared_accumulator_value=0.1,
        l1_regularization_strength=0.0,
        l2_regularization_strength=0.0,
        use_locking=False,
        name="AdagradDA",
    ):
        _check_positive("initial_gradient_squared_accumulator_value", initial_gradient_squared_accumulator_value)
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._initial_gradient_squared_accumulator_value = initial_gradient_squared_accumulator_value
        self._learning_rate_tensor = None
        self._l1_regularization_strength = l1_regularization_strength
        self._l2_regularization_strength = l2_regularization_strength
        self._global_step = global_step

    def _create_slots(self, var_list):
        for var in var_list:
            zeros = _filled(0.0, var, "Const")
            squares = _filled(self._initial_gradient_squared_accumulator_value, var, "Const")
            self._get_or_make_slot(var, zeros, "gradient_accumulator", self._name)
            self._get_or_make_slot(var, squares, "gradient_squared_accumulator", self._name)

    def _prepare(self):
        self._learning_rate_tensor = self._tensor(self._learning_rate, "learning_rate")
        # The rule copies the step once for all updates, so it is made once.
        self._prepared_rule = super()._rule(self._learning_rate_tensor.graph)

    def _rule(self, graph):
        return self._prepared_rule

    def _options(self):
        return {
            "global_step": self._global_step._variable_native,
            "l1": float(self._l1_regularization_strength),
            "l2": float(self._l2_regularization_strength),
        }
