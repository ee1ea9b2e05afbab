"""Servers of TensorFlow, one for each line that is read: `PS_HOSTS WORKER_HOSTS JOB INDEX`; ends with its input.

Run by a Python with TensorFlow 1.15 or 2.x; see `processes.py`.
"""

import os
import sys

import tensorflow

tf = tensorflow.compat.v1
servers = []
for line in iter(sys.stdin.readline, ""):
    ps, workers, job, index = line.split()
    cluster = {"ps": ps.split(","), "worker": workers.split(",")}
    servers.append(tf.train.Server(cluster, job_name=job, task_index=int(index)))
    print("READY", flush=True)
# A server has no clean way to stop.
os._exit(0)
