"""Programs in the manner of the years 2016 to 2018, in `old_programs`: they run unmodified, each as a cluster of processes."""

import glob
import json
import os
import re
import tempfile
import unittest

from processes import TESTS, Cluster

import tensorfleet as tf


class OldPrograms(unittest.TestCase):
    def path(self, name):
        return os.path.join(TESTS, "old_programs", name + ".py")

    def run_cluster(self, name, ps, workers, *flags, log_dir=True):
        """What the workers print, and the servers of the job `ps`."""
        cluster = Cluster(self, ps, workers)
        if log_dir:
            directory = tempfile.TemporaryDirectory()
            self.addCleanup(directory.cleanup)
            self.log_dir = directory.name
            flags = ("--log_dir=" + directory.name, *flags)
        servers = cluster.parameter_servers(self.path(name), *flags)
        tasks = [cluster.task(self.path(name), "worker", index, *flags) for index in range(workers)]
        return tasks, servers

    def number(self, pattern, lines):
        found = [match.group(1) for match in (re.search(pattern, line) for line in lines) if match]
        self.assertTrue(found, (pattern, lines))
        return float(found[-1])

    def test_what_they_use_is_there(self):
        for name in glob.glob(self.path("*")):
            self.assertEqual(tf.missing(name), [], name)

    def test_softmax_regression(self):
        workers, _ = self.run_cluster("softmax_regression", 1, 2)
        for worker in workers:
            lines = worker.lines()
            self.assertGreaterEqual(self.number(r": (\d+) steps", lines), 120)
            self.assertGreaterEqual(self.number(r"accuracy = (.*)", lines), 0.8)
        events = glob.glob(self.log_dir + "/events*")
        tags = {value.tag for path in events for event in tf.train.summary_iterator(path) for value in event.summary.value}
        self.assertLessEqual({"mean/W", "sttdev/W", "W", "cross entropy", "global_step/sec"}, tags | {"global_step/sec"})

    def test_done_queue(self):
        workers, servers = self.run_cluster("done_queue", 2, 2, "--steps=60")
        for worker in workers:
            self.assertGreater(self.number(r"done after (\d+) steps", worker.lines()), 0)
        for index, server in enumerate(servers):
            self.assertEqual(server.lines()[-1], "ps %d: quitting" % index)
        for path in glob.glob(self.log_dir + "/timeline-*.json"):
            with open(path) as file:
                names = {event.get("args", {}).get("op") for event in json.load(file)["traceEvents"]}
            self.assertIn("MatMul", names)
        self.assertEqual(len(glob.glob(self.log_dir + "/timeline-*.json")), 2)

    def test_gpu_strings(self):
        workers, _ = self.run_cluster("gpu_strings", 1, 2)
        for worker in workers:
            lines = worker.lines()
            self.assertGreaterEqual(self.number(r"step (\d+)", lines), 100)
            self.assertGreaterEqual(self.number(r"accuracy = (.*)", lines), 0.8)

    def test_gpu_strings_asynchronously(self):
        workers, _ = self.run_cluster("gpu_strings", 2, 1, "--issync=0")
        self.assertGreaterEqual(self.number(r"accuracy = (.*)", workers[0].lines()), 0.8)

    def test_records_in_queues(self):
        workers, _ = self.run_cluster("records_in_queues", 1, 2)
        for worker in workers:
            self.assertLess(self.number(r"loss (.*)", worker.lines()), 2.0)

    def test_towers(self):
        workers, _ = self.run_cluster("towers", 1, 2, log_dir=False)
        lines = workers[0].lines()
        self.assertEqual(lines[0], "devices: 3 variables: ['cell/w', 'cell/b']")
        first, last = re.search("global step 60, loss (.*) -> (.*)", lines[1]).groups()
        self.assertLess(float(last), float(first))
        self.assertIn("Cannot assign a dev", lines[2])


if __name__ == "__main__":
    unittest.main()
