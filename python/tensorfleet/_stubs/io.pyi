"""Made by `python -m tensorfleet.framework.stubs`: `tf.io`."""

from typing import Any
from tensorfleet._stubs import io_gfile as gfile
from tensorfleet.input.parsing import FixedLenFeature as FixedLenFeature
from tensorfleet.input.parsing import FixedLenSequenceFeature as FixedLenSequenceFeature
from tensorfleet.input.queues import PaddingFIFOQueue as PaddingFIFOQueue
from tensorfleet.input.queues import PriorityQueue as PriorityQueue
from tensorfleet.input.queues import QueueBase as QueueBase
from tensorfleet.input.queues import RandomShuffleQueue as RandomShuffleQueue
from tensorfleet.input.parsing import SparseFeature as SparseFeature
from tensorfleet.input.records import TFRecordCompressionType as TFRecordCompressionType
from tensorfleet.input.records import TFRecordOptions as TFRecordOptions
from tensorfleet.input.records import TFRecordWriter as TFRecordWriter
from tensorfleet.input.parsing import VarLenFeature as VarLenFeature
from tensorfleet.input.parsing import decode_csv as decode_csv
from tensorfleet.ops.image_color import decode_image as decode_image
from tensorfleet.input.parsing import decode_raw as decode_raw
from tensorfleet.input.parsing import deserialize_many_sparse as deserialize_many_sparse
from tensorfleet.ops.image_color import is_jpeg as is_jpeg
from tensorfleet.input.producers import match_filenames_once as match_filenames_once
from tensorfleet.input.parsing import matching_files as matching_files
from tensorfleet.input.parsing import parse_example as parse_example
from tensorfleet.input.parsing import parse_single_example as parse_single_example
from tensorfleet.input.parsing import parse_tensor as parse_tensor
from tensorfleet.input.parsing import read_file as read_file
from tensorfleet.input.parsing import serialize_many_sparse as serialize_many_sparse
from tensorfleet.input.parsing import serialize_sparse as serialize_sparse
from tensorfleet.input.parsing import serialize_tensor as serialize_tensor
from tensorfleet.input.records import tf_record_iterator as tf_record_iterator
from tensorfleet.input.parsing import write_file as write_file
from tensorfleet.training.write_graph import write_graph as write_graph

def decode_base64(input, name=None) -> Any: ...
def decode_bmp(contents, channels=0, name=None) -> Any: ...
def decode_jpeg(contents, channels=0, ratio=1, fancy_upscaling=True, try_recover_truncated=False, acceptable_fraction=1, dct_method='', name=None) -> Any: ...
def decode_png(contents, channels=0, dtype=..., name=None) -> Any: ...
def encode_base64(input, pad=False, name=None) -> Any: ...
