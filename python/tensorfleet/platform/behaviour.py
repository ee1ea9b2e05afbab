"""Switches between TensorFlow's two generations. Here it is always the first: graphs, sessions, and conditions and loops as nodes of the graph.

Switching off what is not there does nothing. Switching it on is an error where results would differ, and a warning where only the graph would."""

from tensorfleet.framework.export import export

from . import tf_logging

_ADVICE = "Tensorfleet runs graphs in sessions, as TensorFlow 1.x does by default"


@export("executing_eagerly")
def executing_eagerly():
    """False: ops are nodes of a graph."""
    return False


@export("enable_eager_execution")
def enable_eager_execution(config=None, device_policy=None, execution_mode=None):
    """An error: there is no eager execution."""
    raise NotImplementedError("there is no eager execution; " + _ADVICE)


@export("disable_eager_execution")
def disable_eager_execution():
    """Does nothing: ops are nodes of a graph."""


@export("enable_v2_behavior")
def enable_v2_behavior():
    """An error: the behaviour is that of TensorFlow 1.x."""
    raise NotImplementedError("there is no TensorFlow 2 behaviour; " + _ADVICE)


@export("disable_v2_behavior")
def disable_v2_behavior():
    """Does nothing: the behaviour is that of TensorFlow 1.x."""


@export("enable_control_flow_v2")
def enable_control_flow_v2():
    """A warning: `tf.cond` and `tf.while_loop` give the same results, with the nodes of TensorFlow 1.x."""
    tf_logging.warning("tf.enable_control_flow_v2 has no effect: conditions and loops are made of switches and merges, with the same results")


@export("disable_control_flow_v2")
def disable_control_flow_v2():
    """Does nothing: conditions and loops are made of switches and merges."""


@export("control_flow_v2_enabled")
def control_flow_v2_enabled():
    """False."""
    return False


@export("enable_tensor_equality")
def enable_tensor_equality():
    """An error: tensors are compared by identity."""
    raise NotImplementedError("`==` of tensors compares identity; use tf.equal")


@export("disable_tensor_equality")
def disable_tensor_equality():
    """Does nothing: tensors are compared by identity."""
