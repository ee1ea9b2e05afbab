//! Cases of arrays, identities and what prints and checks. Each is checked twice: with shapes that are known when the
//! gradient is built, and with shapes that are not.

use tensorfleet::{Graph, Output, PartialShape, Result, Tensor};
use tensorfleet_tests::gradient_check::{GradientCase, doubles, spread};

type Build = fn(&Graph, &[Output]) -> Result<Vec<Output>>;

/// A tensor of irregular numbers.
fn some(dims: &[usize]) -> Tensor {
    spread(dims, -2.0, 3.0)
}

fn unshaped(g: &Graph, x: &Output) -> Result<Output> {
    g.op("PlaceholderWithDefault").input(x).attr("shape", PartialShape::unknown()).output()
}

fn both(op: &'static str, at: impl IntoIterator<Item = Tensor>, build: Build) -> [GradientCase; 2] {
    let at: Vec<Tensor> = at.into_iter().collect();
    let dynamic = GradientCase::new(op, at.clone(), move |g, x| {
        let unshaped: Vec<Output> = x.iter().map(|x| unshaped(g, x)).collect::<Result<_>>()?;
        build(g, &unshaped)
    });
    [GradientCase::new(op, at, build), dynamic]
}

pub(crate) fn cases() -> Vec<GradientCase> {
    [identities(), shapes(), parts(), gathers(), scatters(), diagonals(), spaces(), sparse()]
        .into_iter()
        .flatten()
        .flatten()
        .collect()
}

fn identities() -> Vec<[GradientCase; 2]> {
    vec![
        both("Identity", [some(&[3])], |g, x| Ok(vec![g.op("Identity").input(&x[0]).output()?])),
        both("Snapshot", [some(&[3])], |g, x| Ok(vec![g.op("Snapshot").input(&x[0]).output()?])),
        both("PlaceholderWithDefault", [some(&[3])], |g, x| Ok(vec![unshaped(g, &x[0])?])),
        both("IdentityN", [some(&[3]), some(&[2])], |g, x| {
            g.op("IdentityN").inputs(x.to_vec()).build()?.outputs()
        }),
        both("Print", [some(&[2])], |g, x| {
            let printed: Vec<Output> = Vec::new();
            let print = g.op("Print").input(&x[0]).inputs(printed).attr("first_n", 0i64);
            Ok(vec![print.output()?])
        }),
        both("CheckNumerics", [some(&[2])], |g, x| {
            Ok(vec![g.op("CheckNumerics").input(&x[0]).attr("message", "here").output()?])
        }),
        both("CheckNumericsV2", [some(&[2])], |g, x| {
            Ok(vec![g.op("CheckNumericsV2").input(&x[0]).attr("message", "here").output()?])
        }),
    ]
}

fn shapes() -> Vec<[GradientCase; 2]> {
    vec![
        both("Reshape", [some(&[2, 3])], |_, x| Ok(vec![x[0].reshape([3, -1])?])),
        both("ExpandDims", [some(&[2, 3])], |_, x| Ok(vec![x[0].expand_dims(-2)?])),
        both("Squeeze", [some(&[2, 1, 3])], |_, x| Ok(vec![x[0].squeeze(&[1])?])),
        both("Tile", [some(&[2, 3])], |_, x| Ok(vec![x[0].tile([3, 2])?])),
        both("Tile", [some(&[2])], |g, x| Ok(vec![x[0].tile(g.constant([2i64]))?])),
        both("Fill", [some(&[])], |g, x| Ok(vec![g.op("Fill").input([2, 3]).input(&x[0]).output()?])),
        both("Transpose", [some(&[2, 3, 4])], |_, x| Ok(vec![x[0].transpose([2, 0, 1])?])),
        both("ConjugateTranspose", [some(&[2, 3])], |g, x| {
            Ok(vec![g.op("ConjugateTranspose").input(&x[0]).input([1, 0]).output()?])
        }),
        both("ReverseV2", [some(&[2, 3])], |g, x| {
            Ok(vec![g.op("ReverseV2").input(&x[0]).input([-1]).output()?])
        }),
        both("Reverse", [some(&[2, 3])], |g, x| {
            Ok(vec![g.op("Reverse").input(&x[0]).input([true, false]).output()?])
        }),
        both("ReverseSequence", [some(&[3, 4])], |g, x| {
            let node = g.op("ReverseSequence").input(&x[0]).input([1, 3, 4]);
            Ok(vec![node.attr("seq_dim", 1i64).attr("batch_dim", 0i64).output()?])
        }),
        both("Pad", [some(&[2, 2])], |g, x| {
            Ok(vec![g.op("Pad").input(&x[0]).input([[1, 0], [2, 1]]).output()?])
        }),
        both("PadV2", [some(&[3])], |g, x| {
            Ok(vec![g.op("PadV2").input(&x[0]).input(g.constant([[1i64, 2]])).input(7.0).output()?])
        }),
        both("MirrorPad", [some(&[3, 4])], |g, x| {
            let pad = |mode: &str| {
                g.op("MirrorPad").input(&x[0]).input([[2, 1], [1, 2]]).attr("mode", mode.to_string()).output()
            };
            Ok(vec![pad("REFLECT")?, pad("SYMMETRIC")?])
        }),
        both("MirrorPadGrad", [some(&[6])], |g, x| {
            let node = g.op("MirrorPadGrad").input(&x[0]).input([[2, 1]]).attr("mode", "REFLECT");
            Ok(vec![node.output()?])
        }),
    ]
}

fn parts() -> Vec<[GradientCase; 2]> {
    vec![
        both("ConcatV2", [some(&[2, 2]), some(&[2, 3])], |g, x| Ok(vec![g.concat(x.to_vec(), -1)?])),
        both("ConcatV2", [some(&[2])], |g, x| Ok(vec![g.concat(x.to_vec(), 0)?])),
        both("Concat", [some(&[1, 2]), some(&[2, 2])], |g, x| {
            Ok(vec![g.op("Concat").input(0).inputs(x.to_vec()).output()?])
        }),
        both("Pack", [some(&[2]), some(&[2])], |g, x| {
            Ok(vec![g.op("Pack").inputs(x.to_vec()).attr("axis", 1i64).output()?])
        }),
        both("Unpack", [some(&[2, 3])], |g, x| {
            let parts = g.op("Unpack").input(&x[0]).attr("num", 3i64).attr("axis", 1i64).build()?;
            // One part has no gradient of its own.
            Ok(vec![parts.output(0), parts.output(2)])
        }),
        both("Split", [some(&[4, 2])], |_, x| x[0].split(2, 0)),
        both("SplitV", [some(&[2, 5])], |g, x| {
            let node = g.op("SplitV").input(&x[0]).input([1, 4]).input(1).attr("num_split", 2i64);
            node.build()?.outputs()
        }),
        both("Slice", [some(&[3, 4])], |_, x| Ok(vec![x[0].slice([1, 0], [2, 3])?])),
        both("Slice", [some(&[3])], |g, x| Ok(vec![x[0].slice(g.constant([1i64]), g.constant([-1i64]))?])),
        both("StridedSlice", [some(&[4, 5])], |g, x| {
            let node = g.op("StridedSlice").input(&x[0]).input([3, 1]).input([0, 2]).input([-2, 1]);
            Ok(vec![node.attr("shrink_axis_mask", 2i64).attr("end_mask", 1i64).output()?])
        }),
        both("StridedSliceGrad", [some(&[2])], |g, x| {
            let node = g.op("StridedSliceGrad").input([5]).input([0]).input([4]).input([2]);
            Ok(vec![node.input(&x[0]).output()?])
        }),
        both("TensorStridedSliceUpdate", [some(&[4]), some(&[2])], |g, x| {
            let node = g.op("TensorStridedSliceUpdate").input(&x[0]).input([1]).input([3]).input([1]);
            Ok(vec![node.input(&x[1]).output()?])
        }),
        both("DynamicStitch", [some(&[2, 2]), some(&[2])], |g, x| {
            let indices = [g.constant([0, 2]), g.constant(1)];
            Ok(vec![g.op("DynamicStitch").inputs(indices).inputs(x.to_vec()).output()?])
        }),
        both("ParallelDynamicStitch", [some(&[2]), some(&[1])], |g, x| {
            let indices = [g.constant([0, 2]), g.constant([1])];
            Ok(vec![g.op("ParallelDynamicStitch").inputs(indices).inputs(x.to_vec()).output()?])
        }),
        both("DynamicPartition", [some(&[4, 2])], |g, x| {
            let node = g.op("DynamicPartition").input(&x[0]).input([1, 0, 1, 2]).attr("num_partitions", 3i64);
            let parts = node.build()?;
            Ok(vec![parts.output(0), parts.output(1)])
        }),
        both("TopK", [some(&[2, 4])], |g, x| {
            Ok(vec![g.op("TopK").input(&x[0]).attr("k", 2i64).build()?.output(0)])
        }),
        both("TopKV2", [some(&[5])], |g, x| {
            Ok(vec![g.op("TopKV2").input(&x[0]).input(3).build()?.output(0)])
        }),
        both("Cross", [some(&[2, 3]), spread(&[2, 3], -1.0, 4.0)], |g, x| {
            Ok(vec![g.op("Cross").input(&x[0]).input(&x[1]).output()?])
        }),
    ]
}

fn gathers() -> Vec<[GradientCase; 2]> {
    vec![
        both("Gather", [some(&[4, 2])], |g, x| {
            Ok(vec![g.op("Gather").input(&x[0]).input([[1, 3], [3, 3]]).output()?])
        }),
        both("GatherV2", [some(&[4, 2])], |_, x| Ok(vec![x[0].gather([2, 0, 2])?])),
        both("GatherV2", [some(&[2, 4, 2])], |_, x| Ok(vec![x[0].gather_along([[3, 0], [3, 1]], -2)?])),
        both("GatherV2", [some(&[2, 3, 4, 2])], |g, x| {
            let node = g.op("GatherV2").input(&x[0]).input([[3, 0, 3], [1, 1, 2]]).input(2);
            Ok(vec![node.attr("batch_dims", 1i64).output()?])
        }),
        both("GatherV2", [some(&[2, 4])], |g, x| {
            let node = g.op("GatherV2").input(&x[0]).input(g.constant([[3i64], [1]])).input(g.constant(1i64));
            Ok(vec![node.attr("batch_dims", -1i64).output()?])
        }),
        both("GatherNd", [some(&[3, 2])], |g, x| {
            Ok(vec![g.op("GatherNd").input(&x[0]).input([[2, 1], [0, 0], [2, 1]]).output()?])
        }),
        both("GatherNd", [some(&[3, 2])], |g, x| {
            Ok(vec![g.op("GatherNd").input(&x[0]).input([[2], [0], [2]]).output()?])
        }),
    ]
}

fn scatters() -> Vec<[GradientCase; 2]> {
    fn onto(g: &Graph, op: &str, x: &[Output], indices: [[i32; 1]; 2]) -> Result<Vec<Output>> {
        Ok(vec![g.op(op).input(&x[0]).input(indices).input(&x[1]).output()?])
    }
    let at = || [some(&[4, 2]), spread(&[2, 2], -1.5, 2.0)];
    vec![
        both("ScatterNd", [some(&[3])], |g, x| {
            Ok(vec![g.op("ScatterNd").input([[1], [3], [1]]).input(&x[0]).input([5]).output()?])
        }),
        both("ScatterNdNonAliasingAdd", at(), |g, x| onto(g, "ScatterNdNonAliasingAdd", x, [[1], [1]])),
        both("TensorScatterUpdate", at(), |g, x| onto(g, "TensorScatterUpdate", x, [[3], [1]])),
        both("TensorScatterAdd", at(), |g, x| onto(g, "TensorScatterAdd", x, [[0], [0]])),
        both("TensorScatterSub", at(), |g, x| onto(g, "TensorScatterSub", x, [[2], [2]])),
        both("TensorScatterMin", at(), |g, x| onto(g, "TensorScatterMin", x, [[3], [0]])),
        both("TensorScatterMax", at(), |g, x| onto(g, "TensorScatterMax", x, [[3], [0]])),
    ]
}

fn diagonals() -> Vec<[GradientCase; 2]> {
    vec![
        both("Diag", [some(&[2, 2])], |g, x| Ok(vec![g.op("Diag").input(&x[0]).output()?])),
        both("DiagPart", [some(&[3, 3])], |g, x| Ok(vec![g.op("DiagPart").input(&x[0]).output()?])),
        both("MatrixBandPart", [some(&[2, 3, 4])], |g, x| {
            Ok(vec![g.op("MatrixBandPart").input(&x[0]).input(1).input(0).output()?])
        }),
        both("MatrixDiag", [some(&[2, 3])], |g, x| Ok(vec![g.op("MatrixDiag").input(&x[0]).output()?])),
        both("MatrixDiagV2", [some(&[2, 3])], |g, x| {
            let node = g.op("MatrixDiagV2").input(&x[0]).input([-1, 0]).input(3).input(4);
            Ok(vec![node.input(5.0).output()?])
        }),
        both("MatrixDiagV3", [some(&[2, 3])], |g, x| {
            let node = g.op("MatrixDiagV3").input(&x[0]).input([-1, 0]).input(3).input(4);
            Ok(vec![node.input(5.0).attr("align", "LEFT_RIGHT").output()?])
        }),
        both("MatrixDiagPart", [some(&[2, 3, 4])], |g, x| {
            Ok(vec![g.op("MatrixDiagPart").input(&x[0]).output()?])
        }),
        both("MatrixDiagPartV2", [some(&[3, 4])], |g, x| {
            Ok(vec![g.op("MatrixDiagPartV2").input(&x[0]).input([-1, 1]).input(2.0).output()?])
        }),
        both("MatrixDiagPartV3", [some(&[3, 4])], |g, x| {
            let node = g.op("MatrixDiagPartV3").input(&x[0]).input([-1, 1]).input(2.0);
            Ok(vec![node.attr("align", "LEFT_LEFT").output()?])
        }),
        both("MatrixSetDiag", [some(&[2, 3, 3]), some(&[2, 3])], |g, x| {
            Ok(vec![g.op("MatrixSetDiag").input(&x[0]).input(&x[1]).output()?])
        }),
        both("MatrixSetDiagV2", [some(&[3, 4]), some(&[2, 3])], |g, x| {
            Ok(vec![g.op("MatrixSetDiagV2").input(&x[0]).input(&x[1]).input([0, 1]).output()?])
        }),
        both("MatrixSetDiagV3", [some(&[3, 4]), some(&[2, 3])], |g, x| {
            let node = g.op("MatrixSetDiagV3").input(&x[0]).input(&x[1]).input([-1, 0]);
            Ok(vec![node.attr("align", "RIGHT_LEFT").output()?])
        }),
    ]
}

fn spaces() -> Vec<[GradientCase; 2]> {
    vec![
        both("SpaceToBatchND", [some(&[1, 3, 2, 1])], |g, x| {
            let node = g.op("SpaceToBatchND").input(&x[0]).input([2, 2]).input([[0, 1], [1, 1]]);
            Ok(vec![node.output()?])
        }),
        both("BatchToSpaceND", [some(&[4, 2, 2, 1])], |g, x| {
            let node = g.op("BatchToSpaceND").input(&x[0]).input([2, 2]).input([[0, 1], [1, 0]]);
            Ok(vec![node.output()?])
        }),
        both("SpaceToBatch", [some(&[1, 2, 2, 1])], |g, x| {
            let node = g.op("SpaceToBatch").input(&x[0]).input([[1, 1], [0, 0]]).attr("block_size", 2i64);
            Ok(vec![node.output()?])
        }),
        both("BatchToSpace", [some(&[4, 1, 2, 1])], |g, x| {
            let node = g.op("BatchToSpace").input(&x[0]).input([[0, 1], [0, 0]]).attr("block_size", 2i64);
            Ok(vec![node.output()?])
        }),
        both("SpaceToDepth", [some(&[1, 2, 4, 1])], |g, x| {
            Ok(vec![g.op("SpaceToDepth").input(&x[0]).attr("block_size", 2i64).output()?])
        }),
        both("DepthToSpace", [some(&[1, 1, 2, 4])], |g, x| {
            Ok(vec![g.op("DepthToSpace").input(&x[0]).attr("block_size", 2i64).output()?])
        }),
    ]
}

fn sparse() -> Vec<[GradientCase; 2]> {
    fn segments(g: &Graph, op: &str, x: &Output) -> Result<Vec<Output>> {
        let node = g.op(op).input(x).input([3, 0, 3, 1]).input([0, 0, 1, 1]);
        let node = if op.ends_with("Segments") { node.input(3) } else { node };
        Ok(vec![node.output()?])
    }
    fn product(g: &Graph, x: &[Output], adjoint_a: bool, adjoint_b: bool) -> Result<Vec<Output>> {
        let node =
            g.op("SparseTensorDenseMatMul").input(g.constant([[0i64, 1], [1, 0], [1, 2]])).input(&x[0]);
        let node = node.input(g.constant([2i64, 3])).input(&x[1]);
        Ok(vec![node.attr("adjoint_a", adjoint_a).attr("adjoint_b", adjoint_b).output()?])
    }
    vec![
        both("SparseSegmentSum", [some(&[4, 2])], |g, x| segments(g, "SparseSegmentSum", &x[0])),
        both("SparseSegmentMean", [some(&[4, 2])], |g, x| segments(g, "SparseSegmentMean", &x[0])),
        both("SparseSegmentSqrtN", [some(&[4, 2])], |g, x| segments(g, "SparseSegmentSqrtN", &x[0])),
        both("SparseSegmentSumWithNumSegments", [some(&[4, 2])], |g, x| {
            segments(g, "SparseSegmentSumWithNumSegments", &x[0])
        }),
        both("SparseSegmentMeanWithNumSegments", [some(&[4, 2])], |g, x| {
            segments(g, "SparseSegmentMeanWithNumSegments", &x[0])
        }),
        both("SparseSegmentSqrtNWithNumSegments", [some(&[4, 2])], |g, x| {
            segments(g, "SparseSegmentSqrtNWithNumSegments", &x[0])
        }),
        both("SparseTensorDenseMatMul", [some(&[3]), some(&[3, 2])], |g, x| product(g, x, false, false)),
        both("SparseTensorDenseMatMul", [some(&[3]), some(&[2, 2])], |g, x| product(g, x, true, false)),
        both("SparseTensorDenseMatMul", [some(&[3]), some(&[4, 3])], |g, x| product(g, x, false, true)),
        both("SparseTensorDenseMatMul", [some(&[3]), some(&[4, 2])], |g, x| product(g, x, true, true)),
        both("SparseToDense", [some(&[2]), some(&[])], |g, x| {
            let node = g.op("SparseToDense").input([[0, 1], [2, 0]]).input([3, 2]);
            Ok(vec![node.input(&x[0]).input(&x[1]).output()?])
        }),
        both("SparseToDense", [some(&[2]), doubles(&[], &[0.5])], |g, x| {
            let node = g.op("SparseToDense").input([1, 3]).input([4]);
            Ok(vec![node.input(&x[0]).input(&x[1]).output()?])
        }),
        both("SparseTensorDenseAdd", [some(&[3]), some(&[2, 3])], |g, x| {
            let node =
                g.op("SparseTensorDenseAdd").input(g.constant([[1i64, 1], [0, 2], [1, 1]])).input(&x[0]);
            Ok(vec![node.input(g.constant([2i64, 3])).input(&x[1]).output()?])
        }),
        both("SparseReorder", [some(&[3])], |g, x| {
            let node = g.op("SparseReorder").input(g.constant([[1i64, 1], [0, 2], [0, 0]])).input(&x[0]);
            Ok(vec![node.input(g.constant([2i64, 3])).build()?.output(1)])
        }),
        both("SparseReduceSum", [some(&[3])], |g, x| {
            let sum = |axes: Vec<i32>| {
                let node =
                    g.op("SparseReduceSum").input(g.constant([[0i64, 0], [0, 2], [1, 2]])).input(&x[0]);
                node.input(g.constant([2i64, 3])).input(axes).output()
            };
            Ok(vec![sum(vec![-1])?, sum(vec![0, 1])?])
        }),
        both("SparseFillEmptyRows", [some(&[2]), some(&[])], |g, x| {
            let node = g.op("SparseFillEmptyRows").input(g.constant([[0i64, 1], [2, 0]])).input(&x[0]);
            Ok(vec![node.input(g.constant([4i64, 2])).input(&x[1]).build()?.output(1)])
        }),
    ]
}
