"""Which checkpoints a directory has: the file `checkpoint` and the names in it."""

import os
import time

from tensorfleet import _native
from tensorfleet.framework.export import export
from tensorfleet.platform import compat
from tensorfleet.platform import tf_logging as logging


def _path(value):
    return value.__fspath__() if hasattr(value, "__fspath__") else compat.as_text(value)


@export("train.generate_checkpoint_state_proto")
def generate_checkpoint_state_proto(
    save_dir, model_checkpoint_path, all_model_checkpoint_paths=None, all_model_checkpoint_timestamps=None, last_preserved_timestamp=None
):
    """A `CheckpointState`; the newest checkpoint is added to the others if it is missing there."""
    from tensorfleet.protobuf import CheckpointState

    paths = list(all_model_checkpoint_paths or [])
    times = list(all_model_checkpoint_timestamps or [])
    if times and len(times) != len(paths):
        raise ValueError(
            "Checkpoint timestamps, if provided, must match checkpoint paths (got paths %s and timestamps %s)" % (paths, times)
        )
    if not paths or paths[-1] != model_checkpoint_path:
        logging.info("%s is not in all_model_checkpoint_paths. Manually adding it.", model_checkpoint_path)
        paths.append(model_checkpoint_path)
        if times:
            times.append(time.time())
    if not os.path.isabs(save_dir):
        # The paths in the file are seen from its directory.
        def seen(path):
            return path if os.path.isabs(path) else os.path.relpath(path, save_dir)

        paths = [seen(path) for path in paths]
        model_checkpoint_path = seen(model_checkpoint_path)
    return CheckpointState(
        model_checkpoint_path=model_checkpoint_path,
        all_model_checkpoint_paths=paths,
        all_model_checkpoint_timestamps=times,
        last_preserved_timestamp=last_preserved_timestamp,
    )


@export("train.update_checkpoint_state")
def update_checkpoint_state(
    save_dir, model_checkpoint_path, all_model_checkpoint_paths=None, latest_filename=None, all_model_checkpoint_timestamps=None,
    last_preserved_timestamp=None,
):
    """Writes the file `checkpoint` of a directory."""
    state = (
        model_checkpoint_path,
        list(all_model_checkpoint_paths or []),
        list(all_model_checkpoint_timestamps or []),
        last_preserved_timestamp,
    )
    _native.update_checkpoint_state(_path(save_dir), latest_filename or "checkpoint", state)


@export("train.get_checkpoint_state")
def get_checkpoint_state(checkpoint_dir, latest_filename=None):
    """What the file `checkpoint` of a directory says, or `None`."""
    from tensorfleet.framework import errors
    from tensorfleet.protobuf import CheckpointState

    checkpoint_dir = _path(checkpoint_dir)
    try:
        found = _native.checkpoint_state(checkpoint_dir, latest_filename or "checkpoint")
    except errors.OpError as error:
        logging.warning("%s: Checkpoint ignored", error)
        return None
    if found is None:
        return None
    newest, paths, times, preserved = found
    return CheckpointState(
        model_checkpoint_path=newest,
        all_model_checkpoint_paths=paths,
        all_model_checkpoint_timestamps=times,
        last_preserved_timestamp=preserved,
    )


@export("train.latest_checkpoint")
def latest_checkpoint(checkpoint_dir, latest_filename=None):
    """The newest complete checkpoint of a directory, or `None`."""
    return _native.latest_checkpoint(_path(checkpoint_dir), latest_filename or "checkpoint")


@export("train.checkpoint_exists")
def checkpoint_exists(checkpoint_prefix):
    """Whether there is a checkpoint with this prefix."""
    return _native.checkpoint_exists(_path(checkpoint_prefix))


@export("train.get_checkpoint_mtimes")
def get_checkpoint_mtimes(checkpoint_prefixes):
    """When each checkpoint that exists was written, in seconds since 1970."""
    found = []
    for prefix in checkpoint_prefixes:
        try:
            found.append(os.stat(_path(prefix) + ".index").st_mtime_ns / 1e9)
        except OSError:
            logging.warning("Couldn't match files for checkpoint %s", prefix)
    return found


@export("train.remove_checkpoint")
def remove_checkpoint(checkpoint_prefix, checkpoint_format_version=2, meta_graph_suffix="meta"):
    """Deletes the files of a checkpoint."""
    _native.remove_checkpoint(_path(checkpoint_prefix), meta_graph_suffix)
