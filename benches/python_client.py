"""Small programs of a TensorFlow 1.x client, the same for TensorFlow and for us; `python_package.py` runs them.

    python_client.py hello                a server, a session on it, one answer
    python_client.py constant TARGET      seconds of one `session.run` of a constant
    python_client.py serve ADDRESS        a cluster of one task, until it is killed
"""

import sys
import time

import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
WARM_UP = 200
BATCH = 200
BATCHES = 9


def hello():
    server = tf.train.Server.create_local_server()
    with tf.Session(server.target) as session:
        answer = session.run(tf.constant("Hello, distributed TensorFlow!"))
    assert answer == b"Hello, distributed TensorFlow!"
    print(0)


def constant(target):
    value = tf.constant(1.0)
    with tf.Session(target) as session:
        for _ in range(WARM_UP):
            session.run(value)
        times = []
        for _ in range(BATCHES):
            begin = time.perf_counter()
            for _ in range(BATCH):
                session.run(value)
            times.append((time.perf_counter() - begin) / BATCH)
    print(sorted(times)[BATCHES // 2])


def serve(address):
    server = tf.train.Server(tf.train.ClusterSpec({"local": [address]}), job_name="local", task_index=0)
    print("ready", flush=True)
    server.join()


if __name__ == "__main__":
    {"hello": hello, "constant": constant, "serve": serve}[sys.argv[1]](*sys.argv[2:])
