"""Made by `python -m tensorfleet.framework.stubs`: `tf.data`."""

from tensorfleet._stubs import data_experimental as experimental
from tensorfleet.input.dataset import Dataset as Dataset
from tensorfleet.input.dataset import DatasetSpec as DatasetSpec
from tensorfleet.input.dataset_files import FixedLengthRecordDataset as FixedLengthRecordDataset
from tensorfleet.input.iterators import Iterator as Iterator
from tensorfleet.input.options import Options as Options
from tensorfleet.input.dataset_files import TFRecordDataset as TFRecordDataset
from tensorfleet.input.dataset_files import TextLineDataset as TextLineDataset
from tensorfleet.input.dataset import get_legacy_output_classes as get_output_classes
from tensorfleet.input.dataset import get_legacy_output_shapes as get_output_shapes
from tensorfleet.input.dataset import get_legacy_output_types as get_output_types
from tensorfleet.input.iterators import make_initializable_iterator as make_initializable_iterator
from tensorfleet.input.iterators import make_one_shot_iterator as make_one_shot_iterator
