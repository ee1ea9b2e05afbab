"""Options of datasets. They are kept and passed on; the runtime has its own ways."""

from tensorfleet.framework.export import export


class OptionsBase:
    """Named values; what was not set is `None`."""

    _fields = ()

    def __init__(self):
        object.__setattr__(self, "_set", {})

    def __getattr__(self, name):
        fields = type(self)._fields
        if name not in fields:
            raise AttributeError(f"Cannot get the property {name} on {type(self).__name__}.")
        value = self._set.get(name)
        if value is None and callable(fields[name]):
            value = self._set[name] = fields[name]()
        return value

    def __setattr__(self, name, value):
        if name not in type(self)._fields:
            raise AttributeError(f"Cannot set the property {name} on {type(self).__name__}.")
        self._set[name] = value

    def __eq__(self, other):
        return type(self) is type(other) and all(getattr(self, name) == getattr(other, name) for name in type(self)._fields)

    def __ne__(self, other):
        return not self == other

    __hash__ = None

    def _merged(self, other):
        made = type(self)()
        for name in type(self)._fields:
            ours, theirs = self._set.get(name), other._set.get(name)
            if isinstance(ours, OptionsBase) and isinstance(theirs, OptionsBase):
                made._set[name] = ours._merged(theirs)
            else:
                value = ours if theirs is None else theirs
                if value is not None:
                    made._set[name] = value
        return made


def _fields(*names):
    return dict.fromkeys(names)


@export("data.experimental.DistributeOptions")
class DistributeOptions(OptionsBase):
    """How elements are divided among tasks."""

    _fields = _fields("auto_shard", "num_devices")


@export("data.experimental.MapVectorizationOptions")
class MapVectorizationOptions(OptionsBase):
    """Whether maps run on batches."""

    _fields = _fields("enabled", "use_choose_fastest")


@export("data.experimental.OptimizationOptions")
class OptimizationOptions(OptionsBase):
    """How TensorFlow may rewrite pipelines."""

    _fields = {
        **_fields(
            "apply_default_optimizations",
            "autotune",
            "autotune_algorithm",
            "autotune_buffers",
            "autotune_cpu_budget",
            "filter_fusion",
            "filter_with_random_uniform_fusion",
            "hoist_random_uniform",
            "map_and_batch_fusion",
            "map_and_filter_fusion",
            "map_fusion",
            "map_parallelization",
        ),
        "map_vectorization": MapVectorizationOptions,
        **_fields("noop_elimination", "parallel_batch", "shuffle_and_repeat_fusion"),
    }


@export("data.experimental.StatsOptions")
class StatsOptions(OptionsBase):
    """Statistics, which the runtime does not gather."""

    _fields = _fields("aggregator", "counter_prefix", "latency_all_edges", "prefix")


@export("data.experimental.ThreadingOptions")
class ThreadingOptions(OptionsBase):
    """Threads of a pipeline."""

    _fields = _fields("max_intra_op_parallelism", "private_threadpool_size")


#: Rewritings that TensorFlow makes unless it is told not to, and those it makes when told.
_DEFAULT = ("map_and_batch_fusion", "noop_elimination", "shuffle_and_repeat_fusion")
_ON_DEMAND = (
    "filter_fusion",
    "filter_with_random_uniform_fusion",
    "hoist_random_uniform",
    "map_and_filter_fusion",
    "map_parallelization",
    "map_fusion",
    "parallel_batch",
)


@export("data.Options")
class Options(OptionsBase):
    """Options of a dataset."""

    _fields = {
        "experimental_deterministic": None,
        "experimental_distribute": DistributeOptions,
        "experimental_optimization": OptimizationOptions,
        "experimental_slack": None,
        "experimental_stateful_whitelist": None,
        "experimental_stats": StatsOptions,
        "experimental_threading": ThreadingOptions,
    }

    def merge(self, options):
        """These options and, where they say something, the others."""
        return self._merged(options)

    def _static_optimizations(self):
        chosen = self.experimental_optimization
        found = [name for name in _ON_DEMAND if getattr(chosen, name)]
        by_default = chosen.apply_default_optimizations is not False
        found += [name for name in _DEFAULT if getattr(chosen, name) or by_default and getattr(chosen, name) is not False]
        if self.experimental_deterministic is False:
            found.append("make_sloppy")
        return sorted(set(found))

    def _autotune(self):
        return self.experimental_optimization.autotune is not False
