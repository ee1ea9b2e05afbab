"""Made by `python -m tensorfleet.framework.stubs`: `tf`."""

from typing import Any
from tensorfleet._stubs import app as app
from tensorfleet._stubs import bitwise as bitwise
from tensorfleet._stubs import compat as compat
from tensorfleet._stubs import contrib as contrib
from tensorfleet._stubs import data as data
from tensorfleet._stubs import debugging as debugging
from tensorfleet._stubs import distribute as distribute
from tensorfleet._stubs import dtypes as dtypes
from tensorfleet._stubs import errors as errors
from tensorfleet._stubs import estimator as estimator
from tensorfleet._stubs import flags as flags
from tensorfleet._stubs import gfile as gfile
from tensorfleet._stubs import graph_util as graph_util
from tensorfleet._stubs import image as image
from tensorfleet._stubs import initializers as initializers
from tensorfleet._stubs import io as io
from tensorfleet._stubs import keras as keras
from tensorfleet._stubs import layers as layers
from tensorfleet._stubs import linalg as linalg
from tensorfleet._stubs import logging as logging
from tensorfleet._stubs import lookup as lookup
from tensorfleet._stubs import losses as losses
from tensorfleet._stubs import manip as manip
from tensorfleet._stubs import math as math
from tensorfleet._stubs import metrics as metrics
from tensorfleet._stubs import nest as nest
from tensorfleet._stubs import nn as nn
from tensorfleet._stubs import profiler as profiler
from tensorfleet._stubs import python_io as python_io
from tensorfleet._stubs import queue as queue
from tensorfleet._stubs import random as random
from tensorfleet._stubs import raw_ops as raw_ops
from tensorfleet._stubs import resource_loader as resource_loader
from tensorfleet._stubs import saved_model as saved_model
from tensorfleet._stubs import sets as sets
from tensorfleet._stubs import signal as signal
from tensorfleet._stubs import sparse as sparse
from tensorfleet._stubs import strings as strings
from tensorfleet._stubs import summary as summary
from tensorfleet._stubs import sysconfig as sysconfig
from tensorfleet._stubs import test as test
from tensorfleet._stubs import train as train
from tensorfleet._stubs import version as version
from tensorfleet.ops.variable_scope import AUTO_REUSE as AUTO_REUSE
from tensorfleet.ops.gradients import AggregationMethod as AggregationMethod
from tensorfleet.ops.control_flow import Assert as Assert
from tensorfleet.platform.versions import COMPILER_VERSION as COMPILER_VERSION
from tensorfleet.platform.versions import CXX11_ABI_FLAG as CXX11_ABI_FLAG
from tensorfleet.input.accumulators import ConditionalAccumulator as ConditionalAccumulator
from tensorfleet.input.accumulators import ConditionalAccumulatorBase as ConditionalAccumulatorBase
from tensorfleet.framework.dtypes import DType as DType
from tensorfleet.framework.device import DeviceSpec as DeviceSpec
from tensorfleet.framework.tensor_shape import Dimension as Dimension
from tensorfleet.input.queues import FIFOQueue as FIFOQueue
from tensorfleet.input.parsing import FixedLenFeature as FixedLenFeature
from tensorfleet.input.parsing import FixedLenSequenceFeature as FixedLenSequenceFeature
from tensorfleet.input.readers import FixedLengthRecordReader as FixedLengthRecordReader
from tensorfleet.platform.versions import GIT_VERSION as GIT_VERSION
from tensorfleet.platform.versions import GRAPH_DEF_VERSION as GRAPH_DEF_VERSION
from tensorfleet.platform.versions import GRAPH_DEF_VERSION_MIN_CONSUMER as GRAPH_DEF_VERSION_MIN_CONSUMER
from tensorfleet.platform.versions import GRAPH_DEF_VERSION_MIN_PRODUCER as GRAPH_DEF_VERSION_MIN_PRODUCER
from tensorfleet.framework.graph import Graph as Graph
from tensorfleet.framework.keys import GraphKeys as GraphKeys
from tensorfleet.input.readers import IdentityReader as IdentityReader
from tensorfleet.framework.composite import IndexedSlices as IndexedSlices
from tensorfleet.client.session import InteractiveSession as InteractiveSession
from tensorfleet.platform.versions import MONOLITHIC_BUILD as MONOLITHIC_BUILD
from tensorfleet.ops.custom_gradients import NotDifferentiable as NoGradient
from tensorfleet.ops.custom_gradients import NotDifferentiable as NotDifferentiable
from tensorfleet.framework.errors import OpError as OpError
from tensorfleet.framework.operation import Operation as Operation
from tensorfleet.input.experimental import OptionalSpec as OptionalSpec
from tensorfleet.input.queues import PaddingFIFOQueue as PaddingFIFOQueue
from tensorfleet.ops.printing import Print as Print
from tensorfleet.input.queues import PriorityQueue as PriorityQueue
from tensorfleet.framework.dtypes import QUANTIZED_DTYPES as QUANTIZED_DTYPES
from tensorfleet.input.queues import QueueBase as QueueBase
from tensorfleet.input.queues import RandomShuffleQueue as RandomShuffleQueue
from tensorfleet.input.readers import ReaderBase as ReaderBase
from tensorfleet.ops.custom_gradients import RegisterGradient as RegisterGradient
from tensorfleet.client.session import Session as Session
from tensorfleet.input.accumulators import SparseConditionalAccumulator as SparseConditionalAccumulator
from tensorfleet.input.parsing import SparseFeature as SparseFeature
from tensorfleet.framework.composite import SparseTensor as SparseTensor
from tensorfleet.framework.type_spec import SparseTensorSpec as SparseTensorSpec
from tensorfleet.framework.composite import SparseTensorValue as SparseTensorValue
from tensorfleet.input.readers import TFRecordReader as TFRecordReader
from tensorfleet.framework.tensor import Tensor as Tensor
from tensorfleet.ops.tensor_array import TensorArray as TensorArray
from tensorfleet.framework.tensor_shape import TensorShape as TensorShape
from tensorfleet.framework.type_spec import TensorSpec as TensorSpec
from tensorfleet.input.readers import TextLineReader as TextLineReader
from tensorfleet.framework.type_spec import TypeSpec as TypeSpec
from tensorfleet.ops.gradients import UnconnectedGradients as UnconnectedGradients
from tensorfleet.platform.versions import VERSION as VERSION
from tensorfleet.input.parsing import VarLenFeature as VarLenFeature
from tensorfleet.ops.variable import Variable as Variable
from tensorfleet.ops.variable import VariableAggregation as VariableAggregation
from tensorfleet.ops.variable_scope import VariableScope as VariableScope
from tensorfleet.ops.variable import VariableSynchronization as VariableSynchronization
from tensorfleet.input.readers import WholeFileReader as WholeFileReader
from tensorfleet.platform.versions import COMPILER_VERSION as __compiler_version__
from tensorfleet.platform.versions import CXX11_ABI_FLAG as __cxx11_abi_flag__
from tensorfleet.platform.versions import GIT_VERSION as __git_version__
from tensorfleet.platform.versions import MONOLITHIC_BUILD as __monolithic_build__
from tensorfleet.ops.math import abs as abs
from tensorfleet.ops.math import accumulate_n as accumulate_n
from tensorfleet.ops.check import add_check_numerics_ops as add_check_numerics_ops
from tensorfleet.ops.math import add_n as add_n
from tensorfleet.framework.ops import add_to_collection as add_to_collection
from tensorfleet.framework.ops import add_to_collections as add_to_collections
from tensorfleet.ops.variable_lists import all_variables as all_variables
from tensorfleet.ops.math import angle as angle
from tensorfleet.ops.math import argmax as argmax
from tensorfleet.ops.math import argmin as argmin
from tensorfleet.ops.ordering import argsort as argsort
from tensorfleet.framework.dtypes import as_dtype as as_dtype
from tensorfleet.ops.check import assert_equal as assert_equal
from tensorfleet.ops.check import assert_greater as assert_greater
from tensorfleet.ops.check import assert_greater_equal as assert_greater_equal
from tensorfleet.ops.check import assert_integer as assert_integer
from tensorfleet.ops.check import assert_less as assert_less
from tensorfleet.ops.check import assert_less_equal as assert_less_equal
from tensorfleet.ops.check import assert_near as assert_near
from tensorfleet.ops.check import assert_negative as assert_negative
from tensorfleet.ops.check import assert_non_negative as assert_non_negative
from tensorfleet.ops.check import assert_non_positive as assert_non_positive
from tensorfleet.ops.check import assert_none_equal as assert_none_equal
from tensorfleet.ops.check import assert_positive as assert_positive
from tensorfleet.ops.check import assert_proper_iterable as assert_proper_iterable
from tensorfleet.ops.check import assert_rank as assert_rank
from tensorfleet.ops.check import assert_rank_at_least as assert_rank_at_least
from tensorfleet.ops.check import assert_rank_in as assert_rank_in
from tensorfleet.ops.check import assert_same_float_dtype as assert_same_float_dtype
from tensorfleet.ops.check import assert_scalar as assert_scalar
from tensorfleet.ops.check import assert_type as assert_type
from tensorfleet.ops.variable_lists import assert_variables_initialized as assert_variables_initialized
from tensorfleet.ops.state import assign as assign
from tensorfleet.ops.state import assign_add as assign_add
from tensorfleet.ops.state import assign_sub as assign_sub
from tensorfleet.summaries.summary import audio_summary as audio_summary
from tensorfleet.ops.legacy import batch_cholesky as batch_cholesky
from tensorfleet.ops.legacy import batch_cholesky_solve as batch_cholesky_solve
from tensorfleet.ops.indexing import batch_gather as batch_gather
from tensorfleet.ops.legacy import batch_matmul as batch_matmul
from tensorfleet.ops.legacy import batch_matrix_band_part as batch_matrix_band_part
from tensorfleet.ops.legacy import batch_matrix_determinant as batch_matrix_determinant
from tensorfleet.ops.legacy import batch_matrix_diag as batch_matrix_diag
from tensorfleet.ops.legacy import batch_matrix_diag_part as batch_matrix_diag_part
from tensorfleet.ops.legacy import batch_matrix_inverse as batch_matrix_inverse
from tensorfleet.ops.legacy import batch_matrix_set_diag as batch_matrix_set_diag
from tensorfleet.ops.legacy import batch_matrix_solve as batch_matrix_solve
from tensorfleet.ops.legacy import batch_matrix_transpose as batch_matrix_transpose
from tensorfleet.ops.legacy import batch_matrix_triangular_solve as batch_matrix_triangular_solve
from tensorfleet.ops.state import batch_scatter_update as batch_scatter_update
from tensorfleet.ops.spaces import batch_to_space as batch_to_space
from tensorfleet.ops.statistics import bincount as bincount
from tensorfleet.ops.indexing import boolean_mask as boolean_mask
from tensorfleet.ops.array import broadcast_dynamic_shape as broadcast_dynamic_shape
from tensorfleet.ops.array import broadcast_static_shape as broadcast_static_shape
from tensorfleet.ops.cases import case as case
from tensorfleet.ops.math import cast as cast
from tensorfleet.ops.linalg import cholesky_solve as cholesky_solve
from tensorfleet.ops.clip import clip_by_average_norm as clip_by_average_norm
from tensorfleet.ops.clip import clip_by_global_norm as clip_by_global_norm
from tensorfleet.ops.clip import clip_by_norm as clip_by_norm
from tensorfleet.ops.clip import clip_by_value as clip_by_value
from tensorfleet.framework.ops import colocate_with as colocate_with
from tensorfleet.ops.math import complex as complex
from tensorfleet.ops.legacy import complex_abs as complex_abs
from tensorfleet.ops.array import concat as concat
from tensorfleet.ops.legacy import concat_v2 as concat_v2
from tensorfleet.ops.control_flow import cond as cond
from tensorfleet.ops.statistics import confusion_matrix as confusion_matrix
from tensorfleet.ops.math import conj as conj
from tensorfleet.framework.constant import constant_v1 as constant
from tensorfleet.modeling.initializers import Constant as constant_initializer
from tensorfleet.framework.ops import container as container
from tensorfleet.framework.ops import control_dependencies as control_dependencies
from tensorfleet.platform.behaviour import control_flow_v2_enabled as control_flow_v2_enabled
from tensorfleet.framework.conversion import convert_to_tensor_v1 as convert_to_tensor
from tensorfleet.framework.conversion import convert_to_tensor_or_indexed_slices as convert_to_tensor_or_indexed_slices
from tensorfleet.framework.composite import convert_to_tensor_or_sparse_tensor as convert_to_tensor_or_sparse_tensor
from tensorfleet.ops.reductions import count_nonzero as count_nonzero
from tensorfleet.ops.state import count_up_to as count_up_to
from tensorfleet.ops.partitioners import create_partitioned_variables as create_partitioned_variables
from tensorfleet.ops.math import cumprod as cumprod
from tensorfleet.ops.math import cumsum as cumsum
from tensorfleet.ops.custom_gradients import custom_gradient as custom_gradient
from tensorfleet.input.parsing import decode_csv as decode_csv
from tensorfleet.input.parsing import decode_raw as decode_raw
from tensorfleet.ops.spaces import depth_to_space as depth_to_space
from tensorfleet.input.parsing import deserialize_many_sparse as deserialize_many_sparse
from tensorfleet.framework.ops import device as device
from tensorfleet.platform.compat import dimension_at_index as dimension_at_index
from tensorfleet.platform.compat import dimension_value as dimension_value
from tensorfleet.platform.behaviour import disable_control_flow_v2 as disable_control_flow_v2
from tensorfleet.platform.behaviour import disable_eager_execution as disable_eager_execution
from tensorfleet.ops.variable import disable_resource_variables as disable_resource_variables
from tensorfleet.platform.behaviour import disable_tensor_equality as disable_tensor_equality
from tensorfleet.platform.behaviour import disable_v2_behavior as disable_v2_behavior
from tensorfleet.framework.tensor_shape import disable_v2_tensorshape as disable_v2_tensorshape
from tensorfleet.ops.math import div as div
from tensorfleet.ops.math import div_no_nan as div_no_nan
from tensorfleet.ops.math import divide as divide
from tensorfleet.framework.dtypes import float64 as double
from tensorfleet.ops.products import einsum as einsum
from tensorfleet.platform.behaviour import enable_control_flow_v2 as enable_control_flow_v2
from tensorfleet.platform.behaviour import enable_eager_execution as enable_eager_execution
from tensorfleet.ops.variable import enable_resource_variables as enable_resource_variables
from tensorfleet.platform.behaviour import enable_tensor_equality as enable_tensor_equality
from tensorfleet.platform.behaviour import enable_v2_behavior as enable_v2_behavior
from tensorfleet.framework.tensor_shape import enable_v2_tensorshape as enable_v2_tensorshape
from tensorfleet.ops.math import equal as equal
from tensorfleet.platform.behaviour import executing_eagerly as executing_eagerly
from tensorfleet.ops.array import expand_dims as expand_dims
from tensorfleet.ops.linalg import eye as eye
from tensorfleet.ops.constants import fill as fill
from tensorfleet.ops.partitioners import fixed_size_partitioner as fixed_size_partitioner
from tensorfleet.framework.dtypes import float32 as float32
from tensorfleet.framework.dtypes import float64 as float64
from tensorfleet.ops.math import floordiv as floordiv
from tensorfleet.ops.functional import foldl as foldl
from tensorfleet.ops.functional import foldr as foldr
from tensorfleet.ops.indexing import gather as gather
from tensorfleet.ops.indexing import gather_nd as gather_nd
from tensorfleet.framework.ops import get_collection as get_collection
from tensorfleet.framework.ops import get_collection_ref as get_collection_ref
from tensorfleet.framework.stacks import get_default_graph as get_default_graph
from tensorfleet.framework.stacks import get_default_session as get_default_session
from tensorfleet.ops.variable_scope import get_local_variable as get_local_variable
from tensorfleet.platform.tf_logging import get_logger as get_logger
from tensorfleet.framework.random_seed import get_seed as get_seed
from tensorfleet.framework.constant import constant_value as get_static_value
from tensorfleet.ops.variable_scope import get_variable as get_variable
from tensorfleet.ops.variable_scope import get_variable_scope as get_variable_scope
from tensorfleet.ops.clip import global_norm as global_norm
from tensorfleet.ops.variable_lists import global_variables as global_variables
from tensorfleet.ops.variable_lists import global_variables_initializer as global_variables_initializer
from tensorfleet.modeling.initializers import GlorotNormal as glorot_normal_initializer
from tensorfleet.modeling.initializers import GlorotUniform as glorot_uniform_initializer
from tensorfleet.ops.custom_gradients import grad_pass_through as grad_pass_through
from tensorfleet.ops.gradients import gradients as gradients
from tensorfleet.ops.control_flow import group as group
from tensorfleet.ops.gradients import hessians as hessians
from tensorfleet.ops.statistics import histogram_fixed_width as histogram_fixed_width
from tensorfleet.ops.statistics import histogram_fixed_width_bins as histogram_fixed_width_bins
from tensorfleet.summaries.summary import histogram_summary as histogram_summary
from tensorfleet.ops.array import identity as identity
from tensorfleet.ops.math import imag as imag
from tensorfleet.summaries.summary import image_summary as image_summary
from tensorfleet.framework.importer import import_graph_def as import_graph_def
from tensorfleet.framework.ops import init_scope as init_scope
from tensorfleet.input.lookup import initialize_all_tables as initialize_all_tables
from tensorfleet.ops.variable_lists import initialize_all_variables as initialize_all_variables
from tensorfleet.ops.variable_lists import initialize_local_variables as initialize_local_variables
from tensorfleet.ops.variable_lists import initialize_variables as initialize_variables
from tensorfleet.standin.hook import install_as_tensorflow as install_as_tensorflow
from tensorfleet.framework.dtypes import int32 as int32
from tensorfleet.framework.dtypes import int64 as int64
from tensorfleet.ops.legacy import inv as inv
from tensorfleet.ops.check import is_non_decreasing as is_non_decreasing
from tensorfleet.ops.check import is_numeric_tensor as is_numeric_tensor
from tensorfleet.ops.check import is_strictly_increasing as is_strictly_increasing
from tensorfleet.framework.tensor_util import is_tensor as is_tensor
from tensorfleet.ops.variable_lists import is_variable_initialized as is_variable_initialized
from tensorfleet.ops.linalg import lbeta as lbeta
from tensorfleet.ops.legacy import listdiff as list_diff
from tensorfleet.ops.legacy import listdiff as listdiff
from tensorfleet.standin.hook import load_ipython_extension as load_ipython_extension
from tensorfleet.ops.variable_lists import local_variables as local_variables
from tensorfleet.ops.variable_lists import local_variables_initializer as local_variables_initializer
from tensorfleet.ops.math import log_sigmoid as log_sigmoid
from tensorfleet.ops.math import logical_xor as logical_xor
from tensorfleet.framework.tensor_util import MakeNdarray as make_ndarray
from tensorfleet.ops.template import make_template as make_template
from tensorfleet.framework.tensor_util import make_tensor_proto as make_tensor_proto
from tensorfleet.ops.functional import map_fn as map_fn
from tensorfleet.input.parsing import matching_files as matching_files
from tensorfleet.ops.products import matmul as matmul
from tensorfleet.ops.linalg import matrix_diag as matrix_diag
from tensorfleet.ops.linalg import matrix_diag_part as matrix_diag_part
from tensorfleet.ops.linalg import matrix_set_diag as matrix_set_diag
from tensorfleet.ops.array import matrix_transpose as matrix_transpose
from tensorfleet.summaries.summary import merge_all_summaries as merge_all_summaries
from tensorfleet.summaries.summary import merge_summary as merge_summary
from tensorfleet.ops.array import meshgrid as meshgrid
from tensorfleet.ops.partitioners import min_max_variable_partitioner as min_max_variable_partitioner
from tensorfleet.standin.scan import missing as missing
from tensorfleet.ops.variable_lists import model_variables as model_variables
from tensorfleet.ops.variable_lists import moving_average_variables as moving_average_variables
from tensorfleet.ops.legacy import mul as mul
from tensorfleet.ops.random import multinomial as multinomial
from tensorfleet.ops.math import multiply as multiply
from tensorfleet.framework.ops import name_scope as name_scope
from tensorfleet.ops.legacy import neg as neg
from tensorfleet.ops.indexing import newaxis as newaxis
from tensorfleet.ops.custom_gradients import NotDifferentiable as no_gradient
from tensorfleet.ops.control_flow import no_op as no_op
from tensorfleet.ops.variable_scope import no_regularizer as no_regularizer
from tensorfleet.ops.linalg import norm as norm
from tensorfleet.ops.math import not_equal as not_equal
from tensorfleet.ops.script import numpy_function as numpy_function
from tensorfleet.ops.indexing import one_hot as one_hot
from tensorfleet.ops.constants import ones as ones
from tensorfleet.modeling.initializers import Ones as ones_initializer
from tensorfleet.ops.constants import ones_like as ones_like
from tensorfleet.framework.ops import op_scope as op_scope
from tensorfleet.ops.legacy import pack as pack
from tensorfleet.ops.array import pad as pad
from tensorfleet.input.parsing import parse_example as parse_example
from tensorfleet.input.parsing import parse_single_example as parse_single_example
from tensorfleet.input.parsing import parse_tensor as parse_tensor
from tensorfleet.ops.constants import placeholder as placeholder
from tensorfleet.ops.constants import placeholder_with_default as placeholder_with_default
from tensorfleet.ops.math import pow as pow
from tensorfleet.ops.printing import print_v2 as print
from tensorfleet.ops.script import py_func as py_func
from tensorfleet.ops.random import random_crop as random_crop
from tensorfleet.ops.random import random_gamma as random_gamma
from tensorfleet.ops.random import random_normal as random_normal
from tensorfleet.modeling.initializers import RandomNormal as random_normal_initializer
from tensorfleet.ops.random import random_shuffle as random_shuffle
from tensorfleet.ops.random import random_uniform as random_uniform
from tensorfleet.modeling.initializers import RandomUniform as random_uniform_initializer
from tensorfleet.ops.math import range as range
from tensorfleet.ops.array import rank as rank
from tensorfleet.input.parsing import read_file as read_file
from tensorfleet.ops.math import real as real
from tensorfleet.ops.custom_gradients import recompute_grad as recompute_grad
from tensorfleet.ops.reductions import reduce_all as reduce_all
from tensorfleet.ops.reductions import reduce_any as reduce_any
from tensorfleet.ops.strings import reduce_join as reduce_join
from tensorfleet.ops.reductions import reduce_logsumexp as reduce_logsumexp
from tensorfleet.ops.reductions import reduce_max as reduce_max
from tensorfleet.ops.reductions import reduce_mean as reduce_mean
from tensorfleet.ops.reductions import reduce_min as reduce_min
from tensorfleet.ops.reductions import reduce_prod as reduce_prod
from tensorfleet.ops.reductions import reduce_sum as reduce_sum
from tensorfleet.ops.strings import regex_replace as regex_replace
from tensorfleet.training.meta_graph import register_proto_function as register_proto_function
from tensorfleet.framework.conversion import register_tensor_conversion_function as register_tensor_conversion_function
from tensorfleet.ops.ordering import repeat as repeat
from tensorfleet.ops.variable_lists import report_uninitialized_variables as report_uninitialized_variables
from tensorfleet.ops.spaces import required_space_to_batch_paddings as required_space_to_batch_paddings
from tensorfleet.framework.stacks import reset_default_graph as reset_default_graph
from tensorfleet.ops.array import reshape as reshape
from tensorfleet.ops.variable import resource_variables_enabled as resource_variables_enabled
from tensorfleet.ops.array import reverse_sequence as reverse_sequence
from tensorfleet.ops.math import round as round
from tensorfleet.ops.math import saturate_cast as saturate_cast
from tensorfleet.ops.math import scalar_mul as scalar_mul
from tensorfleet.summaries.summary import scalar_summary as scalar_summary
from tensorfleet.ops.functional import scan as scan
from tensorfleet.ops.state import scatter_add as scatter_add
from tensorfleet.ops.state import scatter_div as scatter_div
from tensorfleet.ops.state import scatter_max as scatter_max
from tensorfleet.ops.state import scatter_min as scatter_min
from tensorfleet.ops.state import scatter_mul as scatter_mul
from tensorfleet.ops.state import scatter_nd_add as scatter_nd_add
from tensorfleet.ops.state import scatter_nd_sub as scatter_nd_sub
from tensorfleet.ops.state import scatter_nd_update as scatter_nd_update
from tensorfleet.ops.state import scatter_sub as scatter_sub
from tensorfleet.ops.state import scatter_update as scatter_update
from tensorfleet.ops.legacy import select as select
from tensorfleet.ops.indexing import sequence_mask as sequence_mask
from tensorfleet.input.parsing import serialize_many_sparse as serialize_many_sparse
from tensorfleet.input.parsing import serialize_sparse as serialize_sparse
from tensorfleet.input.parsing import serialize_tensor as serialize_tensor
from tensorfleet.framework.random_seed import set_random_seed as set_random_seed
from tensorfleet.ops.array import setdiff1d as setdiff1d
from tensorfleet.ops.array import shape as shape
from tensorfleet.ops.array import shape_n as shape_n
from tensorfleet.ops.math import sigmoid as sigmoid
from tensorfleet.ops.array import size as size
from tensorfleet.ops.array import slice as slice
from tensorfleet.ops.ordering import sort as sort
from tensorfleet.ops.spaces import space_to_batch as space_to_batch
from tensorfleet.ops.spaces import space_to_depth as space_to_depth
from tensorfleet.ops.sparse import sparse_add as sparse_add
from tensorfleet.ops.sparse import sparse_fill_empty_rows as sparse_fill_empty_rows
from tensorfleet.ops.sparse import sparse_mask as sparse_mask
from tensorfleet.ops.sparse import sparse_merge as sparse_merge
from tensorfleet.ops.constants import sparse_placeholder as sparse_placeholder
from tensorfleet.ops.sparse import sparse_reduce_sum as sparse_reduce_sum
from tensorfleet.ops.sparse import sparse_reorder as sparse_reorder
from tensorfleet.ops.sparse import sparse_reset_shape as sparse_reset_shape
from tensorfleet.ops.sparse import sparse_reshape as sparse_reshape
from tensorfleet.ops.sparse import sparse_retain as sparse_retain
from tensorfleet.ops.statistics import sparse_segment_mean as sparse_segment_mean
from tensorfleet.ops.statistics import sparse_segment_sqrt_n as sparse_segment_sqrt_n
from tensorfleet.ops.statistics import sparse_segment_sum as sparse_segment_sum
from tensorfleet.ops.sparse import sparse_tensor_dense_matmul as sparse_tensor_dense_matmul
from tensorfleet.ops.sparse import sparse_tensor_to_dense as sparse_tensor_to_dense
from tensorfleet.ops.sparse import sparse_to_dense as sparse_to_dense
from tensorfleet.ops.sparse import sparse_to_indicator as sparse_to_indicator
from tensorfleet.ops.sparse import sparse_transpose as sparse_transpose
from tensorfleet.ops.array import split as split
from tensorfleet.ops.legacy import split_v as split_v
from tensorfleet.ops.array import squeeze as squeeze
from tensorfleet.ops.array import stack as stack
from tensorfleet.ops.array import strided_slice as strided_slice
from tensorfleet.framework.dtypes import string as string
from tensorfleet.ops.strings import string_split as string_split
from tensorfleet.ops.strings import string_to_hash_bucket as string_to_hash_bucket
from tensorfleet.ops.strings import string_to_number as string_to_number
from tensorfleet.ops.legacy import sub as sub
from tensorfleet.ops.strings import substr as substr
from tensorfleet.ops.math import subtract as subtract
from tensorfleet.ops.switch_case import switch_case as switch_case
from tensorfleet.input.lookup import tables_initializer as tables_initializer
from tensorfleet.ops.products import tensordot as tensordot
from tensorfleet.ops.math import to_bfloat16 as to_bfloat16
from tensorfleet.ops.math import to_complex128 as to_complex128
from tensorfleet.ops.math import to_complex64 as to_complex64
from tensorfleet.ops.math import to_double as to_double
from tensorfleet.ops.math import to_float as to_float
from tensorfleet.ops.math import to_int32 as to_int32
from tensorfleet.ops.math import to_int64 as to_int64
from tensorfleet.ops.math import trace as trace
from tensorfleet.ops.variable_lists import trainable_variables as trainable_variables
from tensorfleet.ops.array import transpose as transpose
from tensorfleet.ops.math import truediv as truediv
from tensorfleet.ops.random import truncated_normal as truncated_normal
from tensorfleet.modeling.initializers import TruncatedNormal as truncated_normal_initializer
from tensorfleet.ops.control_flow import tuple_v1 as tuple
from tensorfleet.modeling.initializers import UniformUnitScaling as uniform_unit_scaling_initializer
from tensorfleet.standin.hook import uninstall_as_tensorflow as uninstall_as_tensorflow
from tensorfleet.ops.array import unique as unique
from tensorfleet.ops.array import unique_with_counts as unique_with_counts
from tensorfleet.standin.hook import unload_ipython_extension as unload_ipython_extension
from tensorfleet.ops.legacy import unpack as unpack
from tensorfleet.ops.statistics import unsorted_segment_mean as unsorted_segment_mean
from tensorfleet.ops.statistics import unsorted_segment_sqrt_n as unsorted_segment_sqrt_n
from tensorfleet.ops.array import unstack as unstack
from tensorfleet.ops.partitioners import variable_axis_size_partitioner as variable_axis_size_partitioner
from tensorfleet.ops.variable import variable_creator_scope as variable_creator_scope
from tensorfleet.ops.variable_scope import variable_op_scope as variable_op_scope
from tensorfleet.ops.variable_scope import variable_scope as variable_scope
from tensorfleet.ops.variable_lists import variables_initializer as variables_initializer
from tensorfleet.modeling.initializers import VarianceScaling as variance_scaling_initializer
from tensorfleet.ops.check import verify_tensor_all_finite as verify_tensor_all_finite
from tensorfleet.ops.indexing import where as where
from tensorfleet.ops.indexing import where_v2 as where_v2
from tensorfleet.ops.control_flow import while_loop as while_loop
from tensorfleet.input.parsing import write_file as write_file
from tensorfleet.ops.constants import zeros as zeros
from tensorfleet.modeling.initializers import Zeros as zeros_initializer
from tensorfleet.ops.constants import zeros_like as zeros_like

class AttrValue:
    B_FIELD_NUMBER: Any
    DESCRIPTOR: Any
    FUNC_FIELD_NUMBER: Any
    F_FIELD_NUMBER: Any
    I_FIELD_NUMBER: Any
    LIST_FIELD_NUMBER: Any
    ListValue: Any
    PLACEHOLDER_FIELD_NUMBER: Any
    SHAPE_FIELD_NUMBER: Any
    S_FIELD_NUMBER: Any
    TENSOR_FIELD_NUMBER: Any
    TYPE_FIELD_NUMBER: Any
    b: Any
    f: Any
    func: Any
    i: Any
    list: Any
    placeholder: Any
    s: Any
    shape: Any
    tensor: Any
    type: Any
    def __init__(self, *arguments, **values) -> None: ...
class ConfigProto:
    ALLOW_SOFT_PLACEMENT_FIELD_NUMBER: Any
    CLUSTER_DEF_FIELD_NUMBER: Any
    DESCRIPTOR: Any
    DEVICE_COUNT_FIELD_NUMBER: Any
    DEVICE_FILTERS_FIELD_NUMBER: Any
    DeviceCountEntry: Any
    EXPERIMENTAL_FIELD_NUMBER: Any
    Experimental: Any
    GPU_OPTIONS_FIELD_NUMBER: Any
    GRAPH_OPTIONS_FIELD_NUMBER: Any
    INTER_OP_PARALLELISM_THREADS_FIELD_NUMBER: Any
    INTRA_OP_PARALLELISM_THREADS_FIELD_NUMBER: Any
    ISOLATE_SESSION_STATE_FIELD_NUMBER: Any
    LOG_DEVICE_PLACEMENT_FIELD_NUMBER: Any
    OPERATION_TIMEOUT_IN_MS_FIELD_NUMBER: Any
    PLACEMENT_PERIOD_FIELD_NUMBER: Any
    PLUGGABLE_DEVICE_OPTIONS_FIELD_NUMBER: Any
    RPC_OPTIONS_FIELD_NUMBER: Any
    SESSION_INTER_OP_THREAD_POOL_FIELD_NUMBER: Any
    SHARE_CLUSTER_DEVICES_IN_SESSION_FIELD_NUMBER: Any
    USE_PER_SESSION_THREADS_FIELD_NUMBER: Any
    allow_soft_placement: Any
    cluster_def: Any
    device_count: Any
    device_filters: Any
    experimental: Any
    gpu_options: Any
    graph_options: Any
    inter_op_parallelism_threads: Any
    intra_op_parallelism_threads: Any
    isolate_session_state: Any
    log_device_placement: Any
    operation_timeout_in_ms: Any
    placement_period: Any
    pluggable_device_options: Any
    rpc_options: Any
    session_inter_op_thread_pool: Any
    share_cluster_devices_in_session: Any
    use_per_session_threads: Any
    def __init__(self, *arguments, **values) -> None: ...
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
class GPUOptions:
    ALLOCATOR_TYPE_FIELD_NUMBER: Any
    ALLOW_GROWTH_FIELD_NUMBER: Any
    DEFERRED_DELETION_BYTES_FIELD_NUMBER: Any
    DESCRIPTOR: Any
    EXPERIMENTAL_FIELD_NUMBER: Any
    Experimental: Any
    FORCE_GPU_COMPATIBLE_FIELD_NUMBER: Any
    PER_PROCESS_GPU_MEMORY_FRACTION_FIELD_NUMBER: Any
    POLLING_ACTIVE_DELAY_USECS_FIELD_NUMBER: Any
    POLLING_INACTIVE_DELAY_MSECS_FIELD_NUMBER: Any
    VISIBLE_DEVICE_LIST_FIELD_NUMBER: Any
    allocator_type: Any
    allow_growth: Any
    deferred_deletion_bytes: Any
    experimental: Any
    force_gpu_compatible: Any
    per_process_gpu_memory_fraction: Any
    polling_active_delay_usecs: Any
    polling_inactive_delay_msecs: Any
    visible_device_list: Any
    def __init__(self, *arguments, **values) -> None: ...
class GraphDef:
    DEBUG_INFO_FIELD_NUMBER: Any
    DESCRIPTOR: Any
    LIBRARY_FIELD_NUMBER: Any
    NODE_FIELD_NUMBER: Any
    VERSIONS_FIELD_NUMBER: Any
    VERSION_FIELD_NUMBER: Any
    debug_info: Any
    library: Any
    node: Any
    version: Any
    versions: Any
    def __init__(self, *arguments, **values) -> None: ...
class GraphOptions:
    BUILD_COST_MODEL_AFTER_FIELD_NUMBER: Any
    BUILD_COST_MODEL_FIELD_NUMBER: Any
    DESCRIPTOR: Any
    ENABLE_BFLOAT16_SENDRECV_FIELD_NUMBER: Any
    ENABLE_RECV_SCHEDULING_FIELD_NUMBER: Any
    INFER_SHAPES_FIELD_NUMBER: Any
    OPTIMIZER_OPTIONS_FIELD_NUMBER: Any
    PLACE_PRUNED_GRAPH_FIELD_NUMBER: Any
    REWRITE_OPTIONS_FIELD_NUMBER: Any
    TIMELINE_STEP_FIELD_NUMBER: Any
    build_cost_model: Any
    build_cost_model_after: Any
    enable_bfloat16_sendrecv: Any
    enable_recv_scheduling: Any
    infer_shapes: Any
    optimizer_options: Any
    place_pruned_graph: Any
    rewrite_options: Any
    timeline_step: Any
    def __init__(self, *arguments, **values) -> None: ...
class HistogramProto:
    BUCKET_FIELD_NUMBER: Any
    BUCKET_LIMIT_FIELD_NUMBER: Any
    DESCRIPTOR: Any
    MAX_FIELD_NUMBER: Any
    MIN_FIELD_NUMBER: Any
    NUM_FIELD_NUMBER: Any
    SUM_FIELD_NUMBER: Any
    SUM_SQUARES_FIELD_NUMBER: Any
    bucket: Any
    bucket_limit: Any
    max: Any
    min: Any
    num: Any
    sum: Any
    sum_squares: Any
    def __init__(self, *arguments, **values) -> None: ...
class LogMessage:
    DEBUGGING: Any
    DESCRIPTOR: Any
    ERROR: Any
    FATAL: Any
    INFO: Any
    LEVEL_FIELD_NUMBER: Any
    Level: Any
    MESSAGE_FIELD_NUMBER: Any
    UNKNOWN: Any
    WARN: Any
    level: Any
    message: Any
    def __init__(self, *arguments, **values) -> None: ...
class MetaGraphDef:
    ASSET_FILE_DEF_FIELD_NUMBER: Any
    COLLECTION_DEF_FIELD_NUMBER: Any
    CollectionDefEntry: Any
    DESCRIPTOR: Any
    GRAPH_DEF_FIELD_NUMBER: Any
    META_INFO_DEF_FIELD_NUMBER: Any
    MetaInfoDef: Any
    OBJECT_GRAPH_DEF_FIELD_NUMBER: Any
    SAVER_DEF_FIELD_NUMBER: Any
    SIGNATURE_DEF_FIELD_NUMBER: Any
    SignatureDefEntry: Any
    asset_file_def: Any
    collection_def: Any
    graph_def: Any
    meta_info_def: Any
    object_graph_def: Any
    saver_def: Any
    signature_def: Any
    def __init__(self, *arguments, **values) -> None: ...
class NameAttrList:
    ATTR_FIELD_NUMBER: Any
    AttrEntry: Any
    DESCRIPTOR: Any
    NAME_FIELD_NUMBER: Any
    attr: Any
    name: Any
    def __init__(self, *arguments, **values) -> None: ...
class NodeDef:
    ATTR_FIELD_NUMBER: Any
    AttrEntry: Any
    DESCRIPTOR: Any
    DEVICE_FIELD_NUMBER: Any
    EXPERIMENTAL_DEBUG_INFO_FIELD_NUMBER: Any
    EXPERIMENTAL_TYPE_FIELD_NUMBER: Any
    ExperimentalDebugInfo: Any
    INPUT_FIELD_NUMBER: Any
    NAME_FIELD_NUMBER: Any
    OP_FIELD_NUMBER: Any
    attr: Any
    device: Any
    experimental_debug_info: Any
    experimental_type: Any
    input: Any
    name: Any
    op: Any
    def __init__(self, *arguments, **values) -> None: ...
class OptimizerOptions:
    CPU_GLOBAL_JIT_FIELD_NUMBER: Any
    DEFAULT: Any
    DESCRIPTOR: Any
    DO_COMMON_SUBEXPRESSION_ELIMINATION_FIELD_NUMBER: Any
    DO_CONSTANT_FOLDING_FIELD_NUMBER: Any
    DO_FUNCTION_INLINING_FIELD_NUMBER: Any
    GLOBAL_JIT_LEVEL_FIELD_NUMBER: Any
    GlobalJitLevel: Any
    L0: Any
    L1: Any
    Level: Any
    MAX_FOLDED_CONSTANT_IN_BYTES_FIELD_NUMBER: Any
    OFF: Any
    ON_1: Any
    ON_2: Any
    OPT_LEVEL_FIELD_NUMBER: Any
    cpu_global_jit: Any
    do_common_subexpression_elimination: Any
    do_constant_folding: Any
    do_function_inlining: Any
    global_jit_level: Any
    max_folded_constant_in_bytes: Any
    opt_level: Any
    def __init__(self, *arguments, **values) -> None: ...
class RunMetadata:
    COST_GRAPH_FIELD_NUMBER: Any
    DESCRIPTOR: Any
    FUNCTION_GRAPHS_FIELD_NUMBER: Any
    FunctionGraphs: Any
    PARTITION_GRAPHS_FIELD_NUMBER: Any
    SESSION_METADATA_FIELD_NUMBER: Any
    STEP_STATS_FIELD_NUMBER: Any
    cost_graph: Any
    function_graphs: Any
    partition_graphs: Any
    session_metadata: Any
    step_stats: Any
    def __init__(self, *arguments, **values) -> None: ...
class RunOptions:
    DEBUG_OPTIONS_FIELD_NUMBER: Any
    DESCRIPTOR: Any
    EXPERIMENTAL_FIELD_NUMBER: Any
    Experimental: Any
    FULL_TRACE: Any
    HARDWARE_TRACE: Any
    INTER_OP_THREAD_POOL_FIELD_NUMBER: Any
    NO_TRACE: Any
    OUTPUT_PARTITION_GRAPHS_FIELD_NUMBER: Any
    REPORT_TENSOR_ALLOCATIONS_UPON_OOM_FIELD_NUMBER: Any
    SOFTWARE_TRACE: Any
    TIMEOUT_IN_MS_FIELD_NUMBER: Any
    TRACE_LEVEL_FIELD_NUMBER: Any
    TraceLevel: Any
    debug_options: Any
    experimental: Any
    inter_op_thread_pool: Any
    output_partition_graphs: Any
    report_tensor_allocations_upon_oom: Any
    timeout_in_ms: Any
    trace_level: Any
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
class SummaryMetadata:
    DATA_CLASS_FIELD_NUMBER: Any
    DESCRIPTOR: Any
    DISPLAY_NAME_FIELD_NUMBER: Any
    PLUGIN_DATA_FIELD_NUMBER: Any
    PluginData: Any
    SUMMARY_DESCRIPTION_FIELD_NUMBER: Any
    data_class: Any
    display_name: Any
    plugin_data: Any
    summary_description: Any
    def __init__(self, *arguments, **values) -> None: ...
class TensorInfo:
    COMPOSITE_TENSOR_FIELD_NUMBER: Any
    COO_SPARSE_FIELD_NUMBER: Any
    CompositeTensor: Any
    CooSparse: Any
    DESCRIPTOR: Any
    DTYPE_FIELD_NUMBER: Any
    NAME_FIELD_NUMBER: Any
    TENSOR_SHAPE_FIELD_NUMBER: Any
    composite_tensor: Any
    coo_sparse: Any
    dtype: Any
    name: Any
    tensor_shape: Any
    def __init__(self, *arguments, **values) -> None: ...
def acos(x, name=None) -> Any: ...
def acosh(x, name=None) -> Any: ...
def add(x, y, name=None) -> Any: ...
def arg_max(input, dimension, output_type=..., name=None) -> Any: ...
def arg_min(input, dimension, output_type=..., name=None) -> Any: ...
def as_string(input, precision=-1, scientific=False, shortest=False, width=-1, fill='', name=None) -> Any: ...
def asin(x, name=None) -> Any: ...
def asinh(x, name=None) -> Any: ...
def atan(x, name=None) -> Any: ...
def atan2(y, x, name=None) -> Any: ...
def atanh(x, name=None) -> Any: ...
def batch_to_space_nd(input, block_shape, crops, name=None) -> Any: ...
bfloat16: Any
def bitcast(input, type, name=None) -> Any: ...
bool: Any
def broadcast_to(input, shape, name=None) -> Any: ...
def ceil(x, name=None) -> Any: ...
def check_numerics(tensor, message, name=None) -> Any: ...
def cholesky(input, name=None) -> Any: ...
complex128: Any
complex64: Any
def cos(x, name=None) -> Any: ...
def cosh(x, name=None) -> Any: ...
def cross(a, b, name=None) -> Any: ...
def decode_base64(input, name=None) -> Any: ...
def diag(diagonal, name=None) -> Any: ...
def diag_part(input, name=None) -> Any: ...
def digamma(x, name=None) -> Any: ...
def dynamic_partition(data, partitions, num_partitions, name=None) -> Any: ...
def dynamic_stitch(indices, data, name=None) -> Any: ...
def encode_base64(input, pad=False, name=None) -> Any: ...
def erf(x, name=None) -> Any: ...
def erfc(x, name=None) -> Any: ...
def exp(x, name=None) -> Any: ...
def expm1(x, name=None) -> Any: ...
float16: Any
def floor(x, name=None) -> Any: ...
def floor_div(x, y, name=None) -> Any: ...
def floormod(x, y, name=None) -> Any: ...
def greater(x, y, name=None) -> Any: ...
def greater_equal(x, y, name=None) -> Any: ...
def guarantee_const(input, name=None) -> Any: ...
half: Any
def identity_n(input, name=None) -> Any: ...
def igamma(a, x, name=None) -> Any: ...
def igammac(a, x, name=None) -> Any: ...
int16: Any
int8: Any
def invert_permutation(x, name=None) -> Any: ...
def is_finite(x, name=None) -> Any: ...
def is_inf(x, name=None) -> Any: ...
def is_nan(x, name=None) -> Any: ...
def less(x, y, name=None) -> Any: ...
def less_equal(x, y, name=None) -> Any: ...
def lgamma(x, name=None) -> Any: ...
def lin_space(start, stop, num, name=None) -> Any: ...
def linspace(start, stop, num, name=None) -> Any: ...
def log(x, name=None) -> Any: ...
def log1p(x, name=None) -> Any: ...
def logical_and(x, y, name=None) -> Any: ...
def logical_not(x, name=None) -> Any: ...
def logical_or(x, y, name=None) -> Any: ...
def matrix_band_part(input, num_lower, num_upper, name=None) -> Any: ...
def matrix_determinant(input, name=None) -> Any: ...
def matrix_inverse(input, adjoint=False, name=None) -> Any: ...
def matrix_solve(matrix, rhs, adjoint=False, name=None) -> Any: ...
def matrix_triangular_solve(matrix, rhs, lower=True, adjoint=False, name=None) -> Any: ...
def maximum(x, y, name=None) -> Any: ...
def minimum(x, y, name=None) -> Any: ...
def mod(x, y, name=None) -> Any: ...
def negative(x, name=None) -> Any: ...
def polygamma(a, x, name=None) -> Any: ...
qint16: Any
qint32: Any
qint8: Any
quint16: Any
quint8: Any
def realdiv(x, y, name=None) -> Any: ...
def reciprocal(x, name=None) -> Any: ...
resource: Any
def reverse(tensor, axis, name=None) -> Any: ...
def reverse_v2(tensor, axis, name=None) -> Any: ...
def rint(x, name=None) -> Any: ...
def rsqrt(x, name=None) -> Any: ...
def scatter_nd(indices, updates, shape, name=None) -> Any: ...
def segment_max(data, segment_ids, name=None) -> Any: ...
def segment_mean(data, segment_ids, name=None) -> Any: ...
def segment_min(data, segment_ids, name=None) -> Any: ...
def segment_prod(data, segment_ids, name=None) -> Any: ...
def segment_sum(data, segment_ids, name=None) -> Any: ...
def sign(x, name=None) -> Any: ...
def sin(x, name=None) -> Any: ...
def sinh(x, name=None) -> Any: ...
def space_to_batch_nd(input, block_shape, paddings, name=None) -> Any: ...
def sqrt(x, name=None) -> Any: ...
def square(x, name=None) -> Any: ...
def squared_difference(x, y, name=None) -> Any: ...
def stop_gradient(input, name=None) -> Any: ...
def string_join(inputs, separator='', name=None) -> Any: ...
def string_strip(input, name=None) -> Any: ...
def string_to_hash_bucket_fast(input, num_buckets, name=None) -> Any: ...
def string_to_hash_bucket_strong(input, num_buckets, key, name=None) -> Any: ...
def tan(x, name=None) -> Any: ...
def tanh(x, name=None) -> Any: ...
def tensor_scatter_add(tensor, indices, updates, name=None) -> Any: ...
def tensor_scatter_nd_add(tensor, indices, updates, name=None) -> Any: ...
def tensor_scatter_nd_sub(tensor, indices, updates, name=None) -> Any: ...
def tensor_scatter_nd_update(tensor, indices, updates, name=None) -> Any: ...
def tensor_scatter_sub(tensor, indices, updates, name=None) -> Any: ...
def tensor_scatter_update(tensor, indices, updates, name=None) -> Any: ...
def tile(input, multiples, name=None) -> Any: ...
def timestamp(name=None) -> Any: ...
def truncatediv(x, y, name=None) -> Any: ...
def truncatemod(x, y, name=None) -> Any: ...
uint16: Any
uint32: Any
uint64: Any
uint8: Any
def unravel_index(indices, dims, name=None) -> Any: ...
def unsorted_segment_max(data, segment_ids, num_segments, name=None) -> Any: ...
def unsorted_segment_min(data, segment_ids, num_segments, name=None) -> Any: ...
def unsorted_segment_prod(data, segment_ids, num_segments, name=None) -> Any: ...
def unsorted_segment_sum(data, segment_ids, num_segments, name=None) -> Any: ...
variant: Any
def zeta(x, q, name=None) -> Any: ...
__version__: str
__tensorfleet_version__: str
