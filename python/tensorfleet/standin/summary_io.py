"""`tensorflow.python.training.summary_io`: the old names of summary writers."""

_NEW = {"SummaryWriter": "FileWriter", "SummaryWriterCache": "FileWriterCache"}


def __getattr__(name):
    import tensorfleet as tf

    if name == "summary_iterator":
        return tf.train.summary_iterator
    if name in _NEW:
        return getattr(tf.summary, _NEW[name])
    raise AttributeError("tensorfleet has no tensorflow.python.training.summary_io.%s" % name)
