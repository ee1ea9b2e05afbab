"""Which messages each of TensorFlow's `…_pb2` modules holds: facts of TensorFlow 1.15, for programs that import them."""

# Below `tensorflow.core` unless the path begins with `tensorflow`; names below `tensorflow` as well.
MODULES = {
    "example.example_parser_configuration_pb2": "ExampleParserConfiguration FeatureConfiguration FixedLenFeatureProto VarLenFeatureProto",
    "example.example_pb2": "Example SequenceExample",
    "example.feature_pb2": "BytesList Feature FeatureList FeatureLists Features FloatList Int64List",
    "framework.allocation_description_pb2": "AllocationDescription",
    "framework.api_def_pb2": "ApiDef ApiDefs",
    "framework.attr_value_pb2": "AttrValue NameAttrList",
    "framework.cost_graph_pb2": "CostGraphDef",
    "framework.device_attributes_pb2": "DeviceAttributes DeviceLocality InterconnectLink LocalLinks",
    "framework.function_pb2": "FunctionDef FunctionDefLibrary GradientDef",
    "framework.graph_pb2": "GraphDef",
    "framework.kernel_def_pb2": "KernelDef KernelList",
    "framework.node_def_pb2": "NodeDef",
    "framework.op_def_pb2": "OpDef OpDeprecation OpList",
    "framework.resource_handle_pb2": "ResourceHandleProto",
    "framework.step_stats_pb2": "AllocationRecord AllocatorMemoryUsed DeviceStepStats MemoryStats NodeExecStats NodeOutput StepStats",
    "framework.summary_pb2": "HistogramProto Summary SummaryDescription SummaryMetadata",
    "framework.tensor_description_pb2": "TensorDescription",
    "framework.tensor_pb2": "TensorProto VariantTensorDataProto",
    "framework.tensor_shape_pb2": "TensorShapeProto",
    "framework.tensor_slice_pb2": "TensorSliceProto",
    "framework.types_pb2": "DataType",
    "framework.variable_pb2": "SaveSliceInfoDef VariableAggregation VariableDef VariableSynchronization",
    "framework.versions_pb2": "VersionDef",
    "lib.core.error_codes_pb2": "error.Code",
    "profiler.tfprof_log_pb2": "tfprof.CodeDef tfprof.ExecMemory tfprof.ExecProfile tfprof.ExecTime tfprof.Memory tfprof.OpLogEntry tfprof.OpLogProto tfprof.ProfileNode tfprof.ProfileProto tfprof.Tuple",
    "profiler.tfprof_output_pb2": "tfprof.AdviceProto tfprof.GraphNodeProto tfprof.MultiGraphNodeProto tfprof.TFProfTensorProto",
    "protobuf.cluster_pb2": "ClusterDef JobDef",
    "protobuf.config_pb2": "CallableOptions ConfigProto GPUOptions GraphOptions OptimizerOptions RPCOptions RunMetadata RunOptions SessionMetadata TensorConnection ThreadPoolOptionProto",
    "protobuf.control_flow_pb2": "CondContextDef ControlFlowContextDef ValuesDef WhileContextDef",
    "protobuf.debug_pb2": "DebugOptions DebugTensorWatch DebuggedSourceFile DebuggedSourceFiles",
    "protobuf.device_properties_pb2": "DeviceProperties NamedDevice",
    "protobuf.graph_debug_info_pb2": "GraphDebugInfo",
    "protobuf.meta_graph_pb2": "AssetFileDef CollectionDef MetaGraphDef SignatureDef TensorInfo",
    "protobuf.named_tensor_pb2": "NamedTensorProto",
    "protobuf.queue_runner_pb2": "QueueRunnerDef",
    "protobuf.rewriter_config_pb2": "AutoParallelOptions RewriterConfig ScopedAllocatorOptions",
    "protobuf.saved_model_pb2": "SavedModel",
    "protobuf.saved_object_graph_pb2": "FunctionSpec SavedAsset SavedBareConcreteFunction SavedConcreteFunction SavedConstant SavedFunction SavedObject SavedObjectGraph SavedResource SavedUserObject SavedVariable",
    "protobuf.saver_pb2": "SaverDef",
    "protobuf.struct_pb2": "DictValue ListValue NamedTupleValue NoneValue PairValue StructuredValue TensorSpecProto TupleValue TypeSpecProto",
    "protobuf.tensor_bundle_pb2": "BundleEntryProto BundleHeaderProto",
    "protobuf.tensorflow_server_pb2": "ServerDef",
    "protobuf.trackable_object_graph_pb2": "TrackableObjectGraph",
    "protobuf.transport_options_pb2": "RecvBufRespExtra",
    "protobuf.verifier_config_pb2": "VerifierConfig",
    "tensorflow.contrib.tensorboard.plugins.projector.projector_config_pb2": "EmbeddingInfo ProjectorConfig SpriteMetadata",
    "tensorflow.python.training.checkpoint_state_pb2": "CheckpointState",
    "util.event_pb2": "Event LogMessage SessionLog TaggedRunMetadata WatchdogConfig WorkerHealth WorkerHeartbeatRequest WorkerHeartbeatResponse WorkerShutdownMode",
    "util.saved_tensor_slice_pb2": "SavedSlice SavedSliceMeta SavedTensorSliceMeta SavedTensorSlices",
    "util.test_log_pb2": "AvailableDeviceInfo BenchmarkEntries BenchmarkEntry BuildConfiguration CPUInfo CommitId EntryValue GPUInfo MachineConfiguration MemoryInfo MetricEntry PlatformInfo RunConfiguration TestResults",
}


def members(path):
    """The public names of a `_pb2` module by its full path, or None if there is no such module: messages, enumerations and their values."""
    names = MODULES.get(path[len("tensorflow.core."):] if path.startswith("tensorflow.core.") else path)
    if names is None:
        return None
    from . import _descriptors, descriptor

    found = {}
    for name in names.split():
        full_name = "tensorflow." + name
        found[name.rpartition(".")[2]] = full_name
        if full_name in _descriptors.ENUMS:
            found.update({value.name: value.number for value in descriptor.enum(full_name).values})
    return found
