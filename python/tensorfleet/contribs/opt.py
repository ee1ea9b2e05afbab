"""`tf.contrib.opt`: variants of Adam, weight decay beside the gradient, averages of what is trained."""

from tensorfleet.framework import gen, ops
from tensorfleet.framework.export import export
from tensorfleet.ops import state, variables
from tensorfleet.training.moving_averages import ExponentialMovingAverage
from tensorfleet.training.optimizer import Optimizer
from tensorfleet.training.optimizers import AdamOptimizer, MomentumOptimizer


def _cast(value, dtype):
    from tensorfleet.ops import math

    return math.cast(value, dtype)


def _group(*operations):
    from tensorfleet.ops import control_flow

    return control_flow.group(*operations)


def _gather(values, indices):
    from tensorfleet.ops import indexing

    return indexing.gather(values, indices)


def _scatter_and_read(variable, indices, values, use_locking=None):
    """Adds rows to a resource variable; gives its value afterwards."""
    with ops.control_dependencies([gen.ResourceScatterAdd(variable.handle, indices, values)]):
        return variable.value()


class _AdamNumbers:
    """Adam's numbers in the dtype of a variable."""

    def __init__(self, optimizer, dtype):
        self.beta1_power, self.beta2_power = (_cast(power, dtype) for power in optimizer._get_beta_accumulators())
        self.lr = _cast(optimizer._lr_t, dtype)
        self.beta1 = _cast(optimizer._beta1_t, dtype)
        self.beta2 = _cast(optimizer._beta2_t, dtype)
        self.epsilon = _cast(optimizer._epsilon_t, dtype)

    def rate(self):
        """The rate with what the means lack because they started with zeros."""
        return self.lr * gen.Sqrt(1 - self.beta2_power) / (1 - self.beta1_power)


@export("contrib.opt.LazyAdamOptimizer")
class LazyAdamOptimizer(AdamOptimizer):
    """Adam that leaves rows alone which a gradient does not mention; their means do not decay either."""

    def _apply_sparse(self, grad, var):
        numbers = _AdamNumbers(self, var.dtype.base_dtype)
        rate, indices, locking = numbers.rate(), grad.indices, self._use_locking
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        new_m = numbers.beta1 * _gather(m, indices) + (1 - numbers.beta1) * grad.values
        new_m = state.scatter_update(m, indices, new_m, use_locking=locking)
        new_v = numbers.beta2 * _gather(v, indices) + (1 - numbers.beta2) * gen.Square(grad.values)
        new_v = state.scatter_update(v, indices, new_v, use_locking=locking)
        m_rows, v_rows = _gather(new_m, indices), _gather(new_v, indices)
        divisor = gen.Sqrt(v_rows) + numbers.epsilon
        return _group(state.scatter_sub(var, indices, rate * m_rows / divisor, use_locking=locking), new_m, new_v)

    def _resource_apply_sparse(self, grad, var, indices):
        numbers = _AdamNumbers(self, var.dtype.base_dtype)
        rate = numbers.rate()
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        m_rows = numbers.beta1 * _gather(m, indices) + (1 - numbers.beta1) * grad
        new_m = gen.ResourceScatterUpdate(m.handle, indices, m_rows)
        v_rows = numbers.beta2 * _gather(v, indices) + (1 - numbers.beta2) * gen.Square(grad)
        new_v = gen.ResourceScatterUpdate(v.handle, indices, v_rows)
        change = rate * m_rows / (gen.Sqrt(v_rows) + numbers.epsilon)
        return _group(gen.ResourceScatterSub(var.handle, indices, change), new_m, new_v)


@export("contrib.opt.NadamOptimizer")
class NadamOptimizer(AdamOptimizer):
    """Adam with Nesterov's momentum: the step looks one ahead."""

    def _apply_nesterov(self, op, dtype, grad, *references):
        numbers = _AdamNumbers(self, dtype)
        return op(
            *references,
            numbers.beta1_power,
            numbers.beta2_power,
            numbers.lr,
            numbers.beta1,
            numbers.beta2,
            numbers.epsilon,
            grad,
            use_locking=bool(self._use_locking),
            use_nesterov=True,
        )

    def _apply_dense(self, grad, var):
        slots = [self.get_slot(var, name)._ref() for name in ("m", "v")]
        return self._apply_nesterov(gen.ApplyAdam, var.dtype.base_dtype, grad, var._ref(), *slots).op

    def _resource_apply_dense(self, grad, var):
        slots = [self.get_slot(var, name).handle for name in ("m", "v")]
        return self._apply_nesterov(gen.ResourceApplyAdam, grad.dtype.base_dtype, grad, var.handle, *slots)

    def _apply_rows(self, grad, var, indices, scatter_add):
        numbers = _AdamNumbers(self, var.dtype.base_dtype)
        rate = numbers.rate()
        m = self.get_slot(var, "m")
        fresh = grad * (1 - numbers.beta1)
        decayed = state.assign(m, m * numbers.beta1, use_locking=self._use_locking)
        with ops.control_dependencies([decayed]):
            new_m = scatter_add(m, indices, fresh)
            ahead = fresh + numbers.beta1 * _gather(new_m, indices)
        v = self.get_slot(var, "v")
        squares = (grad * grad) * (1 - numbers.beta2)
        decayed = state.assign(v, v * numbers.beta2, use_locking=self._use_locking)
        with ops.control_dependencies([decayed]):
            new_v = scatter_add(v, indices, squares)
        root = gen.Sqrt(_gather(new_v, indices))
        changed = scatter_add(var, indices, -rate * ahead / (root + numbers.epsilon))
        return _group(changed, ahead, new_v)

    def _apply_sparse(self, grad, var):
        def scatter_add(variable, indices, values):
            return state.scatter_add(variable, indices, values, use_locking=self._use_locking)

        return self._apply_rows(grad.values, var, grad.indices, scatter_add)

    def _resource_apply_sparse(self, grad, var, indices):
        return self._apply_rows(grad, var, indices, _scatter_and_read)


@export("contrib.opt.DecoupledWeightDecayExtension")
class DecoupledWeightDecayExtension:
    """Makes weights smaller beside what the gradient does: a class to derive from before that of an optimizer."""

    def __init__(self, weight_decay, **kwargs):
        self._decay_var_list = None
        self._weight_decay = weight_decay
        self._weight_decay_tensor = None
        super().__init__(**kwargs)

    def minimize(
        self,
        loss,
        global_step=None,
        var_list=None,
        gate_gradients=Optimizer.GATE_OP,
        aggregation_method=None,
        colocate_gradients_with_ops=False,
        name=None,
        grad_loss=None,
        decay_var_list=None,
    ):
        self._decay_var_list = set(decay_var_list) if decay_var_list else False
        return super().minimize(
            loss,
            global_step=global_step,
            var_list=var_list,
            gate_gradients=gate_gradients,
            aggregation_method=aggregation_method,
            colocate_gradients_with_ops=colocate_gradients_with_ops,
            name=name,
            grad_loss=grad_loss,
        )

    def apply_gradients(self, grads_and_vars, global_step=None, name=None, decay_var_list=None):
        # TensorFlow, too, forgets here what `minimize` was told.
        self._decay_var_list = set(decay_var_list) if decay_var_list else False
        return super().apply_gradients(grads_and_vars, global_step=global_step, name=name)

    def _prepare(self):
        decay = self._weight_decay() if callable(self._weight_decay) else self._weight_decay
        self._weight_decay_tensor = ops.convert_to_tensor(decay, name="weight_decay")
        super()._prepare()

    def _decays(self, var):
        return not self._decay_var_list or var in self._decay_var_list

    def _decay_weights_op(self, var):
        if not self._decays(var):
            return gen.NoOp()
        return var.assign_sub(self._weight_decay * var, self._use_locking)

    def _decay_weights_sparse_op(self, var, indices, scatter_add):
        if not self._decays(var):
            return gen.NoOp()
        return scatter_add(var, indices, -self._weight_decay * _gather(var, indices), self._use_locking)

    def _apply_dense(self, grad, var):
        with ops.control_dependencies([self._decay_weights_op(var)]):
            return super()._apply_dense(grad, var)

    def _resource_apply_dense(self, grad, var):
        with ops.control_dependencies([self._decay_weights_op(var)]):
            return super()._resource_apply_dense(grad, var)

    def _apply_sparse(self, grad, var):
        with ops.control_dependencies([self._decay_weights_sparse_op(var, grad.indices, state.scatter_add)]):
            return super()._apply_sparse(grad, var)

    def _resource_apply_sparse(self, grad, var, indices):
        with ops.control_dependencies([self._decay_weights_sparse_op(var, indices, _scatter_and_read)]):
            return super()._resource_apply_sparse(grad, var, indices)


@export("contrib.opt.extend_with_decoupled_weight_decay")
def extend_with_decoupled_weight_decay(base_optimizer):
    """The class of an optimizer with weight decay; its first argument is the decay."""

    class OptimizerWithDecoupledWeightDecay(DecoupledWeightDecayExtension, base_optimizer):
        def __init__(self, weight_decay, *args, **kwargs):
            super().__init__(weight_decay, *args, **kwargs)

    return OptimizerWithDecoupledWeightDecay


@export("contrib.opt.MomentumWOptimizer")
class MomentumWOptimizer(DecoupledWeightDecayExtension, MomentumOptimizer):
    """Momentum with weight decay."""

    def __init__(self, weight_decay, learning_rate, momentum, use_locking=False, name="MomentumW", use_nesterov=False):
        super().__init__(
            weight_decay, learning_rate=learning_rate, momentum=momentum, use_locking=use_locking, name=name, use_nesterov=use_nesterov
        )


@export("contrib.opt.AdamWOptimizer")
class AdamWOptimizer(DecoupledWeightDecayExtension, AdamOptimizer):
    """Adam with weight decay."""

    def __init__(self, weight_decay, learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8, use_locking=False, name="AdamW"):
        super().__init__(
            weight_decay, learning_rate=learning_rate, beta1=beta1, beta2=beta2, epsilon=epsilon, use_locking=use_locking, name=name
        )


@export("contrib.opt.MovingAverageOptimizer")
class MovingAverageOptimizer(Optimizer):
    """Trains by another optimizer and keeps moving averages of the variables; its saver writes these in their places."""

    def __init__(self, opt, average_decay=0.9999, num_updates=None, sequential_update=True):
        self._optimizer = opt
        self._ema = ExponentialMovingAverage(average_decay, num_updates=num_updates)
        self._sequential_update = sequential_update
        #: Name of a variable -> that of its average, and the other way.
        self._swapped = None

    def compute_gradients(self, *args, **kwargs):
        return self._optimizer.compute_gradients(*args, **kwargs)

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        from tensorfleet.ops import control_flow

        pairs = list(grads_and_vars)
        train_op = self._optimizer.apply_gradients(pairs, global_step=global_step, name=name)
        trained = [var for grad, var in pairs if grad is not None]
        if self._sequential_update:
            with ops.control_dependencies([train_op]):
                average_op = self._ema.apply(trained)
        else:
            average_op = self._ema.apply(trained)
        self._swapped = {}
        for var in trained:
            average = self._ema.average(var)
            self._swapped[var.op.name], self._swapped[average.op.name] = average.op.name, var.op.name
        return control_flow.group(train_op, average_op, name="train_with_avg")

    def swapping_saver(self, var_list=None, name="swapping_saver", **kwargs):
        """A saver that writes averages under the names of what they follow, and the other way."""
        from tensorfleet import train

        if self._swapped is None:
            raise RuntimeError("Must call apply_gradients or minimize before creating the swapping_saver")
        var_list = variables.global_variables() if var_list is None else var_list
        if not isinstance(var_list, dict):
            var_list = {var.op.name: var for var in var_list}
        return train.Saver({key: self._in_place_of(key, var, var_list) for key, var in var_list.items()}, name=name, **kwargs)

    def _in_place_of(self, key, var, var_list):
        swapped = self._swapped.get(key)
        if swapped is None:
            return var
        if swapped not in var_list:
            raise ValueError(f"Variable to swap {swapped} is not part of variables to save. This breaks MovingAverageOptimizer.")
        return var_list[swapped]
