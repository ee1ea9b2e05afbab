"""The cluster a program talks to, as its command line names it.

The servers run already, started by someone else; a program only needs their addresses: `--ps_hosts=a:1,b:2
--worker_hosts=c:3`, in the words of the TensorFlow tutorials.
"""

import argparse

from compat import tf


class Cluster:
    """Addresses of running servers, and the names TensorFlow has for them."""

    def __init__(self, ps_hosts, worker_hosts):
        self.ps_hosts = ps_hosts
        self.worker_hosts = worker_hosts

    @property
    def spec(self):
        return tf.train.ClusterSpec({"ps": self.ps_hosts, "worker": self.worker_hosts})

    def ps_target(self, task=0):
        """A session target: the master of a parameter server."""
        return "grpc://" + self.ps_hosts[task]

    def worker_target(self, task=0):
        """A session target: the master of a worker."""
        return "grpc://" + self.worker_hosts[task]

    def targets(self):
        """All masters."""
        return ["grpc://" + host for host in self.ps_hosts + self.worker_hosts]

    def task_names(self):
        return ["/job:ps/replica:0/task:%d" % task for task in range(len(self.ps_hosts))] + [
            "/job:worker/replica:0/task:%d" % task for task in range(len(self.worker_hosts))
        ]

    def replica_device_setter(self, task, **options):
        """Variables on the parameter servers in turn, everything else on one worker."""
        options.setdefault("worker_device", "/job:worker/task:%d" % task)
        return tf.train.replica_device_setter(cluster=self.spec, **options)

    def forget_variables(self):
        """Clears what earlier programs left on the servers."""
        tf.Session.reset(self.worker_target())


def argument_parser(description):
    """A parser that knows the flags of every program here."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--ps_hosts", required=True, help="addresses of the parameter servers, comma between")
    parser.add_argument("--worker_hosts", required=True, help="addresses of the workers, comma between")
    return parser


def from_flags(flags):
    return Cluster(flags.ps_hosts.split(","), flags.worker_hosts.split(","))


def training_parser(description, last_step):
    """The flags of the training programs."""
    parser = argument_parser(description)
    parser.add_argument("--task_index", type=int, default=0, help="which worker this is; worker 0 is the chief")
    parser.add_argument("--log_dir", required=True, help="where checkpoints and summaries go; servers write there, too")
    parser.add_argument("--last_step", type=int, default=last_step, help="global step to stop at")
    parser.add_argument("--seed", type=int, default=1, help="seed of the training data")
    parser.add_argument("--resource_variables", action="store_true", help="resource variables instead of references")
    return parser


def no_rewrites():
    """A session configuration in which the master's optimiser leaves the graph alone, so that nodes can be observed."""
    config = tf.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return config
