"""Run options in hooks, the profiler's hook, and steps of several runs."""

import os
import tempfile

DIFFERENCES = {"save/StringJoin/inputs_1": "a name made up for each saver"}


def program(tf, check):
    directory = tempfile.mkdtemp()
    step = tf.train.get_or_create_global_step()
    train = step.assign_add(1)
    traces = []

    class Tracing(tf.train.SessionRunHook):
        def before_run(self, run_context):
            return tf.train.SessionRunArgs(step, options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE, timeout_in_ms=50000))

        def after_run(self, run_context, run_values):
            traces.append([len(run_values.run_metadata.step_stats.dev_stats) > 0, run_values.options.trace_level, run_values.options.timeout_in_ms])

    with tf.train.MonitoredSession(hooks=[Tracing()]) as session:
        metadata = tf.RunMetadata()
        session.run(train, run_metadata=metadata)
        check("caller's", len(metadata.step_stats.dev_stats) > 0)
    check("traces", traces)
    with tf.train.MonitoredSession(hooks=[tf.train.ProfilerHook(save_steps=2, output_dir=directory)]) as session:
        for _ in range(5):
            session.run(train)
    check("profiles", sorted(name for name in os.listdir(directory) if name.startswith("timeline")))
    with tf.train.MonitoredSession() as session:

        def two(step_context):
            before = step_context.session.run(step)
            return [int(before), int(step_context.run_with_hooks(train))]

        check("two runs", session.run_step_fn(two))

        def stop(step_context):
            step_context.request_stop()

        while not session.should_stop():
            session.run_step_fn(stop)
        check("stopped", session.should_stop())
    hook = tf.train.FinalOpsHook([step, tf.add(step, 1)])
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        session.run(train)
    check("final", [int(value) for value in hook.final_ops_values])
