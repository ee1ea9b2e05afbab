"""Every op of the catalogue as a function: `gen.MatMul(a, b, transpose_a=True)`.

Inputs come in the order of the op's declaration or by name, attributes by name. The functions are made when they are first
used, from the declarations.
"""

from tensorfleet.framework import op_library


def _make(op_type):
    declared = op_library.declaration(op_type)
    if declared is None:
        raise AttributeError(f"tensorfleet has no op {op_type}")
    inputs = [argument.name for argument in declared.inputs]

    def function(*values, name=None, **keywords):
        if len(values) > len(inputs):
            raise TypeError(f"{op_type}() takes {len(inputs)} inputs but {len(values)} were given")
        for key, value in zip(inputs, values):
            if key in keywords:
                raise TypeError(f"{op_type}() got multiple values for argument '{key}'")
            keywords[key] = value
        return op_library.outputs_of(op_library.apply_op_helper(op_type, name, keywords))

    function.__name__ = function.__qualname__ = op_type
    function.__doc__ = f"Adds a node of the op {op_type}."
    return function


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    function = globals()[name] = _make(name)
    return function
