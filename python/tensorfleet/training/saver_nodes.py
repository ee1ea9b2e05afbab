"""The nodes of a saver, with the names TensorFlow 1.15 gives them."""

import uuid

from tensorfleet.framework import constant, gen, ops
from tensorfleet.framework.device import DeviceSpec
from tensorfleet.training.saveable import validate_and_slice_inputs

_V2 = 2


def _group(inputs, name):
    from tensorfleet.ops import control_flow

    return control_flow.group(*inputs, name=name)


def _after(dependencies, value):
    from tensorfleet.ops import control_flow

    return control_flow.with_dependencies(dependencies, value)


def _cpu_of(device):
    spec = DeviceSpec.from_string(device)
    spec.device_type, spec.device_index = "CPU", 0
    return spec.to_string()


def _shape_of(saveable, spec):
    shape = saveable.op.get_shape() if hasattr(saveable.op, "get_shape") else spec.tensor.get_shape()
    return shape.as_list() if shape.is_fully_defined() else gen.Shape(spec.tensor)


class BaseSaverBuilder:
    """Builds the nodes that save and restore; programs may derive from it."""

    def __init__(self, write_version=_V2):
        self._write_version = write_version

    def save_op(self, filename_tensor, saveables):
        names, slices, tensors = [], [], []
        for saveable in saveables:
            for spec in saveable.specs:
                names.append(spec.name)
                slices.append(spec.slice_spec)
                tensors.append(spec.tensor)
        if self._write_version != _V2:
            raise RuntimeError("Checkpoints of the first format, which TensorFlow 1.0 gave up, are not written; save with version V2")
        return gen.SaveV2(prefix=filename_tensor, tensor_names=names, shape_and_slices=slices, tensors=tensors)

    def bulk_restore(self, filename_tensor, saveables, preferred_shard, restore_sequentially):
        specs = [spec for saveable in saveables for spec in saveable.specs]
        names, slices = [spec.name for spec in specs], [spec.slice_spec for spec in specs]
        with ops.device("cpu:0"):
            restored = gen.RestoreV2(prefix=filename_tensor, tensor_names=names, shape_and_slices=slices, dtypes=[spec.dtype for spec in specs])
            return list(restored) if isinstance(restored, (list, tuple)) else [restored]

    def restore_op(self, filename_tensor, saveable, preferred_shard):
        return self.bulk_restore(filename_tensor, [saveable], preferred_shard, False)

    def sharded_filename(self, filename_tensor, shard, num_shards):
        return gen.ShardedFilename(filename_tensor, shard, num_shards)

    def _add_save_ops(self, filename_tensor, saveables):
        return _after([self.save_op(filename_tensor, saveables)], filename_tensor)

    def _add_sharded_save_ops(self, prefix, per_device):
        suffix = "_temp_%s/part" % uuid.uuid4().hex
        part = gen.StringJoin([prefix, suffix])
        num_shards = constant.constant(len(per_device), name="num_shards")
        parts, saves, device = [], [], ""
        for shard, (device, saveables) in enumerate(per_device):
            with ops.device(_cpu_of(device)):
                filename = self.sharded_filename(part, shard, num_shards)
                parts.append(filename)
                saves.append(self._add_save_ops(filename, saveables))
        with ops.control_dependencies([save.op for save in saves]):
            with ops.device(_cpu_of(device)):
                merge = gen.MergeV2Checkpoints(parts, prefix, delete_old_dirs=True)
                with ops.control_dependencies([merge]):
                    return gen.Identity(prefix)

    def _add_restore_ops(self, filename_tensor, saveables, restore_sequentially, reshape, preferred_shard=-1, name="restore_all"):
        restored = self.bulk_restore(filename_tensor, saveables, preferred_shard, restore_sequentially)
        assigns, index = [], 0
        for saveable in saveables:
            with ops.control_dependencies(assigns[-1:] if restore_sequentially and not self._is_bulk else []):
                shapes = None
                if reshape:
                    shapes = [_shape_of(saveable, spec) for spec in saveable.specs]
                count = len(saveable.specs)
                assigns.append(saveable.restore(restored[index : index + count], shapes))
                index += count
        return _group(assigns, name)

    #: Whether one op reads all tensors, whose assignments are then in any order.
    _is_bulk = True

    def _add_sharded_restore_ops(self, filename_tensor, per_device, restore_sequentially, reshape):
        restores = []
        for shard, (device, saveables) in enumerate(per_device):
            with ops.device(device):
                restores.append(self._add_restore_ops(filename_tensor, saveables, restore_sequentially, reshape, shard, "restore_shard"))
        return _group(restores, "restore_all")

    def _group_by_devices(self, saveables):
        per_device = {}
        for saveable in saveables:
            canonical = set(DeviceSpec.from_string(spec.device or saveable.device or "").to_string() if spec.device else _canonical(saveable.device) for spec in saveable.specs)
            if len(canonical) != 1:
                raise ValueError("All tensors of a saveable object must be on the same device: %s" % saveable.name)
            per_device.setdefault(_canonical(saveable.device), []).append(saveable)
        return sorted(per_device.items(), key=lambda item: item[0])

    def _build_internal(
        self, names_to_saveables, reshape=False, sharded=False, max_to_keep=5, keep_checkpoint_every_n_hours=10000.0, name=None,
        restore_sequentially=False, filename="model", build_save=True, build_restore=True,
    ):
        from tensorfleet.protobuf import SaverDef

        saveables = validate_and_slice_inputs(names_to_saveables)
        max_to_keep = 0 if max_to_keep is None else max_to_keep
        with ops.name_scope(name, "save", [getattr(saveable.op, "op", saveable.op) for saveable in saveables]) as name:
            filename_tensor = gen.PlaceholderWithDefault(filename or "model", shape=(), name="filename")
            filename_tensor = gen.PlaceholderWithDefault(filename_tensor, shape=(), name="Const")
            if sharded:
                per_device = self._group_by_devices(saveables)
                save = self._add_sharded_save_ops(filename_tensor, per_device) if build_save else None
                restore = self._add_sharded_restore_ops(filename_tensor, per_device, restore_sequentially, reshape) if build_restore else None
            else:
                save = self._add_save_ops(filename_tensor, saveables) if build_save else None
                restore = self._add_restore_ops(filename_tensor, saveables, restore_sequentially, reshape) if build_restore else None
        made = SaverDef(
            filename_tensor_name=filename_tensor.name,
            max_to_keep=max_to_keep,
            sharded=sharded,
            keep_checkpoint_every_n_hours=keep_checkpoint_every_n_hours,
            version=self._write_version,
        )
        if save is not None:
            made.save_tensor_name = save.name
        if restore is not None:
            made.restore_op_name = restore.name
        return made

    def build(
        self, names_to_saveables, reshape=False, sharded=False, max_to_keep=5, keep_checkpoint_every_n_hours=10000.0, name=None,
        restore_sequentially=False, filename="model",
    ):
        """Builds the nodes, and gives the `SaverDef` that names them."""
        return self._build_internal(
            names_to_saveables, reshape, sharded, max_to_keep, keep_checkpoint_every_n_hours, name, restore_sequentially, filename
        )


def _canonical(device):
    return DeviceSpec.from_string(device or "").to_string()


class BulkSaverBuilder(BaseSaverBuilder):
    """Reads all tensors with one op, as savers do unless a program says otherwise."""
