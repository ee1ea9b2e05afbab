"""Made by `python -m tensorfleet.framework.stubs`: `tf.sets`."""

from tensorfleet.ops.sets import set_difference as difference
from tensorfleet.ops.sets import set_intersection as intersection
from tensorfleet.ops.sets import set_difference as set_difference
from tensorfleet.ops.sets import set_intersection as set_intersection
from tensorfleet.ops.sets import set_union as set_union
from tensorfleet.ops.sets import set_union as union
