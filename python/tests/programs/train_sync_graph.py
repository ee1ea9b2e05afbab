"""The graph of synchronous training, and its values with one worker."""

import threading


def program(tf, check):
    w = tf.Variable([1.0, 2.0], name="w")
    table = tf.Variable([[1.0], [2.0], [3.0]], name="table")
    unused = tf.Variable(1.0, name="unused")
    step = tf.train.get_or_create_global_step()
    loss = tf.reduce_sum(tf.square(w)) + tf.reduce_sum(tf.gather(table, [2, 0, 2]))
    averages = tf.train.ExponentialMovingAverage(0.5)
    inner = tf.train.MomentumOptimizer(0.1, 0.9)
    optimizer = tf.train.SyncReplicasOptimizer(
        inner, replicas_to_aggregate=1, total_num_replicas=1, variable_averages=averages, variables_to_average=[w]
    )
    check("name", optimizer.get_name())
    for name, call in (
        ("early runner", optimizer.get_chief_queue_runner),
        ("early tokens", optimizer.get_init_tokens_op),
        ("no step", lambda: optimizer.minimize(loss)),
        ("no gradients", lambda: optimizer.apply_gradients([])),
    ):
        try:
            call()
            check(name, "nothing raised")
        except ValueError as error:
            check(name, str(error))
    train = optimizer.minimize(loss, global_step=step)
    tokens = optimizer.get_init_tokens_op(0)
    check("slots", [optimizer.get_slot(w, "momentum").name, optimizer.get_slot_names(), [var.name for var in optimizer.variables()]])
    check("local", [var.name for var in tf.local_variables()])
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        check("ready", sess.run(optimizer.ready_for_local_init_op))
        sess.run(optimizer.local_step_init_op)
        sess.run(optimizer.chief_init_op)
        sess.run(tokens)
        runner = optimizer.get_chief_queue_runner()
        round_op = runner.enqueue_ops[0]
        for count in range(3):
            applied = threading.Thread(target=lambda: sess.run(round_op))
            applied.start()
            sess.run(train)
            applied.join()
            check("values %d" % count, sess.run([w, table, step, averages.average(w), tf.local_variables()[0]]))


ACCUMULATORS = "accumulators have reference handles, which servers of all versions of TensorFlow 1.x know"
TOKENS = "the library's token queue can be begun again by a new chief"
DIFFERENCES = {
    "dummy_queue*": "the queue runner closes nothing, so it needs no queue",
    "sync_token_q*": TOKENS,
    "no_init_tokens": TOKENS,
    "Fill_1*": TOKENS,
    "NoOp_1": TOKENS,
    "sync_replicas/*": ACCUMULATORS,
    "Momentum/update_*": ACCUMULATORS,
    "cond*": "TensorFlow copies the nodes of an initial value that reads a variable",
    "w/*": "TensorFlow copies the nodes of an initial value that reads a variable",
    "report_uninitialized_variables/boolean_mask/*": "a slice from the start says so by a mask",
}
