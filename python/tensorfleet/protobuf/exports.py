"""The names below `tf.` of messages."""

from tensorfleet.framework.export import export_values

_TOP = (
    "AttrValue ConfigProto Event GPUOptions GraphDef GraphOptions HistogramProto LogMessage MetaGraphDef NameAttrList NodeDef OptimizerOptions "
    "RunMetadata RunOptions SessionLog Summary SummaryMetadata TensorInfo"
)
_TRAIN = "BytesList ClusterDef Example Feature FeatureList FeatureLists Features FloatList Int64List JobDef SaverDef SequenceExample ServerDef"
_SUMMARY = "Event SessionLog Summary SummaryDescription TaggedRunMetadata"
_PROFILER = "AdviceProto GraphNodeProto MultiGraphNodeProto OpLogProto"

for _prefix, _names in (("", _TOP), ("train.", _TRAIN), ("summary.", _SUMMARY), ("profiler.", _PROFILER)):
    export_values("tensorfleet.protobuf", {_prefix + _name: _name for _name in _names.split()})
