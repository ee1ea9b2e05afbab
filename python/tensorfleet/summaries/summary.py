"""`tf.summary`: ops that make summaries of values."""

import contextlib
import re

from tensorfleet.framework import dtypes, gen, ops
from tensorfleet.framework.export import export
from tensorfleet.framework.keys import GraphKeys
from tensorfleet.platform import compat
from tensorfleet.platform import tf_logging as logging

_INVALID = re.compile(r"[^-/\w\.]")


def _clean_tag(name):
    """A name that a scope may have."""
    if name is None:
        return name
    new = _INVALID.sub("_", name).lstrip("/")
    if new != name:
        logging.info("Summary name %s is illegal; using %s instead." % (name, new))
        name = new
    return name


@contextlib.contextmanager
def _summary_scope(name, family=None, default_name=None, values=None):
    """Enters the scope of a summary, and gives its tag and the scope."""
    name = _clean_tag(name)
    family = _clean_tag(family)
    # A family stands twice: as the scope, and as the group that TensorBoard shows.
    scope_base = name if family is None else "{}/{}".format(family, name)
    with ops.name_scope(scope_base, default_name, values=values) as scope:
        tag = scope.rstrip("/")
        if family is not None:
            tag = "{}/{}".format(family, tag)
        yield tag, scope


def _collect(value, collections, default):
    for key in default if collections is None else collections:
        ops.add_to_collection(key, value)
    return value


@export("summary.scalar")
def scalar(name, tensor, collections=None, family=None):
    """A summary of one number."""
    with _summary_scope(name, family, values=[tensor]) as (tag, scope):
        made = gen.ScalarSummary(tags=tag, values=tensor, name=scope)
    return _collect(made, collections, [GraphKeys.SUMMARIES])


@export("summary.image")
def image(name, tensor, max_outputs=3, collections=None, family=None):
    """A summary of images."""
    with _summary_scope(name, family, values=[tensor]) as (tag, scope):
        made = gen.ImageSummary(tag=tag, tensor=tensor, max_images=max_outputs, name=scope)
    return _collect(made, collections, [GraphKeys.SUMMARIES])


@export("summary.histogram")
def histogram(name, values, collections=None, family=None):
    """A summary of how values are distributed."""
    with _summary_scope(name, family, values=[values], default_name="HistogramSummary") as (tag, scope):
        made = gen.HistogramSummary(tag=tag, values=values, name=scope)
    return _collect(made, collections, [GraphKeys.SUMMARIES])


@export("summary.audio")
def audio(name, tensor, sample_rate, max_outputs=3, collections=None, family=None):
    """A summary of sounds."""
    with _summary_scope(name, family=family, values=[tensor]) as (tag, scope):
        sample_rate = ops.convert_to_tensor(sample_rate, dtype=dtypes.float32, name="sample_rate")
        made = gen.AudioSummaryV2(tag=tag, tensor=tensor, max_outputs=max_outputs, sample_rate=sample_rate, name=scope)
    return _collect(made, collections, [GraphKeys.SUMMARIES])


@export("summary.text")
def text(name, tensor, collections=None):
    """A summary of strings."""
    from tensorfleet.protobuf import SummaryMetadata

    if tensor.dtype != dtypes.string:
        raise ValueError("Expected tensor %s to have dtype string, got %s" % (tensor.name, tensor.dtype))
    metadata = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))
    return tensor_summary(name=name, tensor=tensor, summary_metadata=metadata, collections=collections)


@export("summary.tensor_summary")
def tensor_summary(name, tensor, summary_description=None, collections=None, summary_metadata=None, family=None, display_name=None):
    """A summary of any tensor, with what a plugin of TensorBoard should know."""
    from tensorfleet.protobuf import SummaryMetadata

    metadata = summary_metadata if summary_metadata is not None else SummaryMetadata()
    if display_name is not None:
        metadata.display_name = display_name
    if summary_description is not None:
        metadata.summary_description = getattr(summary_description, "type_hint", summary_description)
    with _summary_scope(name, family, values=[tensor]) as (tag, scope):
        made = gen.TensorSummaryV2(tensor=tensor, tag=tag, name=scope, serialized_summary_metadata=metadata.SerializeToString())
    return _collect(made, collections, [GraphKeys.SUMMARIES])


@export("summary.merge")
def merge(inputs, collections=None, name=None):
    """One summary of several."""
    name = _clean_tag(name)
    with ops.name_scope(name, "Merge", inputs):
        made = gen.MergeSummary(inputs=inputs, name=name)
    return _collect(made, collections, [])


@export("summary.merge_all")
def merge_all(key=GraphKeys.SUMMARIES, scope=None, name=None):
    """One summary of all of a collection; `None` if there are none."""
    found = ops.get_collection(key, scope=scope)
    if not found:
        return None
    return merge(found, name=name)


@export("summary.get_summary_description")
def get_summary_description(node_def):
    """What a node of the op TensorSummary says of itself."""
    import json

    from tensorfleet.protobuf import SummaryDescription

    if node_def.op != "TensorSummary":
        raise ValueError("Can't get_summary_description on %s" % node_def.op)
    made = SummaryDescription()
    description = compat.as_text(node_def.attr["description"].s)
    if description:
        made.type_hint = json.loads(description).get("typeHint", "")
    return made


@export("summary.initialize")
def initialize(graph=None, session=None):
    """Summaries of this form are written by a `FileWriter`; there is nothing to initialize."""


@export("summary.all_v2_summary_ops")
def all_v2_summary_ops():
    """Summaries that ops write by themselves: there are none."""
    return ops.get_collection(GraphKeys._SUMMARY_COLLECTION)


# ---- the names before TensorFlow 0.12: the tag comes first, and is a tensor of the graph.


@export("scalar_summary")
def scalar_summary(tags, values, collections=None, name=None):
    """A summary of numbers under tags."""
    with ops.name_scope(name, "ScalarSummary", [tags, values]) as scope:
        made = gen.ScalarSummary(tags=tags, values=values, name=scope)
    return _collect(made, collections, [GraphKeys.SUMMARIES])


@export("histogram_summary")
def histogram_summary(tag, values, collections=None, name=None):
    """A summary of how values are distributed."""
    with ops.name_scope(name, "HistogramSummary", [tag, values]) as scope:
        made = gen.HistogramSummary(tag=tag, values=values, name=scope)
    return _collect(made, collections, [GraphKeys.SUMMARIES])


@export("image_summary")
def image_summary(tag, tensor, max_images=3, collections=None, name=None):
    """A summary of images."""
    with ops.name_scope(name, "ImageSummary", [tag, tensor]) as scope:
        made = gen.ImageSummary(tag=tag, tensor=tensor, max_images=max_images, name=scope)
    return _collect(made, collections, [GraphKeys.SUMMARIES])


@export("audio_summary")
def audio_summary(tag, tensor, sample_rate, max_outputs=3, collections=None, name=None):
    """A summary of sounds."""
    with ops.name_scope(name, "AudioSummary", [tag, tensor]) as scope:
        sample_rate = ops.convert_to_tensor(sample_rate, dtype=dtypes.float32, name="sample_rate")
        made = gen.AudioSummaryV2(tag=tag, tensor=tensor, max_outputs=max_outputs, sample_rate=sample_rate, name=scope)
    return _collect(made, collections, [GraphKeys.SUMMARIES])


@export("merge_summary")
def merge_summary(inputs, collections=None, name=None):
    """`tf.summary.merge` before TensorFlow 0.12."""
    with ops.name_scope(name, "MergeSummary", inputs):
        made = gen.MergeSummary(inputs=inputs, name=name)
    return _collect(made, collections, [])


@export("merge_all_summaries")
def merge_all_summaries(key=GraphKeys.SUMMARIES):
    """`tf.summary.merge_all` before TensorFlow 0.12."""
    found = ops.get_collection(key)
    return merge_summary(found) if found else None
