"""`tf.case`: the first of several branches whose predicate is true."""

from tensorfleet.framework import dtypes, gen, ops
from tensorfleet.framework.constant import constant
from tensorfleet.framework.export import export
from tensorfleet.framework.tensor import Tensor
from tensorfleet.ops.control_flow import Assert, cond


def _checked_pairs(pred_fn_pairs, allow_python_preds):
    if isinstance(pred_fn_pairs, dict):
        pairs = sorted(pred_fn_pairs.items(), key=lambda item: getattr(item[0], "name", ""))
    elif isinstance(pred_fn_pairs, (list, tuple)):
        pairs = list(pred_fn_pairs)
    else:
        raise TypeError("fns must be a list, tuple, or dict")
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeError("Each entry in pred_fn_pairs must be a 2-tuple")
        pred, function = pair
        if isinstance(pred, Tensor):
            if pred.dtype.base_dtype != dtypes.bool:
                raise TypeError(f"pred must be of type bool: {pred.name}")
        elif not allow_python_preds:
            raise TypeError(f"pred must be a Tensor, got: {pred}")
        elif not isinstance(pred, bool):
            raise TypeError(f"pred must be a Tensor or bool, got: {pred}")
        if not callable(function):
            raise TypeError(f"fn for pred {getattr(pred, 'name', pred)} must be callable.")
    predicates, functions = zip(*pairs)
    return list(predicates), list(functions)


def _case(cond_function, pred_fn_pairs, default, exclusive, name, allow_python_preds=False, **cond_kwargs):
    predicates, functions = _checked_pairs(pred_fn_pairs, allow_python_preds)
    with ops.name_scope(name, "case", [predicates]):
        if default is None:
            default = _checked_last(predicates, functions)
            predicates, functions = predicates[:-1], functions[:-1]
        checks = [_at_most(1, predicates, "Input error: exclusive=True")] if exclusive else []
        function = default
        for pred, chosen in reversed(list(zip(predicates, functions))):
            function = _partial(cond_function, pred, chosen, function, cond_kwargs)
        with ops.control_dependencies(checks):
            return function()


def _partial(cond_function, pred, true_fn, false_fn, cond_kwargs):
    return lambda: cond_function(pred, true_fn=true_fn, false_fn=false_fn, **cond_kwargs)


def _packed_predicates(predicates):
    return gen.Pack(predicates, name="preds_c") if predicates else constant([], name="preds_c")


def _at_most(count, predicates, what):
    """An assertion that not more than `count` of the predicates are true."""
    packed = _packed_predicates(predicates)
    numbers = gen.Cast(packed, DstT=dtypes.int32)
    true_count = gen.Sum(numbers, constant([0], dtypes.int32, name="Const"), name="num_true_conds")
    condition = gen.LessEqual(true_count, constant(count, name="n_true_conds"))
    names = ", ".join(getattr(pred, "name", "?") for pred in predicates)
    return Assert(condition, [f"{what}: more than {count} conditions ({names}) evaluated as True:", packed], summarize=len(predicates))


def _checked_last(predicates, functions):
    """Without a default the last function is taken, after an assertion that its predicate is the true one."""

    def checked():
        values = _packed_predicates(predicates)
        what = f"Implementation error: selected default action #{len(predicates) - 1} was called, but some of other predicates are True: "
        checks = [_at_most(0, predicates[:-1], what), Assert(predicates[-1], ["Input error: None of conditions evaluated as True:", values])]
        with ops.control_dependencies(checks):
            return functions[-1]()

    return checked


@export("case")
def case(pred_fn_pairs, default=None, exclusive=False, strict=False, name="case"):
    """What the function of the first true predicate gives, else what `default` gives."""
    return _case(cond, pred_fn_pairs, default, exclusive, name, allow_python_preds=False, strict=strict)
