"""A real TensorFlow server for one task of a cluster; the oracle, and the other half of mixed clusters.

    python tf_server.py --ps_hosts=localhost:2221 --worker_hosts=localhost:2222 --job_name=ps --task_index=0

Prints READY when it serves and ends when its standard input is closed.
"""

import os
import sys

import cluster as cluster_flags
from compat import tf


def main():
    parser = cluster_flags.argument_parser(__doc__)
    parser.add_argument("--job_name", required=True)
    parser.add_argument("--task_index", type=int, required=True)
    flags = parser.parse_args()
    server = tf.train.Server(
        cluster_flags.from_flags(flags).spec, job_name=flags.job_name, task_index=flags.task_index
    )
    print("READY", server.target, flush=True)
    sys.stdin.read()
    # A server has no clean way to stop.
    os._exit(0)


if __name__ == "__main__":
    main()
