"""Lists names that programs import from TensorFlow's own modules and that are not there.

    python python/tests/check_import_paths.py

Ends with 1 if anything is missing.
"""

import importlib
import sys

import tensorfleet

#: Path below `tensorflow`, and the names that programs take from it.
WANTED = """
python.framework.ops Tensor Operation Graph name_scope GraphKeys convert_to_tensor RegisterGradient NoGradient NotDifferentiable IndexedSlices get_default_graph control_dependencies colocate_with device add_to_collection get_collection reset_default_graph get_default_session register_tensor_conversion_function init_scope internal_convert_to_tensor prepend_name_scope get_name_scope strip_name_scope op_scope
python.framework.dtypes float32 as_dtype DType
python.framework.constant_op constant
python.framework.tensor_util make_tensor_proto constant_value MakeNdarray make_ndarray is_tensor
python.framework.tensor_shape TensorShape as_shape scalar unknown_shape Dimension
python.framework.errors OpError OutOfRangeError AbortedError
python.framework.random_seed get_seed set_random_seed
python.framework.graph_util extract_sub_graph convert_variables_to_constants
python.framework.sparse_tensor SparseTensor SparseTensorValue
python.framework.importer import_graph_def
python.framework.meta_graph export_scoped_meta_graph import_scoped_meta_graph read_meta_graph_file
python.framework.device DeviceSpec
python.framework.function Defun
python.ops.array_ops placeholder reshape shape concat zeros ones expand_dims identity stack unstack gather where split zeros_like ones_like
python.ops.math_ops matmul add multiply reduce_mean cast sigmoid tanh
python.ops.nn_ops bias_add softmax conv2d max_pool relu
python.ops.control_flow_ops cond while_loop group no_op with_dependencies tuple case switch merge
python.ops.variable_scope get_variable variable_scope get_variable_scope VariableScope AUTO_REUSE
python.ops.variables Variable trainable_variables global_variables PartitionedVariable
python.ops.init_ops truncated_normal_initializer constant_initializer zeros_initializer glorot_uniform_initializer VarianceScaling variance_scaling_initializer
python.ops.state_ops assign assign_add assign_sub scatter_update is_variable_initialized
python.ops.data_flow_ops FIFOQueue RandomShuffleQueue StagingArea ConditionalAccumulator QueueBase PaddingFIFOQueue dynamic_stitch
python.ops.rnn dynamic_rnn static_rnn bidirectional_dynamic_rnn
python.ops.rnn_cell_impl RNNCell LSTMStateTuple BasicLSTMCell LSTMCell GRUCell _linear
python.ops.gradients gradients
python.ops.clip_ops clip_by_global_norm clip_by_value
python.ops.embedding_ops embedding_lookup
python.ops.random_ops random_uniform truncated_normal
python.ops.logging_ops Print scalar_summary
python.ops.parsing_ops parse_example FixedLenFeature
python.ops.lookup_ops HashTable index_table_from_tensor tables_initializer
python.ops.resource_variable_ops ResourceVariable is_resource_variable
python.ops.gen_nn_ops relu_grad conv2d_backprop_input max_pool_grad
python.ops.gen_array_ops broadcast_gradient_args
python.ops.gen_math_ops mat_mul sigmoid_grad
python.training.moving_averages assign_moving_average ExponentialMovingAverage
python.training.saver Saver latest_checkpoint get_checkpoint_state checkpoint_exists
python.training.optimizer Optimizer
python.training.sync_replicas_optimizer SyncReplicasOptimizer
python.training.session_manager SessionManager
python.training.session_run_hook SessionRunHook SessionRunArgs
python.training.basic_session_run_hooks CheckpointSaverHook StopAtStepHook SecondOrStepTimer
python.training.monitored_session MonitoredSession Scaffold ChiefSessionCreator
python.training.queue_runner QueueRunner add_queue_runner start_queue_runners
python.training.coordinator Coordinator
python.training.server_lib Server ClusterSpec
python.training.device_setter replica_device_setter
python.training.training_util get_global_step get_or_create_global_step global_step assert_global_step
python.training.checkpoint_utils load_checkpoint list_variables init_from_checkpoint
python.training.adam AdamOptimizer
python.training.gradient_descent GradientDescentOptimizer
python.training.momentum MomentumOptimizer
python.training.learning_rate_decay exponential_decay
python.training.input batch shuffle_batch string_input_producer
python.training.supervisor Supervisor
python.training.slot_creator create_slot create_zeros_slot
python.training.distribution_strategy_context get_strategy
python.training.summary_io SummaryWriterCache
python.training.checkpoint_management latest_checkpoint
python.layers.base Layer InputSpec
python.layers.utils smart_cond constant_value
python.layers.core Dense dense dropout
python.lib.io.tf_record TFRecordWriter tf_record_iterator
python.lib.io.file_io FileIO recursive_create_dir
python.summary.summary scalar merge_all FileWriter
python.saved_model.signature_constants DEFAULT_SERVING_SIGNATURE_DEF_KEY
python.saved_model.builder SavedModelBuilder
python.saved_model.tag_constants SERVING
python.data.ops.dataset_ops Dataset
python.data.ops.iterator_ops Iterator
python.util.compat as_bytes
python.util.nest flatten
python.util.tf_inspect getargspec getfullargspec
python.util.deprecation deprecated
python.util.tf_export tf_export
python.eager.context executing_eagerly in_graph_mode
python.pywrap_tensorflow NewCheckpointReader
python.tools.inspect_checkpoint print_tensors_in_checkpoint_file
contrib.layers fully_connected l2_regularizer
contrib.framework get_or_create_global_step arg_scope
contrib.slim conv2d arg_scope
contrib.rnn BasicLSTMCell
contrib.training HParams GreedyLoadBalancingStrategy
contrib.layers.python.layers.layers conv2d
"""


def missing():
    """The path and the names that are not there."""
    for line in WANTED.strip().splitlines():
        path, *names = line.split()
        try:
            module = importlib.import_module("tensorflow." + path)
        except ModuleNotFoundError:
            yield path, names
            continue
        absent = [name for name in names if not hasattr(module, name)]
        if absent:
            yield path, absent


def main():
    tensorfleet.install_as_tensorflow(quiet=True)
    found = list(missing())
    for path, names in found:
        print("tensorflow.%s: %s" % (path, " ".join(names)))
    total = sum(len(line.split()) - 1 for line in WANTED.strip().splitlines())
    print("%d of %d names are missing" % (sum(len(names) for _, names in found), total))
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
