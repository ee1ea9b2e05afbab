"""Hooks that a program derives from TensorFlow's."""

import os
import tempfile

DIFFERENCES = {"save/StringJoin/inputs_1": "a name made up for each saver"}


def program(tf, check):
    directory = tempfile.mkdtemp()
    step = tf.train.get_or_create_global_step()
    train = step.assign_add(1)
    loss = tf.multiply(tf.cast(step, tf.float32), 2.0, name="loss")
    lines, saved, speeds = [], [], []

    class Logging(tf.train.LoggingTensorHook):
        def _log_tensors(self, tensor_values):
            lines.append({key: float(value) for key, value in tensor_values.items()})
            self._timer.update_last_triggered_step(self._iter_count)

    class Saving(tf.train.CheckpointSaverHook):
        def _save(self, session, step):
            saved.append(int(step))
            return super(Saving, self)._save(session, step)

    class Counting(tf.train.StepCounterHook):
        def _log_and_record(self, elapsed_steps, elapsed_time, global_step):
            speeds.append([int(elapsed_steps), int(global_step)])

    class Listener(tf.train.CheckpointSaverListener):
        def after_save(self, session, global_step_value):
            saved.append([int(global_step_value), int(session.run(step))])

    hooks = [
        Logging({"loss": loss}, every_n_iter=2, at_end=True),
        Saving(directory, save_steps=2, listeners=[Listener()]),
        Counting(every_n_steps=2),
        tf.train.StopAtStepHook(num_steps=5),
    ]
    with tf.train.MonitoredSession(hooks=hooks) as session:
        while not session.should_stop():
            session.run(train)
    check("lines", len(lines))
    check("saved", saved)
    check("speeds", speeds)
    check("files", sorted(name for name in os.listdir(directory) if not name.startswith("events")))
    timer = tf.train.SecondOrStepTimer(every_steps=3)
    check("timer", [timer.should_trigger_for_step(1), timer.update_last_triggered_step(1), timer.should_trigger_for_step(3), timer.should_trigger_for_step(4), timer.last_triggered_step()])
