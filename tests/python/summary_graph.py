"""Checks: TensorFlow runs a graph with summaries of the Rust library, reads its event file and its run metadata.

`tests/tests/tensorboard.rs` makes the directory: `graph.pb` with a graph whose summaries are named in `fetches.txt`,
`logs` with an event file, and `trace.json` with the timeline of the run of which the file tells.
"""

import argparse
import glob
import json
import os

import checks
from checks import check, expect
from compat import tf


def read(directory, name, mode="r"):
    with open(os.path.join(directory, name), mode) as file:
        return file.read()


@check
def summaries_are_computed(directory):
    """Leaves what TensorFlow computes beside the graph, for the caller to compare."""
    definition = tf.GraphDef()
    definition.ParseFromString(read(directory, "graph.pb", "rb"))
    fetches = read(directory, "fetches.txt").split()
    with tf.Graph().as_default(), tf.Session() as session:
        outputs = tf.import_graph_def(definition, return_elements=fetches, name="")
        for index, summary in enumerate(session.run(outputs)):
            with open(os.path.join(directory, "tensorflow_%d.summary" % index), "wb") as file:
                file.write(summary)
    return len(fetches)


@check
def timeline_has_the_same_regions(directory):
    """TensorFlow's timeline of the run metadata in the event file shows what ours shows."""
    from tensorflow.python.client import timeline

    (event_file,) = glob.glob(os.path.join(directory, "logs", "events.out.tfevents.*"))
    events = [event for event in tf.train.summary_iterator(event_file) if event.HasField("tagged_run_metadata")]
    (event,) = events
    metadata = tf.RunMetadata()
    metadata.ParseFromString(event.tagged_run_metadata.run_metadata)
    theirs = json.loads(timeline.Timeline(metadata.step_stats).generate_chrome_trace_format())
    ours = json.loads(read(directory, "trace.json"))

    def regions(trace):
        return sorted(
            (event["args"]["name"], event["name"], event["ts"], event["dur"], event["args"].get("input0", ""))
            for event in trace["traceEvents"]
            if event["ph"] == "X"
        )

    expect(regions(ours) == regions(theirs), "ours are %s, theirs %s", regions(ours), regions(theirs))
    return len(regions(ours))


def argument_parser():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--directory", required=True, help="what to read")
    return parser


if __name__ == "__main__":
    checks.main(__doc__, argument_parser(), lambda flags: flags.directory)
