"""Made by `python -m tensorfleet.framework.stubs`: `tf.python_io`."""

from tensorfleet.input.records import TFRecordCompressionType as TFRecordCompressionType
from tensorfleet.input.records import TFRecordOptions as TFRecordOptions
from tensorfleet.input.records import TFRecordWriter as TFRecordWriter
from tensorfleet.input.records import tf_record_iterator as tf_record_iterator
