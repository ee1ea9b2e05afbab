"""Made by `python -m tensorfleet.framework.stubs`: `tf.debugging`."""

from typing import Any
from tensorfleet.ops.control_flow import Assert as Assert
from tensorfleet.ops.check import verify_tensor_all_finite as assert_all_finite
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
from tensorfleet.ops.check_shapes import assert_shapes as assert_shapes
from tensorfleet.ops.check import assert_type as assert_type
from tensorfleet.ops.check import is_non_decreasing as is_non_decreasing
from tensorfleet.ops.check import is_numeric_tensor as is_numeric_tensor
from tensorfleet.ops.check import is_strictly_increasing as is_strictly_increasing

def check_numerics(tensor, message, name=None) -> Any: ...
def is_finite(x, name=None) -> Any: ...
def is_inf(x, name=None) -> Any: ...
def is_nan(x, name=None) -> Any: ...
