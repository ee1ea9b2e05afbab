"""TensorFlow's own modules that programs import by path, and where we have what is in them.

A path stands without its first part, `tensorflow`. What it holds is looked up in its sources, in order: `tf` and `tf.nn` are namespaces of the public
names, `gen` is the generated functions of ops (`relu_grad` is the op `ReluGrad`), and anything else is a module of this package."""

#: Path below `tensorflow` -> sources.
PATHS = {
    "python.client.device_lib": "client.device_lib",
    "python.client.session": "client.session tf",
    "python.client.timeline": "client.timeline",
    "python.data.ops.dataset_ops": "tf.data tf.compat.v1.data",
    "python.data.ops.iterator_ops": "tf.data",
    "python.data.ops.readers": "tf.data",
    "python.eager.context": "standin.eager",
    "python.framework.common_shapes": "framework.tensor_shape",
    "python.framework.constant_op": "framework.constant tf",
    "python.framework.device": "framework.device tf",
    "python.framework.dtypes": "framework.dtypes tf.dtypes tf",
    "python.framework.errors": "framework.errors tf.errors",
    "python.framework.errors_impl": "framework.errors tf.errors",
    "python.framework.framework_lib": "tf",
    "python.framework.function": "tf.contrib.framework tf",
    "python.framework.graph_util": "tf.graph_util",
    "python.framework.graph_util_impl": "tf.graph_util",
    "python.framework.importer": "tf.graph_util tf",
    "python.framework.meta_graph": "training.meta_graph tf.train tf",
    "python.framework.op_def_library": "framework.op_library",
    "python.framework.ops": "framework.ops framework.graph framework.operation framework.tensor framework.keys framework.conversion tf standin.internals",
    "python.framework.random_seed": "framework.random_seed tf.random tf",
    "python.framework.smart_cond": "tf.contrib.framework",
    "python.framework.sparse_tensor": "framework.composite tf.sparse tf",
    "python.framework.tensor_shape": "framework.tensor_shape tf",
    "python.framework.tensor_spec": "tf",
    "python.framework.tensor_util": "framework.tensor_util framework.constant tf",
    "python.framework.test_util": "platform.test tf.test",
    "python.framework.versions": "platform.versions",
    "python.layers.base": "modeling.layers.base modeling.layers tf.layers",
    "python.layers.convolutional": "tf.layers",
    "python.layers.core": "tf.layers",
    "python.layers.layers": "tf.layers",
    "python.layers.normalization": "tf.layers",
    "python.layers.pooling": "tf.layers",
    "python.layers.utils": "tf.contrib.framework tf.contrib.layers",
    "python.lib.io.file_io": "platform.file_io",
    "python.lib.io.python_io": "tf.python_io",
    "python.lib.io.tf_record": "tf.python_io tf.io",
    "python.ops.array_ops": "tf tf.sparse gen",
    "python.ops.array_grad": "tf",
    "python.ops.bitwise_ops": "tf.bitwise gen",
    "python.ops.candidate_sampling_ops": "tf.nn tf.random",
    "python.ops.check_ops": "tf tf.debugging",
    "python.ops.clip_ops": "tf",
    "python.ops.confusion_matrix": "tf.math tf",
    "python.ops.cond_v2": "tf",
    "python.ops.control_flow_ops": "ops.control_flow tf gen",
    "python.ops.control_flow_util": "ops.control_flow",
    "python.ops.ctc_ops": "tf.nn",
    "python.ops.custom_gradient": "tf",
    "python.ops.data_flow_ops": "input.queues input.accumulators tf.queue tf gen",
    "python.ops.embedding_ops": "tf.nn",
    "python.ops.functional_ops": "tf",
    "python.ops.gradient_checker": "platform.gradient_checker tf.test",
    "python.ops.gradients": "tf",
    "python.ops.gradients_impl": "tf",
    "python.ops.histogram_ops": "tf",
    "python.ops.image_ops": "tf.image",
    "python.ops.image_ops_impl": "tf.image",
    "python.ops.init_ops": "tf.initializers tf",
    "python.ops.inplace_ops": "gen",
    "python.ops.io_ops": "tf.io tf gen",
    "python.ops.linalg_ops": "tf.linalg tf gen",
    "python.ops.linalg.linalg": "tf.linalg",
    "python.ops.logging_ops": "tf tf.summary gen",
    "python.ops.lookup_ops": "tf.lookup tf.tables tf tf.contrib.lookup",
    "python.ops.losses.losses": "tf.losses",
    "python.ops.losses.losses_impl": "tf.losses",
    "python.ops.losses.util": "tf.losses",
    "python.ops.math_ops": "tf.math tf gen",
    "python.ops.metrics": "tf.metrics",
    "python.ops.metrics_impl": "tf.metrics",
    "python.ops.nn": "tf.nn gen",
    "python.ops.nn_impl": "tf.nn",
    "python.ops.nn_ops": "tf.nn tf gen",
    "python.ops.numerics": "tf tf.debugging",
    "python.ops.parsing_ops": "tf.io tf gen",
    "python.ops.partitioned_variables": "tf",
    "python.ops.random_ops": "tf.random tf gen",
    "python.ops.resource_variable_ops": "ops.variables tf standin.internals gen",
    "python.ops.rnn": "tf.nn",
    "python.ops.rnn_cell": "tf.nn.rnn_cell tf.contrib.rnn",
    "python.ops.rnn_cell_impl": "modeling.rnn_cell tf.nn.rnn_cell tf.contrib.rnn",
    "python.ops.script_ops": "tf",
    "python.ops.sdca_ops": "gen",
    "python.ops.session_ops": "tf",
    "python.ops.sets": "tf.sets",
    "python.ops.sets_impl": "tf.sets",
    "python.ops.signal.signal": "tf.signal",
    "python.ops.sparse_ops": "tf.sparse tf gen",
    "python.ops.special_math_ops": "tf.math tf",
    "python.ops.standard_ops": "tf",
    "python.ops.state_ops": "tf gen",
    "python.ops.string_ops": "tf.strings tf gen",
    "python.ops.summary_ops": "tf.summary gen",
    "python.ops.template": "tf",
    "python.ops.tensor_array_ops": "tf gen",
    "python.ops.variable_scope": "ops.variable_scope tf",
    "python.ops.variables": "ops.variables tf",
    "python.ops.weights_broadcast_ops": "modeling.loss_weights tf.losses",
    "python.ops.while_v2": "tf",
    "python.platform.app": "platform.app",
    "python.platform.flags": "platform.flags",
    "python.platform.gfile": "tf.gfile platform.file_io",
    "python.platform.googletest": "platform.test tf.test",
    "python.platform.resource_loader": "platform.resource_loader",
    "python.platform.sysconfig": "tf.sysconfig",
    "python.platform.test": "tf.test platform.test",
    "python.platform.tf_logging": "platform.tf_logging",
    "python.saved_model.builder": "tf.saved_model.builder tf.saved_model",
    "python.saved_model.builder_impl": "tf.saved_model.builder tf.saved_model",
    "python.saved_model.constants": "tf.saved_model.constants tf.saved_model",
    "python.saved_model.loader": "tf.saved_model.loader tf.saved_model",
    "python.saved_model.loader_impl": "tf.saved_model.loader tf.saved_model",
    "python.saved_model.main_op": "tf.saved_model.main_op",
    "python.saved_model.saved_model": "tf.saved_model",
    "python.saved_model.signature_constants": "tf.saved_model.signature_constants tf.saved_model",
    "python.saved_model.signature_def_utils": "tf.saved_model.signature_def_utils tf.saved_model",
    "python.saved_model.signature_def_utils_impl": "tf.saved_model.signature_def_utils tf.saved_model",
    "python.saved_model.simple_save": "tf.saved_model",
    "python.saved_model.tag_constants": "tf.saved_model.tag_constants tf.saved_model",
    "python.saved_model.utils": "tf.saved_model.utils tf.saved_model",
    "python.summary.summary": "tf.summary",
    "python.summary.summary_iterator": "tf.train",
    "python.summary.writer.event_file_writer": "summaries.writer tf.summary",
    "python.summary.writer.writer": "tf.summary",
    "python.summary.writer.writer_cache": "tf.summary",
    "python.tools.inspect_checkpoint": "standin.inspect_checkpoint",
    "python.training.input": "tf.train",
    "python.training.saver": "training.saver tf.train tf",
    "python.training.session_run_hook": "tf.train",
    "python.training.summary_io": "standin.summary_io",
    "python.training.training": "tf.train",
    "python.training.training_util": "tf.train",
    "python.util.all_util": "standin.internals",
    "python.util.compat": "platform.compat",
    "python.util.deprecation": "standin.internals",
    "python.util.keyword_args": "standin.internals",
    "python.util.nest": "platform.nest",
    "python.util.tf_contextlib": "standin.internals",
    "python.util.tf_decorator": "standin.internals",
    "python.util.tf_export": "standin.internals",
    "python.util.tf_inspect": "standin.internals inspect",
    "python.pywrap_tensorflow": "standin.pywrap tf.train",
    "python.pywrap_tensorflow_internal": "standin.pywrap tf.train",
    "tools.graph_transforms": "standin.pywrap",
    "examples.tutorials.mnist.input_data": "tutorials.mnist_data",
    "examples.tutorials.mnist.mnist": "tutorials.mnist_model",
    "contrib.learn.python.learn.datasets.mnist": "tutorials.mnist_data",
    "contrib.learn.python.learn.datasets.base": "tutorials.mnist_data",
}

#: What begins like this is looked up there; `{}` is the part of the path that the star stands for.
FAMILIES = (
    ("python.ops.gen_", "gen"),
    ("python.training.", "training.{} tf.train tf"),
    ("contrib.", "tf.contrib.{}"),
)


def sources(path):
    """Where to look for what a module of TensorFlow holds: a list, or None if we know nothing of it. `path` is without `tensorflow.`."""
    listed = PATHS.get(path)
    if listed is not None:
        return listed.split()
    for start, where in FAMILIES:
        if not path.startswith(start):
            continue
        rest = path[len(start):]
        if start == "contrib.":
            # The files of a contrib package lie below `python`; its public names are those of the package.
            if ".python" not in rest:
                return None
            rest = rest.partition(".python")[0]
        elif "." in rest:
            return None
        return where.format(rest).split()
    return None


def is_package(path):
    """Whether modules we know lie below this path."""
    from tensorfleet.protobuf import modules

    prefix = path + "."
    if any(known.startswith(prefix) for known in PATHS):
        return True
    messages = ("core." + known if not known.startswith("tensorflow.") else known[len("tensorflow."):] for known in modules.MODULES)
    return any(known.startswith(prefix) for known in messages)
