"""Supervision with real processes: clusters of Python, tasks that are killed and come back, hooks that raise, Ctrl-C while a program waits."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import traceback
import unittest

import tensorfleet as tf

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(tf.__file__)))
SECONDS = 60


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for held in sockets:
        held.bind(("localhost", 0))
    ports = [held.getsockname()[1] for held in sockets]
    for held in sockets:
        held.close()
    return ports


class Processes(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp()
        self.processes = []

    def tearDown(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
            process.stdout.close()

    def start(self, script, *arguments):
        path = os.path.join(self.directory, "script%d.py" % len(self.processes))
        with open(path, "w") as file:
            file.write(textwrap.dedent(script))
        environment = dict(os.environ, PYTHONPATH=PACKAGE, PYTHONUNBUFFERED="1")
        process = subprocess.Popen(
            [sys.executable, path] + [str(argument) for argument in arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
        )
        self.processes.append(process)
        return process

    def wait_for(self, process, text):
        """Reads the process's lines until one has `text`."""
        lines = []
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            line = process.stdout.readline()
            if not line:
                break
            lines.append(line)
            if text in line:
                return line
        self.fail("%r did not come:\n%s" % (text, "".join(lines)))

    def wait_for_step(self, process, step):
        while int(self.wait_for(process, "trained").split()[1]) < step:
            pass

    def ended(self, process):
        output, _ = process.communicate(timeout=SECONDS)
        return process.returncode, output

    def interrupt(self, process, limit=5.0):
        """Sends Ctrl-C; the process must end soon with a KeyboardInterrupt."""
        started = time.monotonic()
        process.send_signal(signal.SIGINT)
        code, output = self.ended(process)
        self.assertIn("KeyboardInterrupt", output)
        self.assertLess(time.monotonic() - started, limit)
        return output


WORKER = """
    import sys, time
    import tensorfleet as tf

    job, task, ps, first, second, directory, last, pause = sys.argv[1:9]
    cluster = tf.train.ClusterSpec({"ps": ["localhost: " + ps], "worker": ["localhost:" + first, "localhost:" + second]})
    server = tf.train.Server(cluster, job_name=job, task_index=int(task))
    if job == "ps":
        print("serving", flush=True)
        server.join()
    with tf.device(tf.train.replica_device_setter(worker_device="/job:worker/task:" + task, cluster=cluster)):
        w = tf.Variable(0.0, name="w")
        step = tf.train.get_or_create_global_step()
        with tf.control_dependencies([w.assign_add(0.5, use_locking=True)]):
            train = step.assign_add(1, use_locking=True)
    config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:" + task])
    hooks = [tf.train.StopAtStepHook(last_step=int(last))]
    with tf.train.MonitoredTrainingSession(
        server.target, is_chief=task == "0", checkpoint_dir=directory, hooks=hooks, save_checkpoint_steps=5, config=config, log_step_count_steps=None
    ) as session:
        while not session.should_stop():
            print("trained", session.run(train), flush=True)
            time.sleep(float(pause))
    print("done", flush=True)
"""


SUPERVISED = """
    import sys, time
    import tensorfleet as tf

    job, task, ps, first, second, directory, last, pause = sys.argv[1:9]
    cluster = tf.train.ClusterSpec({"ps": ["localhost:" + ps], "worker": ["localhost:" + first, "localhost:" + second]})
    server = tf.train.Server(cluster, job_name=job, task_index=int(task))
    if job == "ps":
        print("serving", flush=True)
        server.join()
    is_chief = task == "0"
    with tf.device(tf.train.replica_device_setter(worker_device="/job:worker/task:" + task, cluster=cluster)):
        w = tf.Variable(0.0, name="w")
        step = tf.Variable(0, name="global_step", trainable=False)
        loss = tf.square(w - 2.0)
        optimizer = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(0.1), replicas_to_aggregate=2, total_num_replicas=2)
        train = optimizer.minimize(loss, global_step=step)
    runner, tokens = optimizer.get_chief_queue_runner(), optimizer.get_init_tokens_op()
    supervisor = tf.train.Supervisor(
        is_chief=is_chief, logdir=directory, init_op=tf.global_variables_initializer(), recovery_wait_secs=1, global_step=step,
        local_init_op=optimizer.chief_init_op if is_chief else optimizer.local_step_init_op,
        ready_for_local_init_op=optimizer.ready_for_local_init_op, summary_op=None, save_model_secs=60)
    session = supervisor.prepare_or_wait_for_session(server.target, config=tf.ConfigProto(allow_soft_placement=True))
    if is_chief:
        supervisor.start_queue_runners(session, [runner])
        session.run(tokens)
    count = 0
    while count < int(last):
        _, count = session.run([train, step])
    print("w", session.run(w), flush=True)
    started = time.monotonic()
    supervisor.stop()
    assert time.monotonic() - started < 10
    print("done", flush=True)
"""


class Clusters(Processes):
    def test_synchronous_replicas_with_supervisors(self):
        ports = free_ports(3)

        def task(job, number):
            return self.start(SUPERVISED, job, number, *ports, os.path.join(self.directory, "model"), 30, 0)

        ps = task("ps", 0)
        self.wait_for(ps, "serving")
        for worker in [task("worker", 1), task("worker", 0)]:
            line = self.wait_for(worker, "w ")
            self.assertGreater(float(line.split()[-1]), 1.9)
            self.wait_for(worker, "done")
            worker.kill()
        self.interrupt(ps)

    def task(self, job, task, ports, last, pause=0.02):
        return self.start(WORKER, job, task, *ports, os.path.join(self.directory, "model"), last, pause)

    def test_a_ps_and_two_workers_train_together(self):
        ports = free_ports(3)
        ps = self.task("ps", 0, ports, 0)
        self.wait_for(ps, "serving")
        workers = [self.task("worker", task, ports, 40) for task in (1, 0)]
        for worker in workers:
            code, output = self.ended(worker)
            self.assertEqual(code, 0, output)
            self.assertIn("done", output)
        self.assertGreaterEqual(tf.train.load_variable(os.path.join(self.directory, "model"), "global_step"), 40)
        self.interrupt(ps)

    def test_a_killed_ps_comes_back_and_training_goes_on(self):
        ports = free_ports(3)
        ps = self.task("ps", 0, ports, 0)
        self.wait_for(ps, "serving")
        chief, other = self.task("worker", 0, ports, 300), self.task("worker", 1, ports, 300)
        self.wait_for_step(chief, 30)
        ps.kill()
        ps.wait()
        self.wait_for(self.task("ps", 0, ports, 0), "serving")
        for worker in (chief, other):
            code, output = self.ended(worker)
            self.assertEqual(code, 0, output)
        reader = tf.train.load_checkpoint(os.path.join(self.directory, "model"))
        self.assertGreaterEqual(reader.get_tensor("global_step"), 300)
        self.assertAlmostEqual(reader.get_tensor("w"), 0.5 * reader.get_tensor("global_step"), delta=2.0)

    def test_a_killed_chief_resumes_from_its_checkpoint(self):
        ports = free_ports(3)
        ps = self.task("ps", 0, ports, 0)
        self.wait_for(ps, "serving")
        chief = self.task("worker", 0, ports, 10000)
        self.wait_for_step(chief, 20)
        chief.kill()
        chief.wait()
        again = self.task("worker", 0, ports, 60)
        line = self.wait_for(again, "trained")
        self.assertGreater(int(line.split()[1]), 10)
        code, output = self.ended(again)
        self.assertEqual(code, 0, output)


class Interrupts(Processes):
    def test_a_run_that_waits(self):
        process = self.start("""
            import tensorfleet as tf
            queue = tf.FIFOQueue(1, tf.int32)
            with tf.Session() as sess:
                print("waiting", flush=True)
                sess.run(queue.dequeue())
        """)
        self.wait_for(process, "waiting")
        time.sleep(0.3)
        self.interrupt(process)

    def test_a_server_that_is_joined(self):
        process = self.start("""
            import tensorfleet as tf
            server = tf.train.Server.create_local_server()
            print("waiting", flush=True)
            server.join()
        """)
        self.wait_for(process, "waiting")
        time.sleep(0.2)
        self.interrupt(process)

    def test_a_coordinator_that_is_joined(self):
        process = self.start("""
            import threading
            import tensorfleet as tf
            coord = tf.train.Coordinator()
            threads = [threading.Thread(target=coord.wait_for_stop, daemon=True)]
            threads[0].start()
            print("waiting", flush=True)
            coord.join(threads)
        """)
        self.wait_for(process, "waiting")
        time.sleep(0.2)
        self.interrupt(process)

    def test_a_worker_that_waits_for_its_chief(self):
        process = self.start("""
            import tensorfleet as tf
            server = tf.train.Server.create_local_server()
            with tf.device("/job:local/task:0"):
                v = tf.Variable(1.0)
            sv = tf.train.Supervisor(is_chief=False)
            print("waiting", flush=True)
            with sv.managed_session(server.target):
                pass
        """)
        self.wait_for(process, "waiting")
        time.sleep(0.5)
        self.interrupt(process)

    def test_a_monitored_run_that_waits(self):
        process = self.start("""
            import tensorfleet as tf
            tf.train.get_or_create_global_step()
            queue = tf.FIFOQueue(1, tf.int32)
            element = queue.dequeue()
            with tf.train.MonitoredTrainingSession() as session:
                print("waiting", flush=True)
                session.run(element)
        """)
        self.wait_for(process, "waiting")
        time.sleep(0.3)
        self.interrupt(process)

    def test_queue_runners_and_services_end(self):
        process = self.start("""
            import sys, tempfile
            import tensorfleet as tf
            step = tf.train.get_or_create_global_step()
            queue = tf.FIFOQueue(1, tf.int32)
            tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(1)] * 3))
            sv = tf.train.Supervisor(logdir=tempfile.mkdtemp())
            with sv.managed_session() as sess:
                print("waiting", flush=True)
                sv.wait_for_stop()
        """)
        self.wait_for(process, "waiting")
        time.sleep(0.3)
        self.interrupt(process)


class Callbacks(unittest.TestCase):
    def setUp(self):
        tf.reset_default_graph()
        self.step = tf.train.get_or_create_global_step()
        self.train = self.step.assign_add(1)

    def traceback_of(self, hook):
        try:
            with tf.train.MonitoredTrainingSession(hooks=[hook]) as session:
                session.run(self.train)
        except ZeroDivisionError as error:
            return "".join(traceback.format_exception(type(error), error, error.__traceback__))
        self.fail("nothing was raised")

    def test_the_traceback_of_a_hook_is_kept(self):
        class Hook(tf.train.SessionRunHook):
            def after_run(self, run_context, run_values):
                self.innermost()

            def innermost(self):
                return 1 // 0

        self.assertIn("in innermost", self.traceback_of(Hook()))

    def test_the_traceback_of_an_init_function_is_kept(self):
        def init_fn(scaffold, session):
            return 1 // 0

        try:
            tf.train.MonitoredTrainingSession(scaffold=tf.train.Scaffold(init_fn=init_fn))
        except ZeroDivisionError as error:
            self.assertIn("in init_fn", "".join(traceback.format_tb(error.__traceback__)))
        else:
            self.fail("nothing was raised")

    def test_an_aborted_error_of_a_hook_makes_a_new_session(self):
        sessions = []

        class Hook(tf.train.SessionRunHook):
            def after_create_session(self, session, coord):
                sessions.append(session)

            def before_run(self, run_context):
                if len(sessions) == 1:
                    raise tf.errors.AbortedError(None, None, "a task was lost")

        with tf.train.MonitoredTrainingSession(hooks=[Hook()]) as session:
            self.assertEqual(session.run(self.train), 1)
        self.assertEqual(len(sessions), 2)

    def test_a_thread_of_python_that_fails_ends_the_session(self):
        class Hook(tf.train.SessionRunHook):
            def after_create_session(self, session, coord):
                coord.request_stop(ValueError("of a thread"))

        with self.assertRaisesRegex(ValueError, "of a thread"):
            with tf.train.MonitoredTrainingSession(hooks=[Hook()]) as session:
                self.assertTrue(session.should_stop())

    def test_listeners_around_native_saves(self):
        log = []
        step = self.step

        class Listener(tf.train.CheckpointSaverListener):
            def begin(self):
                log.append("begin")

            def before_save(self, session, value):
                log.append(("before", value))

            def after_save(self, session, value):
                log.append(("after", int(session.run(step))))
                return value >= 4

            def end(self, session, value):
                log.append(("end", value))

        hook = tf.train.CheckpointSaverHook(tempfile.mkdtemp(), save_steps=2, listeners=[Listener()])
        with tf.train.MonitoredSession(hooks=[hook]) as session:
            while not session.should_stop():
                session.run(self.train)
        self.assertEqual(log, ["begin", ("before", 0), ("after", 0), ("before", 2), ("after", 2), ("before", 4), ("after", 4), ("end", 4)])

    def test_a_listener_that_raises(self):
        class Listener(tf.train.CheckpointSaverListener):
            def before_save(self, session, value):
                return 1 // 0

        hook = tf.train.CheckpointSaverHook(tempfile.mkdtemp(), save_steps=2, listeners=[Listener()])
        with self.assertRaises(ZeroDivisionError):
            tf.train.MonitoredSession(hooks=[hook])

    def test_a_session_left_open_ends_with_its_object(self):
        session = tf.train.MonitoredTrainingSession()
        session.run(self.train)
        del session

    def test_threads_run_beside_each_other(self):
        queue = tf.FIFOQueue(1, tf.int32, shapes=[[]])
        element, enqueue = queue.dequeue(), queue.enqueue(7)
        got = []

        class Hook(tf.train.SessionRunHook):
            def after_run(self, run_context, run_values):
                got.append(run_context.original_args.fetches.name)

        with tf.train.MonitoredSession(hooks=[Hook()]) as session:
            thread = threading.Thread(target=lambda: got.append(int(session.run(element))))
            thread.start()
            time.sleep(0.2)
            self.assertFalse(session.should_stop())
            session.run(enqueue)
            thread.join(10)
            self.assertFalse(thread.is_alive())
        self.assertEqual(set(map(str, got)), {"7", enqueue.name, element.name})

    def test_a_hook_that_uses_its_own_session(self):
        step = self.step

        class Hook(tf.train.SessionRunHook):
            def after_run(self, run_context, run_values):
                self.seen = self.session.run(step)

        hook = Hook()
        with tf.train.MonitoredSession(hooks=[hook]) as session:
            hook.session = session
            session.run(self.train)
        self.assertEqual(hook.seen, 1)

    def test_savers_in_hooks(self):
        directory = tempfile.mkdtemp()
        step = self.step
        with tf.train.MonitoredTrainingSession(checkpoint_dir=directory) as session:
            saver = tf.get_collection(tf.GraphKeys.SAVERS)[0]
            with self.assertRaises(TypeError):
                saver.save(session, directory + "/mine")
            path = saver.save(session._tf_sess(), directory + "/mine", global_step=3)
            self.assertTrue(tf.train.checkpoint_exists(path))
            self.assertEqual(session._sess._sess._sess._sess.run(step), 0)


if __name__ == "__main__":
    unittest.main()
