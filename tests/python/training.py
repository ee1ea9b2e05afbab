"""Checks: the tutorials' programs, and training as people do it, on running servers.

Workers are threads with graphs and sessions of their own; to the servers they are separate clients.
"""

import glob
import os
import shutil
import tempfile
import threading

import numpy as np

import checks
import cluster as cluster_flags
import loss_curves
import tutorial_000_linear
import tutorial_001_adagrad
import tutorial_002_monitored
import tutorial_003_placement
import tutorial_004_mnist
from checks import check, check_for, expect
from compat import tf

VARIABLES = {"ref": False, "resource": True}

# A worker that has not come back by then hangs.
WORKER_SECONDS = 120


class LogDirectory:
    """A directory for checkpoints, gone afterwards."""

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="tensorfleet_")
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)


def in_workers(count, work):
    """Runs `work(task_index)` in one thread for each worker; the results in order."""
    results, errors = [None] * count, []

    def worker(task_index):
        try:
            results[task_index] = work(task_index)
        except Exception as error:  # Raised again below, in the thread of the check.
            errors.append(error)

    threads = [threading.Thread(target=worker, args=(index,), daemon=True) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WORKER_SECONDS)
        expect(not thread.is_alive(), "a worker did not end within %d s", WORKER_SECONDS)
    if errors:
        raise errors[0]
    return results


@check_for(**VARIABLES)
def tutorial_000_fits_a_line_and_saves(cluster, case):
    cluster.forget_variables()
    with LogDirectory() as log_dir:
        result = tutorial_000_linear.train(cluster, log_dir, resource_variables=case)
        # A step fetched beside its update may be the one before, so a loop may do one more.
        expect(result["first_step"] == 0 and result["last_step"] in (400, 401), "steps: %s", result)
        expect(abs(result["slope"] - 2) < 0.3 and abs(result["offset"]) < 0.3, "parameters: %s", result)
        saved = os.path.join(log_dir, "model.ckpt-%d" % result["last_step"])
        expect(tf.train.latest_checkpoint(log_dir) == saved, "no checkpoint")
    return result


@check_for(**VARIABLES)
def tutorial_000_resumes_where_it_was_saved(cluster, case):
    cluster.forget_variables()
    with LogDirectory() as log_dir:
        before = tutorial_000_linear.train(cluster, log_dir, last_step=150, resource_variables=case)
        # As after a restart of all servers: only the checkpoint remembers.
        cluster.forget_variables()
        after = tutorial_000_linear.train(cluster, log_dir, last_step=150, resource_variables=case)
        expect(after["first_step"] == before["last_step"] >= 150, "resumed at %s after %s", after, before)
        expect(after["slope"] == before["slope"], "other parameters: %s after %s", after, before)
        more = tutorial_000_linear.train(cluster, log_dir, last_step=200, resource_variables=case)
        expect(more["first_step"] == before["last_step"] and more["last_step"] in (200, 201), "went on as %s", more)
    return more


@check_for(**VARIABLES)
def tutorial_001_trains_on_two_workers(cluster, case):
    cluster.forget_variables()
    with LogDirectory() as log_dir:

        def work(task_index):
            return tutorial_001_adagrad.train(cluster, log_dir, task_index, resource_variables=case)

        results = in_workers(2, work)
        for result in results:
            expect(abs(result["slope"] - 2) < 0.6 and abs(result["offset"] - 0.2) < 0.4, "parameters: %s", result)
        events = glob.glob(os.path.join(log_dir, "events.out.*"))
        tags = {
            value.tag
            for path in events
            for event in tf.train.summary_iterator(path)
            for value in event.summary.value
        }
        expect({"slope", "parameters"} <= tags, "summaries of %s only", tags)
    return results


@check
def tutorial_002_says_hello_on_every_server(cluster):
    for target in cluster.targets():
        greeting = tutorial_002_monitored.hello(target)
        expect(greeting == b"Hello, distributed TensorFlow!", "%s said %r", target, greeting)


@check
def tutorial_002_trains_a_model_cut_by_hand(cluster):
    cluster.forget_variables()
    losses = tutorial_002_monitored.model_by_hand(cluster)
    expect(losses[-1] < 0.5 * losses[0], "losses: %s", losses)


@check_for(**VARIABLES)
def tutorial_002_monitored_replicas_stop_at_the_step_and_resume(cluster, case):
    cluster.forget_variables()
    with LogDirectory() as log_dir:
        chief_trains = threading.Event()

        def work(task_index):
            if task_index > 0:
                # A worker that finds nothing initialised looks again only after 30 seconds.
                expect(chief_trains.wait(WORKER_SECONDS), "the chief made no step")
            return tutorial_002_monitored.train(
                cluster, log_dir, task_index, resource_variables=case, on_step=chief_trains.set
            )

        results = in_workers(2, work)
        chief = results[0]["losses"]
        expect(np.mean(chief[-5:]) < 0.2 * np.mean(chief[:5]), "losses of the chief: %s", chief)
        saved = int(tf.train.latest_checkpoint(log_dir).rsplit("-", 1)[1])
        expect(saved >= 300, "the last checkpoint is of step %d", saved)
        cluster.forget_variables()
        again = tutorial_002_monitored.train(cluster, log_dir, last_step=saved + 10, resource_variables=case)
        expect(again["first_step"] in (saved, saved + 1), "saved at %d, resumed at %s", saved, again["first_step"])
        expect(again["local_steps"] == 10, "%d steps instead of 10", again["local_steps"])
        expect(again["losses"][0] < 0.3 * chief[0], "resumed with loss %s", again["losses"][0])
    return {"saved": saved, "local_steps": [result["local_steps"] for result in results]}


@check
def tutorial_003_adds_across_three_tasks(cluster):
    cluster.forget_variables()
    total = tutorial_003_placement.by_hand(cluster)
    expect(total == 4.0, "the sum is %s", total)


@check
def tutorial_003_nodes_run_where_its_comments_say(cluster):
    cluster.forget_variables()
    values, devices = tutorial_003_placement.by_setter(cluster)
    expect(values == [6.0, 9.0, 3.0], "values: %s", values)
    cpu = "/replica:0/task:%d/device:CPU:0"
    expected = {
        "v1": "/job:ps" + cpu % 0,
        "v2": "/job:ps" + cpu % 1,
        "v3": "/job:ps" + cpu % 0,
        "s": "/job:worker" + cpu % 0,
        "p1": "/job:worker" + cpu % 1,
        "p2": "/job:worker" + cpu % 1,
    }
    expect(devices == expected, "nodes ran on %s", devices)
    return devices


@check_for(**VARIABLES)
def tutorial_004_learns_digits_without_order(cluster, case):
    return _digits(cluster, resource_variables=case, sync_replicas=False)


@check_for(**VARIABLES)
def tutorial_004_learns_digits_in_step(cluster, case):
    return _digits(cluster, resource_variables=case, sync_replicas=True)


def _digits(cluster, **options):
    cluster.forget_variables()
    with LogDirectory() as log_dir:

        def work(task_index):
            return tutorial_004_mnist.train(cluster, log_dir, task_index, last_step=60, **options)

        results = in_workers(2, work)
    for result in results:
        expect(result["accuracy"] > 0.75, "accuracy %s", result)
    return results


@check_for(**VARIABLES)
def synchronous_replicas_train_in_monitored_sessions(cluster, case):
    """The hook of the optimiser brings the queue runner and the tokens, as programs of the later 1.x releases have it."""
    cluster.forget_variables()
    chief_trains = threading.Event()

    def work(task_index):
        is_chief = task_index == 0
        if not is_chief:
            # The chief contributes the gradients of both to the first round, as its tokens allow.
            expect(chief_trains.wait(WORKER_SECONDS), "the chief made no step")
        with tf.Graph().as_default():
            with tf.device(cluster.replica_device_setter(task_index)):
                w = tf.get_variable("w", [], initializer=tf.zeros_initializer(), use_resource=case)
                global_step = tf.train.get_or_create_global_step()
                optimizer = tf.train.SyncReplicasOptimizer(
                    tf.train.GradientDescentOptimizer(0.1), replicas_to_aggregate=2, total_num_replicas=2
                )
                train = optimizer.minimize(tf.square(w - 3.0), global_step=global_step)
                hook = optimizer.make_session_run_hook(is_chief)
                spare_tokens = optimizer.get_init_tokens_op()
            # The queue runner may wait for gradients that nobody will send; closing does not wait for it for long.
            with tf.train.MonitoredTrainingSession(
                master=cluster.worker_target(task_index), is_chief=is_chief, hooks=[hook], stop_grace_period_secs=1
            ) as session:
                step = 0
                while step < 20:
                    _, step = session.run([train, global_step])
                    if is_chief:
                        chief_trains.set()
                value = float(session.run(w))
                # Whoever leaves first would leave the other one without a token for its last round. If that is the
                # chief, it has closed the queue.
                try:
                    session.run(spare_tokens)
                except tf.errors.CancelledError:
                    pass
                return value

    # When the chief leaves it closes the queue of tokens, and the other worker's loop ends with it, maybe without a value.
    values = in_workers(2, work)
    expect(values[0] is not None and abs(values[0] - 3) < 0.2, "ended at %s", values)
    return values


@check
def queue_runners_feed_a_worker(cluster):
    """Threads of the client fill a queue on the worker, which training empties batch by batch until it ends."""
    cluster.forget_variables()
    with tf.Graph().as_default():
        with tf.device(cluster.replica_device_setter(0)):
            numbers = tf.train.range_input_producer(40, num_epochs=2, shuffle=False, capacity=8).dequeue()
            batch = tf.train.batch([numbers, tf.as_string(numbers)], batch_size=16, capacity=32)
            total = tf.Variable(0, name="total")
            train = total.assign_add(tf.reduce_sum(batch[0]))
        with tf.Session(cluster.worker_target()) as session:
            session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            coordinator = tf.train.Coordinator()
            threads = tf.train.start_queue_runners(session, coordinator)
            batches = 0
            try:
                while not coordinator.should_stop():
                    _, (values, names) = session.run([train, batch])
                    expect(list(names) == [b"%d" % value for value in values], "%s are not %s", names, values)
                    batches += 2
            except tf.errors.OutOfRangeError:
                pass
            coordinator.request_stop()
            coordinator.join(threads)
            expect(batches >= 4, "only %d batches", batches)
            expect(session.run(total) > 0, "nothing was added")
    return batches


@check_for(**VARIABLES)
def saver_writes_shards_and_restores_them(cluster, case):
    cluster.forget_variables()
    with LogDirectory() as log_dir, tf.Graph().as_default():
        with tf.device(cluster.replica_device_setter(0)):
            variables = [
                tf.Variable(np.full([3, 5], index, np.float32), name="part%d" % index, use_resource=case)
                for index in range(4)
            ]
            label = tf.Variable(["a", "", "much longer than the others"], name="label", use_resource=case)
            saver = tf.train.Saver(sharded=True)
            clear = [variable.assign(tf.zeros_like(variable)) for variable in variables]
            init = tf.global_variables_initializer()
        with tf.Session(cluster.worker_target()) as session:
            session.run(init)
            path = saver.save(session, os.path.join(log_dir, "sharded"), global_step=7)
            shards = glob.glob(path + ".data-*")
            expect(len(shards) == len(cluster.ps_hosts), "shards: %s", shards)
            session.run(clear)
            saver.restore(session, path)
            for index, variable in enumerate(variables):
                expect(np.all(session.run(variable) == index), "part %d came back otherwise", index)
            words = list(session.run(label))
            expect(words == [b"a", b"", b"much longer than the others"], "labels: %s", words)
        # What the servers wrote, a program without servers reads.
        on_disk = tf.train.load_checkpoint(path).get_tensor("part3")
        expect(np.all(on_disk == 3), "the checkpoint holds %s", on_disk)


@check_for(**loss_curves.CASES)
def loss_curve_is_that_of_a_local_session(cluster, case):
    cluster.forget_variables()
    local = loss_curves.curve(case, target="", device=None)
    remote = loss_curves.curve(case, cluster.worker_target(), cluster.replica_device_setter(0))
    worst = loss_curves.distance(local, remote)
    expect(worst < 1e-5, "off by %g: %s, locally %s", worst, remote, local)
    expect(remote[-1] < remote[0], "no progress: %s", remote)
    return {"first": remote[0], "last": remote[-1], "distance": worst}


if __name__ == "__main__":
    checks.main(__doc__, cluster_flags.argument_parser(__doc__))
