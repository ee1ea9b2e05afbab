"""TensorFlow 1.x on Tensorfleet's runtime: `import tensorfleet as tf`.

The names are those of TensorFlow 1.15. Each is loaded when it is first used, so that importing the package costs
little more than importing numpy. Where a name comes from is said in `_names.py`, which is made from the modules
themselves (`python -m tensorfleet.framework.export`).
"""

from tensorfleet.framework import namespaces as _namespaces

__version__ = "1.15.5"  # the TensorFlow whose names these are: programs compare it
__tensorfleet_version__ = "0.1.0"

__getattr__, __dir__ = _namespaces.package(__name__)
