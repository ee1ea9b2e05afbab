"""Made by `python -m tensorfleet.framework.stubs`: `tf.compat`."""

from tensorfleet.platform.compat import as_bytes as as_bytes
from tensorfleet.platform.compat import as_text as as_str
from tensorfleet.platform.compat import as_str_any as as_str_any
from tensorfleet.platform.compat import as_text as as_text
from tensorfleet.platform.compat import bytes_or_text_types as bytes_or_text_types
from tensorfleet.platform.compat import complex_types as complex_types
from tensorfleet.platform.compat import dimension_at_index as dimension_at_index
from tensorfleet.platform.compat import dimension_value as dimension_value
from tensorfleet.platform.compat import forward_compatibility_horizon as forward_compatibility_horizon
from tensorfleet.platform.compat import forward_compatible as forward_compatible
from tensorfleet.platform.compat import integral_types as integral_types
from tensorfleet.platform.compat import path_to_str as path_to_str
from tensorfleet.platform.compat import real_types as real_types
from tensorfleet.standin.v1 import v1 as v1
