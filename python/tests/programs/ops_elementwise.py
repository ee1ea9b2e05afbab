"""Functions of each element."""


def program(tf, check):
    x = tf.constant([[-1.5, -0.5, 0.25], [0.5, 1.0, 2.5]], name="x")
    y = tf.constant([[2.0, 3.0, 1.0], [0.5, 4.0, 2.0]], name="y")
    unary = [tf.abs, tf.negative, tf.sign, tf.square, tf.exp, tf.expm1, tf.sin, tf.cos, tf.tan, tf.atan, tf.sinh, tf.cosh, tf.asinh]
    unary += [tf.tanh, tf.sigmoid, tf.log_sigmoid, tf.floor, tf.ceil, tf.round, tf.rint, tf.erf, tf.erfc, tf.is_nan, tf.is_inf, tf.is_finite]
    found = [(function.__name__ if hasattr(function, "__name__") else str(index), function(x)) for index, function in enumerate(unary)]
    found = [(str(index), tensor) for index, (_, tensor) in enumerate(found)]
    for function in (tf.sqrt, tf.rsqrt, tf.log, tf.log1p, tf.lgamma, tf.digamma, tf.reciprocal, tf.acosh):
        found.append((f"positive {len(found)}", function(y + 1.0)))
    for function in (tf.add, tf.subtract, tf.multiply, tf.divide, tf.truediv, tf.div, tf.floordiv, tf.mod, tf.maximum, tf.minimum):
        found.append((f"binary {len(found)}", function(x, y)))
    for function in (tf.squared_difference, tf.atan2, tf.equal, tf.not_equal, tf.less, tf.less_equal, tf.greater, tf.greater_equal):
        found.append((f"binary {len(found)}", function(x, y)))
    found.append(("pow", tf.pow(y, 2.0)))
    found.append(("named", tf.multiply(x, 2.0, name="twice")))
    found.append(("xdivy", tf.math.xdivy(x, y)))
    found.append(("xlogy", tf.math.xlogy(x, y)))
    found.append(("igamma", tf.igamma(y, y)))
    found.append(("zeta", tf.zeta(y + 1.5, y)))
    found.append(("no nan", tf.math.divide_no_nan(x, [0.0, 1.0, 2.0])))
    found.append(("multiply", tf.math.multiply_no_nan(x, [0.0, 1.0, 2.0])))
    found.append(("reciprocal", tf.math.reciprocal_no_nan([0.0, 2.0])))

    with tf.Session() as session:
        for name, tensor in found:
            check(name, session.run(tensor))
