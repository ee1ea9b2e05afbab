"""Saves or restores a gibibyte of variables with TensorFlow once: `checkpoint_tensorflow.py DIR save|restore`.

Prints one line of JSON with the seconds and the memory it took, measured as in `src/checkpoint.rs`.
"""

import json
import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

VARIABLES, ROWS, COLUMNS = 64, 4096, 1024
MODEL_BYTES = VARIABLES * ROWS * COLUMNS * 4


def resident_bytes(field):
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith(field):
                return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/self/status has no " + field)


def main(directory, work):
    os.makedirs(directory, exist_ok=True)
    for number in range(VARIABLES):
        tf.get_variable("v%02d" % number, [ROWS, COLUMNS], initializer=tf.constant_initializer(float(number)))
    saver = tf.train.Saver()
    prefix = os.path.join(directory, "model")
    with tf.Session() as session:
        if work == "save":
            session.run(tf.global_variables_initializer())
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
        before = resident_bytes("VmRSS:")
        start = time.perf_counter()
        if work == "save":
            saver.save(session, prefix)
        else:
            saver.restore(session, prefix)
        seconds = time.perf_counter() - start
        more = resident_bytes("VmHWM:") - before - (0 if work == "save" else MODEL_BYTES)
    print(json.dumps({"seconds": seconds, "more_bytes": more}))


main(*sys.argv[1:])
