"""Functions that add one node: their names below `tf.`, the op, and the arguments in TensorFlow 1.15's order.

A function is made from its line of the table when it is first used.
"""

from tensorfleet.framework import dtypes, op_library
from tensorfleet.framework.export import export_values

TABLE = """
batch_to_space_nd manip.batch_to_space_nd = BatchToSpaceND(input, block_shape, crops)
bitcast = Bitcast(input, type)
broadcast_to = BroadcastTo(input, shape)
check_numerics debugging.check_numerics = CheckNumerics(tensor, message)
diag linalg.tensor_diag = Diag(diagonal)
diag_part linalg.tensor_diag_part = DiagPart(input)
guarantee_const = GuaranteeConst(input)
identity_n = IdentityN(input)
invert_permutation math.invert_permutation = InvertPermutation(x)
matrix_band_part linalg.band_part = MatrixBandPart(input, num_lower, num_upper)
reverse reverse_v2 manip.reverse = ReverseV2(tensor, axis)
scatter_nd manip.scatter_nd = ScatterNd(indices, updates, shape)
space_to_batch_nd manip.space_to_batch_nd = SpaceToBatchND(input, block_shape, paddings)
stop_gradient = StopGradient(input)
tensor_scatter_add tensor_scatter_nd_add = TensorScatterAdd(tensor, indices, updates)
tensor_scatter_nd_sub tensor_scatter_sub = TensorScatterSub(tensor, indices, updates)
tensor_scatter_nd_update tensor_scatter_update = TensorScatterUpdate(tensor, indices, updates)
tile manip.tile = Tile(input, multiples)
unravel_index = UnravelIndex(indices, dims)
bitwise.bitwise_and = BitwiseAnd(x, y)
bitwise.bitwise_or = BitwiseOr(x, y)
bitwise.bitwise_xor = BitwiseXor(x, y)
bitwise.invert = Invert(x)
bitwise.left_shift = LeftShift(x, y)
bitwise.right_shift = RightShift(x, y)
dynamic_partition = DynamicPartition(data, partitions, num_partitions)
dynamic_stitch = DynamicStitch(indices, data)
image.decode_bmp io.decode_bmp = DecodeBmp(contents, channels=0)
image.decode_jpeg io.decode_jpeg = DecodeJpeg(contents, channels=0, ratio=1, fancy_upscaling=True, try_recover_truncated=False, acceptable_fraction=1, dct_method='')
image.decode_png io.decode_png = DecodePng(contents, channels=0, dtype=dtypes.uint8)
image.encode_png = EncodePng(image, compression=-1)
cholesky linalg.cholesky = Cholesky(input)
linalg.slogdet = LogMatrixDeterminant(input)
matrix_determinant linalg.det = MatrixDeterminant(input)
matrix_inverse linalg.inv = MatrixInverse(input, adjoint=False)
matrix_solve linalg.solve = MatrixSolve(matrix, rhs, adjoint=False)
matrix_triangular_solve linalg.triangular_solve = MatrixTriangularSolve(matrix, rhs, lower=True, adjoint=False)
timestamp = Timestamp()
acos math.acos = Acos(x)
acosh math.acosh = Acosh(x)
add math.add = Add(x, y)
arg_max = ArgMax(input, dimension, output_type=dtypes.int64)
arg_min = ArgMin(input, dimension, output_type=dtypes.int64)
asin math.asin = Asin(x)
asinh math.asinh = Asinh(x)
atan math.atan = Atan(x)
atan2 math.atan2 = Atan2(y, x)
atanh math.atanh = Atanh(x)
ceil math.ceil = Ceil(x)
cos math.cos = Cos(x)
cosh math.cosh = Cosh(x)
cross linalg.cross = Cross(a, b)
digamma math.digamma = Digamma(x)
erf math.erf = Erf(x)
erfc math.erfc = Erfc(x)
exp math.exp = Exp(x)
expm1 math.expm1 = Expm1(x)
floor math.floor = Floor(x)
floor_div = FloorDiv(x, y)
floormod mod math.floormod math.mod = FloorMod(x, y)
greater math.greater = Greater(x, y)
greater_equal math.greater_equal = GreaterEqual(x, y)
igamma math.igamma = Igamma(a, x)
igammac math.igammac = Igammac(a, x)
is_finite debugging.is_finite math.is_finite = IsFinite(x)
is_inf debugging.is_inf math.is_inf = IsInf(x)
is_nan debugging.is_nan math.is_nan = IsNan(x)
less math.less = Less(x, y)
less_equal math.less_equal = LessEqual(x, y)
lgamma math.lgamma = Lgamma(x)
lin_space linspace = LinSpace(start, stop, num)
log math.log = Log(x)
log1p math.log1p = Log1p(x)
logical_and math.logical_and = LogicalAnd(x, y)
logical_not math.logical_not = LogicalNot(x)
logical_or math.logical_or = LogicalOr(x, y)
maximum math.maximum = Maximum(x, y)
minimum math.minimum = Minimum(x, y)
negative math.negative = Neg(x)
polygamma math.polygamma = Polygamma(a, x)
realdiv = RealDiv(x, y)
reciprocal math.reciprocal = Reciprocal(x)
rint math.rint = Rint(x)
rsqrt math.rsqrt = Rsqrt(x)
segment_max math.segment_max = SegmentMax(data, segment_ids)
segment_mean math.segment_mean = SegmentMean(data, segment_ids)
segment_min math.segment_min = SegmentMin(data, segment_ids)
segment_prod math.segment_prod = SegmentProd(data, segment_ids)
segment_sum math.segment_sum = SegmentSum(data, segment_ids)
sign math.sign = Sign(x)
sin math.sin = Sin(x)
sinh math.sinh = Sinh(x)
sqrt math.sqrt = Sqrt(x)
square math.square = Square(x)
squared_difference math.squared_difference = SquaredDifference(x, y)
tan math.tan = Tan(x)
tanh math.tanh nn.tanh = Tanh(x)
truncatediv = TruncateDiv(x, y)
truncatemod = TruncateMod(x, y)
unsorted_segment_max math.unsorted_segment_max = UnsortedSegmentMax(data, segment_ids, num_segments)
unsorted_segment_min math.unsorted_segment_min = UnsortedSegmentMin(data, segment_ids, num_segments)
unsorted_segment_prod math.unsorted_segment_prod = UnsortedSegmentProd(data, segment_ids, num_segments)
unsorted_segment_sum math.unsorted_segment_sum = UnsortedSegmentSum(data, segment_ids, num_segments)
math.xdivy = Xdivy(x, y)
math.xlogy = Xlogy(x, y)
zeta math.zeta = Zeta(x, q)
as_string dtypes.as_string strings.as_string = AsString(input, precision=-1, scientific=False, shortest=False, width=-1, fill='')
decode_base64 io.decode_base64 = DecodeBase64(input)
encode_base64 io.encode_base64 = EncodeBase64(input, pad=False)
string_join strings.join = StringJoin(inputs, separator='')
strings.lower = StringLower(input, encoding='')
string_strip strings.strip = StringStrip(input)
string_to_hash_bucket_fast strings.to_hash_bucket_fast = StringToHashBucketFast(input, num_buckets)
string_to_hash_bucket_strong strings.to_hash_bucket_strong = StringToHashBucketStrong(input, num_buckets, key)
strings.upper = StringUpper(input, encoding='')
"""

_CALLS = {}


def _read_table():
    for line in TABLE.strip().splitlines():
        names, _, call = line.partition(" = ")
        names = names.split()
        attribute = names[0].replace(".", "_")
        _CALLS[attribute] = call
        export_values(__name__, {name: attribute for name in names})


def make(attribute, call, module=__name__):
    """The function of a line: `Op(argument, argument=default)`."""
    op_type, _, arguments = call.rstrip(")").partition("(")
    parameters = [argument.partition("=")[0].strip() for argument in _split(arguments)]
    given = "".join(f", {name!r}: {name}" for name in parameters)
    source = f"lambda {arguments + ', ' if arguments else ''}name=None: apply({op_type!r}, name, {{{given[2:]}}})"
    function = eval(source, {"apply": _apply, "dtypes": dtypes})  # noqa: S307 the table above is the only source
    function.__name__ = function.__qualname__ = attribute
    function.__module__ = module
    function.__doc__ = f"Adds a node of the op {op_type}."
    return function


def _split(arguments):
    return [argument for argument in arguments.split(", ") if argument]


def _apply(op_type, name, arguments):
    return op_library.outputs_of(op_library.apply_op_helper(op_type, name, arguments))


def __getattr__(name):
    call = _CALLS.get(name)
    if call is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    function = globals()[name] = make(name, call)
    return function


_read_table()
