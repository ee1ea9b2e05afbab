"""What TensorFlow 1.15 has and this package lacks, with the reason.

`MISSING` has names below `tf.`; a name that ends in `.*` stands for all below it. `tensorfleet.missing("script.py")` and the
table in the documentation read it.
"""

from tensorfleet.framework.missing_ops import MISSING_OPS

#: Name below `tf.` -> reason.
MISSING = {
    "CriticalSection": "there is no op MutexLock",
    "Module": "a class of TensorFlow 2; use tf.layers or tf.make_template",
    "function": "traces functions of TensorFlow 2; a graph is built directly here",
    "wrap_function": "for functions of TensorFlow 2",
    "vectorized_map": "rewrites graphs; use tf.map_fn",
    "nondifferentiable_batch_function": "there is no op BatchFunction",
    "get_session_handle": "there is no op GetSessionHandle; keep values in variables",
    "get_session_tensor": "there is no op GetSessionTensor",
    "delete_session_tensor": "there is no op DeleteSessionTensor",
    "config.*": "settings of TensorFlow 2's runtime; give a ConfigProto to the session or the server",
    "experimental.*": "for functions of TensorFlow 2",
    **MISSING_OPS,
    "estimator.*": "estimators are a framework above tf.train, which is here",
    "keras.*": "Keras is a framework of its own",
    "lite.*": "for phones",
    "tpu.*": "for TPUs",
    "autograph.*": "rewrites Python code; write tf.cond and tf.while_loop",
    "distribute.*": "strategies of TensorFlow 2; use parameter servers or SyncReplicasOptimizer",
    "distributions.*": "moved to TensorFlow Probability",
    "feature_column.*": "for estimators; use tf.nn.embedding_lookup and tf.layers",
    "profiler.*": "use tf.RunMetadata and the timeline",
    # Code in C++.
    "load_op_library": "ops in C++ cannot be loaded; an op of your own is tf.py_func, or written in Rust",
    "load_library": "ops in C++ cannot be loaded; an op of your own is tf.py_func, or written in Rust",
    "load_file_system_library": "file systems in C++ cannot be loaded",
    # Training.
    "GradientTape": "records eager execution; tf.gradients differentiates graphs",
    "train.experimental.*": "loss scaling for half precision on GPUs, and state of Python objects for TensorFlow 2",
    "train.sdca_optimizer": "an op for linear models of estimators; use FtrlOptimizer",
    "train.sdca_fprint": "an op for linear models of estimators",
    "train.sdca_shrink_l1": "an op for linear models of estimators; use ProximalGradientDescentOptimizer",
    "train.do_quantize_training_on_graphdef": "training for quantised kernels of phones",
    # Input and tf.data.
    "LMDBReader": "LMDB files cannot be read; convert them to TFRecords",
    "decode_compressed": "there is no op DecodeCompressed; readers and datasets take compressed files",
    "decode_json_example": "there is no op DecodeJSONExample; json_format of Protocol Buffers converts",
    "parse_single_sequence_example": "there is no op ParseSequenceExample; use FixedLenSequenceFeature with tf.parse_example",
    "io.decode_compressed": "there is no op DecodeCompressed; readers and datasets take compressed files",
    "io.decode_json_example": "there is no op DecodeJSONExample; json_format of Protocol Buffers converts",
    "io.decode_proto": "there is no op DecodeProtoV2",
    "io.encode_proto": "there is no op EncodeProto",
    "io.parse_sequence_example": "there is no op ParseSequenceExample; use FixedLenSequenceFeature with tf.parse_example",
    "io.parse_single_sequence_example": "there is no op ParseSequenceExample; use FixedLenSequenceFeature with tf.parse_example",
    "lookup.experimental.DenseHashTable": "there is no op MutableDenseHashTable; use tf.contrib.lookup.MutableHashTable",
    "py_function": "runs eagerly; use tf.py_func",
    "TensorArraySpec": "tensor arrays are no elements of datasets or arguments of functions here",
    "IndexedSlicesSpec": "for functions of TensorFlow 2",
    "data.experimental.CheckpointInputPipelineHook": "the place in a pipeline is not kept in checkpoints",
    "data.experimental.make_saveable_from_iterator": "the place in a pipeline is not kept in checkpoints",
    "data.experimental.CsvDataset": "there is no op CSVDataset; use TextLineDataset and tf.decode_csv",
    "data.experimental.make_csv_dataset": "there is no op CSVDataset; use TextLineDataset and tf.decode_csv",
    "data.experimental.RaggedTensorStructure": "there are no ragged tensors",
    "data.experimental.TensorArrayStructure": "tensor arrays are no elements of datasets here",
    "data.experimental.Reducer": "there is no op GroupByReducerDataset; use group_by_window",
    "data.experimental.group_by_reducer": "there is no op GroupByReducerDataset; use group_by_window",
    "data.experimental.SqlDataset": "databases cannot be read; use from_generator",
    "data.experimental.StatsAggregator": "statistics of pipelines are not gathered",
    "data.experimental.bytes_produced_stats": "statistics of pipelines are not gathered",
    "data.experimental.latency_stats": "statistics of pipelines are not gathered",
    "data.experimental.TFRecordWriter": "there is no op DatasetToTFRecord; use tf.python_io.TFRecordWriter",
    "data.experimental.copy_to_device": "for GPUs",
    "data.experimental.prefetch_to_device": "for GPUs",
    "data.experimental.dense_to_sparse_batch": "there is no op DenseToSparseBatchDataset; use padded_batch",
    "data.experimental.rejection_resample": "use filter, or sample_from_datasets",
    "data.experimental.unique": "there is no op UniqueDataset",
    # Flags: what TensorFlow's module happens to import.
    "app.flags.tf_decorator.*": "a helper inside TensorFlow's own code",
    "app.flags.absolute_import": "an import for Python 2",
    "app.flags.division": "an import for Python 2",
    "app.flags.print_function": "an import for Python 2",
    # supervision
    "train.Checkpoint": "checkpoints of objects are TensorFlow 2's; use tf.train.Saver",
    "train.CheckpointManager": "for checkpoints of objects; tf.train.Saver keeps the newest few by itself",
    "train.experimental.*": "mixed precision is for GPUs; checkpoints of objects are TensorFlow 2's",
    "train.VocabInfo": "for warm starts of estimators; use tf.train.init_from_checkpoint",
    "train.warm_start": "for estimators; use tf.train.init_from_checkpoint",
    "train.do_quantize_training_on_graphdef": "quantized ops are not in the catalogue",
    "train.sdca_fprint": "an op for linear models of estimators",
    "train.sdca_optimizer": "an op for linear models of estimators",
    "train.sdca_shrink_l1": "an op for linear models of estimators",
    "saved_model.load_v2": "models of objects are TensorFlow 2's; use tf.saved_model.load",
    "saved_model.save": "models of objects are TensorFlow 2's; use tf.saved_model.simple_save",
    "saved_model.experimental.*": "models of objects are TensorFlow 2's",
    "saved_model.SaveOptions": "models of objects are TensorFlow 2's",
    "saved_model.Asset": "models of objects are TensorFlow 2's",
}


#: Names of `tf.nn`, `tf.layers`, `tf.initializers` and `tf.contrib` whose ops the catalogue lacks, or that few programs use.
_THREE_DIMENSIONS = "the catalogue has no ops for three spatial dimensions"
_CTC = "the catalogue has no ops for connectionist temporal classification"
_QUANTIZED = "quantized ops are not in the catalogue"
MISSING.update({
    **dict.fromkeys(
        ("nn.conv3d", "nn.conv3d_transpose", "nn.conv3d_backprop_filter", "nn.conv3d_backprop_filter_v2", "nn.max_pool3d", "nn.avg_pool3d"), _THREE_DIMENSIONS
    ),
    **dict.fromkeys(
        ("layers.Conv3D", "layers.Conv3DTranspose", "layers.MaxPooling3D", "layers.AveragePooling3D", "layers.conv3d", "layers.conv3d_transpose", "layers.max_pooling3d"), _THREE_DIMENSIONS
    ),
    "layers.average_pooling3d": _THREE_DIMENSIONS,
    **dict.fromkeys(("nn.ctc_loss", "nn.ctc_loss_v2", "nn.ctc_greedy_decoder", "nn.ctc_beam_search_decoder", "nn.ctc_beam_search_decoder_v2"), _CTC),
    **dict.fromkeys(("nn.ctc_unique_labels", "nn.collapse_repeated"), _CTC),
    **dict.fromkeys(("nn.dilation2d", "nn.erosion2d"), "the catalogue has no op Dilation2D"),
    **dict.fromkeys(("nn.fractional_max_pool", "nn.fractional_avg_pool"), "the catalogue has no ops for fractional pools"),
    **dict.fromkeys(("nn.quantized_avg_pool", "nn.quantized_conv2d", "nn.quantized_max_pool", "nn.quantized_relu_x"), _QUANTIZED),
    **dict.fromkeys(("initializers.orthogonal", "orthogonal_initializer"), "the catalogue has no op Qr"),
    **dict.fromkeys(("layers.experimental.keras_style_scope", "layers.experimental.set_keras_style"), "Keras is a framework of its own"),
    **dict.fromkeys(("contrib.layers.conv3d", "contrib.layers.max_pool3d", "contrib.layers.avg_pool3d", "contrib.layers.conv3d_transpose"), _THREE_DIMENSIONS),
    "contrib.layers.input_from_feature_columns": "feature columns are for estimators; use tf.nn.embedding_lookup and tf.layers",
    "contrib.layers.group_norm": "not written yet; use layer_norm or instance_norm",
    "contrib.rnn.AttentionCellWrapper": "not written yet; use tf.nn.dynamic_rnn and your own attention",
    **dict.fromkeys(("contrib.rnn.LSTMBlockCell", "contrib.rnn.GRUBlockCell", "contrib.rnn.LSTMBlockFusedCell"), "fused cells are not in the catalogue; use LSTMCell or GRUCell"),
    "contrib.seq2seq.*": "not written yet; use tf.nn.dynamic_rnn and tf.nn.raw_rnn",
    "contrib.learn.*": "estimators of before TensorFlow 1.4, except learn.datasets; use tf.train",
    "contrib.slim.nets.*": "model definitions: copy the one you need, slim's layers are here",
    "contrib.slim.dataset.*": "use tf.data",
    "contrib.slim.dataset_data_provider.*": "use tf.data",
    "contrib.slim.tfexample_decoder.*": "use tf.parse_single_example",
    "contrib.opt.*": "rarely used optimizers; derive from tf.train.Optimizer",
})


def reason(name):
    """Why a name below `tf.` is missing, or `None` if it is not known to be."""
    if name in MISSING:
        return MISSING[name]
    parts = name.split(".")
    for depth in range(len(parts), 0, -1):
        why = MISSING.get(".".join(parts[:depth]) + ".*")
        if why is not None:
            return why
    return None


def text(name):
    """What is said of a name that is not there."""
    why = reason(name)
    if why is not None:
        return f"tensorfleet has no tf.{name} (TensorFlow 1.x has): {why}; see tensorfleet.missing()"
    return f"tensorfleet has no tf.{name}; tensorfleet.missing('script.py') lists what a script uses and tensorfleet lacks"
