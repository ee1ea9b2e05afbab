"""`Saver`: writes variables to checkpoints and reads them again. The files are the library's work."""

import os
import weakref

from tensorfleet import _native
from tensorfleet.client import session as session_lib
from tensorfleet.framework import errors, ops
from tensorfleet.framework.export import export
from tensorfleet.framework.keys import GraphKeys
from tensorfleet.platform import compat
from tensorfleet.platform import tf_logging as logging
from tensorfleet.training.saver_nodes import BaseSaverBuilder, BulkSaverBuilder  # programs import them from here

_SAVERS = "_savers_of_graph"


def _all_saveable_objects(scope=None):
    return ops.get_collection(GraphKeys.GLOBAL_VARIABLES, scope) + ops.get_collection(GraphKeys.SAVEABLE_OBJECTS, scope)


def _teach_meta_graphs(graph):
    """Lets the library ask for the meta graphs of this graph: its collections are Python's."""
    if graph.__dict__.get("_has_meta_graph_source"):
        return
    graph._has_meta_graph_source = True
    kept = weakref.ref(graph)

    def source(saver_def):
        from tensorfleet.protobuf import SaverDef
        from tensorfleet.training import meta_graph

        graph = kept()
        saver_def = None if saver_def is None else SaverDef.FromString(saver_def)
        graph_def = graph.as_graph_def(add_shapes=True)
        return meta_graph.create_meta_graph_def(graph_def=graph_def, saver_def=saver_def, graph=graph).SerializeToString()

    graph._native.set_meta_graph_source(source)


def native_session(sess):
    """The library's session behind one of Python."""
    inner = getattr(sess, "_native", None)
    if inner is None and hasattr(sess, "_sess"):
        return native_session(sess._sess)
    return inner


@export("train.Saver")
class Saver:
    """Saves and restores variables."""

    def __init__(
        self,
        var_list=None,
        reshape=False,
        sharded=False,
        max_to_keep=5,
        keep_checkpoint_every_n_hours=10000.0,
        name=None,
        restore_sequentially=False,
        saver_def=None,
        builder=None,
        defer_build=False,
        allow_empty=False,
        write_version=2,
        pad_step_number=False,
        save_relative_paths=False,
        filename=None,
    ):
        if defer_build and var_list:
            raise ValueError("If `var_list` is provided then build cannot be deferred. Either set defer_build=False or var_list=None.")
        self._var_list = var_list
        self._reshape = reshape
        self._sharded = sharded
        self._max_to_keep = max_to_keep
        self._keep_checkpoint_every_n_hours = keep_checkpoint_every_n_hours
        self._name = name
        self._restore_sequentially = restore_sequentially
        self.saver_def = saver_def
        self._builder = builder
        self._is_built = False
        self._allow_empty = allow_empty
        self._is_empty = None
        self._write_version = write_version
        self._pad_step_number = pad_step_number
        self._filename = filename
        self._save_relative_paths = save_relative_paths
        self._last_checkpoints = []
        self._native_saver = None
        self._graph = None
        if not defer_build:
            self.build()
        if self.saver_def:
            self._check_saver_def()
            self._write_version = self.saver_def.version

    def build(self):
        """Adds the nodes to the graph, if that was put off."""
        self._build(self._filename, build_save=True, build_restore=True)

    def _build(self, checkpoint_path, build_save, build_restore):
        if self._is_built:
            return
        self._is_built = True
        self._graph = ops.get_default_graph()
        if not self.saver_def or not self.saver_def.save_tensor_name:
            if self._builder is None:
                self._builder = BulkSaverBuilder(self._write_version)
            if self._var_list is None:
                self._var_list = _all_saveable_objects()
            if not self._var_list:
                if not self._allow_empty:
                    raise ValueError("No variables to save")
                self._is_empty = True
                return
            self._is_empty = False
            self.saver_def = self._builder._build_internal(
                self._var_list,
                reshape=self._reshape,
                sharded=self._sharded,
                max_to_keep=self._max_to_keep,
                keep_checkpoint_every_n_hours=self._keep_checkpoint_every_n_hours,
                name=self._name,
                restore_sequentially=self._restore_sequentially,
                filename=checkpoint_path,
                build_save=build_save,
                build_restore=build_restore,
            )
        elif self.saver_def and self._name:
            for field in ("filename_tensor_name", "save_tensor_name", "restore_op_name"):
                setattr(self.saver_def, field, ops.prepend_name_scope(getattr(self.saver_def, field), self._name))
        self._is_empty = False
        self._check_saver_def()

    def _library_saver(self):
        """The library's saver, made when it is first needed."""
        if self._native_saver is None:
            _teach_meta_graphs(self._graph)
            self._native_saver = _native.Saver(self._graph._native, self.saver_def.SerializeToString(), bool(self._pad_step_number))
            if self._last_checkpoints:
                self._native_saver.set_last_checkpoints(self._last_checkpoints)
        return self._native_saver

    def _check_saver_def(self):
        from tensorfleet.protobuf import SaverDef

        if not isinstance(self.saver_def, SaverDef):
            raise ValueError("saver_def must be a saver_pb2.SaverDef: %s" % self.saver_def)
        if not self.saver_def.save_tensor_name:
            raise ValueError("saver_def must specify the save_tensor_name: %s" % str(self.saver_def))
        if not self.saver_def.restore_op_name:
            raise ValueError("saver_def must specify the restore_op_name: %s" % str(self.saver_def))

    def as_saver_def(self):
        return self.saver_def

    def to_proto(self, export_scope=None):
        """The saver as a `SaverDef`; `None` if it is not inside the scope."""
        from tensorfleet.protobuf import SaverDef

        if export_scope is not None and not self.saver_def.filename_tensor_name.startswith(export_scope):
            return None
        made = SaverDef()
        made.CopyFrom(self.saver_def)
        for field in ("filename_tensor_name", "save_tensor_name", "restore_op_name"):
            setattr(made, field, ops.strip_name_scope(getattr(made, field), export_scope))
        return made

    @staticmethod
    def from_proto(saver_def, import_scope=None):
        return Saver(saver_def=saver_def, name=import_scope)

    # ---- checkpoints

    @property
    def last_checkpoints(self):
        """The checkpoints that are kept, oldest first."""
        return [path for path, _ in self._kept()]

    def _kept(self):
        return self._last_checkpoints if self._native_saver is None else self._native_saver.last_checkpoints()

    def set_last_checkpoints(self, last_checkpoints):
        assert isinstance(last_checkpoints, list)
        self.set_last_checkpoints_with_time([(path, float("inf")) for path in last_checkpoints])

    def set_last_checkpoints_with_time(self, last_checkpoints_with_time):
        assert isinstance(last_checkpoints_with_time, list)
        self._last_checkpoints = [(path, float(time)) for path, time in last_checkpoints_with_time]
        if self._native_saver is not None:
            self._native_saver.set_last_checkpoints(self._last_checkpoints)

    def recover_last_checkpoints(self, checkpoint_paths):
        """Takes over checkpoints of an earlier program, so that they are deleted in their turn."""
        self._library_saver().recover_last_checkpoints(list(checkpoint_paths))

    def save(
        self,
        sess,
        save_path,
        global_step=None,
        latest_filename=None,
        meta_graph_suffix="meta",
        write_meta_graph=True,
        write_state=True,
        strip_default_attrs=False,
        save_debug_info=False,
    ):
        """Saves the variables, and gives the path of the checkpoint."""
        if not self._is_built:
            raise RuntimeError("`build()` should be called before save if defer_build==True")
        latest_filename = "checkpoint" if latest_filename is None else latest_filename
        save_path = compat.as_text(save_path) if not hasattr(save_path, "__fspath__") else save_path.__fspath__()
        if "/" in latest_filename:
            raise ValueError("'latest_filename' must not contain path components")
        name = save_path.rpartition("/")[2]
        if not name.strip():
            raise ValueError("save_path, if provided, must have a file name: %r" % save_path)
        if name == latest_filename:
            raise ValueError("'latest_filename' collides with 'save_path': '%s' and '%s'" % (latest_filename, save_path))
        if not isinstance(sess, session_lib.SessionInterface):
            raise TypeError("'sess' must be a Session; %s" % sess)
        if global_step is not None and not isinstance(global_step, int):
            from tensorfleet.training import training_util

            global_step = training_util.global_step(sess, global_step) if hasattr(global_step, "graph") else int(global_step)
        if self._is_empty:
            return None
        saver = self._library_saver()
        try:
            return saver.save(
                native_session(sess), save_path, global_step, latest_filename, meta_graph_suffix, bool(write_meta_graph), bool(write_state)
            )
        except errors.OpError as error:
            raise errors.explained(error, sess.graph) from None

    def export_meta_graph(
        self, filename=None, collection_list=None, as_text=False, export_scope=None, clear_devices=False, clear_extraneous_savers=False,
        strip_default_attrs=False, save_debug_info=False,
    ):
        """The graph with this saver as a `MetaGraphDef`, written to a file if one is named."""
        return export_meta_graph(
            filename=filename,
            graph_def=ops.get_default_graph().as_graph_def(add_shapes=True),
            saver_def=self.saver_def,
            collection_list=collection_list,
            as_text=as_text,
            export_scope=export_scope,
            clear_devices=clear_devices,
            clear_extraneous_savers=clear_extraneous_savers,
            strip_default_attrs=strip_default_attrs,
        )

    def restore(self, sess, save_path):
        """Gives the variables the values they have in the checkpoint."""
        if self._is_empty:
            return
        if save_path is None:
            raise ValueError("Can't load save_path when it is None.")
        save_path = compat.as_text(save_path) if not hasattr(save_path, "__fspath__") else save_path.__fspath__()
        if not _native.checkpoint_exists(save_path):
            directory = os.path.dirname(save_path)
            if directory and not os.path.isdir(directory):
                raise errors.NotFoundError(None, None, "%s; No such file or directory" % directory)
            raise ValueError("The passed save_path is not a valid checkpoint: " + save_path)
        logging.info("Restoring parameters from %s", save_path)
        try:
            self._library_saver().restore(native_session(sess), save_path)
        except errors.NotFoundError as error:
            raise _restore_error(error, "a Variable name or other graph key that is missing") from error
        except errors.InvalidArgumentError as error:
            raise _restore_error(error, "a mismatch between the current graph and the graph") from error


def _restore_error(error, extra):
    text = (
        "Restoring from checkpoint failed. This is most likely due to {} from the checkpoint. Please ensure that you have not altered "
        "the graph expected based on the checkpoint. Original error:\n\n{}"
    ).format(extra, error.message)
    return type(error)(error.node_def, error.op, text)


@export("train.import_meta_graph")
def import_meta_graph(meta_graph_or_file, clear_devices=False, import_scope=None, **kwargs):
    """Adds the nodes and collections of a meta graph to the default graph; gives its saver, or `None`."""
    return _import_meta_graph_with_return_elements(meta_graph_or_file, clear_devices, import_scope, **kwargs)[0]


def _import_meta_graph_with_return_elements(meta_graph_or_file, clear_devices=False, import_scope=None, return_elements=None, **kwargs):
    from tensorfleet.protobuf import MetaGraphDef
    from tensorfleet.training import meta_graph

    read = meta_graph_or_file if isinstance(meta_graph_or_file, MetaGraphDef) else meta_graph.read_meta_graph_file(meta_graph_or_file)
    imported_vars, imported = meta_graph.import_scoped_meta_graph_with_return_elements(
        read, clear_devices=clear_devices, import_scope=import_scope, return_elements=return_elements, **kwargs
    )
    return _create_saver_from_imported_meta_graph(read, import_scope, imported_vars), imported


def _create_saver_from_imported_meta_graph(read, import_scope, imported_vars):
    if read.HasField("saver_def") and read.saver_def.save_tensor_name:
        scope = import_scope
        if not scope and imported_vars:
            # The scope was numbered because another one had its name.
            first = next(iter(sorted(imported_vars)))
            name = imported_vars[first].name
            if name != first and name.endswith(first):
                scope = name[: -len(first)].rstrip("/")
        saver_def = type(read.saver_def)()
        saver_def.CopyFrom(read.saver_def)
        return Saver(saver_def=saver_def, name=scope)
    if _all_saveable_objects(scope=import_scope):
        return Saver()
    logging.info("Saver not created because there are no variables in the graph to restore")
    return None


@export("train.export_meta_graph")
def export_meta_graph(
    filename=None, meta_info_def=None, graph_def=None, saver_def=None, collection_list=None, as_text=False, graph=None, export_scope=None,
    clear_devices=False, clear_extraneous_savers=False, strip_default_attrs=False, save_debug_info=False, **kwargs,
):
    """The graph as a `MetaGraphDef`, written to a file if one is named."""
    from tensorfleet.training import meta_graph

    made, _ = meta_graph.export_scoped_meta_graph(
        filename=filename,
        meta_info_def=meta_info_def,
        graph_def=graph_def,
        saver_def=saver_def,
        collection_list=collection_list,
        as_text=as_text,
        graph=graph,
        export_scope=export_scope,
        clear_devices=clear_devices,
        clear_extraneous_savers=clear_extraneous_savers,
        strip_default_attrs=strip_default_attrs,
        **kwargs,
    )
    return made


__all__ = ["BaseSaverBuilder", "BulkSaverBuilder", "Saver", "export_meta_graph", "import_meta_graph"]
