"""Sweeps of linear algebra, layers of networks, and summaries."""
import numpy as np
import tensorflow.compat.v1 as tf

from sweeps import Data, I, L, S, sweep


# --- linear algebra and networks -----------------------------------------------------------------------------------

@sweep("linalg", "MatMul", tier=1, summing=True, tolerance=3.0)
def _(v):
    for a, b, ta, tb in (((2, 3), (3, 4), 0, 0), ((3, 2), (3, 4), 1, 0), ((2, 3), (4, 3), 0, 1), ((3, 2), (4, 3), 1, 1), ((0, 3), (3, 2), 0, 0), ((2, 0), (0, 3), 0, 0), ((1, 17), (17, 1), 0, 0),
                         ((2, 3), (2, 3), 0, 0), ((3,), (3, 2), 0, 0), ((33, 65), (65, 19), 0, 0), ((2, 0), (3, 0), 0, 1), ((1, 5), (5, 300), 0, 0)):
        yield {"a": v(*a), "b": v(*b), "transpose_a": bool(ta), "transpose_b": bool(tb)}


@sweep("linalg", "BatchMatMul BatchMatMulV2", summing=True, tolerance=3.0)
def _(v):
    for a, b, ta, tb in (((2, 2, 3), (2, 3, 4), 0, 0), ((2, 3, 2), (2, 3, 4), 1, 0), ((2, 2, 3), (2, 4, 3), 0, 1), ((3, 2), (2, 4), 0, 0), ((2, 1, 2, 3), (1, 3, 3, 2), 0, 0), ((0, 2, 3), (0, 3, 2), 0, 0),
                         ((2, 2, 3), (2, 2, 3), 0, 0), ((3,), (3, 2), 0, 0), ((2, 2, 2), (3, 2, 2), 0, 0), ((1, 2, 2), (3, 2, 2), 0, 0), ((2, 3, 0), (2, 0, 2), 0, 0)):
        yield {"x": v(*a), "y": v(*b), "adj_x": bool(ta), "adj_y": bool(tb)}


@sweep("linalg", "L2Loss", summing=True, tolerance=3.0)
def _(v):
    yield from ({"t": v(*s)} for s in ((), (3,), (2, 3, 2), (0,), (1001,)))


@sweep("linalg", "MatrixInverse MatrixDeterminant Cholesky", tolerance=20.0, summing=True)
def _(v):
    if v.name == "float16":
        return
    base = np.eye(3) * 5 + np.arange(9).reshape(3, 3) / 10.0
    sym = base + base.T
    yield {"input": v.array(sym)}
    yield {"input": v.array(np.stack([sym, 2 * sym]))}
    yield {"input": v.array(np.zeros((0, 2, 2)))}
    yield {"input": v(2, 3)}
    if v.op != "Cholesky":
        yield {"input": v.array(np.zeros((2, 2)))}


@sweep("linalg", "MatrixTriangularSolve MatrixSolve", tolerance=20.0, summing=True)
def _(v):
    base = np.eye(3) * 5 + np.arange(9).reshape(3, 3) / 10.0
    yield {"matrix": v.array(base), "rhs": v(3, 2)}
    yield {"matrix": v.array(base), "rhs": v(3, 2), "adjoint": True}
    yield {"matrix": v.array(np.stack([base, base * 2])), "rhs": v(2, 3, 1)}
    yield {"matrix": v.array(base), "rhs": v(2, 2)}


@sweep("linalg", "Einsum", summing=True, tolerance=3.0, dtypes=["float32", "float64", "bfloat16", "float16", "complex64", "int32", "int64"])
def _(v):
    for eq, shapes in (("ij,jk->ik", [(2, 3), (3, 4)]), ("bij,bjk->bik", [(2, 2, 3), (2, 3, 2)]), ("ij->ji", [(2, 3)]), ("ii->i", [(3, 3)]), ("ij->", [(2, 3)]), ("...ij,...jk->...ik", [(2, 1, 2, 3), (3, 3, 2)]),
                       ("i,j->ij", [(2,), (3,)]), ("ij,jk->ik", [(2, 3), (2, 4)]), ("ijk,j->ik", [(2, 3, 2), (3,)]), ("ij,ij->i", [(2, 3), (2, 3)])):
        yield {"inputs": [v(*s) for s in shapes], "equation": eq}


@sweep("nn", "BiasAdd", tier=1)
def _(v):
    for shape, n, fmt in (((2, 3), 3, "NHWC"), ((2, 2, 2, 3), 3, "NHWC"), ((2, 3, 2, 2), 3, "NCHW"), ((2, 3), 3, "NCHW"), ((2, 3, 4), 3, "NCHW"), ((2, 3, 2, 2, 2), 3, "NCHW"), ((0, 3), 3, "NHWC"), ((2, 3), 2, "NHWC"), ((3,), 3, "NHWC"), ((2, 2, 3), 3, "NHWC")):
        yield {"value": v(*shape), "bias": v(n), "data_format": fmt}
    yield {"value": v(2, 3), "bias": v(1, 3)}


@sweep("nn", "BiasAddV1")
def _(v):
    yield {"value": v(2, 3), "bias": v(3)}


@sweep("nn", "BiasAddGrad", tier=1, summing=True, tolerance=3.0)
def _(v):
    for shape, fmt in (((2, 3), "NHWC"), ((2, 2, 2, 3), "NHWC"), ((2, 3, 2, 2), "NCHW"), ((2, 3), "NCHW"), ((2, 3, 2), "NCHW"), ((2, 3, 2, 2, 2), "NCHW"), ((0, 3), "NHWC"), ((3,), "NHWC")):
        yield {"out_backprop": v(*shape), "data_format": fmt}


@sweep("nn", "Softmax LogSoftmax", tier=1)
def _(v):
    for shape in ((2, 3), (5,), (2, 3, 4), (0, 3), (2, 0), (2, 1)):
        yield {"logits": v(*shape)}
    yield {"logits": v.array([[1000, 0, -1000], [-np.inf, 0, 1]])}
    yield {"logits": v(17, 9)}


@sweep("losses", "SoftmaxCrossEntropyWithLogits", tier=1, summing=True, tolerance=3.0)
def _(v):
    for a, b in (((2, 3), (2, 3)), ((1, 3), (2, 3)), ((2, 3), (1, 3)), ((0, 3), (0, 3)), ((2, 3), (2, 4)), ((3,), (3,)), ((2, 1), (2, 3))):
        yield {"features": v(*a), "labels": v(*b, lo=0, hi=1)}


@sweep("losses", "SparseSoftmaxCrossEntropyWithLogits", tier=1, summing=True, tolerance=3.0)
def _(v):
    for shape, ids in (((2, 3), [0, 2]), ((0, 3), []), ((2, 3), [3, 0]), ((2, 3), [-1, 0]), ((2, 3), [0]), ((3,), [0, 1, 2])):
        yield {"features": v(*shape), "labels": I(*ids)}
        yield {"features": v(*shape), "labels": L(*ids)}


@sweep("conv_pool", "Conv2D", summing=True, tolerance=4.0)
def _(v):
    for i, f, s, p, d, ex, fmt in (((1, 5, 5, 2), (3, 3, 2, 4), (1, 1), "SAME", (1, 1), [], "NHWC"), ((2, 5, 6, 1), (2, 3, 1, 3), (2, 2), "VALID", (1, 1), [], "NHWC"), ((1, 6, 6, 1), (3, 3, 1, 2), (1, 1), "SAME", (2, 2), [], "NHWC"),
                                   ((1, 5, 5, 2), (3, 3, 2, 2), (2, 1), "EXPLICIT", (1, 1), [0, 0, 1, 2, 0, 1, 0, 0], "NHWC"), ((0, 5, 5, 2), (3, 3, 2, 2), (1, 1), "SAME", (1, 1), [], "NHWC"), ((1, 2, 2, 2), (3, 3, 2, 2), (1, 1), "VALID", (1, 1), [], "NHWC"),
                                   ((1, 5, 5, 3), (3, 3, 2, 2), (1, 1), "SAME", (1, 1), [], "NHWC"), ((1, 2, 5, 5), (3, 3, 2, 4), (1, 1), "SAME", (1, 1), [], "NCHW"),
                                   ((1, 1, 1, 3), (1, 1, 3, 2), (1, 1), "VALID", (1, 1), [], "NHWC"), ((2, 7, 7, 3), (1, 1, 3, 5), (2, 2), "SAME", (1, 1), [], "NHWC"), ((1, 5, 5, 2), (5, 5, 2, 3), (1, 1), "VALID", (1, 1), [], "NHWC")):
        st, di = ([1] + list(s) + [1], [1] + list(d) + [1]) if fmt == "NHWC" else ([1, 1] + list(s), [1, 1] + list(d))
        yield {"input": v(*i), "filter": v(*f), "strides": st, "padding": p, "dilations": di, "explicit_paddings": ex, "data_format": fmt}


CONV = [((1, 5, 5, 2), (3, 3, 2, 4), (1, 1), "SAME"), ((2, 5, 6, 1), (2, 3, 1, 3), (2, 2), "VALID"), ((1, 6, 5, 2), (3, 2, 2, 2), (2, 2), "SAME"), ((0, 4, 4, 1), (2, 2, 1, 1), (1, 1), "SAME")]


def out_size(n, k, s, padding):
    return -(-n // s) if padding == "SAME" else (n - k) // s + 1


@sweep("conv_pool", "Conv2DBackpropInput Conv2DBackpropFilter", summing=True, tolerance=4.0)
def _(v):
    for i, f, s, p in CONV:
        g = (i[0], out_size(i[1], f[0], s[0], p), out_size(i[2], f[1], s[1], p), f[3])
        common = {"out_backprop": v(*g), "strides": [1, s[0], s[1], 1], "padding": p}
        if v.op.endswith("Input"):
            yield dict(common, input_sizes=I(*i), filter=v(*f))
        else:
            yield dict(common, input=v(*i), filter_sizes=I(*f))


@sweep("conv_pool", "DepthwiseConv2dNative", summing=True, tolerance=4.0)
def _(v):
    for i, f, s, p in (((1, 5, 5, 2), (3, 3, 2, 2), 1, "SAME"), ((1, 5, 5, 3), (2, 2, 3, 1), 2, "VALID"), ((1, 5, 5, 3), (2, 2, 2, 1), 1, "VALID")):
        yield {"input": v(*i), "filter": v(*f), "strides": [1, s, s, 1], "padding": p}


@sweep("conv_pool", "DepthwiseConv2dNativeBackpropInput DepthwiseConv2dNativeBackpropFilter", summing=True, tolerance=4.0)
def _(v):
    common = {"out_backprop": v(1, 5, 5, 4), "strides": [1, 1, 1, 1], "padding": "SAME"}
    yield dict(common, input_sizes=I(1, 5, 5, 2), filter=v(3, 3, 2, 2)) if v.op.endswith("Input") else dict(common, input=v(1, 5, 5, 2), filter_sizes=I(3, 3, 2, 2))


@sweep("conv_pool", "MaxPool AvgPool", summing=True)
def _(v):
    for shape, k, s, p, fmt in (((1, 4, 4, 2), 2, 2, "VALID", "NHWC"), ((2, 5, 5, 1), 3, 2, "SAME", "NHWC"), ((1, 3, 3, 1), 3, 1, "SAME", "NHWC"), ((0, 4, 4, 2), 2, 2, "VALID", "NHWC"),
                                ((4, 4, 2), 2, 2, "VALID", "NHWC"), ((1, 7, 5, 3), 3, 3, "VALID", "NHWC")):
        kk, ss = ([1, k, k, 1], [1, s, s, 1]) if fmt == "NHWC" else ([1, 1, k, k], [1, 1, s, s])
        yield {"input" if v.op == "MaxPool" else "value": v(*shape), "ksize": kk, "strides": ss, "padding": p, "data_format": fmt}
    if v.op == "MaxPool":
        for k, s in (([1, 1, 1, 2], [1, 1, 1, 2]), ([1, 1, 1, 4], [1, 1, 1, 4]), ([1, 1, 1, 2], [1, 1, 1, 1]), ([1, 1, 1, 3], [1, 1, 1, 3]), ([1, 2, 1, 2], [1, 1, 1, 2])):
            yield {"input": v(1, 3, 3, 4), "ksize": k, "strides": s, "padding": "VALID"}
        if v.dtype.is_floating:
            x = v(1, 4, 4, 1)
            x[0, 0, 0, 0] = np.nan
            yield {"input": x, "ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}


@sweep("conv_pool", "MaxPoolGrad AvgPoolGrad", summing=True)
def _(v):
    for shape, k, s, p in (((1, 4, 4, 2), 2, 2, "VALID"), ((1, 5, 5, 1), 3, 2, "SAME"), ((0, 4, 4, 1), 2, 2, "VALID")):
        o = (shape[0], out_size(shape[1], k, s, p), out_size(shape[2], k, s, p), shape[3])
        common = {"ksize": [1, k, k, 1], "strides": [1, s, s, 1], "padding": p}
        if v.op == "AvgPoolGrad":
            yield dict(common, orig_input_shape=I(*shape), grad=v(*o))
            continue
        x = v(*shape) if not v.dtype.is_floating else v.array(np.random.RandomState(1).permutation(int(np.prod(shape))).reshape(shape) / 8.0)
        y = np.full(o, -100.0)
        for n in np.ndindex(*o):
            top = [n[1] * s - (0 if p == "VALID" else max((o[1] - 1) * s + k - shape[1], 0) // 2), n[2] * s - (0 if p == "VALID" else max((o[2] - 1) * s + k - shape[2], 0) // 2)]
            for a in range(max(top[0], 0), min(top[0] + k, shape[1])):
                for b in range(max(top[1], 0), min(top[1] + k, shape[2])):
                    y[n] = max(y[n], float(x[n[0], a, b, n[3]]))
        yield dict(common, orig_input=x, orig_output=v.array(y), grad=v(*o))


def pool_windows():
    """Images, windows, strides and paddings, the last of which do not go together."""
    yield (1, 4, 4, 2), [1, 2, 2, 1], [1, 2, 2, 1], "VALID"
    yield (2, 5, 4, 1), [1, 3, 2, 1], [1, 2, 1, 1], "SAME"
    yield (2, 7, 5, 3), [1, 3, 3, 1], [1, 3, 3, 1], "VALID"
    yield (1, 3, 3, 1), [1, 5, 5, 1], [1, 1, 1, 1], "SAME"
    yield (1, 3, 3, 1), [1, 5, 5, 1], [1, 1, 1, 1], "VALID"
    yield (3, 3, 1), [1, 2, 2, 1], [1, 1, 1, 1], "SAME"
    yield (1, 3, 3, 1), [2, 2, 2, 1], [1, 1, 1, 1], "SAME"


@sweep("conv_pool", "MaxPoolV2")
def _(v):
    for shape, k, s, p in pool_windows():
        yield {"input": v(*shape), "ksize": I(*k), "strides": I(*s), "padding": p}
    yield {"input": v(1, 3, 3, 4), "ksize": I(1, 2, 2), "strides": I(1, 1, 1, 1), "padding": "SAME"}
    yield {"input": v(1, 3, 3, 4), "ksize": I(1, 2, 2, 1), "strides": I(1, 0, 1, 1), "padding": "SAME"}


@sweep("conv_pool", "MaxPoolWithArgmax")
def _(v):
    for index in ("int32", "int64"):
        for batch in (False, True):
            for shape, k, s, p in pool_windows():
                yield {"input": v(*shape), "ksize": k, "strides": s, "padding": p, "Targmax": index, "include_batch_in_index": batch}
    if v.dtype.is_floating:
        yield {"input": v.array([np.nan, 1, np.nan, -np.inf, -np.inf, 2, 2, np.nan, np.nan] * 2).reshape(1, 3, 3, 2), "ksize": [1, 2, 2, 1], "strides": [1, 1, 1, 1], "padding": "SAME"}
    yield {"input": v(0, 4, 4, 1), "ksize": [1, 2, 2, 1], "strides": [1, 1, 1, 1], "padding": "SAME"}


@sweep("conv_pool", "MaxPoolGradV2 MaxPoolGradGradV2 MaxPoolGradGrad MaxPoolGradWithArgmax", summing=True)
def _(v):
    for shape, k, s, p in list(pool_windows())[:4]:
        x = v.array(np.random.RandomState(1).permutation(int(np.prod(shape))).reshape(shape) / (8.0 if v.dtype.is_floating else 1.0))
        for batch in (False, True):
            with tf.Graph().as_default(), tf.Session() as session:
                y, places = session.run(tf.raw_ops.MaxPoolWithArgmax(input=tf.constant(x), ksize=k, strides=s, padding=p, include_batch_in_index=batch))
            back = x.shape if "GradGrad" in v.op else y.shape
            if v.op == "MaxPoolGradWithArgmax":
                yield {"input": x, "grad": v(*back), "argmax": places, "ksize": k, "strides": s, "padding": p, "include_batch_in_index": batch}
                yield {"input": x, "grad": v(*back)[:, :1], "argmax": places, "ksize": k, "strides": s, "padding": p, "include_batch_in_index": batch}
                continue
            window = {"ksize": k, "strides": s} if v.op == "MaxPoolGradGrad" else {"ksize": I(*k), "strides": I(*s)}
            yield dict(window, orig_input=x, orig_output=y, grad=v(*back), padding=p)
            yield dict(window, orig_input=x, orig_output=y[:, :1], grad=v(*back), padding=p)


@sweep("conv_pool", "LRN", summing=True)
def _(v):
    yield {"input": v(1, 2, 2, 7)}
    yield {"input": v(1, 2, 2, 7), "depth_radius": 2, "bias": 0.5, "alpha": 0.3, "beta": 0.75}
    yield {"input": v(2, 2, 7)}


@sweep("conv_pool", "LRNGrad", summing=True, tolerance=4.0)
def _(v):
    yield {"input_grads": v(1, 2, 2, 5), "input_image": v(1, 2, 2, 5), "output_image": v(1, 2, 2, 5), "depth_radius": 2}


@sweep("conv_pool", "ResizeBilinear ResizeNearestNeighbor", summing=True)
def _(v):
    for shape, size in (((1, 3, 4, 2), (5, 7)), ((2, 4, 4, 1), (2, 2)), ((1, 1, 1, 1), (3, 3)), ((1, 3, 3, 1), (3, 3)), ((1, 3, 3, 1), (0, 3)), ((0, 3, 3, 1), (2, 2)), ((3, 3, 1), (2, 2)), ((1, 3, 3, 1), (-1, 2))):
        yield {"images": v(*shape), "size": I(*size)}
    yield {"images": v(1, 3, 4, 2), "size": I(5, 7), "align_corners": True}
    yield {"images": v(1, 3, 4, 2), "size": I(5, 7), "half_pixel_centers": True}
    yield {"images": v(1, 3, 4, 2), "size": I(2, 2), "half_pixel_centers": True}


@sweep("batch_norm", "FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3", summing=True, tolerance=5.0)
def _(v):
    u = Data("float32", 7)
    for training in (True, False):
        for shape, fmt in (((2, 3, 3, 4), "NHWC"), ((2, 4, 3, 3), "NCHW")) + (((0, 3, 3, 4), "NHWC"),) * training:
            mean, var = (u(0), u(0)) if training else (u(4), u(4, lo=0.5))
            yield {"x": v(*shape), "scale": u(4), "offset": u(4), "mean": mean, "variance": var, "is_training": training, "data_format": fmt, "epsilon": 0.01}
    yield {"x": v(2, 3, 3, 4), "scale": u(4), "offset": u(4), "mean": u(4), "variance": u(4, lo=0.5), "is_training": True, "exponential_avg_factor": 0.3}
    yield {"x": v(2, 3, 3, 4), "scale": u(3), "offset": u(4), "mean": u(0), "variance": u(0)}
    yield {"x": v(2, 4), "scale": u(4), "offset": u(4), "mean": u(0), "variance": u(0)}


@sweep("batch_norm", "BatchNormWithGlobalNormalization", summing=True, tolerance=5.0, dtypes=["float32", "float64", "float16"])
def _(v):
    yield {"t": v(2, 3, 3, 4), "m": v(4), "v": v(4, lo=0.5), "beta": v(4), "gamma": v(4), "variance_epsilon": 0.01, "scale_after_normalization": True}


# --- images, summaries -----------------------------------------------------------------------------------------------

@sweep("summaries", "ScalarSummary HistogramSummary")
def _(v):
    if v.op == "ScalarSummary":
        yield {"tags": np.array(b"t", object), "values": v(), "_summary": True}
        yield {"tags": S(b"a", b"b"), "values": v(2), "_summary": True}
        yield {"tags": S(b"a"), "values": v(2), "_summary": True}
    else:
        yield {"tag": np.array(b"h", object), "values": v(50), "_summary": True}
        yield {"tag": np.array(b"h", object), "values": v(0), "_summary": True}
        yield {"tag": np.array(b"h", object), "values": v(2, 3), "_summary": True}
        if v.dtype.is_floating:
            yield {"tag": np.array(b"h", object), "values": v.array([1, np.nan]), "_summary": True}
