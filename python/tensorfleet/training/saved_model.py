"""`tf.saved_model`: a directory with graphs, the values of their variables and signatures, as servers of models read it."""

import os
import shutil

from tensorfleet.framework import ops
from tensorfleet.framework.export import export, export_values
from tensorfleet.framework.keys import GraphKeys
from tensorfleet.platform import compat
from tensorfleet.platform import tf_logging as logging

ASSETS_DIRECTORY, ASSETS_KEY = "assets", "saved_model_assets"
LEGACY_INIT_OP_KEY, MAIN_OP_KEY = "legacy_init_op", "saved_model_main_op"
SAVED_MODEL_FILENAME_PB, SAVED_MODEL_FILENAME_PBTXT = "saved_model.pb", "saved_model.pbtxt"
SAVED_MODEL_SCHEMA_VERSION = 1
VARIABLES_DIRECTORY, VARIABLES_FILENAME = "variables", "variables"
DEBUG_DIRECTORY, DEBUG_INFO_FILENAME_PB = "debug", "saved_model_debug_info.pb"

CLASSIFY_INPUTS, CLASSIFY_METHOD_NAME = "inputs", "tensorflow/serving/classify"
CLASSIFY_OUTPUT_CLASSES, CLASSIFY_OUTPUT_SCORES = "classes", "scores"
DEFAULT_SERVING_SIGNATURE_DEF_KEY = "serving_default"
PREDICT_INPUTS, PREDICT_METHOD_NAME, PREDICT_OUTPUTS = "inputs", "tensorflow/serving/predict", "outputs"
REGRESS_INPUTS, REGRESS_METHOD_NAME, REGRESS_OUTPUTS = "inputs", "tensorflow/serving/regress", "outputs"

GPU, SERVING, TPU, TRAINING = "gpu", "serve", "tpu", "train"

_CONSTANTS = {
    "constants": "ASSETS_DIRECTORY ASSETS_KEY LEGACY_INIT_OP_KEY MAIN_OP_KEY SAVED_MODEL_FILENAME_PB SAVED_MODEL_FILENAME_PBTXT "
    "SAVED_MODEL_SCHEMA_VERSION VARIABLES_DIRECTORY VARIABLES_FILENAME",
    "signature_constants": "CLASSIFY_INPUTS CLASSIFY_METHOD_NAME CLASSIFY_OUTPUT_CLASSES CLASSIFY_OUTPUT_SCORES "
    "DEFAULT_SERVING_SIGNATURE_DEF_KEY PREDICT_INPUTS PREDICT_METHOD_NAME PREDICT_OUTPUTS REGRESS_INPUTS REGRESS_METHOD_NAME REGRESS_OUTPUTS",
    "tag_constants": "GPU SERVING TPU TRAINING",
}
for _module, _names in _CONSTANTS.items():
    export_values(__name__, {f"saved_model.{_module}.{_name}": _name for _name in _names.split()})
    export_values(__name__, {f"saved_model.{_name}": _name for _name in _names.split()})
export_values(__name__, {f"saved_model.{_name}": _name for _name in ("DEBUG_DIRECTORY", "DEBUG_INFO_FILENAME_PB")})


def _message(name):
    from tensorfleet import protobuf

    return getattr(protobuf, name)


# ---- signatures


@export("saved_model.build_tensor_info", "saved_model.utils.build_tensor_info")
def build_tensor_info(tensor):
    """Name, dtype and shape of a tensor."""
    from tensorfleet.framework.composite import SparseTensor

    info = _message("TensorInfo")(dtype=tensor.dtype.base_dtype.as_datatype_enum, tensor_shape=tensor.get_shape().as_proto())
    if isinstance(tensor, SparseTensor):
        info.coo_sparse.values_tensor_name = tensor.values.name
        info.coo_sparse.indices_tensor_name = tensor.indices.name
        info.coo_sparse.dense_shape_tensor_name = tensor.dense_shape.name
    else:
        info.name = tensor.name
    return info


@export("saved_model.get_tensor_from_tensor_info", "saved_model.utils.get_tensor_from_tensor_info")
def get_tensor_from_tensor_info(tensor_info, graph=None, import_scope=None):
    """The tensor of a graph that a signature names."""
    from tensorfleet.framework.composite import SparseTensor

    graph = graph or ops.get_default_graph()

    def tensor(name):
        return graph.get_tensor_by_name(ops.prepend_name_scope(name, import_scope=import_scope))

    encoding = tensor_info.WhichOneof("encoding")
    if encoding == "name":
        return tensor(tensor_info.name)
    if encoding == "coo_sparse":
        held = tensor_info.coo_sparse
        return SparseTensor(tensor(held.indices_tensor_name), tensor(held.values_tensor_name), tensor(held.dense_shape_tensor_name))
    raise ValueError("Invalid TensorInfo.encoding: %s" % encoding)


@export("saved_model.build_signature_def", "saved_model.signature_def_utils.build_signature_def")
def build_signature_def(inputs=None, outputs=None, method_name=None):
    """What a model takes and gives, from tensor infos by name."""
    made = _message("SignatureDef")()
    for field, infos in (("inputs", inputs), ("outputs", outputs)):
        for name in infos or {}:
            getattr(made, field)[name].CopyFrom(infos[name])
    if method_name is not None:
        made.method_name = method_name
    return made


@export("saved_model.predict_signature_def", "saved_model.signature_def_utils.predict_signature_def")
def predict_signature_def(inputs, outputs):
    """The signature of a model that computes tensors from tensors."""
    if not inputs:
        raise ValueError("Prediction inputs cannot be None or empty.")
    if not outputs:
        raise ValueError("Prediction outputs cannot be None or empty.")
    infos = [{key: build_tensor_info(tensor) for key, tensor in held.items()} for held in (inputs, outputs)]
    return build_signature_def(infos[0], infos[1], PREDICT_METHOD_NAME)


@export("saved_model.regression_signature_def", "saved_model.signature_def_utils.regression_signature_def")
def regression_signature_def(examples, predictions):
    """The signature of a model that gives numbers for serialized examples."""
    if examples is None:
        raise ValueError("Regression `examples` cannot be None.")
    if not hasattr(examples, "dtype"):
        raise ValueError("Regression `examples` must be a string Tensor.")
    if predictions is None:
        raise ValueError("Regression `predictions` cannot be None.")
    inputs, outputs = {REGRESS_INPUTS: build_tensor_info(examples)}, {REGRESS_OUTPUTS: build_tensor_info(predictions)}
    if examples.dtype.name != "string":
        raise ValueError("Regression input tensors must be of type string")
    if predictions.dtype.name != "float32":
        raise ValueError("Regression output tensors must be of type float")
    return build_signature_def(inputs, outputs, REGRESS_METHOD_NAME)


@export("saved_model.classification_signature_def", "saved_model.signature_def_utils.classification_signature_def")
def classification_signature_def(examples, classes, scores):
    """The signature of a model that sorts serialized examples into classes."""
    if examples is None:
        raise ValueError("Classification `examples` cannot be None.")
    if classes is None and scores is None:
        raise ValueError("Classification `classes` and `scores` cannot both be None.")
    outputs = {}
    if classes is not None:
        outputs[CLASSIFY_OUTPUT_CLASSES] = build_tensor_info(classes)
    if scores is not None:
        outputs[CLASSIFY_OUTPUT_SCORES] = build_tensor_info(scores)
    return build_signature_def({CLASSIFY_INPUTS: build_tensor_info(examples)}, outputs, CLASSIFY_METHOD_NAME)


@export("saved_model.is_valid_signature", "saved_model.signature_def_utils.is_valid_signature")
def is_valid_signature(signature_def):
    """Whether a server of models would accept a signature."""
    from tensorfleet.framework import dtypes

    if signature_def is None:
        return False
    inputs, outputs, method = signature_def.inputs, signature_def.outputs, signature_def.method_name
    string, single = dtypes.string.as_datatype_enum, dtypes.float32.as_datatype_enum
    if method == PREDICT_METHOD_NAME:
        return len(inputs) >= 1 and len(outputs) >= 1
    if method == REGRESS_METHOD_NAME:
        return set(inputs) == {REGRESS_INPUTS} and inputs[REGRESS_INPUTS].dtype == string and set(outputs) == {REGRESS_OUTPUTS} and outputs[REGRESS_OUTPUTS].dtype == single
    if method == CLASSIFY_METHOD_NAME:
        if set(inputs) != {CLASSIFY_INPUTS} or inputs[CLASSIFY_INPUTS].dtype != string:
            return False
        if not set(outputs) <= {CLASSIFY_OUTPUT_CLASSES, CLASSIFY_OUTPUT_SCORES} or not outputs:
            return False
        return all(outputs[key].dtype == (string if key == CLASSIFY_OUTPUT_CLASSES else single) for key in outputs)
    return False


@export("saved_model.main_op.main_op")
def main_op():
    """Initialises variables, local variables and tables."""
    from tensorfleet.ops import control_flow, variables
    from tensorfleet.training.scaffold import tables_initializer

    return control_flow.group(variables.global_variables_initializer(), variables.local_variables_initializer(), tables_initializer())


@export("saved_model.main_op_with_restore", "saved_model.main_op.main_op_with_restore")
def main_op_with_restore(restore_op_name):
    """Initialises variables and tables, then runs an operation that restores."""
    from tensorfleet.ops import control_flow

    with ops.control_dependencies([main_op()]):
        return control_flow.group(restore_op_name)


# ---- writing


@export("saved_model.Builder", "saved_model.builder.SavedModelBuilder")
class SavedModelBuilder:
    """Writes a model: its variables once, and one or more graphs with signatures."""

    def __init__(self, export_dir):
        self._saved_model = _message("SavedModel")(saved_model_schema_version=SAVED_MODEL_SCHEMA_VERSION)
        self._export_dir = os.fspath(export_dir) if hasattr(export_dir, "__fspath__") else compat.as_text(export_dir)
        if os.path.exists(self._export_dir):
            if os.listdir(self._export_dir):
                raise AssertionError("Export directory already exists, and isn't empty. Please choose a different export directory, or delete all the contents of the specified directory: %s" % self._export_dir)
        else:
            os.makedirs(self._export_dir)
        self._has_saved_variables = False

    def _assets(self, assets_list):
        """Copies files that the model needs; gives their names by path, and writes them into the collection."""
        for asset in assets_list or ():
            value = asset.op.get_attr("value") if hasattr(asset, "op") else None
            path = compat.as_text(value.string_val[0]) if value is not None else compat.as_text(asset)
            directory = os.path.join(self._export_dir, ASSETS_DIRECTORY)
            os.makedirs(directory, exist_ok=True)
            shutil.copyfile(path, os.path.join(directory, os.path.basename(path)))
            held = _message("AssetFileDef")(filename=os.path.basename(path))
            if hasattr(asset, "name"):
                held.tensor_info.name = asset.name
            yield held

    def _tag(self, meta_graph_def, tags, signature_def_map, assets_list):
        for tag in tags:
            meta_graph_def.meta_info_def.tags.append(tag)
        for key in signature_def_map or {}:
            meta_graph_def.signature_def[key].CopyFrom(signature_def_map[key])
        for held in self._assets(assets_list):
            meta_graph_def.asset_file_def.add().CopyFrom(held)
        self._saved_model.meta_graphs.add().CopyFrom(meta_graph_def)

    def _main_op(self, init_op, main_op, legacy_init_op, train_op):
        for key, op in ((MAIN_OP_KEY, main_op or init_op), (LEGACY_INIT_OP_KEY, legacy_init_op), ("saved_model_train_op", train_op)):
            if op is not None:
                ops.add_to_collection(key, op)

    def _saver(self, saver):
        from tensorfleet.training import saver as saver_lib

        return saver or saver_lib.Saver(saver_lib._all_saveable_objects(), sharded=True, write_version=2, allow_empty=True)

    def _meta_graph(self, saver, clear_devices, strip_default_attrs):
        return saver.export_meta_graph(clear_devices=clear_devices, strip_default_attrs=strip_default_attrs)

    def add_meta_graph_and_variables(
        self, sess, tags, signature_def_map=None, assets_collection=None, legacy_init_op=None, clear_devices=False, main_op=None,
        strip_default_attrs=False, saver=None,
    ):
        """Adds the graph of a session, and writes its variables."""
        if self._has_saved_variables:
            raise AssertionError("Graph state including variables and assets has already been saved. Please invoke `add_meta_graph()` instead.")
        with sess.graph.as_default():
            self._main_op(None, main_op, legacy_init_op, None)
            directory = os.path.join(self._export_dir, VARIABLES_DIRECTORY)
            os.makedirs(directory, exist_ok=True)
            saver = self._saver(saver)
            if saver._is_empty is not True:
                saver.save(sess, os.path.join(directory, VARIABLES_FILENAME), write_meta_graph=False, write_state=False)
            self._tag(self._meta_graph(saver, clear_devices, strip_default_attrs), tags, signature_def_map, assets_collection)
        self._has_saved_variables = True

    def add_meta_graph(
        self, tags, signature_def_map=None, assets_collection=None, legacy_init_op=None, clear_devices=False, main_op=None,
        strip_default_attrs=False, saver=None,
    ):
        """Adds the default graph, which uses the variables that were written before."""
        if not self._has_saved_variables:
            raise AssertionError("Graph state including variables and assets has not been saved yet. Please invoke `add_meta_graph_and_variables()` first.")
        self._main_op(None, main_op, legacy_init_op, None)
        self._tag(self._meta_graph(self._saver(saver), clear_devices, strip_default_attrs), tags, signature_def_map, assets_collection)

    def save(self, as_text=False):
        """Writes the file that makes it a model, and gives its path."""
        from tensorfleet.protobuf import text_format

        name = SAVED_MODEL_FILENAME_PBTXT if as_text else SAVED_MODEL_FILENAME_PB
        path = os.path.join(self._export_dir, name)
        content = text_format.MessageToString(self._saved_model).encode() if as_text else self._saved_model.SerializeToString()
        from tensorfleet.training.write_graph import _atomic_write

        _atomic_write(path, content)
        logging.info("SavedModel written to: %s", path)
        return compat.as_bytes(path)


@export("saved_model.simple_save")
def simple_save(session, export_dir, inputs, outputs, legacy_init_op=None):
    """Writes the graph of a session with one signature, for serving."""
    signatures = {DEFAULT_SERVING_SIGNATURE_DEF_KEY: predict_signature_def(inputs, outputs)}
    builder = SavedModelBuilder(export_dir)
    builder.add_meta_graph_and_variables(
        session,
        tags=[SERVING],
        signature_def_map=signatures,
        assets_collection=ops.get_collection(GraphKeys.ASSET_FILEPATHS),
        main_op=legacy_init_op,
        clear_devices=True,
    )
    builder.save()


# ---- reading


def _read(export_dir):
    from tensorfleet.protobuf import text_format

    made = _message("SavedModel")()
    binary, text = (os.path.join(export_dir, name) for name in (SAVED_MODEL_FILENAME_PB, SAVED_MODEL_FILENAME_PBTXT))
    if os.path.exists(binary):
        with open(binary, "rb") as file:
            made.ParseFromString(file.read())
        return made
    if os.path.exists(text):
        with open(text, encoding="utf-8") as file:
            text_format.Merge(file.read(), made)
        return made
    raise IOError("SavedModel file does not exist at: %s/{%s|%s}" % (export_dir, SAVED_MODEL_FILENAME_PBTXT, SAVED_MODEL_FILENAME_PB))


@export("saved_model.maybe_saved_model_directory", "saved_model.loader.maybe_saved_model_directory", "saved_model.contains_saved_model")
def maybe_saved_model_directory(export_dir):
    """Whether a directory holds a model."""
    return any(os.path.exists(os.path.join(export_dir, name)) for name in (SAVED_MODEL_FILENAME_PB, SAVED_MODEL_FILENAME_PBTXT))


@export("saved_model.load", "saved_model.loader.load")
def load(sess, tags, export_dir, import_scope=None, **saver_kwargs):
    """Adds the graph with these tags to the session's graph, restores its variables, and gives its `MetaGraphDef`."""
    from tensorfleet.training import saver as saver_lib

    export_dir = os.fspath(export_dir) if hasattr(export_dir, "__fspath__") else compat.as_text(export_dir)
    found = [held for held in _read(export_dir).meta_graphs if set(held.meta_info_def.tags) == set(tags)]
    if not found:
        raise RuntimeError(
            "MetaGraphDef associated with tags " + str(tags).strip("[]") + " could not be found in SavedModel. To inspect available tag-sets in"
            " the SavedModel, please use the SavedModel CLI: `saved_model_cli`"
        )
    held = found[0]
    with sess.graph.as_default():
        saver, _ = saver_lib._import_meta_graph_with_return_elements(held, import_scope=import_scope, **saver_kwargs)
        path = os.path.join(export_dir, VARIABLES_DIRECTORY, VARIABLES_FILENAME)
        if saver is not None and saver_lib._native.checkpoint_exists(path):
            saver.restore(sess, path)
        assets = {ops.prepend_name_scope(asset.tensor_info.name, import_scope): os.path.join(export_dir, ASSETS_DIRECTORY, asset.filename) for asset in held.asset_file_def}
        for key in (MAIN_OP_KEY, LEGACY_INIT_OP_KEY):
            names = held.collection_def[key].node_list.value if key in held.collection_def else ()
            if names:
                sess.run(sess.graph.as_graph_element(ops.prepend_name_scope(names[0], import_scope)), feed_dict=assets)
                break
        return held

