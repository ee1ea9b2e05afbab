"""Input pipelines, built and measured in TensorFlow: `input_tensorflow.py build DIR`, `input_tensorflow.py measure DIR`.

`build` writes files of records and, for each pipeline, a GraphDef with an iterator; `input.json` tells what to run. `measure` runs
these graphs in a session of its process and prints one JSON line for each. `tensorfleet-benches input-once DIR` does the same with
the same files; how long is measured stands in `src/input.rs` as well.
"""

import json
import os
import sys
import time

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import tensorflow.compat.v1 as tf  # noqa: E402  (after the environment)

tf.disable_v2_behavior()

WARM_UP_SECONDS = 1.0
MEASURED_SECONDS = 3.0
FILES = 4
RECORDS = 20_000
BATCH = 128


def example(random):
    features = {
        "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[random.randint(10)])),
        "ids": tf.train.Feature(int64_list=tf.train.Int64List(value=random.randint(1_000_000, size=8))),
        "numbers": tf.train.Feature(float_list=tf.train.FloatList(value=random.standard_normal(32))),
        "text": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"a few words of text"])),
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def write_records(directory):
    random = np.random.RandomState(1)
    paths = [os.path.join(directory, "input-%d.tfrecord" % number) for number in range(FILES)]
    for path in paths:
        with tf.python_io.TFRecordWriter(path) as writer:
            for _ in range(RECORDS // FILES):
                writer.write(example(random))
    return paths


FEATURES = {
    "label": tf.FixedLenFeature([], tf.int64),
    "ids": tf.FixedLenFeature([8], tf.int64),
    "numbers": tf.FixedLenFeature([32], tf.float32),
    "text": tf.FixedLenFeature([], tf.string),
}


def prepared(parsed):
    return tf.clip_by_value(parsed["numbers"] * 0.5 + 1.0, -1.0, 1.0), parsed["ids"] % 1000, parsed["label"], parsed["text"]


def pipelines(paths):
    """Name, dataset, and how many records an element has."""
    records = tf.data.TFRecordDataset(paths)
    single = records.map(lambda record: prepared(tf.parse_single_example(record, FEATURES)), num_parallel_calls=2)
    yield "records, parse one, map, shuffle, batch", single.shuffle(2000, seed=1).repeat().batch(BATCH).prefetch(2), BATCH
    batches = records.shuffle(2000, seed=1).repeat().batch(BATCH)
    batches = batches.map(lambda records: prepared(tf.parse_example(records, FEATURES)), num_parallel_calls=2)
    yield "records, shuffle, batch, parse, map", batches.prefetch(2), BATCH
    numbers = tf.data.Dataset.range(1 << 40)
    yield "range, map, batch", numbers.map(lambda n: tf.cast(n, tf.float32) * 2.0 + 1.0).batch(BATCH), BATCH
    random = np.random.RandomState(1)
    images, labels = random.standard_normal([2000, 784]).astype(np.float32), random.randint(10, size=2000)
    slices = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(2000, seed=1).repeat()
    yield "tensors, shuffle, batch", slices.batch(BATCH).prefetch(2), BATCH
    mapped = slices.map(lambda image, label: (image / 2.0, tf.one_hot(label, 10)), num_parallel_calls=2)
    yield "tensors, shuffle, map, batch", mapped.batch(BATCH).prefetch(2), BATCH


def build(directory):
    paths = write_records(directory)
    names = []
    with tf.Graph().as_default():
        names = [name for name, _, _ in pipelines(paths)]
    listed = []
    for index, name in enumerate(names):
        graph = tf.Graph()
        with graph.as_default():
            _, dataset, records = list(pipelines(paths))[index]
            iterator = tf.data.make_initializable_iterator(dataset)
            element = tf.nest.flatten(iterator.get_next())
            entry = {"name": name, "graph": "input-%d.graph.pb" % index, "init": iterator.initializer.name,
                     "next": element[0].op.name, "records": records}
        listed.append(entry)
        with open(os.path.join(directory, entry["graph"]), "wb") as file:
            file.write(graph.as_graph_def().SerializeToString())
    with open(os.path.join(directory, "input.json"), "w") as file:
        json.dump(listed, file)


def measure(directory):
    with open(os.path.join(directory, "input.json")) as file:
        listed = json.load(file)
    for entry in listed:
        graph = tf.Graph()
        with graph.as_default(), open(os.path.join(directory, entry["graph"]), "rb") as file:
            tf.import_graph_def(tf.GraphDef.FromString(file.read()), name="")
        with tf.Session(graph=graph) as session:
            session.run(graph.get_operation_by_name(entry["init"]))
            step = session.make_callable(graph.get_operation_by_name(entry["next"]))

            def steps(seconds):
                begin, count = time.perf_counter(), 0
                while time.perf_counter() - begin < seconds:
                    step()
                    count += 1
                return count, time.perf_counter() - begin

            steps(WARM_UP_SECONDS)
            used = time.process_time()
            count, seconds = steps(MEASURED_SECONDS)
            used = time.process_time() - used
            records = count * entry["records"]
            print(json.dumps({"name": entry["name"], "records_per_second": records / seconds,
                              "processor_seconds_per_record": used / records}), flush=True)


if __name__ == "__main__":
    {"build": build, "measure": measure}[sys.argv[1]](sys.argv[2])
