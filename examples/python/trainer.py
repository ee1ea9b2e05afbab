"""Seed 002: the skeleton of a trainer with a MonitoredTrainingSession, for two parameter servers and two workers.

    python -m tensorfleet trainer.py --ps_hosts=localhost:2222,localhost:2223 --worker_hosts=localhost:2224,localhost:2225 --job_name=ps --task_index=0
    python -m tensorfleet trainer.py --ps_hosts=localhost:2222,localhost:2223 --worker_hosts=localhost:2224,localhost:2225 --job_name=ps --task_index=1
    python -m tensorfleet trainer.py --ps_hosts=localhost:2222,localhost:2223 --worker_hosts=localhost:2224,localhost:2225 --job_name=worker --task_index=0
    python -m tensorfleet trainer.py --ps_hosts=localhost:2222,localhost:2223 --worker_hosts=localhost:2224,localhost:2225 --job_name=worker --task_index=1
"""

import argparse
import sys

import numpy as np
import tensorflow as tf

FLAGS = None

def main(_):
  ps_hosts = FLAGS.ps_hosts.split(",")
  worker_hosts = FLAGS.worker_hosts.split(",")

  # Create a cluster from the parameter server and worker hosts.
  cluster = tf.train.ClusterSpec({"ps": ps_hosts, "worker": worker_hosts})

  # Create and start a server for the local task.
  server = tf.train.Server(cluster,
                           job_name=FLAGS.job_name,
                           task_index=FLAGS.task_index)

  if FLAGS.job_name == "ps":
    server.join()
  elif FLAGS.job_name == "worker":

    # Assigns ops to the local worker by default.
    with tf.device(tf.train.replica_device_setter(
        worker_device="/job:worker/task:%d" % FLAGS.task_index,
        cluster=cluster)):

      # Build model... The seed leaves it out; this one adds four numbers.
      x = tf.placeholder(tf.float32, [None, 4])
      y = tf.placeholder(tf.float32, [None, 1])
      weights_1 = tf.get_variable("weights_1", [4, 8])
      biases_1 = tf.get_variable("biases_1", [8], initializer=tf.zeros_initializer())
      weights_2 = tf.get_variable("weights_2", [8, 1])
      biases_2 = tf.get_variable("biases_2", [1], initializer=tf.zeros_initializer())
      layer_1 = tf.nn.relu(tf.matmul(x, weights_1) + biases_1)
      loss = tf.reduce_mean(tf.square(tf.matmul(layer_1, weights_2) + biases_2 - y))
      global_step = tf.contrib.framework.get_or_create_global_step()

      train_op = tf.train.AdagradOptimizer(0.01).minimize(
          loss, global_step=global_step)

    # The StopAtStepHook handles stopping after running given steps.
    hooks=[tf.train.StopAtStepHook(last_step=FLAGS.last_step)]

    # The MonitoredTrainingSession takes care of session initialization,
    # restoring from a checkpoint, saving to a checkpoint, and closing when done
    # or an error occurs.
    with tf.train.MonitoredTrainingSession(master=server.target,
                                           is_chief=(FLAGS.task_index == 0),
                                           checkpoint_dir=FLAGS.checkpoint_dir,
                                           save_checkpoint_secs=FLAGS.save_checkpoint_secs,
                                           hooks=hooks) as mon_sess:
      while not mon_sess.should_stop():
        # Run a training step asynchronously.
        # See `tf.train.SyncReplicasOptimizer` for additional details on how to
        # perform *synchronous* training.
        # mon_sess.run handles AbortedError in case of preempted PS.
        # The model of this script wants to be fed.
        batch = np.random.rand(32, 4)
        _, step = mon_sess.run([train_op, global_step], {x: batch, y: batch.sum(axis=1, keepdims=True)})
    print("Worker %d: stopped at global step %d" % (FLAGS.task_index, step))

if __name__ == "__main__":
  parser = argparse.ArgumentParser()
  parser.register("type", "bool", lambda v: v.lower() == "true")
  # Flags for defining the tf.train.ClusterSpec
  parser.add_argument(
      "--ps_hosts",
      type=str,
      default="",
      help="Comma-separated list of hostname:port pairs"
  )
  parser.add_argument(
      "--worker_hosts",
      type=str,
      default="",
      help="Comma-separated list of hostname:port pairs"
  )
  parser.add_argument(
      "--job_name",
      type=str,
      default="",
      help="One of 'ps', 'worker'"
  )
  # Flags for defining the tf.train.Server
  parser.add_argument(
      "--task_index",
      type=int,
      default=0,
      help="Index of task within the job"
  )
  # Constants in the seed.
  parser.add_argument("--checkpoint_dir", type=str, default="/tmp/train_logs", help="Directory for checkpoints")
  parser.add_argument("--last_step", type=int, default=1000000, help="Global step to stop at")
  parser.add_argument("--save_checkpoint_secs", type=float, default=600, help="Seconds between two checkpoints")
  FLAGS, unparsed = parser.parse_known_args()
  tf.app.run(main=main, argv=[sys.argv[0]] + unparsed)
