"""Measures TensorFlow on exported workloads: `measure_tensorflow.py DIR [FILTER]`.

Prints one JSON line for each workload with the median seconds of a step, through Session.run and
through Session.make_callable. The graphs are the files that `tensorfleet-benches export` wrote, so
both sides do the same work; the times that count are chosen as in `src/measure.rs`.
"""

import json
import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf
from tensorflow.core.protobuf import named_tensor_pb2

tf.compat.v1.disable_v2_behavior()

WARM_UP_SECONDS = 0.2
MEASURED_SECONDS = 0.5
LEAST_STEPS = 5


def records(path):
    """Name and value of every length-delimited NamedTensorProto in a file."""
    with open(path, "rb") as file:
        data = file.read()
    position, found = 0, []
    while position < len(data):
        length = shift = 0
        while True:
            byte = data[position]
            position += 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        record = named_tensor_pb2.NamedTensorProto.FromString(data[position:position + length])
        position += length
        found.append((record.name, tf.make_ndarray(record.tensor)))
    return found


def median(step, used=None):
    """The median seconds of a step; into `used` goes the processor time of one."""
    processor, steps = time.process_time(), 0
    begin = time.perf_counter()
    while time.perf_counter() - begin < WARM_UP_SECONDS:
        step()
        steps += 1
    times = []
    begin = time.perf_counter()
    while len(times) < LEAST_STEPS or time.perf_counter() - begin < MEASURED_SECONDS:
        before = time.perf_counter()
        step()
        times.append(time.perf_counter() - before)
    if used is not None:
        used.append((time.process_time() - processor) / (steps + len(times)))
    times.sort()
    return times[len(times) // 2]


def measure(directory, index, workload):
    path = lambda kind: os.path.join(directory, "%d.%s.pb" % (index, kind))
    graph = tf.Graph()
    with graph.as_default(), open(path("graph"), "rb") as file:
        tf.import_graph_def(tf.compat.v1.GraphDef.FromString(file.read()), name="")

    def wanted(run):
        return ([graph.get_tensor_by_name(name) for name in run["fetches"]]
                + [graph.get_operation_by_name(name) for name in run["targets"]])

    # A cluster's session target, where one is to be measured.
    target = os.environ.get("TENSORFLEET_BENCH_TARGET", "")
    with tf.compat.v1.Session(target, graph=graph) as session:
        session.run(wanted(workload["setup"]), dict(records(path("setup"))))
        fetches = wanted(workload["step"])
        feeds = [(graph.get_tensor_by_name(name), value) for name, value in records(path("step"))]
        feed_dict = dict(feeds)
        used = []
        run = median(lambda: session.run(fetches, feed_dict), used)
        prepared = session.make_callable(fetches, [tensor for tensor, _ in feeds])
        values = [value for _, value in feeds]
        return {"run": run, "callable": median(lambda: prepared(*values)), "processor": used[0]}


def main():
    directory = sys.argv[1]
    chosen = sys.argv[2] if len(sys.argv) > 2 else ""
    with open(os.path.join(directory, "workloads.json")) as file:
        workloads = json.load(file)
    for index, workload in enumerate(workloads):
        if chosen in workload["name"]:
            line = dict(measure(directory, index, workload), name=workload["name"])
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
