"""A trainer as TensorFlow's tutorials write it: every task runs it, told its place by flags, and serves in its own process.

    tensorfleet launch --ps 1 --workers 2 -- python launched_trainer.py
"""

import argparse

from compat import tf


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for flag in ["--ps_hosts", "--worker_hosts", "--job_name"]:
        parser.add_argument(flag, required=True)
    parser.add_argument("--task_index", type=int, required=True)
    parser.add_argument("--last_step", type=int, default=20)
    flags = parser.parse_args()
    cluster = tf.train.ClusterSpec({"ps": flags.ps_hosts.split(","), "worker": flags.worker_hosts.split(",")})
    server = tf.train.Server(cluster, job_name=flags.job_name, task_index=flags.task_index)
    if flags.job_name == "ps":
        server.join()
    with tf.Graph().as_default():
        device = tf.train.replica_device_setter(worker_device="/job:worker/task:%d" % flags.task_index, cluster=cluster)
        with tf.device(device):
            global_step = tf.train.get_or_create_global_step()
            weight = tf.Variable(0.0, name="weight")
            loss = tf.square(weight - 3.0)
            train = tf.train.GradientDescentOptimizer(0.25).minimize(loss, global_step=global_step)
        config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:%d" % flags.task_index])
        stop = tf.train.StopAtStepHook(last_step=flags.last_step)
        with tf.train.MonitoredTrainingSession(
            master=server.target, is_chief=flags.task_index == 0, hooks=[stop], config=config
        ) as session:
            while not session.should_stop():
                _, value, step = session.run([train, weight, global_step])
        print("trained to %.1f in %d steps" % (value, step))


if __name__ == "__main__":
    main()
