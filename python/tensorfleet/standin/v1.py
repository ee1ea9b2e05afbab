"""`tf.compat.v1`: the same names once more."""

import tensorfleet as v1
from tensorfleet.framework.export import export_values

export_values(__name__, {"compat.v1": "v1"})
__all__ = ["v1"]
