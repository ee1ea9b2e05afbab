"""TensorFlow 1.15 and TensorFlow 2.x behind one name: `from compat import tf`.

Programs of the 1.x kind run on 2.x through `tf.compat.v1` with 2.x behaviour switched off. Nothing else is patched: what
the programs talk to the servers with is the client as it was published.
"""

import os

# Without this a client logs every connection it waits for.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow  # noqa: E402

IS_TF1 = tensorflow.__version__.startswith("1.")

if IS_TF1:
    tf = tensorflow.compat.v1
else:
    import tensorflow.compat.v1 as tf

    tf.disable_v2_behavior()

tf.logging.set_verbosity(tf.logging.ERROR)
