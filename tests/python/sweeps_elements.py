"""Sweeps of element-wise ops, comparisons, casts, reductions and scans."""
import numpy as np
import tensorflow.compat.v1 as tf

from sweeps import Data, I, L, PLAIN, sweep


# --- element by element ---------------------------------------------------------------------------------------------

@sweep("elementwise_unary", "Neg Square Abs Sign Reciprocal Inv Exp Expm1 Log Log1p Sqrt Rsqrt Sigmoid Tanh Sin Cos Tan "
       "Sinh Cosh Asinh Floor Ceil Rint Round Erf Erfc Invert IsNan IsInf IsFinite ZerosLike OnesLike Identity "
       "StopGradient PreventGradient Snapshot Relu Relu6 Elu Selu Softplus Softsign LeakyRelu Conj Digamma Lgamma")
def _(v):
    x = "input" if v.op in ("Identity StopGradient PreventGradient Snapshot Conj").split() else "x"
    x = "features" if v.op in "Relu Relu6 Elu Selu Softplus Softsign LeakyRelu".split() else x
    for value in (v(), v(5), v(2, 1, 3), v(0, 3), v(1, 2, 1, 2, 1, 2, 1, 2), v(131, lo=0.1, hi=9)):
        yield {x: value}
    # Infinities in the complex plane, and those of erf and of rounded integers, are accidents of TensorFlow's libraries.
    if v.op not in ("Tan", "Digamma", "Lgamma", "Sin", "Cos", "Erf", "Erfc") and not v.dtype.is_complex:
        yield {x: v.special()}


@sweep("elementwise_unary", "Asin Acos Atanh Atan")
def _(v):
    yield from ({"x": value} for value in (v(7, lo=-0.95, hi=0.95), v.array([0, 1]), v(2, 2, lo=-0.5, hi=0.5)))


@sweep("elementwise_unary", "Acosh")
def _(v):
    yield from ({"x": value} for value in (v(7, lo=1.05, hi=6), v.array([1, 2]), v(2, 2, lo=1.1, hi=3)))


@sweep("elementwise_unary", "SqrtGrad RsqrtGrad ReciprocalGrad InvGrad SigmoidGrad TanhGrad")
def _(v):
    yield {"y": v(6, lo=0.2, hi=3), "dy": v(6)}
    yield {"y": v(2, 3, lo=0.2, hi=3), "dy": v(2, 3)}
    yield {"y": v(0), "dy": v(0)}
    yield {"y": v(2, 3), "dy": v(3)}


@sweep("nn", "ReluGrad Relu6Grad SoftplusGrad SoftsignGrad LeakyReluGrad")
def _(v):
    for a, b in (((6,), (6,)), ((2, 3), (2, 3)), ((0,), (0,)), ((), ()), ((2,), (3,))):
        yield {"gradients": v(*a), "features": v(*b, hi=8)}


@sweep("nn", "EluGrad SeluGrad")
def _(v):
    yield from ({"gradients": v(*a), "outputs": v(*b, lo=-0.9)} for a, b in (((6,), (6,)), ((2, 3), (2, 3)), ((0,), (0,))))


SHAPES = [((), ()), ((5,), ()), ((), (2, 3)), ((3, 1), (1, 4)), ((0, 3), (3,)), ((1,), (0,)), ((2, 1, 2, 1, 2, 1, 2, 1), (1, 2, 1, 2, 1, 2, 1, 2)),
          ((2, 1, 3, 1, 2), (3, 1, 2, 2)), ((3,), (4,)), ((67,), (67,)), ((1, 1, 1, 1, 1, 1, 1, 1, 2), (2,)), ((3, 1, 2, 1), (2, 1, 4)),
          ((2, 3, 4), (4,)), ((2, 3, 4), (3, 1)), ((5, 0), (1, 0))]


@sweep("elementwise_binary", "Add AddV2 Sub Mul Maximum Minimum SquaredDifference Atan2 MulNoNan DivNoNan RealDiv Div "
       "TruncateDiv FloorDiv FloorMod TruncateMod Mod Pow BitwiseAnd BitwiseOr BitwiseXor Xdivy Xlogy Xlog1py")
def _(v):
    divides = v.op in "TruncateDiv FloorDiv FloorMod TruncateMod Mod Div RealDiv".split()
    low = 1.0 if divides or v.op == "Pow" and v.dtype.is_integer else -4.0
    names = ("y", "x") if v.op == "Atan2" else ("x", "y")
    lo1 = 0.2 if v.op in ("Pow", "Xlogy", "Xlog1py") else -9.0
    for a, b in SHAPES:
        yield {names[0]: v(*a, lo=lo1, hi=9.0), names[1]: v(*b, lo=low if v.op not in ("Xlogy", "Xlog1py") else 0.2)}
    if v.dtype.is_complex:
        return
    s = v.special()
    if v.dtype.is_integer and (divides or v.op == "Pow"):
        yield {names[0]: s, names[1]: v.array([3])}
        yield {names[0]: s, names[1]: v.array([0])}
        if not v.dtype.is_unsigned:
            yield {names[0]: v.array([7, -7, 6, -6, 1]), names[1]: v.array([-2, -2, -3, -3, 5])}
            if v.op != "Pow":
                yield {names[0]: s[[0, 1, 4, 6]], names[1]: v.array([-1])}
    elif v.op == "Atan2":
        pass  # Angles of denormal numbers are accidents.
    elif v.op not in ("FloorMod", "TruncateMod", "Mod", "FloorDiv", "TruncateDiv"):
        yield {names[0]: s.reshape(-1, 1), names[1]: s.reshape(1, -1)}
    else:
        finite = s[np.isfinite(s.astype(np.float64))] if v.dtype.is_floating else s
        yield {names[0]: finite[:8], names[1]: v.array([-3])}


@sweep("elementwise_binary", "LeftShift RightShift")
def _(v):
    yield {"x": v(5, hi=90), "y": v(5, lo=0, hi=6)}
    yield {"x": v(2, 3), "y": v(lo=0)}


@sweep("elementwise_binary", "Complex", attr="T", dtypes=["float32", "float64"])
def _(v):
    for a, b in SHAPES[:6]:
        yield {"real": v(*a), "imag": v(*b), "Tout": "complex64" if v.name == "float32" else "complex128"}


@sweep("elementwise_unary", "Real Imag ComplexAbs Angle", attr="T", dtypes=["complex64", "complex128"])
def _(v):
    name = "x" if v.op == "ComplexAbs" else "input"
    for value in (v(), v(3), v(2, 0), v.special()):
        yield {name: value, "Tout": "float32" if v.name == "complex64" else "float64"}


@sweep("compare_select", "Equal NotEqual Less LessEqual Greater GreaterEqual ApproximateEqual")
def _(v):
    for a, b in SHAPES if v.op != "ApproximateEqual" else [((), ()), ((4,), (4,)), ((2, 3), (2, 3)), ((2,), (3,))]:
        yield {"x": v(*a, hi=2), "y": v(*b, hi=2)}
    s = v.special()
    if v.op != "ApproximateEqual":
        yield {"x": s.reshape(-1, 1), "y": s.reshape(1, -1)}
    if v.op in ("Equal", "NotEqual"):
        yield {"x": v(3), "y": v(4), "incompatible_shape_error": False}
        yield {"x": v(2, 1), "y": v(2), "incompatible_shape_error": False}


@sweep("compare_select", "LogicalAnd LogicalOr", dtypes=["bool"])
def _(v):
    yield from ({"x": v(*a), "y": v(*b)} for a, b in SHAPES)


@sweep("compare_select", "Select SelectV2", tier=1)
def _(v):
    b = Data("bool", 3)
    name = "condition"
    t, e = ("x", "y") if v.op == "Select" else ("t", "e")
    for c, x, y in (((), (), ()), ((), (2, 3), (2, 3)), ((2,), (2, 3), (2, 3)), ((2, 3), (2, 3), (2, 3)), ((3,), (2, 3), (2, 3)),
                    ((2, 1), (1, 3), (2, 3)), ((0, 3), (0, 3), (0, 3)), ((1, 2, 1), (3, 1, 2), (2, 1, 1, 1)), ((3,), (), (3,)), ((4,), (3,), (3,)),
                    ((0,), (0, 2), (0, 2)), ((), (0,), (0,)), ((1,), (1, 4), (1, 4)), ((2,), (2,), (3,))):
        yield {name: b(*c), t: v(*x), e: v(*y)}


@sweep("compare_select", "Where", dtypes=PLAIN)
def _(v):
    for value in (v(5), v(2, 3), v(2, 0), v(2, 1, 3, 2), v(1, 2, 1, 2, 1, 2, 1, 2), v(), v.special()):
        yield {"condition": value}


@sweep("compare_select", "ClipByValue")
def _(v):
    yield {"t": v(5), "clip_value_min": v.array(1), "clip_value_max": v.array(2)}
    yield {"t": v(2, 3), "clip_value_min": v(2, 3, hi=0), "clip_value_max": v(2, 3, lo=1)}
    yield {"t": v(2, 3), "clip_value_min": v(3, hi=0), "clip_value_max": v.array(3)}
    yield {"t": v(0), "clip_value_min": v.array(0), "clip_value_max": v.array(3)}
    yield {"t": v.special(), "clip_value_min": v.array(0), "clip_value_max": v.array(3)}


@sweep("cast", "Cast", attr="SrcT", dtypes=PLAIN, tier=1)
def _(v):
    for to in PLAIN:
        if v.dtype.is_floating or v.dtype.is_complex:
            value = v.array([0.0, -0.0, 1.5, 2.5, -2.5, 100.7, 3.0, 0.4, 1e-3, 7.99])
            if tf.as_dtype(to).is_unsigned or to == "int8":
                value = np.abs(value).astype(value.dtype)
        else:
            value = np.array([0, 1, 5, 100, 127]).astype(v.dtype.as_numpy_dtype) if v.name != "bool" else v(4)
        yield {"x": value, "DstT": to}
        yield {"x": value[:0].reshape(0, 2), "DstT": to}
        if not v.dtype.is_floating and not v.dtype.is_complex:
            yield {"x": v.special(), "DstT": to}
        elif tf.as_dtype(to).is_floating or tf.as_dtype(to).is_complex or to == "bool":
            yield {"x": v.special(), "DstT": to}
            if not v.dtype.is_complex and not tf.as_dtype(to).is_complex:
                yield {"x": v.array([1 / 3.0, 16777217.0, 2049.0, 2051.0, 65519.0, 65520.0, 1e-8, 6e-8, 3e-8, 1.00390625, 1.01171875]), "DstT": to, "Truncate": True}


@sweep("elementwise_unary", "Polygamma Zeta Igamma Igammac Bucketize", dtypes=["float32", "float64"])
def _(v):
    if v.op == "Bucketize":
        yield {"input": v(6), "boundaries": [-1.0, 0.5, 2.0]}
        yield {"input": v(2, 0), "boundaries": []}
    else:
        names = {"Zeta": ("x", "q")}.get(v.op, ("a", "x"))
        first = v.array([1, 2, 3]) if v.op == "Polygamma" else v(3, lo=1.2)
        yield {names[0]: first, names[1]: v(3, lo=0.5)}


# --- reductions and scans --------------------------------------------------------------------------------------------

@sweep("reduction", "Sum Prod Max Min Mean", summing=True, tolerance=3.0, tier=1)
def _(v):
    for shape, axes in (((), []), ((5,), [0]), ((2, 3), []), ((2, 3), [0]), ((2, 3), [1]), ((2, 3), [-1]), ((2, 3, 4), [0, 2]), ((2, 3, 4), [1]),
                        ((2, 3, 4), [0, 1, 2]), ((0, 3), [0]), ((0, 3), [1]), ((2, 0), [0, 1]), ((1, 2, 1, 3), [0, 2]), ((2, 2, 2, 2, 2, 2), [1, 3, 5]),
                        ((2, 2, 2, 2, 2, 2, 2, 2), [0, 2, 4, 6]), ((3,), [1]), ((3,), [-2]), ((2, 3), [0, 0]), ((2, 3), [0, -2]), ((33, 17), [0]), ((17, 33), [1])):
        low = (-2.0, 2.0) if v.op == "Prod" else (-4.0, 4.0)
        yield {"input": v(*shape, lo=low[0], hi=low[1]), "axis": I(*axes)}
        if len(axes) == 1 or len(axes) == 2:
            yield {"input": v(*shape, lo=low[0], hi=low[1]), "axis": L(*axes), "keep_dims": True}
    yield {"input": v(3, 2), "axis": np.int32(1)}
    yield {"input": v(3, 2), "axis": I(1).reshape(1, 1)}
    if not v.dtype.is_complex and v.op in ("Max", "Min"):
        yield {"input": v.special(), "axis": I(0)}
        yield {"input": v.special().reshape(1, -1), "axis": I(0)}


@sweep("reduction", "EuclideanNorm", summing=True, tolerance=3.0, dtypes=["float32", "float64", "complex64"])
def _(v):
    yield {"input": v(3, 4), "axis": I(1)}
    yield {"input": v(3, 4), "axis": I(0, 1), "keep_dims": True}


@sweep("reduction", "Any All", dtypes=["bool"])
def _(v):
    for shape, axes in (((), []), ((5,), [0]), ((2, 3), [1]), ((0, 3), [0]), ((2, 0), [1]), ((2, 3, 4), [0, 2]), ((2,), [3]), ((33, 9), [0])):
        yield {"input": v(*shape), "axis": I(*axes)}
        yield {"input": v(*shape), "axis": L(*axes), "keep_dims": True}


@sweep("reduction", "ArgMax ArgMin", attr="T")
def _(v):
    for shape, axis in (((5,), 0), ((2, 3), 1), ((2, 3), -2), ((2, 3, 4), 1), ((2, 2, 2, 2, 2), 3), ((0, 3), 1), ((3, 0), 1), ((3,), 1), ((1,), 0)):
        yield {"input": v(*shape), "dimension": np.int32(axis)}
        yield {"input": v(*shape), "dimension": np.int64(axis), "output_type": "int32"}
    if not v.dtype.is_complex and v.name != "bool":
        yield {"input": v.special(), "dimension": np.int32(0)}
        yield {"input": v(4), "dimension": np.int32(0), "output_type": "int16"}
        yield {"input": v(4), "dimension": np.int32(0), "output_type": "uint16"}
    yield {"input": v.array([1, 1, 0, 0]), "dimension": np.int32(0)}


@sweep("array", "Cumsum Cumprod", summing=True, tolerance=3.0)
def _(v):
    for shape, axis in (((5,), 0), ((2, 3), 1), ((2, 3), -2), ((0, 3), 1), ((2, 3, 2), 1), ((3,), 1), ((), 0)):
        for ex, rev in ((False, False), (True, False), (False, True), (True, True)):
            yield {"x": v(*shape, lo=-2, hi=2), "axis": np.int32(axis), "exclusive": ex, "reverse": rev}
    yield {"x": v(3), "axis": np.int64(0)}


@sweep("reduction", "SegmentSum SegmentMean SegmentProd SegmentMax SegmentMin", summing=True, tolerance=3.0)
def _(v):
    for shape, ids in (((4,), [0, 0, 1, 3]), ((3, 2), [0, 1, 1]), ((0, 2), []), ((2,), [1, 1]), ((3,), [0, 1]), ((3,), [1, 0, 2]), ((2,), [-1, 0]), ((2, 0), [0, 1])):
        yield {"data": v(*shape), "segment_ids": I(*ids)}
        yield {"data": v(*shape), "segment_ids": L(*ids)}


@sweep("reduction", "UnsortedSegmentSum UnsortedSegmentProd UnsortedSegmentMax UnsortedSegmentMin", summing=True, tolerance=3.0)
def _(v):
    for shape, ids, n in (((4,), [2, 0, 2, -1], 3), ((3, 2), [0, 1, 1], 4), ((0, 2), [], 2), ((2,), [5, 0], 3), ((3,), [0, 1], 2), ((2, 2, 3), [[0, 1], [1, 0]], 2),
                          ((2,), [0, 0], 0), ((2,), [0, 0], -1)):
        yield {"data": v(*shape), "segment_ids": np.array(ids, np.int32), "num_segments": np.int32(n)}
        yield {"data": v(*shape), "segment_ids": np.array(ids, np.int64), "num_segments": np.int64(n)}


@sweep("embedding_sparse", "SparseSegmentSum SparseSegmentMean SparseSegmentSqrtN", summing=True, tolerance=3.0)
def _(v):
    for idx, ids in (([0, 2, 1], [0, 0, 2]), ([], []), ([1], [0]), ([5], [0]), ([0, 1], [1, 0]), ([0, 1], [0]), ([-1], [0]), ([0], [-1])):
        yield {"data": v(4, 2), "indices": I(*idx), "segment_ids": I(*ids)}
        yield {"data": v(4, 2, 2), "indices": L(*idx), "segment_ids": L(*ids)}


@sweep("embedding_sparse", "SparseSegmentSumWithNumSegments SparseSegmentMeanWithNumSegments SparseSegmentSqrtNWithNumSegments", summing=True, tolerance=3.0)
def _(v):
    for idx, ids, n in (([0, 2, 1], [0, 0, 2], 4), ([], [], 2), ([1], [3], 2), ([0], [0], 1), ([0], [0], -1)):
        yield {"data": v(4, 2), "indices": I(*idx), "segment_ids": I(*ids), "num_segments": np.int32(n)}


@sweep("embedding_sparse", "SparseSegmentSumGrad SparseSegmentMeanGrad SparseSegmentSqrtNGrad", summing=True, tolerance=3.0)
def _(v):
    # TensorFlow leaves the gradient of no indices uninitialised.
    for idx, ids, n in (([0, 2, 1], [0, 0, 2], 4), ([1], [5], 2), ([4], [0], 4), ([1, 1], [1, 2], 3)):
        yield {"grad": v(3, 2), "indices": I(*idx), "segment_ids": I(*ids), "output_dim0": np.int32(n)}
