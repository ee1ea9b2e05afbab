"""Made by `python -m tensorfleet.framework.stubs`: `tf.nest`."""

from tensorfleet.platform.nest import assert_same_structure as assert_same_structure
from tensorfleet.platform.nest import flatten as flatten
from tensorfleet.platform.nest import is_nested as is_nested
from tensorfleet.platform.nest import map_structure as map_structure
from tensorfleet.platform.nest import pack_sequence_as as pack_sequence_as
