"""Synchronous training by its hook, in one process."""


def program(tf, check):
    x = tf.Variable(10.0, name="x")
    step = tf.train.get_or_create_global_step()
    optimizer = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(0.1), 1)
    train = optimizer.minimize(tf.square(x), global_step=step)
    hook = optimizer.make_session_run_hook(True, num_tokens=0)
    with tf.train.MonitoredTrainingSession(hooks=[hook, tf.train.StopAtStepHook(last_step=4)]) as sess:
        values = []
        while not sess.should_stop():
            sess.run(train)
            values.append(sess.run([x, step]) if not sess.should_stop() else None)
    check("values", values)


DIFFERENCES = {
    "dummy_queue*": "the queue runner closes nothing, so it needs no queue",
    "sync_*": "the library's rounds can be begun again by a new chief",
    "save/*": "compared by the programs of savers",
    "*": "compared by train_sync_graph",
}
