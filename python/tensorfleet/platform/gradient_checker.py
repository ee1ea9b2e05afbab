"""`tf.test.compute_gradient`: gradients by small differences, to compare with those of the graph."""

import numpy as np

from tensorfleet.framework.export import export


def _numeric(session, x, x_shape, x_data, y, y_size, delta, feed):
    size = int(np.prod(x_shape))
    scale = np.dtype(x_data.dtype)
    parts = 2 if scale.kind == "c" else 1
    jacobian = np.zeros((size * parts, y_size * parts), _real(scale))
    flat = x_data.reshape(-1).view(_real(scale)) if parts == 2 else x_data.reshape(-1)
    for row in range(flat.size):
        values = []
        before = flat[row]
        for step in (delta, -delta):
            flat[row] = before + step
            out = np.asarray(session.run(y, feed_dict={**feed, x: x_data})).reshape(-1)
            values.append(out.view(_real(out.dtype)) if out.dtype.kind == "c" else out)
        flat[row] = before
        jacobian[row] = ((values[0].astype(np.float64) - values[1]) / (2 * delta)).astype(jacobian.dtype)
    return jacobian


def _real(dtype):
    return {"complex64": np.float32, "complex128": np.float64}.get(np.dtype(dtype).name, np.dtype(dtype))


def _symbolic(session, x, x_shape, x_data, dx, dy, y_shape, feed):
    size, y_size = int(np.prod(x_shape)), int(np.prod(y_shape))
    complex_y = np.dtype(dy.dtype.as_numpy_dtype).kind == "c"
    parts = 2 if x_data.dtype.kind == "c" else 1
    columns = y_size * (2 if complex_y else 1)
    jacobian = np.zeros((size * parts, columns), _real(x_data.dtype))
    for column in range(columns):
        seed = np.zeros(y_size, dy.dtype.as_numpy_dtype)
        seed.view(_real(seed.dtype))[column] = 1
        value = session.run(dx, feed_dict={**feed, x: x_data, dy: seed.reshape(y_shape)})
        if hasattr(value, "indices") and hasattr(value, "values"):
            dense = np.zeros(x_shape, x_data.dtype)
            np.add.at(dense, value.indices, value.values)
            value = dense
        flat = np.asarray(value).reshape(-1)
        jacobian[:, column] = flat.view(_real(flat.dtype)) if flat.dtype.kind == "c" else flat
    return jacobian


def _one(x, x_shape, y, y_shape, x_init_value, delta, init_targets, extra_feed_dict):
    import tensorfleet as tf

    session = tf.get_default_session()
    if session is None:
        raise ValueError("Cannot evaluate tensor using `eval()`: No default session is registered. Use `with sess.as_default()`")
    feed = dict(extra_feed_dict or {})
    with x.graph.as_default():
        dy = tf.identity(tf.constant(1.0, shape=y_shape, dtype=y.dtype))
        dx = tf.gradients(y, x, grad_ys=dy)[0]
    if init_targets is not None:
        session.run(list(init_targets) if isinstance(init_targets, (list, tuple)) else init_targets, feed_dict=feed)
    kind = x.dtype.base_dtype.as_numpy_dtype
    if x_init_value is None:
        # Away from zero, where many functions have a kink.
        x_data = np.random.random_sample(x_shape).astype(kind)
    else:
        x_data = np.array(x_init_value, dtype=kind)
    if x_data.shape != tuple(x_shape):
        raise ValueError("x_init_value has shape %s, expected %s" % (x_data.shape, tuple(x_shape)))
    if dx is None:
        raise ValueError("there is no gradient from %s to %s" % (y.name, x.name))
    x_data = np.ascontiguousarray(x_data)
    symbolic = _symbolic(session, x, x_shape, x_data, dx, dy, y_shape, feed)
    return symbolic, _numeric(session, x, x_shape, x_data, y, int(np.prod(y_shape)), delta, feed)


@export("test.compute_gradient")
def compute_gradient(x, x_shape, y, y_shape, x_init_value=None, delta=1e-3, init_targets=None, extra_feed_dict=None):
    """The Jacobian of `y` for `x` twice: by the graph's gradient and by small differences. Several `x` give a list of pairs."""
    if isinstance(x, list):
        values = x_init_value if x_init_value is not None else [None] * len(x)
        return [_one(one, shape, y, y_shape, value, delta, init_targets, extra_feed_dict) for one, shape, value in zip(x, x_shape, values)]
    return _one(x, x_shape, y, y_shape, x_init_value, delta, init_targets, extra_feed_dict)


@export("test.compute_gradient_error")
def compute_gradient_error(x, x_shape, y, y_shape, x_init_value=None, delta=1e-3, init_targets=None, extra_feed_dict=None):
    """The largest difference of the two Jacobians of `compute_gradient`."""
    pairs = compute_gradient(x, x_shape, y, y_shape, x_init_value, delta, init_targets, extra_feed_dict)
    error = 0.0
    for symbolic, numeric in [pairs] if isinstance(pairs, tuple) else pairs:
        error = max(error, float(np.fabs(symbolic - numeric).max()) if symbolic.size else 0.0)
    return error
