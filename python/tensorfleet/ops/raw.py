"""`tf.raw_ops`: every op of the catalogue as a function that takes its inputs and attributes by keyword.

Signatures follow from the declarations: inputs first, then attributes without a default, then those with one.
"""

import functools

import numpy as np

from tensorfleet import _native
from tensorfleet.framework import op_library
from tensorfleet.framework.export import export_values
from tensorfleet.framework.operation import attr_value


#: Attributes that ops got after TensorFlow 1.15: no argument stands for them.
_LATER = frozenset(
    "metadata grad_a grad_b grad_x grad_y multiply_linear_by_lr bad_indices_policy sparse_gradient exponential_avg_factor "
    "cardinality_options replicate_on_split is_files use_default_device force_synchronous buffer_size_min ram_budget "
    "allow_missing_files resize_if_index_out_of_bounds debug_name allowed_devices".split()
)
#: The same for attributes that other ops had before.
_LATER_OF = {
    "AssignVariableOp": ("validate_shape",),
    "InitializeTableFromTextFile": ("offset",),
    "InitializeTableFromTextFileV2": ("offset",),
    "ShuffleAndRepeatDataset": ("reshuffle_each_iteration",),
    "TopKV2": ("index_type",),
    **dict.fromkeys(
        ("DepthwiseConv2dNative", "DepthwiseConv2dNativeBackpropFilter", "DepthwiseConv2dNativeBackpropInput", "MaxPool", "MaxPoolGrad"),
        ("explicit_paddings",),
    ),
}
_REDUCTIONS = ("All", "Any", "EuclideanNorm", "Max", "Mean", "Min", "Prod", "Sum")
#: Arguments that TensorFlow's functions call otherwise than the op's declaration does.
_RENAMED = {
    **{op_type: {"reduction_indices": "axis"} for op_type in _REDUCTIONS},
    "ExpandDims": {"dim": "axis"},
    "Select": {"t": "x", "e": "y"},
    "Split": {"split_dim": "axis"},
    "SplitV": {"split_dim": "axis"},
    "Squeeze": {"squeeze_dims": "axis"},
    "Where": {"input": "condition"},
}


def _default(attribute):
    value = attr_value(attribute.default)
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if attribute.kind == "shape" and not attribute.is_list:
        return None if value.unknown_rank else [dim.size for dim in value.dim]
    if isinstance(value, float):
        # Kept with 32 bits; the shortest number that says the same is the one that was declared.
        return float(str(np.float32(value)))
    return value


def _signature(declared):
    import inspect

    renamed, later = _RENAMED.get(declared.name, {}), _LATER_OF.get(declared.name, ())
    given = [attr for attr in declared.given if attr.name not in _LATER and attr.name not in later]
    required = [argument.name for argument in declared.inputs] + [attr.name for attr in given if attr.default is None]
    required = [renamed.get(name, name) for name in required]
    optional = [(renamed.get(attr.name, attr.name), _default(attr)) for attr in given if attr.default is not None]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(name, kind) for name in required]
    parameters += [inspect.Parameter(name, kind, default=default) for name, default in [*optional, ("name", None)]]
    return inspect.Signature(parameters)


def _make(op_type):
    declared = op_library.declaration(op_type)

    def function(*values, **keywords):
        if values:
            raise TypeError(
                f"{op_type} only takes keyword args (possible keys: "
                f"{[*function.__signature__.parameters]}). Please pass these args as kwargs instead."
            )
        unknown = [key for key in keywords if key not in function.__signature__.parameters]
        if unknown:
            raise TypeError(f"{op_type}() got an unexpected keyword argument '{unknown[0]}'")
        absent = [key for key, parameter in function.__signature__.parameters.items() if parameter.default is parameter.empty and key not in keywords]
        if absent:
            raise TypeError(f"{op_type}() missing {len(absent)} required positional argument{'s' if len(absent) > 1 else ''}: {_listed(absent)}")
        name = keywords.pop("name", None)
        for declared_name, argument in _RENAMED.get(op_type, {}).items():
            if argument in keywords:
                keywords[declared_name] = keywords.pop(argument)
        return op_library.outputs_of(op_library.apply_op_helper(op_type, name, keywords))

    function.__name__ = function.__qualname__ = op_type
    function.__doc__ = f"Adds a node of the op {op_type}."
    function.__signature__ = _signature(declared)
    return function


def _listed(names):
    quoted = [repr(name) for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])}{',' if len(quoted) > 2 else ''} and {quoted[-1]}"


@functools.lru_cache(maxsize=None)
def _offered():
    return frozenset(name for name in _native.op_names() if not name.startswith("_"))


def __getattr__(name):
    if name not in _offered():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    function = globals()[name] = _make(name)
    return function


export_values(__name__, {f"raw_ops.{name}": name for name in _offered()})
