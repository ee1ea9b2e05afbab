"""A traced step as a picture for a browser."""

import json
import unittest

import tensorfleet as tf
from tensorfleet.client import timeline


class Timeline(unittest.TestCase):
    def test_a_traced_step_names_its_nodes(self):
        metadata = tf.RunMetadata()
        with tf.Graph().as_default(), tf.Session() as session:
            product = tf.matmul(tf.placeholder(tf.float32, [1, 2], name="left"), tf.ones([2, 1]), name="product")
            options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
            session.run(product, {"left:0": [[1.0, 2.0]]}, options=options, run_metadata=metadata)
        record = timeline.Timeline(metadata.step_stats)
        trace = json.loads(record.generate_chrome_trace_format())
        self.assertIn("product", {event.get("args", {}).get("name") for event in trace["traceEvents"]})
        self.assertIn("traceEvents", record.analyze_step_stats().chrome_trace.format_to_string(pretty=True))


if __name__ == "__main__":
    unittest.main()
