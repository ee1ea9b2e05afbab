"""Seed 002: a server that is a cluster by itself, and a session on it.

    python -m tensorfleet hello.py
"""

import tensorflow as tf

# Start a TensorFlow server as a single-process "cluster".
c = tf.constant("Hello, distributed TensorFlow!")
server = tf.train.Server.create_local_server()
sess = tf.Session(server.target)  # Create a session on the server.
print(sess.run(c).decode())
