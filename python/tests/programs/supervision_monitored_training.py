"""A monitored training session with all its nodes, hooks, files and events."""

import glob
import os
import tempfile

DIFFERENCES = {"save/StringJoin/inputs_1": "a name made up for each saver"}


def events(tf, directory):
    found = []
    for path in sorted(glob.glob(os.path.join(directory, "events*"))):
        for event in tf.train.summary_iterator(path):
            tags = [(value.tag, value.simple_value) for value in event.summary.value if not value.tag.endswith("/sec")]
            if event.WhichOneof("what") != "summary" or tags:
                found.append([event.step, event.WhichOneof("what"), tags, event.session_log.status])
    return found


def program(tf, check):
    directory = tempfile.mkdtemp()
    step = tf.train.get_or_create_global_step()
    w = tf.Variable(0.0, name="w")
    with tf.control_dependencies([w.assign_add(1.0)]):
        train = step.assign_add(1)
    tf.summary.scalar("w", tf.constant(0.5))
    seen = []
    hooks = [tf.train.StopAtStepHook(last_step=7)]
    with tf.train.MonitoredTrainingSession(checkpoint_dir=directory, hooks=hooks, save_checkpoint_steps=3, save_summaries_steps=2, log_step_count_steps=2) as session:
        while not session.should_stop():
            seen.append(int(session.run(train)))
    check("seen", seen)
    check("files", sorted(name for name in os.listdir(directory) if not name.startswith("events")))
    check("events", events(tf, directory))
    state = tf.train.get_checkpoint_state(directory)
    check("state", [os.path.basename(path) for path in state.all_model_checkpoint_paths])
    check("keys", tf.train.list_variables(directory))
    check("collections", sorted(key for key in tf.get_default_graph().get_all_collection_keys() if key != "cond_context"))
    check("finalized", tf.get_default_graph().finalized)
    with tf.Session() as sess:
        saver = tf.get_collection(tf.GraphKeys.SAVERS)[0]
        saver.restore(sess, tf.train.latest_checkpoint(directory))
        check("restored", sess.run([w, step]))
