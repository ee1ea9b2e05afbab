"""Made by `python -m tensorfleet.framework.stubs`: `tf.train`."""

from typing import Any
from tensorfleet._stubs import train_experimental as experimental
from tensorfleet._stubs import train_queue_runner as queue_runner
from tensorfleet.training.optimizers import AdadeltaOptimizer as AdadeltaOptimizer
from tensorfleet.training.optimizers import AdagradDAOptimizer as AdagradDAOptimizer
from tensorfleet.training.optimizers import AdagradOptimizer as AdagradOptimizer
from tensorfleet.training.optimizers import AdamOptimizer as AdamOptimizer
from tensorfleet.training.saving_hooks import CheckpointSaverHook as CheckpointSaverHook
from tensorfleet.training.saving_hooks import CheckpointSaverListener as CheckpointSaverListener
from tensorfleet.training.session_creator import ChiefSessionCreator as ChiefSessionCreator
from tensorfleet.training.server_lib import ClusterSpec as ClusterSpec
from tensorfleet.training.coordinator import Coordinator as Coordinator
from tensorfleet.training.moving_averages import ExponentialMovingAverage as ExponentialMovingAverage
from tensorfleet.training.basic_session_run_hooks import FeedFnHook as FeedFnHook
from tensorfleet.training.basic_session_run_hooks import FinalOpsHook as FinalOpsHook
from tensorfleet.training.optimizers import FtrlOptimizer as FtrlOptimizer
from tensorfleet.training.basic_session_run_hooks import GlobalStepWaiterHook as GlobalStepWaiterHook
from tensorfleet.training.optimizers import GradientDescentOptimizer as GradientDescentOptimizer
from tensorfleet.training.basic_session_run_hooks import LoggingTensorHook as LoggingTensorHook
from tensorfleet.training.coordinator import LooperThread as LooperThread
from tensorfleet.training.optimizers import MomentumOptimizer as MomentumOptimizer
from tensorfleet.training.monitored_session import MonitoredSession as MonitoredSession
from tensorfleet.training.monitored_session import MonitoredTrainingSession as MonitoredTrainingSession
from tensorfleet.training.basic_session_run_hooks import NanLossDuringTrainingError as NanLossDuringTrainingError
from tensorfleet.training.basic_session_run_hooks import NanTensorHook as NanTensorHook
from tensorfleet.training.checkpoint_utils import NewCheckpointReader as NewCheckpointReader
from tensorfleet.training.optimizer import Optimizer as Optimizer
from tensorfleet.training.saving_hooks import ProfilerHook as ProfilerHook
from tensorfleet.training.optimizers import ProximalAdagradOptimizer as ProximalAdagradOptimizer
from tensorfleet.training.optimizers import ProximalGradientDescentOptimizer as ProximalGradientDescentOptimizer
from tensorfleet.training.queue_runner import QueueRunner as QueueRunner
from tensorfleet.training.optimizers import RMSPropOptimizer as RMSPropOptimizer
from tensorfleet.training.saver import Saver as Saver
from tensorfleet.training.scaffold import Scaffold as Scaffold
from tensorfleet.training.hook_timers import SecondOrStepTimer as SecondOrStepTimer
from tensorfleet.training.server_lib import Server as Server
from tensorfleet.training.session_creator import SessionCreator as SessionCreator
from tensorfleet.training.session_manager import SessionManager as SessionManager
from tensorfleet.training.session_run_hook import SessionRunArgs as SessionRunArgs
from tensorfleet.training.session_run_hook import SessionRunContext as SessionRunContext
from tensorfleet.training.session_run_hook import SessionRunHook as SessionRunHook
from tensorfleet.training.session_run_hook import SessionRunValues as SessionRunValues
from tensorfleet.training.monitored_session import SingularMonitoredSession as SingularMonitoredSession
from tensorfleet.training.saving_hooks import StepCounterHook as StepCounterHook
from tensorfleet.training.basic_session_run_hooks import StopAtStepHook as StopAtStepHook
from tensorfleet.training.saving_hooks import SummarySaverHook as SummarySaverHook
from tensorfleet.summaries.writer import FileWriter as SummaryWriter
from tensorfleet.training.supervisor import Supervisor as Supervisor
from tensorfleet.training.sync_replicas import SyncReplicasOptimizer as SyncReplicasOptimizer
from tensorfleet.training.session_creator import WorkerSessionCreator as WorkerSessionCreator
from tensorfleet.training.queue_runner import add_queue_runner as add_queue_runner
from tensorfleet.training.training_util import assert_global_step as assert_global_step
from tensorfleet.training.basic_loops import basic_train_loop as basic_train_loop
from tensorfleet.input.producers import batch as batch
from tensorfleet.input.producers import batch_join as batch_join
from tensorfleet.training.checkpoint_management import checkpoint_exists as checkpoint_exists
from tensorfleet.training.checkpoint_utils import checkpoints_iterator as checkpoints_iterator
from tensorfleet.training.learning_rate import cosine_decay as cosine_decay
from tensorfleet.training.learning_rate import cosine_decay_restarts as cosine_decay_restarts
from tensorfleet.training.training_util import create_global_step as create_global_step
from tensorfleet.training.learning_rate import exponential_decay as exponential_decay
from tensorfleet.training.saver import export_meta_graph as export_meta_graph
from tensorfleet.training.checkpoint_management import generate_checkpoint_state_proto as generate_checkpoint_state_proto
from tensorfleet.training.checkpoint_management import get_checkpoint_mtimes as get_checkpoint_mtimes
from tensorfleet.training.checkpoint_management import get_checkpoint_state as get_checkpoint_state
from tensorfleet.training.training_util import get_global_step as get_global_step
from tensorfleet.training.training_util import get_or_create_global_step as get_or_create_global_step
from tensorfleet.training.training_util import global_step as global_step
from tensorfleet.training.saver import import_meta_graph as import_meta_graph
from tensorfleet.training.checkpoint_utils import init_from_checkpoint as init_from_checkpoint
from tensorfleet.input.producers import input_producer as input_producer
from tensorfleet.training.learning_rate import inverse_time_decay as inverse_time_decay
from tensorfleet.training.checkpoint_management import latest_checkpoint as latest_checkpoint
from tensorfleet.input.producers import limit_epochs as limit_epochs
from tensorfleet.training.learning_rate import linear_cosine_decay as linear_cosine_decay
from tensorfleet.training.checkpoint_utils import list_variables as list_variables
from tensorfleet.training.checkpoint_utils import load_checkpoint as load_checkpoint
from tensorfleet.training.checkpoint_utils import load_variable as load_variable
from tensorfleet.input.producers import match_filenames_once as match_filenames_once
from tensorfleet.input.producers import maybe_batch as maybe_batch
from tensorfleet.input.producers import maybe_batch_join as maybe_batch_join
from tensorfleet.input.producers import maybe_shuffle_batch as maybe_shuffle_batch
from tensorfleet.input.producers import maybe_shuffle_batch_join as maybe_shuffle_batch_join
from tensorfleet.training.learning_rate import natural_exp_decay as natural_exp_decay
from tensorfleet.training.learning_rate import noisy_linear_cosine_decay as noisy_linear_cosine_decay
from tensorfleet.training.learning_rate import piecewise_constant as piecewise_constant
from tensorfleet.training.learning_rate import piecewise_constant as piecewise_constant_decay
from tensorfleet.training.learning_rate import polynomial_decay as polynomial_decay
from tensorfleet.input.producers import range_input_producer as range_input_producer
from tensorfleet.training.checkpoint_management import remove_checkpoint as remove_checkpoint
from tensorfleet.training.device_setter import replica_device_setter as replica_device_setter
from tensorfleet.input.producers import shuffle_batch as shuffle_batch
from tensorfleet.input.producers import shuffle_batch_join as shuffle_batch_join
from tensorfleet.input.producers import slice_input_producer as slice_input_producer
from tensorfleet.training.queue_runner import start_queue_runners as start_queue_runners
from tensorfleet.input.producers import string_input_producer as string_input_producer
from tensorfleet.summaries.writer import summary_iterator as summary_iterator
from tensorfleet.training.checkpoint_management import update_checkpoint_state as update_checkpoint_state
from tensorfleet.training.write_graph import write_graph as write_graph

class BytesList:
    DESCRIPTOR: Any
    VALUE_FIELD_NUMBER: Any
    value: Any
    def __init__(self, *arguments, **values) -> None: ...
class ClusterDef:
    DESCRIPTOR: Any
    JOB_FIELD_NUMBER: Any
    job: Any
    def __init__(self, *arguments, **values) -> None: ...
class Example:
    DESCRIPTOR: Any
    FEATURES_FIELD_NUMBER: Any
    features: Any
    def __init__(self, *arguments, **values) -> None: ...
class Feature:
    BYTES_LIST_FIELD_NUMBER: Any
    DESCRIPTOR: Any
    FLOAT_LIST_FIELD_NUMBER: Any
    INT64_LIST_FIELD_NUMBER: Any
    bytes_list: Any
    float_list: Any
    int64_list: Any
    def __init__(self, *arguments, **values) -> None: ...
class FeatureList:
    DESCRIPTOR: Any
    FEATURE_FIELD_NUMBER: Any
    feature: Any
    def __init__(self, *arguments, **values) -> None: ...
class FeatureLists:
    DESCRIPTOR: Any
    FEATURE_LIST_FIELD_NUMBER: Any
    FeatureListEntry: Any
    feature_list: Any
    def __init__(self, *arguments, **values) -> None: ...
class Features:
    DESCRIPTOR: Any
    FEATURE_FIELD_NUMBER: Any
    FeatureEntry: Any
    feature: Any
    def __init__(self, *arguments, **values) -> None: ...
class FloatList:
    DESCRIPTOR: Any
    VALUE_FIELD_NUMBER: Any
    value: Any
    def __init__(self, *arguments, **values) -> None: ...
class Int64List:
    DESCRIPTOR: Any
    VALUE_FIELD_NUMBER: Any
    value: Any
    def __init__(self, *arguments, **values) -> None: ...
class JobDef:
    DESCRIPTOR: Any
    NAME_FIELD_NUMBER: Any
    TASKS_FIELD_NUMBER: Any
    TasksEntry: Any
    name: Any
    tasks: Any
    def __init__(self, *arguments, **values) -> None: ...
class SaverDef:
    CheckpointFormatVersion: Any
    DESCRIPTOR: Any
    FILENAME_TENSOR_NAME_FIELD_NUMBER: Any
    KEEP_CHECKPOINT_EVERY_N_HOURS_FIELD_NUMBER: Any
    LEGACY: Any
    MAX_TO_KEEP_FIELD_NUMBER: Any
    RESTORE_OP_NAME_FIELD_NUMBER: Any
    SAVE_TENSOR_NAME_FIELD_NUMBER: Any
    SHARDED_FIELD_NUMBER: Any
    V1: Any
    V2: Any
    VERSION_FIELD_NUMBER: Any
    filename_tensor_name: Any
    keep_checkpoint_every_n_hours: Any
    max_to_keep: Any
    restore_op_name: Any
    save_tensor_name: Any
    sharded: Any
    version: Any
    def __init__(self, *arguments, **values) -> None: ...
class SequenceExample:
    CONTEXT_FIELD_NUMBER: Any
    DESCRIPTOR: Any
    FEATURE_LISTS_FIELD_NUMBER: Any
    context: Any
    feature_lists: Any
    def __init__(self, *arguments, **values) -> None: ...
class ServerDef:
    CLUSTER_DEVICE_FILTERS_FIELD_NUMBER: Any
    CLUSTER_FIELD_NUMBER: Any
    DEFAULT_SESSION_CONFIG_FIELD_NUMBER: Any
    DESCRIPTOR: Any
    JOB_NAME_FIELD_NUMBER: Any
    PORT_FIELD_NUMBER: Any
    PROTOCOL_FIELD_NUMBER: Any
    REPLICA_FIELD_NUMBER: Any
    TASK_INDEX_FIELD_NUMBER: Any
    cluster: Any
    cluster_device_filters: Any
    default_session_config: Any
    job_name: Any
    port: Any
    protocol: Any
    replica: Any
    task_index: Any
    def __init__(self, *arguments, **values) -> None: ...
