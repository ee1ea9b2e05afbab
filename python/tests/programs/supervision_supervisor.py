"""A supervisor: its nodes, files and events, and a second one that goes on."""

import glob
import os
import tempfile


def events(tf, directory):
    found = []
    for path in sorted(glob.glob(os.path.join(directory, "events*"))):
        for event in tf.train.summary_iterator(path):
            tags = [value.tag for value in event.summary.value]
            if tags != ["global_step/sec"]:
                found.append([event.WhichOneof("what"), tags, event.session_log.status])
    return found


def program(tf, check):
    directory = tempfile.mkdtemp()
    w = tf.Variable(0.0, name="w")
    step = tf.Variable(0, name="global_step", trainable=False)
    train = tf.group(w.assign_add(0.5), step.assign_add(1), name="train")
    tf.summary.scalar("w", w)
    summary = tf.summary.merge_all()
    sv = tf.train.Supervisor(logdir=directory, global_step=step, summary_op=None, save_model_secs=0)
    check("parts", [sv.is_chief, sv.save_path == os.path.join(directory, "model.ckpt"), sv.init_op.name, sv.ready_op.name, sv.global_step.name, str(sv.summary_op)])
    check("defaults", [sv.save_model_secs, sv.save_summaries_secs, str(sv.ready_for_local_init_op), str(sv.init_feed_dict)])
    check("finalized", tf.get_default_graph().finalized)
    with sv.managed_session() as sess:
        count = 0
        while not sv.should_stop() and count < 5:
            sess.run(train)
            count = sess.run(step)
            if count == 5:
                sv.summary_computed(sess, sess.run(summary))
                sv.saver.save(sess, sv.save_path, global_step=sv.global_step)
    check("stopped", sv.should_stop())
    check("files", sorted(name for name in os.listdir(directory) if not name.startswith("events")))
    check("kinds", [kind for kind in events(tf, directory) if kind[0] != "session_log" or kind[2] != 3])
    check("latest", os.path.basename(tf.train.latest_checkpoint(directory)))
    again = tf.train.Supervisor(logdir=directory, global_step=step, summary_op=None, saver=sv.saver, init_op=sv.init_op, local_init_op=sv.init_op and None, ready_op=sv.ready_op)
    with again.managed_session(start_standard_services=False) as sess:
        check("resumed", sess.run([w, step]))
