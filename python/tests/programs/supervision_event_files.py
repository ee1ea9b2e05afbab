"""Event files: what a writer puts into them."""

import glob
import os
import tempfile


def events(tf, directory):
    found = []
    for path in sorted(glob.glob(os.path.join(directory, "events*"))):
        for event in tf.train.summary_iterator(path):
            found.append([event.step, event.WhichOneof("what"), [(value.tag, value.simple_value) for value in event.summary.value]])
    return found


def program(tf, check):
    directory = tempfile.mkdtemp()
    loss = tf.placeholder(tf.float32, [], name="loss")
    summary = tf.summary.scalar("loss", loss)
    with tf.Session() as sess:
        writer = tf.summary.FileWriter(directory, sess.graph, filename_suffix=".here")
        for step in range(3):
            writer.add_summary(sess.run(summary, {loss: step * 0.5}), step)
        writer.add_summary(tf.Summary(value=[tf.Summary.Value(tag="by hand", simple_value=2.0)]), 7)
        options, metadata = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), tf.RunMetadata()
        sess.run(summary, {loss: 1.0}, options=options, run_metadata=metadata)
        writer.add_run_metadata(metadata, "step 3", 3)
        writer.add_session_log(tf.SessionLog(status=tf.SessionLog.START), 3)
        try:
            writer.add_run_metadata(metadata, "step 3", 3)
        except ValueError as error:
            check("twice", str(error))
        writer.flush()
        check("logdir", writer.get_logdir() == directory)
        writer.close()
    check("files", [path.endswith(".here") for path in glob.glob(os.path.join(directory, "events*"))])
    check("events", events(tf, directory))
    other = os.path.join(directory, "other")
    with tf.summary.FileWriter(other) as writer:
        writer.add_graph(tf.get_default_graph())
        writer.add_event(tf.Event(step=4, summary=tf.Summary(value=[tf.Summary.Value(tag="x", simple_value=1.0)])))
    check("other", events(tf, other))
