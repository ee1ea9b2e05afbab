"""Looking into checkpoints, and starting variables with their values."""

import time

from tensorfleet import _native
from tensorfleet.framework import dtypes, gen, ops
from tensorfleet.framework.export import export
from tensorfleet.ops import variables
from tensorfleet.ops.partitioned_variable import PartitionedVariable
from tensorfleet.platform import compat
from tensorfleet.platform import tf_logging as logging
from tensorfleet.training import checkpoint_management


class CheckpointReader:
    """An open checkpoint."""

    def __init__(self, filename):
        self._native = _native.CheckpointReader(checkpoint_management._path(filename))
        self._tensors = {name: (dtypes.as_dtype(dtype), list(shape)) for name, dtype, shape in self._native.tensors()}

    def get_variable_to_shape_map(self):
        return {name: shape for name, (_, shape) in self._tensors.items()}

    def get_variable_to_dtype_map(self):
        return {name: dtype for name, (dtype, _) in self._tensors.items()}

    def has_tensor(self, tensor_str):
        return compat.as_text(tensor_str) in self._tensors

    def get_tensor(self, tensor_str):
        return self._native.tensor(compat.as_text(tensor_str))

    def debug_string(self):
        from tensorfleet.protobuf import DataType

        lines = []
        for name, (dtype, shape) in sorted(self._tensors.items()):
            dims = ",".join(str(dim) for dim in shape)
            lines.append(f"{name} ({DataType.Name(dtype.as_datatype_enum)}) [{dims}]")
        return "\n".join(lines).encode() + b"\n"


@export("train.NewCheckpointReader")
def NewCheckpointReader(filepattern):
    """Opens a checkpoint by its prefix."""
    return CheckpointReader(filepattern)


def _get_checkpoint_filename(ckpt_dir_or_file):
    import os

    if os.path.isdir(ckpt_dir_or_file):
        return checkpoint_management.latest_checkpoint(ckpt_dir_or_file)
    return ckpt_dir_or_file


@export("train.load_checkpoint")
def load_checkpoint(ckpt_dir_or_file):
    """Opens a checkpoint, or the newest one of a directory."""
    filename = _get_checkpoint_filename(ckpt_dir_or_file)
    if filename is None:
        raise ValueError("Couldn't find 'checkpoint' file or checkpoints in given directory %s" % ckpt_dir_or_file)
    return CheckpointReader(filename)


@export("train.load_variable")
def load_variable(ckpt_dir_or_file, name):
    """The value of a variable in a checkpoint."""
    if name.endswith(":0"):
        name = name[:-2]
    return load_checkpoint(ckpt_dir_or_file).get_tensor(name)


@export("train.list_variables")
def list_variables(ckpt_dir_or_file):
    """Names and shapes of the variables of a checkpoint."""
    shapes = load_checkpoint(ckpt_dir_or_file).get_variable_to_shape_map()
    return [(name, shapes[name]) for name in sorted(shapes)]


@export("train.checkpoints_iterator")
def checkpoints_iterator(checkpoint_dir, min_interval_secs=0, timeout=None, timeout_fn=None):
    """Gives each new checkpoint of a directory when it appears."""
    checkpoint_path = None
    while True:
        new = wait_for_new_checkpoint(checkpoint_dir, checkpoint_path, timeout=timeout)
        if new is None:
            if not timeout_fn:
                logging.info("Timed-out waiting for a checkpoint.")
                return
            if timeout_fn():
                return
            continue
        start = time.time()
        checkpoint_path = new
        yield checkpoint_path
        rest = start + min_interval_secs - time.time()
        if rest > 0:
            time.sleep(rest)


def wait_for_new_checkpoint(checkpoint_dir, last_checkpoint=None, seconds_to_sleep=1, timeout=None):
    """Waits until a directory has another newest checkpoint than `last_checkpoint`; `None` after the timeout."""
    stop = None if timeout is None else time.time() + timeout
    while True:
        newest = checkpoint_management.latest_checkpoint(checkpoint_dir)
        if newest is not None and newest != last_checkpoint:
            return newest
        if stop is not None and time.time() + seconds_to_sleep > stop:
            return None
        time.sleep(seconds_to_sleep)


def _is_part(value):
    return isinstance(value, variables.Variable) and value._get_save_slice_info() is not None


def _variable_of(current):
    """A variable, a partitioned one, or the list of parts of one, with its name and shape."""
    if isinstance(current, PartitionedVariable):
        current = list(current)
    if isinstance(current, (list, tuple)) and current and all(_is_part(part) for part in current):
        info = current[0]._get_save_slice_info()
        return list(current), info.full_name, list(info.full_shape)
    if isinstance(current, variables.Variable):
        return current, current.op.name, current.shape.as_list()
    return None


@export("train.init_from_checkpoint")
def init_from_checkpoint(ckpt_dir_or_file, assignment_map):
    """Makes the initializers of variables read a checkpoint. The map has names of tensors or scopes, and variables or scopes."""
    path = _get_checkpoint_filename(ckpt_dir_or_file)
    reader = load_checkpoint(ckpt_dir_or_file)
    shapes = reader.get_variable_to_shape_map()
    pairs = assignment_map.items() if isinstance(assignment_map, dict) else assignment_map
    for tensor_name, current in sorted(pairs, key=lambda pair: pair[0]):
        found = _variable_of(current)
        if found is None and isinstance(current, str):
            by_name = {variable.op.name: variable for variable in ops.get_collection(ops.GraphKeys.GLOBAL_VARIABLES)}
            if current in by_name:
                found = _variable_of(by_name[current])
        if found is not None:
            if tensor_name not in shapes:
                raise ValueError("Tensor %s is not found in %s checkpoint %s" % (tensor_name, ckpt_dir_or_file, shapes))
            _set_from_checkpoint(found, path, tensor_name, shapes, ckpt_dir_or_file)
            continue
        if not isinstance(current, str):
            raise ValueError("Assignment map value must be a variable, a list of its parts, or a scope, got %r" % (current,))
        _init_scope(tensor_name, current, path, shapes, ckpt_dir_or_file)


def _init_scope(tensor_name, scope, path, shapes, ckpt_dir_or_file):
    scopes = "" if scope == "/" else scope.rstrip("/")
    tensor_name = "" if tensor_name == "/" else tensor_name
    if tensor_name and not tensor_name.endswith("/"):
        raise ValueError("Assignment map with scope only name {} should map to scope only {}. Should be 'scope/': 'other_scope/'.".format(scopes, tensor_name))
    parts, found = {}, False
    for variable in ops.get_collection(ops.GraphKeys.GLOBAL_VARIABLES):
        info = variable._get_save_slice_info()
        name = info.full_name if info is not None else variable.op.name
        if not scopes or name.startswith(scopes + "/"):
            parts.setdefault(name, []).append(variable)
    for name, held in parts.items():
        full = tensor_name + (name[len(scopes) + 1 :] if scopes else name)
        if full.endswith("/"):
            full = full[:-1]
        if full not in shapes:
            raise ValueError("Tensor %s (%s in %s) is not found in %s checkpoint" % (full, name[len(scopes) + 1 :], tensor_name, ckpt_dir_or_file))
        found = True
        _set_from_checkpoint(_variable_of(held if _is_part(held[0]) else held[0]), path, full, shapes, ckpt_dir_or_file)
    if not found:
        logging.warning("No variables in scope %s", scope)


def _set_from_checkpoint(found, path, tensor_name, shapes, ckpt_dir_or_file):
    variable, name, shape = found
    if None not in shape and list(shape) != list(shapes[tensor_name]):
        raise ValueError(
            "Shape of variable %s (%s) doesn't match with shape of tensor %s (%s) from checkpoint reader." % (name, str(shape), tensor_name, str(shapes[tensor_name]))
        )
    for part in variable if isinstance(variable, list) else [variable]:
        _set_checkpoint_initializer(part, path, tensor_name)
    logging.debug("Initialize variable %s from checkpoint %s with %s", name, ckpt_dir_or_file, tensor_name)


def _set_checkpoint_initializer(variable, path, tensor_name, name="checkpoint_initializer"):
    """Makes the initializer of a variable read a tensor of a checkpoint."""
    info = variable._get_save_slice_info()
    base_type = variable.dtype.base_dtype
    with ops.device(variable.device), ops.device("/cpu:0"):
        restored = gen.RestoreV2(path, [tensor_name], [info.spec if info else ""], dtypes=[base_type], name=name)
    restored = restored[0] if isinstance(restored, (list, tuple)) else restored
    restored.set_shape(variable.shape)
    variable._initial_value = restored
    variable._initializer_op = variable.assign(restored, read_value=False) if variable._is_resource else gen.Assign(variable._ref(), restored).op
