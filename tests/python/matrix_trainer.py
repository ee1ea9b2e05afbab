"""A worker of a training under TensorFlow's own MonitoredTrainingSession, for the recovery matrix.

It counts as tests/src/bin/trainer.rs does, says the same lines, and uses the server that runs at its address.
"""

import argparse
import os
import time

# On a machine with other work this takes longer than anybody may be silent.
print("imports TensorFlow", flush=True)
from compat import tf


def say(text, *values):
    print(text % values, flush=True)


class SayReady(tf.train.SessionRunHook):
    """Tells in which state each session begins."""

    def __init__(self, global_step):
        self._global_step = global_step

    def after_create_session(self, session, coord):
        say("ready step=%d weight=0", session.run(self._global_step))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ps_hosts", required=True)
    parser.add_argument("--worker_hosts", required=True)
    parser.add_argument("--task_index", type=int, required=True)
    parser.add_argument("--checkpoint_dir", required=True)
    parser.add_argument("--save_checkpoint_steps", type=int, required=True)
    parser.add_argument("--step_ms", type=int, required=True)
    parser.add_argument("--last_step", type=int, required=True)
    parser.add_argument("--replicas_to_aggregate", type=int, default=0)
    parser.add_argument("--start_file")
    flags = parser.parse_args()
    # What it says while it waits is part of what is measured.
    tf.logging.set_verbosity(tf.logging.INFO)
    workers = flags.worker_hosts.split(",")
    cluster = tf.train.ClusterSpec({"ps": flags.ps_hosts.split(","), "worker": workers})
    is_chief = flags.task_index == 0
    worker = "/job:worker/task:%d" % flags.task_index
    with tf.device(tf.train.replica_device_setter(cluster=cluster, worker_device=worker)):
        global_step = tf.train.get_or_create_global_step()
        weight = tf.get_variable("weight", [4096], initializer=tf.zeros_initializer())
        optimizer = tf.train.GradientDescentOptimizer(1.0)
        hooks = [tf.train.StopAtStepHook(last_step=flags.last_step), SayReady(global_step)]
        if flags.replicas_to_aggregate:
            optimizer = tf.train.SyncReplicasOptimizer(
                optimizer, replicas_to_aggregate=flags.replicas_to_aggregate, total_num_replicas=len(workers)
            )
        train = optimizer.minimize(-tf.reduce_sum(weight), global_step=global_step)
        if flags.replicas_to_aggregate:
            hooks.append(optimizer.make_session_run_hook(is_chief))
    config = tf.ConfigProto(device_filters=["/job:ps", worker])
    with tf.train.MonitoredTrainingSession(
        master="grpc://" + workers[flags.task_index],
        is_chief=is_chief,
        checkpoint_dir=flags.checkpoint_dir,
        save_checkpoint_steps=flags.save_checkpoint_steps,
        save_checkpoint_secs=None,
        save_summaries_steps=None,
        log_step_count_steps=None,
        hooks=hooks,
        config=config,
        stop_grace_period_secs=5,
    ) as session:
        step = 0
        # Importing TensorFlow takes some longer than others to train.
        while flags.start_file and not os.path.exists(flags.start_file):
            time.sleep(0.02)
        while not session.should_stop():
            _, step = session.run([train, global_step])
            say("step %d", step)
            time.sleep(flags.step_ms / 1000.0)
    say("done step=%d", step)


if __name__ == "__main__":
    main()
