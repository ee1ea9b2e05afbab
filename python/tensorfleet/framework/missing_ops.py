"""Functions of TensorFlow 1.15 that need an op which the catalogue lacks, by area: name below `tf.` -> reason."""

_TRANSFORMS = "fft fft2d fft3d ifft ifft2d ifft3d rfft rfft2d rfft3d irfft irfft2d irfft3d dct idct".split()
_FOURIER = "there are no ops for Fourier transforms"

#: Op that is missing -> names that need it.
_BY_OP = {
    # Mathematics.
    "BesselI0e": "math.bessel_i0 math.bessel_i0e",
    "BesselI1e": "math.bessel_i1 math.bessel_i1e",
    "Betainc": "betainc math.betainc",
    "CumulativeLogsumexp": "math.cumulative_logsumexp",
    "NextAfter": "math.nextafter",
    "RandomPoissonV2": "random_poisson random.poisson",
    # Matrices.
    "Lu": "linalg.lu",
    "MatrixLogarithm": "linalg.logm",
    "MatrixSolveLs": "matrix_solve_ls linalg.lstsq",
    "MatrixSquareRoot": "matrix_square_root linalg.sqrtm",
    "Qr": "qr linalg.qr",
    "SelfAdjointEigV2": "self_adjoint_eig self_adjoint_eigvals linalg.eigh linalg.eigvalsh",
    "SparseMatMul": "sparse_matmul",
    "Svd": "svd linalg.svd linalg.pinv linalg.matrix_rank",
    "TridiagonalMatMul": "linalg.tridiagonal_matmul",
    "TridiagonalSolve": "linalg.tridiagonal_solve",
    # Arrays.
    "EditDistance": "edit_distance",
    "EnsureShape": "ensure_shape",
    "ExtractImagePatches": "extract_image_patches image.extract_image_patches image.extract_patches",
    "ExtractVolumePatches": "extract_volume_patches",
    "Fingerprint": "fingerprint",
    "LowerBound": "searchsorted",
    "ParallelConcat": "parallel_stack",
    "Roll": "roll manip.roll signal.fftshift signal.ifftshift",
    # Texts.
    "UnicodeDecodeWithOffsets": "strings.unicode_decode strings.unicode_decode_with_offsets strings.unicode_split strings.unicode_split_with_offsets",
    "UnicodeEncode": "strings.unicode_encode",
    "UnicodeScript": "strings.unicode_script",
    "UnicodeTranscode": "strings.unicode_transcode",
    "UnsortedSegmentJoin": "strings.unsorted_segment_join",
    # Sparse tensors and sets.
    "SetSize": "sets.set_size sets.size",
    "SparseConcat": "sparse_concat sparse.concat",
    "SparseCross": "sparse.cross sparse.cross_hashed",
    "SparseReduceMax": "sparse_reduce_max sparse.reduce_max",
    "SparseReduceMaxSparse": "sparse_reduce_max_sparse sparse.reduce_max_sparse",
    "SparseReduceSumSparse": "sparse_reduce_sum_sparse sparse.reduce_sum_sparse",
    "SparseSlice": "sparse_slice sparse.slice",
    "SparseSoftmax": "sparse_softmax sparse.softmax",
    "SparseSparseMaximum": "sparse_maximum sparse.maximum",
    "SparseSparseMinimum": "sparse_minimum sparse.minimum",
    "SparseSplit": "sparse_split sparse.split",
    # Sound.
    "DecodeWav": "audio.decode_wav",
    "EncodeWav": "audio.encode_wav",
    # Images.
    "AdjustContrastv2": "image.adjust_contrast image.random_contrast",
    "AdjustHue": "image.adjust_hue image.random_hue",
    "AdjustSaturation": "image.adjust_saturation image.random_saturation",
    "CombinedNonMaxSuppression": "image.combined_non_max_suppression",
    "CropAndResize": "image.crop_and_resize",
    "DecodeAndCropJpeg": "image.decode_and_crop_jpeg io.decode_and_crop_jpeg",
    "DecodeGif": "image.decode_gif io.decode_gif",
    "DrawBoundingBoxesV2": "image.draw_bounding_boxes",
    "EncodeJpeg": "image.encode_jpeg io.encode_jpeg image.adjust_jpeg_quality image.random_jpeg_quality",
    "ExtractGlimpse": "image.extract_glimpse",
    "ExtractJpegShape": "image.extract_jpeg_shape io.extract_jpeg_shape",
    "HSVToRGB": "image.hsv_to_rgb",
    "NonMaxSuppressionV3": "image.non_max_suppression",
    "NonMaxSuppressionV4": "image.non_max_suppression_padded",
    "NonMaxSuppressionV5": "image.non_max_suppression_with_scores",
    "NonMaxSuppressionWithOverlaps": "image.non_max_suppression_overlaps",
    "RGBToHSV": "image.rgb_to_hsv",
    "ResizeArea": "image.resize_area",
    "ResizeBicubic": "image.resize_bicubic",
    "SampleDistortedBoundingBoxV2": "image.sample_distorted_bounding_box",
    # Fewer bits.
    "Dequantize": "dequantize",
    "FakeQuantWithMinMaxArgs": "fake_quant_with_min_max_args fake_quant_with_min_max_args_gradient",
    "FakeQuantWithMinMaxVars": "fake_quant_with_min_max_vars fake_quant_with_min_max_vars_gradient",
    "FakeQuantWithMinMaxVarsPerChannel": "fake_quant_with_min_max_vars_per_channel fake_quant_with_min_max_vars_per_channel_gradient",
    "QuantizeV2": "quantize quantize_v2",
    "QuantizedConcat": "quantized_concat",
}

MISSING_OPS = {
    **{name: f"there is no op {op}" for op, names in _BY_OP.items() for name in names.split()},
    **{f"signal.{name}": _FOURIER for name in [*_TRANSFORMS, "stft", "inverse_stft", "inverse_stft_window_fn", "mfccs_from_log_mel_spectrograms"]},
    **{name: _FOURIER for name in _TRANSFORMS[:6]},
    "spectral.*": _FOURIER,
    "quantization.*": "there are no ops for quantized numbers",
    "raw_ops.*": "the catalogue has no such op",
    "linalg.expm": "rarely used; tf.matmul in a series does it",
    **{
        f"linalg.LinearOperator{kind}": "operators without a matrix are a library above tf.linalg"
        for kind in (
            "",
            *"Adjoint BlockDiag Circulant Circulant2D Circulant3D Composition Diag FullMatrix Householder Identity Inversion Kronecker".split(),
            *"LowRankUpdate LowerTriangular ScaledIdentity Toeplitz Zeros".split(),
        )
    },
    "image.ssim_multiscale": "rarely used; tf.image.ssim of images halved by tf.nn.avg_pool does it",
    "debugging.get_log_device_placement": "for eager execution; use tf.ConfigProto(log_device_placement=True)",
    "debugging.set_log_device_placement": "for eager execution; use tf.ConfigProto(log_device_placement=True)",
    "random.experimental.*": "generators with a state of their own came with TensorFlow 2",
    "ragged.*": "there are no ragged tensors; pad, or use a SparseTensor",
    "RaggedTensor": "there are no ragged tensors; pad, or use a SparseTensor",
    "RaggedTensorSpec": "there are no ragged tensors; pad, or use a SparseTensor",
    "strings.ngrams": "it gives ragged tensors",
    "strings.bytes_split": "it gives ragged tensors",
}
