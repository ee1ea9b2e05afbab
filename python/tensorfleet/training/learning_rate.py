"""Learning rate schedules: rates that the graph computes from the global step."""

import math as numbers

from tensorfleet.framework import dtypes, gen, ops
from tensorfleet.framework.constant import constant
from tensorfleet.framework.export import export


def _math():
    from tensorfleet.ops import math

    return math


class _Schedule:
    """A name scope with the numbers of a schedule as tensors of one dtype, that of the rate."""

    def __init__(self, name, default_name, learning_rate):
        self._scope = ops.name_scope(name or default_name)
        self._learning_rate = learning_rate

    def __enter__(self):
        self.name = self._scope.__enter__()
        self.rate = ops.convert_to_tensor(self._learning_rate, name="initial_learning_rate")
        return self

    def __exit__(self, *exception):
        return self._scope.__exit__(*exception)

    def cast(self, value):
        return _math().cast(value, self.rate.dtype)

    def done(self, factor):
        """The rate times a factor, under the name of the schedule."""
        return gen.Mul(self.rate, factor, name=self.name)


def _periods(schedule, global_step, decay_steps, staircase):
    periods = schedule.cast(global_step) / decay_steps
    return gen.Floor(periods) if staircase else periods


def _half_cosine(fraction):
    """From 1 down to 0 as `fraction` goes from 0 to 1."""
    return 0.5 * (1.0 + gen.Cos(constant(numbers.pi) * fraction))


def _cosine_of(num_periods, fraction):
    return _half_cosine(2.0 * num_periods * fraction)


@export("train.exponential_decay")
def exponential_decay(learning_rate, global_step, decay_steps, decay_rate, staircase=False, name=None):
    """`learning_rate * decay_rate ** (global_step / decay_steps)`."""
    with _Schedule(name, "ExponentialDecay", learning_rate) as schedule:
        decay_steps = schedule.cast(decay_steps)
        decay_rate = schedule.cast(decay_rate)
        periods = _periods(schedule, global_step, decay_steps, staircase)
        return schedule.done(_math().pow(decay_rate, periods))


@export("train.natural_exp_decay")
def natural_exp_decay(learning_rate, global_step, decay_steps, decay_rate, staircase=False, name=None):
    """`learning_rate * exp(-decay_rate * global_step / decay_steps)`."""
    rate = gen.Exp(gen.Neg(decay_rate))
    return exponential_decay(learning_rate, global_step, decay_steps, rate, staircase, name)


@export("train.inverse_time_decay")
def inverse_time_decay(learning_rate, global_step, decay_steps, decay_rate, staircase=False, name=None):
    """`learning_rate / (1 + decay_rate * global_step / decay_steps)`."""
    with _Schedule(name, "InverseTimeDecay", learning_rate) as schedule:
        decay_steps = schedule.cast(decay_steps)
        decay_rate = schedule.cast(decay_rate)
        periods = _periods(schedule, global_step, decay_steps, staircase)
        one = schedule.cast(constant(1))
        return gen.RealDiv(schedule.rate, gen.Add(one, gen.Mul(decay_rate, periods)), name=schedule.name)


@export("train.polynomial_decay")
def polynomial_decay(learning_rate, global_step, decay_steps, end_learning_rate=0.0001, power=1.0, cycle=False, name=None):
    """From `learning_rate` down to an end within `decay_steps`, as a power of what is left of the way."""
    with _Schedule(name, "PolynomialDecay", learning_rate) as schedule:
        end = schedule.cast(end_learning_rate)
        power = schedule.cast(power)
        step = schedule.cast(global_step)
        steps = schedule.cast(decay_steps)
        if cycle:
            from tensorfleet.ops import control_flow

            cycles = control_flow.cond(_math().equal(step, 0), lambda: 1.0, lambda: gen.Ceil(step / decay_steps))
            steps = gen.Mul(steps, cycles)
        else:
            step = gen.Minimum(step, decay_steps)
        way = step / steps
        whole = schedule.rate - end
        left = _math().pow(1 - way, power)
        return gen.Add(gen.Mul(whole, left), end, name=schedule.name)


@export("train.cosine_decay")
def cosine_decay(learning_rate, global_step, decay_steps, alpha=0.0, name=None):
    """From `learning_rate` down to `alpha` times that within `decay_steps`, along half a period of a cosine."""
    with _Schedule(name, "CosineDecay", learning_rate) as schedule:
        decay_steps = schedule.cast(decay_steps)
        step = gen.Minimum(schedule.cast(global_step), decay_steps)
        cosine = _half_cosine(step / decay_steps)
        return gen.Mul(schedule.rate, (1 - alpha) * cosine + alpha)


@export("train.cosine_decay_restarts")
def cosine_decay_restarts(learning_rate, global_step, first_decay_steps, t_mul=2.0, m_mul=1.0, alpha=0.0, name=None):
    """`cosine_decay` again and again, each time `t_mul` times as long and from `m_mul` times the rate."""
    from tensorfleet.ops import control_flow

    with _Schedule(name, "SGDRDecay", learning_rate) as schedule:
        first_decay_steps = schedule.cast(first_decay_steps)
        alpha = schedule.cast(alpha)
        t_mul = schedule.cast(t_mul)
        m_mul = schedule.cast(m_mul)
        way = schedule.cast(global_step) / first_decay_steps

        def equally_long():
            restarts = gen.Floor(way)
            return restarts, way - restarts

        def ever_longer():
            restarts = gen.Floor(gen.Log(1.0 - way * (1.0 - t_mul)) / gen.Log(t_mul))
            before = (1.0 - t_mul**restarts) / (1.0 - t_mul)
            return restarts, (way - before) / t_mul**restarts

        restarts, fraction = control_flow.cond(_math().equal(t_mul, 1.0), equally_long, ever_longer)
        cosine = 0.5 * m_mul**restarts * (1.0 + gen.Cos(constant(numbers.pi) * fraction))
        return schedule.done((1 - alpha) * cosine + alpha)


@export("train.linear_cosine_decay")
def linear_cosine_decay(learning_rate, global_step, decay_steps, num_periods=0.5, alpha=0.0, beta=0.001, name=None):
    """A line down to zero times a cosine of `num_periods` periods."""
    with _Schedule(name, "LinearCosineDecay", learning_rate) as schedule:
        decay_steps = schedule.cast(decay_steps)
        num_periods = schedule.cast(num_periods)
        alpha = schedule.cast(alpha)
        beta = schedule.cast(beta)
        step = gen.Minimum(schedule.cast(global_step), decay_steps)
        line = (decay_steps - step) / decay_steps
        cosine = _cosine_of(num_periods, step / decay_steps)
        return schedule.done((alpha + line) * cosine + beta)


@export("train.noisy_linear_cosine_decay")
def noisy_linear_cosine_decay(
    learning_rate,
    global_step,
    decay_steps,
    initial_variance=1.0,
    variance_decay=0.55,
    num_periods=0.5,
    alpha=0.0,
    beta=0.001,
    name=None,
):
    """`linear_cosine_decay` with noise in its line that grows less."""
    from tensorfleet.ops import random

    with _Schedule(name, "NoisyLinearCosineDecay", learning_rate) as schedule:
        decay_steps = schedule.cast(decay_steps)
        initial_variance = schedule.cast(initial_variance)
        variance_decay = schedule.cast(variance_decay)
        num_periods = schedule.cast(num_periods)
        alpha = schedule.cast(alpha)
        beta = schedule.cast(beta)
        step = gen.Minimum(schedule.cast(global_step), decay_steps)
        line = (decay_steps - step) / decay_steps
        deviation = gen.Sqrt(initial_variance / _math().pow(1.0 + step, variance_decay))
        noisy = line + random.random_normal(line.shape, stddev=deviation)
        cosine = _cosine_of(num_periods, step / decay_steps)
        return schedule.done((alpha + noisy) * cosine + beta)


@export("train.piecewise_constant", "train.piecewise_constant_decay")
def piecewise_constant(x, boundaries, values, name=None):
    """`values[i]` while `x` is at most `boundaries[i]`, afterwards the last value, of which there is one more."""
    from tensorfleet.ops import control_flow

    boundaries = ops.convert_n_to_tensor(boundaries)
    values = ops.convert_n_to_tensor(values)
    boundaries = _bounds(boundaries, ops.convert_to_tensor(x))
    for value in values[1:]:
        if value.dtype.base_dtype != values[0].dtype.base_dtype:
            raise ValueError(
                f"Values must have elements all with the same dtype ({values[0].dtype.base_dtype} vs {value.dtype.base_dtype})."
            )
    if len(boundaries) != len(values) - 1:
        raise ValueError("The length of boundaries should be 1 less than the length of values")
    with ops.name_scope(name or "PiecewiseConstant"):
        step = ops.convert_to_tensor(x)
        cases = [(step <= boundaries[0], lambda: values[0]), (step > boundaries[-1], lambda: values[-1])]
        for low, high, value in zip(boundaries[:-1], boundaries[1:], values[1:-1]):
            cases.append(((step > low) & (step <= high), lambda value=value: value))
        return control_flow.case(cases, lambda: values[0], exclusive=True)


def _bounds(boundaries, step):
    """The boundaries in the dtype of the step: those of Python's integers are cast."""
    found = []
    for bound in boundaries:
        bound_dtype, dtype = bound.dtype.base_dtype, step.dtype.base_dtype
        if bound_dtype != dtype:
            if bound_dtype != dtypes.int32 or dtype != dtypes.int64:
                raise ValueError(f"Boundaries ({bound_dtype}) must have the same dtype as x ({dtype}).")
            bound = _math().cast(bound, dtype)
        found.append(bound)
    return found
