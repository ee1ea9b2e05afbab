"""Sweeps of ops that move elements around, and of sparse tensors."""
import numpy as np
import tensorflow.compat.v1 as tf

from sweeps import I, L, sweep


# --- arrays ----------------------------------------------------------------------------------------------------------

@sweep("array", "Reshape", tier=1)
def _(v):
    for shape, to in (((6,), [2, 3]), ((2, 3), [-1]), ((0, 3), [3, -1]), ((1,), []), ((2, 3), [4, -1]), ((2, 3), [-2, 3]), ((6,), [1, 1, 1, 1, 1, 1, 2, 3]), ((0,), [0, -1])):
        yield {"tensor": v(*shape), "shape": I(*to)}
        yield {"tensor": v(*shape), "shape": L(*to)}


@sweep("array", "ExpandDims", tier=1)
def _(v):
    for shape, axis in (((), 0), ((3,), -1), ((2, 3), 1), ((2,), 3), ((2,), -3)):
        yield {"input": v(*shape), "axis": np.int32(axis)}
        yield {"input": v(*shape), "axis": np.int64(axis)}


@sweep("array", "Squeeze", tier=1)
def _(v):
    for shape, dims in (((1, 2, 1), []), ((1, 2, 1), [0]), ((1, 2, 1), [-1]), ((1, 2, 1), [0, 2]), ((2,), [0]), ((), []), ((1, 0), [0]), ((1,), [1])):
        yield {"input": v(*shape), "axis": dims}


@sweep("array", "Shape Size Rank", tier=1)
def _(v):
    for shape in ((), (3,), (2, 0), (1, 2, 3, 1, 2, 1, 1, 2)):
        yield {"input": v(*shape)}
        if v.op != "Rank":
            yield {"input": v(*shape), "out_type": "int64"}


@sweep("array", "Transpose ConjugateTranspose", tier=1)
def _(v):
    # TensorFlow's own library aborts on the conjugate transpose of a scalar.
    if v.op == "Transpose":
        yield {"x": v(), "perm": I()}
    for shape, perm in (((3,), [0]), ((2, 3), [1, 0]), ((2, 3, 4), [2, 0, 1]), ((2, 3, 4), [0, 2, 1]), ((2, 3, 2, 2), [3, 1, 0, 2]), ((2, 0), [1, 0]), ((1, 2, 3, 2, 1), [4, 3, 2, 1, 0]),
                        ((2, 3), [0, 0]), ((2, 3), [0]), ((2, 3), [0, 2]), ((2, 3), [-1, 0]), ((1, 2, 1, 2, 1, 2, 1, 2), [7, 5, 3, 1, 0, 2, 4, 6]), ((33, 17), [1, 0])):
        yield {"x": v(*shape), "perm": I(*perm)}
    yield {"x": v(2, 3), "perm": L(1, 0)}


@sweep("array", "Pack", tier=1)
def _(v):
    for shapes, axis in (([(2, 3)] * 3, 0), ([(2, 3)] * 2, -1), ([()] * 2, 0), ([(0,)] * 2, 1), ([(2,), (3,)], 0), ([(2,)], 1), ([(2, 2)] * 2, 1), ([(2,)] * 2, 3)):
        yield {"values": [v(*s) for s in shapes], "axis": axis}


@sweep("array", "Unpack")
def _(v):
    for shape, n, axis in (((3, 2), 3, 0), ((3, 2), 2, 1), ((3, 2), 2, -1), ((0, 2), 0, 0), ((3,), 3, 0), ((2, 0), 2, 0), ((3, 2), 2, 0)):
        yield {"value": v(*shape), "num": n, "axis": axis}


@sweep("array", "ConcatV2", tier=1)
def _(v):
    for shapes, axis in (([(2, 3), (1, 3)], 0), ([(2, 3), (2, 1), (2, 0)], 1), ([(2,), (3,)], -1), ([(0,), (0,)], 0), ([(2, 2, 2), (2, 3, 2)], 1), ([(2,), (2, 1)], 0), ([(2,), (2,)], 1), ([(), ()], 0), ([(2, 3), (2, 2)], 0)):
        yield {"values": [v(*s) for s in shapes], "axis": np.int32(axis)}
    yield {"values": [v(2), v(1)], "axis": np.int64(0)}


@sweep("array", "Concat")
def _(v):
    yield {"concat_dim": np.int32(1), "values": [v(2, 1), v(2, 2)]}
    yield {"concat_dim": np.int32(0), "values": [v(2), v(2)]}


@sweep("array", "Split")
def _(v):
    for shape, n, axis in (((4, 6), 2, 0), ((4, 6), 3, -1), ((4, 6), 1, 0), ((4, 0), 2, 1), ((4, 6), 4, 1), ((4,), 2, 1), ((2, 4, 3), 2, 1)):
        yield {"axis": np.int32(axis), "value": v(*shape), "num_split": n}


@sweep("array", "SplitV", tier=2)
def _(v):
    for shape, sizes, axis in (((4, 6), [1, 3], 0), ((4, 6), [2, -1, 1], 1), ((4, 6), [4], 0), ((4, 6), [1, 1], 0), ((4, 6), [-1, -1], 0), ((4, 0), [0, 0], 1), ((4,), [0, 4], 0), ((4,), [5, -1], 0), ((2, 5, 2), [2, 3], -2)):
        yield {"value": v(*shape), "size_splits": I(*sizes), "axis": np.int32(axis), "num_split": len(sizes)}
        yield {"value": v(*shape), "size_splits": L(*sizes), "axis": np.int32(axis), "num_split": len(sizes)}


@sweep("array", "Tile", tier=1)
def _(v):
    for shape, by in (((3,), [2]), ((2, 3), [1, 2]), ((), []), ((2, 1), [0, 3]), ((2,), [-1]), ((2,), [1, 1]), ((1, 2, 1, 2, 1), [2, 1, 2, 1, 3]), ((2, 1, 2, 1, 2, 1, 1, 1), [1, 2, 1, 1, 1, 1, 2, 1]), ((0,), [3])):
        yield {"input": v(*shape), "multiples": I(*by)}
        yield {"input": v(*shape), "multiples": L(*by)}


@sweep("array", "BroadcastTo", tier=1)
def _(v):
    for shape, to in (((), [2, 2]), ((3, 1), [3, 4]), ((1,), [0]), ((2,), [3, 2]), ((2,), [3]), ((2, 3), [3]), ((1, 2, 1), [2, 2, 2, 2]), ((2,), [-1])):
        yield {"input": v(*shape), "shape": I(*to)}
        yield {"input": v(*shape), "shape": L(*to)}


@sweep("array", "Slice")
def _(v):
    for shape, begin, size in (((5,), [1], [3]), ((3, 4), [0, 1], [-1, 2]), ((3, 4), [3, 0], [0, 4]), ((), [], []), ((3, 4), [2, 0], [2, 1]), ((3,), [-1], [1]), ((2, 3, 2, 2), [1, 0, 1, 0], [1, 2, -1, 2]), ((3,), [0, 0], [1, 1]), ((3,), [0], [-2]), ((1, 2, 1, 2, 1, 2, 1, 2), [0] * 8, [1, 1, 1, 2, 1, 1, 1, -1])):
        yield {"input": v(*shape), "begin": I(*begin), "size": I(*size)}
        yield {"input": v(*shape), "begin": L(*begin), "size": L(*size)}


@sweep("array", "StridedSlice", tier=1)
def _(v):
    for shape, b, e, s, m in (((5,), [1], [4], [2], {}), ((5,), [4], [0], [-1], {}), ((3, 4), [0, 1], [2, 3], [1, 1], {"shrink_axis_mask": 2}), ((3, 4), [1], [0], [1], {"shrink_axis_mask": 1}),
                              ((3, 4, 2), [0, 1], [0, 2], [1, 1], {"ellipsis_mask": 1}), ((3, 4), [0, 0, 0], [0, 2, 2], [1, 1, 1], {"new_axis_mask": 1}), ((3, 4), [9, -9], [-9, 9], [-1, 2], {}), ((3, 4), [0, 0], [0, 0], [1, 1], {"end_mask": 3}),
                              ((3,), [3], [4], [1], {"shrink_axis_mask": 1}), ((3,), [0], [1], [0], {}), ((3,), [0, 0], [1, 1], [1, 1], {}), ((0, 2), [0], [1], [1], {}), ((2, 1, 2, 1, 2, 1, 2), [0] * 7, [1] * 7, [1] * 7, {"end_mask": 127}),
                              ((4, 5), [0, 0], [0, 0], [2, -2], {"begin_mask": 3, "end_mask": 3}), ((3,), [0], [2], [-1], {"shrink_axis_mask": 1})):
        for maker in (I, L):
            yield dict({"input": v(*shape), "begin": maker(*b), "end": maker(*e), "strides": maker(*s)}, **m)


@sweep("array", "StridedSliceGrad")
def _(v):
    yield {"shape": I(5), "begin": I(1), "end": I(4), "strides": I(2), "dy": v(2)}
    yield {"shape": L(3, 4), "begin": L(0, 1), "end": L(2, 3), "strides": L(1, 1), "dy": v(2), "shrink_axis_mask": 2}
    yield {"shape": I(5), "begin": I(1), "end": I(4), "strides": I(2), "dy": v(3)}


@sweep("array", "Gather GatherV2", attr="Tparams", tier=1)
def _(v):
    for shape, ids in (((5,), [0, 4, 0]), ((3, 2), [2]), ((3, 2), []), ((3,), [[0, 1], [2, 2]]), ((3,), [3]), ((3,), [-1]), ((0, 2), []), ((3, 2), 1), ((0,), [0])):
        for it in (np.int32, np.int64):
            if v.op == "Gather":
                yield {"params": v(*shape), "indices": np.array(ids, it)}
            else:
                yield {"params": v(*shape), "indices": np.array(ids, it), "axis": np.int32(0)}
    if v.op == "GatherV2":
        yield {"params": v(2, 3, 2), "indices": I(2, 0), "axis": np.int64(1)}
        yield {"params": v(2, 3, 2), "indices": I(1), "axis": np.int32(-1)}
        yield {"params": v(2, 3, 2), "indices": I(0, 2, 1, 1).reshape(2, 2), "axis": np.int32(1), "batch_dims": 1}
        yield {"params": v(2, 3), "indices": I(0), "axis": np.int32(2)}
        yield {"params": v(2, 3), "indices": I(7), "axis": np.int32(1)}
        yield {"params": v(), "indices": I(0), "axis": np.int32(0)}
        yield {"params": v(3), "indices": np.array([1, 2], np.int16), "axis": np.int32(0)}


@sweep("array", "GatherNd", attr="Tparams")
def _(v):
    for shape, ids in (((3, 2), [[0, 1], [2, 0]]), ((3, 2), [[1]]), ((3, 2, 2), [[[0, 1]], [[2, 0]]]), ((3,), [[3]]), ((3,), [[-1]]), ((3, 2), np.zeros((0, 2))), ((3, 2), [[0, 0, 0]]), ((0,), np.zeros((0, 1)))):
        for it in (np.int32, np.int64):
            yield {"params": v(*shape), "indices": np.array(ids).astype(it)}


@sweep("embedding_sparse", "ScatterNd", attr="T")
def _(v):
    for ids, up, shape in (([[1], [3], [1]], (3,), [4]), ([[0, 1]], (1,), [2, 2]), ([[1]], (1, 2), [3, 2]), (np.zeros((0, 1)), (0,), [3]), ([[4]], (1,), [4]), ([[-1]], (1,), [4]), ([[0]], (2,), [4]), ([[0]], (1,), [0]), ([[0]], (1,), [-1])):
        for it in (np.int32, np.int64):
            yield {"indices": np.array(ids).astype(it), "updates": v(*up), "shape": np.array(shape, it)}


@sweep("embedding_sparse", "TensorScatterUpdate TensorScatterAdd TensorScatterSub TensorScatterMax TensorScatterMin")
def _(v):
    for ids, up in (([[1], [3], [0]], (3, 2)), ([[0, 1]], (1,)), ([[4]], (1, 2)), ([[-1]], (1, 2)), (np.zeros((0, 1)), (0, 2)), ([[0]], (3,))):
        for it in (np.int32, np.int64):
            yield {"tensor": v(4, 2), "indices": np.array(ids).astype(it), "updates": v(*up)}


@sweep("array", "Pad PadV2")
def _(v):
    for shape, p in (((3,), [[1, 2]]), ((2, 3), [[0, 0], [1, 1]]), ((), np.zeros((0, 2))), ((2, 0), [[1, 0], [0, 0]]), ((2,), [[-1, 0]]), ((2,), [[1, 1], [0, 0]]), ((1, 2, 1, 2, 1), [[0, 1]] * 5), ((1, 2, 1, 2, 1, 2), [[1, 0]] * 6)):
        for it in (np.int32, np.int64):
            extra = {"constant_values": v()} if v.op == "PadV2" else {}
            yield dict({"input": v(*shape), "paddings": np.array(p).astype(it).reshape(-1, 2)}, **extra)


@sweep("array", "MirrorPad")
def _(v):
    for mode in ("REFLECT", "SYMMETRIC"):
        for shape, p in (((3,), [[1, 2]]), ((2, 3), [[0, 1], [1, 1]]), ((3,), [[3, 0]]), ((3,), [[4, 0]]), ((2, 2, 2, 2), [[1, 0]] * 4), ((2,) * 5, [[1, 1]] * 5), ((2,), [[-1, 0]])):
            yield {"input": v(*shape), "paddings": np.array(p, np.int32), "mode": mode}


@sweep("array", "MirrorPadGrad")
def _(v):
    yield {"input": v(6), "paddings": np.array([[1, 2]], np.int32), "mode": "REFLECT"}
    yield {"input": v(3, 5), "paddings": np.array([[0, 1], [1, 1]], np.int64), "mode": "SYMMETRIC"}


@sweep("array", "ReverseV2", tier=2)
def _(v):
    for shape, axes in (((3,), [0]), ((2, 3), [-1]), ((2, 3), []), ((2, 3), [0, 1]), ((2, 3), [0, 0]), ((2,), [1]), ((2, 2, 3), [1]), ((1, 2, 1, 2, 1, 2, 1, 2), [1, 3]), ((0, 2), [0])):
        yield {"tensor": v(*shape), "axis": I(*axes)}
    yield {"tensor": v(2, 3), "axis": L(1)}


@sweep("array", "ReverseSequence")
def _(v):
    yield {"input": v(3, 4), "seq_lengths": L(1, 4, 0), "seq_dim": 1, "batch_dim": 0}
    yield {"input": v(4, 3, 2), "seq_lengths": I(1, 4, 2), "seq_dim": 0, "batch_dim": 1}
    yield {"input": v(3, 4), "seq_lengths": L(1, 5, 0), "seq_dim": 1, "batch_dim": 0}
    yield {"input": v(3, 4), "seq_lengths": L(1, 2), "seq_dim": 1, "batch_dim": 0}


@sweep("array", "OneHot", attr="T")
def _(v):
    for it in (np.uint8, np.int8, np.int32, np.int64):
        yield {"indices": np.array([0, 2, 1, 7]).astype(it), "depth": np.int32(3), "on_value": v(), "off_value": v()}
    yield {"indices": L(0, -1).reshape(2, 1), "depth": np.int32(2), "on_value": v(), "off_value": v(), "axis": 0}
    yield {"indices": I(0, 1).reshape(1, 2), "depth": np.int32(2), "on_value": v(), "off_value": v(), "axis": 1}
    yield {"indices": I(0), "depth": np.int32(-1), "on_value": v(), "off_value": v()}
    yield {"indices": I(0), "depth": np.int32(0), "on_value": v(), "off_value": v()}
    yield {"indices": np.int32(1), "depth": np.int32(2), "on_value": v(), "off_value": v()}
    yield {"indices": I(0), "depth": np.int32(2), "on_value": v(1), "off_value": v()}


@sweep("array", "Fill", attr="T", tier=1)
def _(v):
    for dims in ([], [3], [2, 0], [-1], [1, 2, 1, 2, 1, 2, 1, 2]):
        yield {"dims": I(*dims), "value": v()}
        yield {"dims": L(*dims), "value": v()}
    yield {"dims": I(2), "value": v(1)}


@sweep("array", "Range", attr="Tidx", tier=1)
def _(v):
    for a, b, d in ((0, 5, 1), (5, 0, -2), (3, 3, 1), (0, 5, 0), (5, 0, 1), (1, 10, 4)):
        yield {"start": v.array(a), "limit": v.array(b), "delta": v.array(d)} if d >= 0 or not v.dtype.is_unsigned else {"start": v.array(a), "limit": v.array(9), "delta": v.array(2)}
    if v.dtype.is_floating:
        yield {"start": v.array(0.5), "limit": v.array(2.0), "delta": v.array(0.25)}
    yield {"start": v.array([0]), "limit": v.array(5), "delta": v.array(1)}


@sweep("array", "LinSpace")
def _(v):
    for n in (1, 2, 5, 0, -1):
        yield {"start": v.array(-1), "stop": v.array(3), "num": np.int32(n)}
    yield {"start": v.array(-1), "stop": v.array(3), "num": np.int64(4)}


@sweep("array", "Unique UniqueWithCounts")
def _(v):
    for value in (v(6, hi=1), v(0), v(1), v(2, 3)):
        yield {"x": value}
        yield {"x": value, "out_idx": "int64"}
    if v.dtype.is_floating and v.dtype.size > 2:
        yield {"x": v.array([0.0, -0.0, np.nan, np.nan, 1.0])}


@sweep("array", "UniqueV2 UniqueWithCountsV2", attr="T")
def _(v):
    yield {"x": v(6, hi=1), "axis": L()}
    yield {"x": v(4, 1, hi=0), "axis": L(0)}
    yield {"x": v(2, 3, hi=1), "axis": I(1)}
    yield {"x": v(2, 3, hi=1), "axis": I(-1)}


@sweep("array", "ListDiff")
def _(v):
    yield {"x": v(6), "y": v(2)}
    yield {"x": v(0), "y": v(2)}
    yield {"x": v(3), "y": v(0), "out_idx": "int64"}
    yield {"x": v(3, 1), "y": v(1)}


@sweep("array", "InvertPermutation")
def _(v):
    for p in ([2, 0, 1], [], [0], [0, 0], [3, 0, 1], [1, 2]):
        yield {"x": v.array(p)}


@sweep("array", "TopKV2")
def _(v):
    value = np.random.RandomState(4).permutation(24)
    for shape, k in (((6,), 3), ((2, 3), 1), ((2, 3), 3), ((2, 3), 0), ((2, 3), 4), ((2, 3), -1), ((4, 6), 2), ((1, 0), 0)):
        x = v.array(value[:int(np.prod(shape))]).reshape(shape)
        for order in (True, False) if k <= 1 else (True,):
            if v.op == "TopKV2":
                yield {"input": x, "k": np.int32(k), "sorted": order}
    if v.op == "TopKV2":
        yield {"input": v.array([1, 1, 2, 2, 1]), "k": np.int32(4)}
        if v.dtype.is_floating:
            yield {"input": v.array([1, np.inf, -np.inf, 3]), "k": np.int32(2)}
        yield {"input": v(), "k": np.int32(0)}


@sweep("array", "InTopK InTopKV2", attr="T")
def _(v):
    p = np.random.RandomState(5).permutation(15).reshape(3, 5).astype(np.float32)
    name = (lambda k: k) if v.op == "InTopK" else (lambda k: v.array(k))
    for k in (1, 2, 5, 0):
        yield {"predictions": p, "targets": v.array([0, 4, 2]), "k": name(k)}
    yield {"predictions": p, "targets": v.array([7, 4, 2]), "k": name(2)}
    q = p.copy()
    q[0, 0] = np.inf
    q[1, 1] = np.nan
    yield {"predictions": q, "targets": v.array([0, 4, 2]), "k": name(2)}
    yield {"predictions": p, "targets": v.array([0, 4]), "k": name(2)}


@sweep("array", "DynamicPartition")
def _(v):
    for shape, parts, n in (((4,), [0, 1, 0, 2], 3), ((3, 2), [1, 1, 0], 2), ((2, 2), [[0, 1], [1, 0]], 2), ((0,), [], 2), ((2,), [0, 3], 2), ((2,), [-1, 0], 2), ((3,), [0, 0], 1), ((), 0, 1)):
        yield {"data": v(*shape), "partitions": np.array(parts, np.int32), "num_partitions": n}


@sweep("array", "DynamicStitch ParallelDynamicStitch", tier=1)
def _(v):
    for ids, shapes in (([[0, 2], [1]], [(2,), (1,)]), ([[1, 0], [1]], [(2, 2), (1, 2)]), ([[]], [(0, 2)]), ([[0], [2]], [(1,), (1,)]), ([0, [1, 2]], [(), (2,)]), ([[-1]], [(1,)]), ([[0]], [(2,)])):
        yield {"indices": [np.array(i, np.int32) for i in ids], "data": [v(*s) for s in shapes]}


@sweep("array", "Diag DiagPart MatrixDiag MatrixDiagPart MatrixSetDiag MatrixBandPart")
def _(v):
    if v.op == "MatrixDiag":
        yield from ({"diagonal": v(*s)} for s in ((3,), (2, 3), (2, 0), ()))
    elif v.op == "Diag":
        yield from ({"diagonal": v(*s)} for s in ((3,), (2, 2), (0,), ()))
    elif v.op == "DiagPart":
        yield from ({"input": v(*s)} for s in ((3, 3), (2, 2, 2, 2), (0, 0), (2, 3), (3,)))
    elif v.op == "MatrixDiagPart":
        yield from ({"input": v(*s)} for s in ((3, 3), (2, 3, 2), (0, 2, 2), (3,), (2, 4)))
    elif v.op == "MatrixSetDiag":
        yield from ({"input": v(*a), "diagonal": v(*b)} for a, b in (((3, 3), (3,)), ((2, 3, 2), (2, 2)), ((2, 2), (3,)), ((2, 4), (2,))))
    else:
        yield from ({"input": v(*s), "num_lower": L(a)[0], "num_upper": L(b)[0]} for s, a, b in (((3, 4), 1, 0), ((2, 3, 3), -1, 1), ((3, 3), 0, 0), ((3, 3), 4, 0), ((3,), 0, 0), ((3, 3), -1, -1)))


@sweep("array", "MatrixDiagV3 MatrixDiagPartV3 MatrixSetDiagV3")
def _(v):
    for align in ("RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT"):
        if v.op == "MatrixDiagV3":
            yield {"diagonal": v(2, 3), "k": I(0, 1), "num_rows": np.int32(-1), "num_cols": np.int32(-1), "padding_value": v(), "align": align}
        elif v.op == "MatrixDiagPartV3":
            yield {"input": v(3, 4), "k": I(-1, 1), "padding_value": v(), "align": align}
        else:
            yield {"input": v(3, 4), "diagonal": v(2, 3), "k": I(0, 1), "align": align}
    if v.op == "MatrixDiagV3":
        yield {"diagonal": v(3), "k": np.int32(1), "num_rows": np.int32(5), "num_cols": np.int32(4), "padding_value": v()}


@sweep("array", "SpaceToBatchND BatchToSpaceND", attr="T")
def _(v):
    if v.op == "SpaceToBatchND":
        yield {"input": v(1, 4, 4, 2), "block_shape": I(2, 2), "paddings": I(0, 0, 0, 0).reshape(2, 2)}
        yield {"input": v(2, 3, 2), "block_shape": I(2), "paddings": I(1, 0).reshape(1, 2)}
        yield {"input": v(2, 3, 2), "block_shape": I(2), "paddings": I(0, 0).reshape(1, 2)}
    else:
        yield {"input": v(4, 2, 2, 1), "block_shape": I(2, 2), "crops": I(0, 1, 1, 0).reshape(2, 2)}
        yield {"input": v(4, 2, 3), "block_shape": I(2), "crops": L(1, 0).reshape(1, 2)}
        yield {"input": v(3, 2, 3), "block_shape": I(2), "crops": L(1, 0).reshape(1, 2)}


@sweep("array", "SpaceToDepth DepthToSpace SpaceToBatch BatchToSpace")
def _(v):
    if v.op == "SpaceToDepth":
        yield {"input": v(1, 4, 2, 3), "block_size": 2}
        yield {"input": v(1, 3, 2, 3), "block_size": 2}
    elif v.op == "DepthToSpace":
        yield {"input": v(2, 1, 2, 8), "block_size": 2}
        yield {"input": v(2, 1, 2, 6), "block_size": 2}
    elif v.op == "SpaceToBatch":
        yield {"input": v(1, 4, 2, 3), "paddings": I(0, 0, 0, 0).reshape(2, 2), "block_size": 2}
    else:
        yield {"input": v(4, 1, 2, 3), "crops": I(0, 0, 0, 1).reshape(2, 2), "block_size": 2}


@sweep("array", "BroadcastArgs BroadcastGradientArgs", tier=1, dtypes=["int32", "int64"])
def _(v):
    for a, b in (([2, 3], [3]), ([3, 1], [1, 4]), ([], []), ([1], [1]), ([0], [1]), ([2, 1, 1, 5], [1, 3, 1]), ([2], [3]), ([1, 1, 2], [1, 2])):
        yield {"s0": v.array(a), "s1": v.array(b)}


@sweep("array", "Bincount DenseBincount", attr="T")
def _(v):
    if v.op == "Bincount":
        yield {"arr": I(1, 1, 3, 0), "size": np.int32(4), "weights": v(0)}
        yield {"arr": I(1, 1, 3, 5), "size": np.int32(4), "weights": v(4)}
        yield {"arr": I(-1), "size": np.int32(4), "weights": v(0)}
        yield {"arr": I(1), "size": np.int32(-1), "weights": v(0)}
    else:
        yield {"input": I(1, 1, 3, 0), "size": np.int32(4), "weights": v(4)}
        yield {"input": I(1, 1, 3, 0).reshape(2, 2), "size": np.int32(4), "weights": v(0), "binary_output": True}


@sweep("array", "HistogramFixedWidth", attr="T")
def _(v):
    yield {"values": v(9), "value_range": v.array([0, 3]), "nbins": np.int32(5)}
    yield {"values": v(9), "value_range": v.array([0, 3]), "nbins": np.int32(5), "dtype": "int64"}
    yield {"values": v(9), "value_range": v.array([3, 3]), "nbins": np.int32(5)}
    yield {"values": v(9), "value_range": v.array([0, 3]), "nbins": np.int32(0)}


@sweep("math", "Cross")
def _(v):
    yield {"a": v(3), "b": v(3)}
    yield {"a": v(2, 3), "b": v(2, 3)}
    yield {"a": v(2, 2), "b": v(2, 2)}


@sweep("array", "AddN AccumulateNV2")
def _(v):
    extra = (lambda s: {"shape": list(s)}) if v.op == "AccumulateNV2" else (lambda s: {})
    for n, s in ((1, (3,)), (2, (2, 3)), (3, ()), (9, (5,)), (2, (0,)), (8, (2,))):
        yield dict({"inputs": [v(*s) for _ in range(n)]}, **extra(s))
    yield dict({"inputs": [v(2), v(3)]}, **extra((2,)))


@sweep("debug", "CheckNumerics")
def _(v):
    yield {"tensor": v(3), "message": "m"}
    yield {"tensor": v.array([1, np.nan]), "message": "m"}
    yield {"tensor": v.array([np.inf]), "message": "m"}


# --- sparse tensors --------------------------------------------------------------------------------------------------

@sweep("embedding_sparse", "SparseToDense", attr="T")
def _(v):
    for it in (np.int32, np.int64):
        for ids, shape, values in (([[0, 1], [2, 0]], [3, 2], v(2)), ([[0, 1], [2, 0]], [3, 2], v()), ([1, 3], [4], v(2)), (2, [4], v()), ([[2, 0], [0, 1]], [3, 2], v(2)), ([[0, 1], [0, 1]], [3, 2], v(2)), ([[3, 0]], [3, 2], v(1)), ([1], [4], v(2))):
            yield {"sparse_indices": np.array(ids, it), "output_shape": np.array(shape, it), "sparse_values": values, "default_value": v()}
    yield {"sparse_indices": I(2, 0), "output_shape": I(3), "sparse_values": v(2), "default_value": v(), "validate_indices": False}


@sweep("embedding_sparse", "SparseTensorDenseMatMul", summing=True, tolerance=3.0)
def _(v):
    for it in (np.int32, np.int64):
        yield {"a_indices": np.array([[0, 1], [2, 0]], it), "a_values": v(2), "a_shape": L(3, 2), "b": v(2, 4)}
        yield {"a_indices": np.array([[0, 1], [2, 0]], it), "a_values": v(2), "a_shape": L(3, 2), "b": v(3, 4), "adjoint_a": True}
    yield {"a_indices": L(0, 1, 2, 0).reshape(2, 2), "a_values": v(2), "a_shape": L(3, 2), "b": v(4, 2), "adjoint_b": True}
    yield {"a_indices": L(0, 5).reshape(1, 2), "a_values": v(1), "a_shape": L(3, 2), "b": v(2, 4)}
    yield {"a_indices": L(0, 1).reshape(1, 2), "a_values": v(1), "a_shape": L(3, 2), "b": v(3, 4)}


@sweep("embedding_sparse", "SparseReorder SparseFillEmptyRows SparseSplit")
def _(v):
    i, shape = L(2, 0, 0, 1, 1, 1).reshape(3, 2), L(4, 3)
    if v.op == "SparseReorder":
        yield {"input_indices": i, "input_values": v(3), "input_shape": shape}
    elif v.op == "SparseSplit":
        yield {"split_dim": np.int64(0), "indices": i[[1, 2, 0]], "values": v(3), "shape": shape, "num_split": 2}
        yield {"split_dim": np.int64(1), "indices": i[[1, 2, 0]], "values": v(3), "shape": shape, "num_split": 2}
    else:
        yield {"indices": i[[1, 2, 0]], "values": v(3), "dense_shape": shape, "default_value": v()}
        yield {"indices": i, "values": v(3), "dense_shape": shape, "default_value": v()}
        yield {"indices": L(9, 0).reshape(1, 2), "values": v(1), "dense_shape": shape, "default_value": v()}
        yield {"indices": np.zeros((0, 2), np.int64), "values": v(0), "dense_shape": L(2, 3), "default_value": v()}
        yield {"indices": np.zeros((0, 2), np.int64), "values": v(0), "dense_shape": L(0, 3), "default_value": v()}


@sweep("embedding_sparse", "SparseReduceSum SparseTensorDenseAdd", attr="T")
def _(v):
    i = L(0, 1, 1, 1, 2, 0).reshape(3, 2)
    if v.op == "SparseTensorDenseAdd":
        yield {"a_indices": i, "a_values": v(3), "a_shape": L(3, 2), "b": v(3, 2)}
        yield {"a_indices": i.astype(np.int32), "a_values": v(3), "a_shape": I(3, 2), "b": v(3, 2)}
        yield {"a_indices": i, "a_values": v(3), "a_shape": L(3, 2), "b": v(2)}
    else:
        yield {"input_indices": i, "input_values": v(3), "input_shape": L(3, 2), "reduction_axes": I(1)}
        yield {"input_indices": i, "input_values": v(3), "input_shape": L(3, 2), "reduction_axes": I(0), "keep_dims": True}
