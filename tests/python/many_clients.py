"""Checks: twenty clients at once. This program is one group of them; start it once per group, all at the same time.

    python many_clients.py --ps_hosts=… --worker_hosts=… --group=0 --groups=4 --clients_per_group=5

Each client has a session of its own, on the masters in turn. They wait for each other before they start, so all sessions
are open together, and in the end they must have counted every step.
"""

import threading
import time

import checks
import cluster as cluster_flags
from checks import check, expect
from compat import tf

_ROUNDS = 25

# Groups start as quickly as Python imports TensorFlow, which takes long on a busy machine.
_WAIT_SECONDS = 120


class Crowd:
    """All clients of all groups."""

    def __init__(self, flags):
        self.cluster = cluster_flags.from_flags(flags)
        self.group = flags.group
        self.clients_per_group = flags.clients_per_group
        self.size = flags.groups * flags.clients_per_group


def _wait_until(session, variable, count, what):
    deadline = time.time() + _WAIT_SECONDS
    while True:
        try:
            seen = session.run(variable)
        except tf.errors.FailedPreconditionError:
            seen = "nothing initialised"
        if seen == count:
            return
        expect(time.time() < deadline, "waited for %d clients to %s: %s", count, what, seen)
        time.sleep(0.05)


def _client(crowd, index):
    with tf.Graph().as_default():
        with tf.device("/job:ps/task:0"):
            arrived = tf.Variable(0, name="arrived", use_resource=True)
            finished = tf.Variable(0, name="finished", use_resource=True)
        with tf.device("/job:ps/task:%d" % (len(crowd.cluster.ps_hosts) - 1)):
            steps = tf.Variable(0, name="steps", use_resource=True)
            # Only the first client sets the counts to zero; the step variable comes first, so that nobody who sees
            # the others misses it.
            count_step = steps.assign_add(1, read_value=False)
        arrive, finish = arrived.assign_add(1, read_value=False), finished.assign_add(1, read_value=False)
        fed = tf.placeholder(tf.int32, [])
        with tf.device("/job:worker/task:%d" % (index % len(crowd.cluster.worker_hosts))):
            answer = fed * 1000 + index
        targets = crowd.cluster.targets()
        with tf.Session(targets[index % len(targets)]) as session:
            if index == 0:
                session.run([steps.initializer, finished.initializer])
                session.run(arrived.initializer)
            _arrive(session, arrive)
            _wait_until(session, arrived, crowd.size, "arrive")
            for step in range(_ROUNDS):
                _, result = session.run([count_step, answer], {fed: step})
                expect(result == step * 1000 + index, "client %d got %s in step %d", index, result, step)
            session.run(finish)
            _wait_until(session, finished, crowd.size, "finish")
            total = session.run(steps)
            expect(total == _ROUNDS * crowd.size, "counted %s steps of %d", total, _ROUNDS * crowd.size)


def _arrive(session, arrive):
    """Announces a client, as soon as the first one has made the counter."""
    deadline = time.time() + _WAIT_SECONDS
    while True:
        try:
            return session.run(arrive)
        except (tf.errors.FailedPreconditionError, tf.errors.NotFoundError):
            expect(time.time() < deadline, "the first client did not come")
            time.sleep(0.05)


@check
def twenty_clients_at_once(crowd):
    failures = []

    def client(index):
        try:
            _client(crowd, index)
        except Exception as error:  # Reported below.
            failures.append((index, repr(error)))

    first = crowd.group * crowd.clients_per_group
    threads = [
        threading.Thread(target=client, args=(index,), daemon=True)
        for index in range(first, first + crowd.clients_per_group)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * _WAIT_SECONDS)
        expect(not thread.is_alive(), "a client hangs")
    expect(not failures, "failures: %s", failures)


if __name__ == "__main__":
    parser = cluster_flags.argument_parser(__doc__)
    parser.add_argument("--group", type=int, default=0)
    parser.add_argument("--groups", type=int, default=1)
    parser.add_argument("--clients_per_group", type=int, default=20)
    checks.main(__doc__, parser, Crowd)
