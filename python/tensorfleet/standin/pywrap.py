"""`tensorflow.python.pywrap_tensorflow`: the part that programs use reads checkpoints."""


def NewCheckpointReader(filepattern):
    """Reads a checkpoint; the public name is `tf.train.NewCheckpointReader`."""
    import tensorfleet

    return tensorfleet.train.NewCheckpointReader(filepattern)


def TF_GetBuildInfo():
    """Nothing of CUDA is built in."""
    return {}


def IsGoogleCudaEnabled():
    return False


def __getattr__(name):
    raise AttributeError("tensorfleet has no pywrap_tensorflow.%s: it is TensorFlow's C++ core" % name)
