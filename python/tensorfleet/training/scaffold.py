"""`Scaffold`: the parts of a model that supervision needs, with TensorFlow's defaults for those not given."""

from tensorfleet.framework import ops
from tensorfleet.framework.export import export
from tensorfleet.framework.keys import GraphKeys
from tensorfleet.platform import tf_logging as logging


@export("train.Scaffold")
class Scaffold:
    """How a model is initialised, when it is ready, how it is saved and summarised."""

    def __init__(
        self,
        init_op=None,
        init_feed_dict=None,
        init_fn=None,
        ready_op=None,
        ready_for_local_init_op=None,
        local_init_op=None,
        summary_op=None,
        saver=None,
        copy_from_scaffold=None,
        local_init_feed_dict=None,
    ):
        if copy_from_scaffold is not None:
            if not isinstance(copy_from_scaffold, Scaffold):
                raise TypeError("copy_from_scaffold is not a Scaffold instance.")

            def first(own, other):
                return own if own is not None else other

            other = copy_from_scaffold
            init_op = first(init_op, other.init_op)
            init_feed_dict = first(init_feed_dict, other.init_feed_dict)
            # What the other scaffold keeps takes the scaffold as well; what a program gave it does not.
            init_fn = first(init_fn, other._user_init_fn)
            ready_op = first(ready_op, other.ready_op)
            ready_for_local_init_op = first(ready_for_local_init_op, other.ready_for_local_init_op)
            local_init_op = first(local_init_op, other.local_init_op)
            local_init_feed_dict = first(local_init_feed_dict, other.local_init_feed_dict)
            summary_op = first(summary_op, other.summary_op)
            saver = first(saver, other.saver)
        self._user_init_fn = init_fn
        self._init_fn = None if init_fn is None else (lambda scaffold, session: init_fn(scaffold, session))
        self._init_op = init_op
        self._init_feed_dict = init_feed_dict
        self._ready_op = ready_op
        self._ready_for_local_init_op = ready_for_local_init_op
        self._local_init_op = local_init_op
        self._local_init_feed_dict = local_init_feed_dict
        self._summary_op = summary_op
        self._saver = saver

    def finalize(self):
        """Builds what was not given, and finalizes the graph."""
        from tensorfleet.ops import control_flow, variables
        from tensorfleet.summaries import summary

        if self._init_op is None:

            def default_init_op():
                return control_flow.group(
                    variables.global_variables_initializer(), initialize_resources(shared_resources()), *saved_model_initializers()
                )

            self._init_op = Scaffold.get_or_default("init_op", GraphKeys.INIT_OP, default_init_op)
        if self._ready_op is None:

            def default_ready_op():
                from tensorfleet.ops import array

                uninitialized = variables.report_uninitialized_variables()
                return array.concat([uninitialized, report_uninitialized_resources()], 0)

            self._ready_op = Scaffold.get_or_default("ready_op", GraphKeys.READY_OP, default_ready_op)
        if self._ready_for_local_init_op is None:

            def default_ready_for_local_init_op():
                from tensorfleet.ops import array

                uninitialized = variables.report_uninitialized_variables(variables.global_variables())
                return array.concat([uninitialized, report_uninitialized_resources(shared_resources())], 0)

            self._ready_for_local_init_op = Scaffold.get_or_default(
                "ready_for_local_init_op", GraphKeys.READY_FOR_LOCAL_INIT_OP, default_ready_for_local_init_op
            )
        if self._local_init_op is None:
            self._local_init_op = Scaffold.get_or_default("local_init_op", GraphKeys.LOCAL_INIT_OP, Scaffold.default_local_init_op)
        if self._summary_op is None:
            self._summary_op = Scaffold.get_or_default("summary_op", GraphKeys.SUMMARY_OP, summary.merge_all)
        if self._saver is None:
            self._saver = default_saver()
        self._saver.build()
        ops.get_default_graph().finalize()
        logging.info("Graph was finalized.")
        return self

    @property
    def init_fn(self):
        return self._init_fn

    @property
    def init_op(self):
        return self._init_op

    @property
    def ready_op(self):
        return self._ready_op

    @property
    def ready_for_local_init_op(self):
        return self._ready_for_local_init_op

    @property
    def local_init_op(self):
        return self._local_init_op

    @property
    def local_init_feed_dict(self):
        return self._local_init_feed_dict

    @property
    def summary_op(self):
        return self._summary_op

    @property
    def saver(self):
        return self._saver

    @property
    def init_feed_dict(self):
        return self._init_feed_dict

    @staticmethod
    def get_or_default(arg_name, collection_key, default_constructor):
        """What a collection has, or what a function makes, which is then added to it."""
        elements = ops.get_collection(collection_key)
        if elements:
            if len(elements) > 1:
                raise RuntimeError("More than one item in the collection '%s'. Please indicate which one to use by passing it to the tf.Scaffold constructor as:  tf.Scaffold(%s=item to use)" % (collection_key, arg_name))
            return elements[0]
        made = default_constructor()
        if made is not None:
            ops.add_to_collection(collection_key, made)
        return made

    @staticmethod
    def default_local_init_op():
        """Initialises local variables, tables and local resources."""
        from tensorfleet.ops import control_flow, variables

        return control_flow.group(variables.local_variables_initializer(), tables_initializer(), initialize_resources(local_resources()))


def tables_initializer():
    from tensorfleet.framework.namespaces import TABLE

    return TABLE.find("tables_initializer")()


def shared_resources():
    return ops.get_collection(GraphKeys.RESOURCES)


def local_resources():
    return ops.get_collection(GraphKeys.LOCAL_RESOURCES)


def initialize_resources(resource_list, name="init"):
    """An operation that makes resources such as boosted trees; this library has none, but programs may."""
    from tensorfleet.ops import control_flow

    if resource_list:
        return control_flow.group(*[resource.create for resource in resource_list], name=name)
    return control_flow.no_op(name=name)


def report_uninitialized_resources(resource_list=None, name="report_uninitialized_resources"):
    """The names of resources that are not there yet."""
    from tensorfleet.framework import constant, dtypes

    if resource_list is None:
        resource_list = shared_resources() + local_resources()
    with ops.name_scope(name):
        with ops.device("/cpu:0"):
            if not resource_list:
                return constant.constant([], dtype=dtypes.string)
            raise NotImplementedError("resources other than variables, queues and tables cannot be asked whether they are there")


def saved_model_initializers():
    return ops.get_collection("saved_model_initializers")


def default_saver():
    """The saver of the graph's collection, or one of all variables in which every task writes its own part."""
    from tensorfleet.training import saver as saver_lib

    held = ops.get_collection(GraphKeys.SAVERS)
    if held:
        if len(held) > 1:
            raise RuntimeError("More than one item in collection {}. Please indicate which one to use by passing it to the constructor.".format(GraphKeys.SAVERS))
        return held[0]
    made = saver_lib.Saver(sharded=True, allow_empty=True)
    if made is not None:
        ops.add_to_collection(GraphKeys.SAVERS, made)
    return made
