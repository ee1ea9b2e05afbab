"""Made by `python -m tensorfleet.framework.stubs`: `tf.summary`."""

from typing import Any
from tensorfleet.summaries.writer import FileWriter as FileWriter
from tensorfleet.summaries.writer import FileWriterCache as FileWriterCache
from tensorfleet.summaries.summary import all_v2_summary_ops as all_v2_summary_ops
from tensorfleet.summaries.summary import audio as audio
from tensorfleet.summaries.summary import get_summary_description as get_summary_description
from tensorfleet.summaries.summary import histogram as histogram
from tensorfleet.summaries.summary import image as image
from tensorfleet.summaries.summary import initialize as initialize
from tensorfleet.summaries.summary import merge as merge
from tensorfleet.summaries.summary import merge_all as merge_all
from tensorfleet.summaries.summary import scalar as scalar
from tensorfleet.summaries.summary import tensor_summary as tensor_summary
from tensorfleet.summaries.summary import text as text

class Event:
    DESCRIPTOR: Any
    FILE_VERSION_FIELD_NUMBER: Any
    GRAPH_DEF_FIELD_NUMBER: Any
    LOG_MESSAGE_FIELD_NUMBER: Any
    META_GRAPH_DEF_FIELD_NUMBER: Any
    SESSION_LOG_FIELD_NUMBER: Any
    SOURCE_METADATA_FIELD_NUMBER: Any
    STEP_FIELD_NUMBER: Any
    SUMMARY_FIELD_NUMBER: Any
    TAGGED_RUN_METADATA_FIELD_NUMBER: Any
    WALL_TIME_FIELD_NUMBER: Any
    file_version: Any
    graph_def: Any
    log_message: Any
    meta_graph_def: Any
    session_log: Any
    source_metadata: Any
    step: Any
    summary: Any
    tagged_run_metadata: Any
    wall_time: Any
    def __init__(self, *arguments, **values) -> None: ...
class SessionLog:
    CHECKPOINT: Any
    CHECKPOINT_PATH_FIELD_NUMBER: Any
    DESCRIPTOR: Any
    MSG_FIELD_NUMBER: Any
    START: Any
    STATUS_FIELD_NUMBER: Any
    STATUS_UNSPECIFIED: Any
    STOP: Any
    SessionStatus: Any
    checkpoint_path: Any
    msg: Any
    status: Any
    def __init__(self, *arguments, **values) -> None: ...
class Summary:
    Audio: Any
    DESCRIPTOR: Any
    Image: Any
    VALUE_FIELD_NUMBER: Any
    Value: Any
    value: Any
    def __init__(self, *arguments, **values) -> None: ...
class SummaryDescription:
    DESCRIPTOR: Any
    TYPE_HINT_FIELD_NUMBER: Any
    type_hint: Any
    def __init__(self, *arguments, **values) -> None: ...
class TaggedRunMetadata:
    DESCRIPTOR: Any
    RUN_METADATA_FIELD_NUMBER: Any
    TAG_FIELD_NUMBER: Any
    run_metadata: Any
    tag: Any
    def __init__(self, *arguments, **values) -> None: ...
