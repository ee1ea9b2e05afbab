"""Checks: what clients see when servers are killed and started again.

The script cannot restart servers itself; it asks whoever runs it, with a line such as

    {"ask": "restart", "job": "ps", "task": 0}

and waits for a line `done` on its standard input.
"""

import shutil
import tempfile
import threading
import time

import checks
from checks import ask, check, expect, expect_error
from compat import tf

errors = tf.errors

PS = "/job:ps/task:0"
WORKER = "/job:worker/task:0"

# A connection that was lost is tried again within seconds.
_RECONNECT_SECONDS = 20


def run_until_reachable(session, fetch):
    """Runs, and again while the server is not reachable yet; the first other error is the answer."""
    deadline = time.time() + _RECONNECT_SECONDS
    while True:
        try:
            return session.run(fetch)
        except errors.UnavailableError:
            expect(time.time() < deadline, "the task is back, but was not found for %d s", _RECONNECT_SECONDS)
            time.sleep(0.1)


def close(session):
    """Closes a session that its master may have forgotten."""
    try:
        session.close()
    except errors.AbortedError:
        pass


@check
def restarted_ps_aborts_old_sessions_and_serves_new_ones(cluster):
    with tf.Graph().as_default():
        with tf.device(PS):
            kept = tf.Variable(5.0, name="lost_with_the_ps")
        with tf.device(WORKER):
            result = kept + 1.0
        session = tf.Session(cluster.worker_target())
        session.run(kept.initializer)
        expect(session.run(result) == 6.0, "before the restart")
        ask("restart", job="ps", task=0)
        for _ in range(3):
            expect_error(errors.AbortedError, run_until_reachable, session, result)
        close(session)
        with tf.Session(cluster.worker_target()) as new:
            expect_error(errors.FailedPreconditionError, new.run, result)
            new.run(kept.initializer)
            expect(new.run(result) == 6.0, "after the restart")


@check
def restarted_master_aborts_its_sessions(cluster):
    with tf.Graph().as_default():
        with tf.device(PS):
            kept = tf.Variable(5.0, name="outlives_the_master")
        session = tf.Session(cluster.worker_target())
        session.run(kept.initializer)
        ask("restart", job="worker", task=0)
        expect_error(errors.AbortedError, run_until_reachable, session, kept)
        close(session)
        with tf.Session(cluster.worker_target()) as new:
            expect(run_until_reachable(new, kept) == 5.0, "the ps forgot its variable")


@check
def killed_ps_ends_a_waiting_step(cluster):
    with tf.Graph().as_default():
        with tf.device(PS):
            queue = tf.FIFOQueue(1, tf.int32, shapes=[[]], shared_name="never_filled")
            element = queue.dequeue()
        with tf.device(WORKER):
            doubled = element * 2
        session = tf.Session(cluster.worker_target())
        session.run(queue.size())
        outcome = []

        def wait_for_element():
            try:
                outcome.append(session.run(doubled))
            except Exception as error:  # Looked at below.
                outcome.append(error)

        thread = threading.Thread(target=wait_for_element, daemon=True)
        thread.start()
        thread.join(0.5)
        expect(thread.is_alive(), "the step did not wait: %s", outcome)
        ask("restart", job="ps", task=0)
        thread.join(_RECONNECT_SECONDS)
        expect(not thread.is_alive(), "the step still waits for a server that is gone")
        lost = (errors.UnavailableError, errors.AbortedError)
        expect(isinstance(outcome[0], lost), "the step ended with %r", outcome[0])
        close(session)


@check
def monitored_session_recovers_from_its_checkpoint(cluster):
    """The session notices the restart, makes a new session, restores and goes on; the program sees nothing."""
    log_dir = tempfile.mkdtemp(prefix="tensorfleet_")
    cluster.forget_variables()
    try:
        with tf.Graph().as_default():
            with tf.device(cluster.replica_device_setter(0)):
                global_step = tf.train.get_or_create_global_step()
                weight = tf.get_variable("recovered", [], initializer=tf.zeros_initializer())
                train = tf.group(weight.assign_add(2.0), global_step.assign_add(1))
            with tf.train.MonitoredTrainingSession(
                master=cluster.worker_target(),
                checkpoint_dir=log_dir,
                save_checkpoint_steps=10,
                save_checkpoint_secs=None,
                save_summaries_steps=None,
                save_summaries_secs=None,
                log_step_count_steps=None,
                hooks=[tf.train.StopAtStepHook(last_step=60)],
            ) as session:
                restarted = False
                while not session.should_stop():
                    session.run(train)
                    step = session.run(global_step) if not session.should_stop() else 60
                    if step >= 25 and not restarted:
                        restarted = True
                        ask("restart", job="ps", task=0)
            expect(restarted, "never came to step 25")
        saved = tf.train.load_checkpoint(tf.train.latest_checkpoint(log_dir))
        step, value = saved.get_tensor("global_step"), saved.get_tensor("recovered")
        expect(step >= 60 and value == 2.0 * step, "step %s, weight %s", step, value)
    finally:
        shutil.rmtree(log_dir, ignore_errors=True)


if __name__ == "__main__":
    checks.main(__doc__)
