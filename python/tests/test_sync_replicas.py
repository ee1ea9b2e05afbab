"""Synchronous training of two workers with a parameter server, all in this process."""

import threading
import unittest

import tensorfleet as tf


def _work(cluster, server, task, results, errors):
    try:
        with tf.Graph().as_default():
            is_chief = task == 0
            worker = f"/job:worker/task:{task}"
            with tf.device(tf.train.replica_device_setter(cluster=cluster, worker_device=worker)):
                step = tf.train.get_or_create_global_step()
                w = tf.get_variable("w", initializer=tf.constant([10.0, -10.0]))
                table = tf.get_variable("table", initializer=tf.constant([[4.0], [2.0], [1.0]]), use_resource=True)
                target = tf.constant([1.0, 1.0]) * float(task + 1)
                loss = tf.reduce_sum(tf.square(w - target)) + tf.reduce_sum(tf.square(tf.gather(table, [task])))
                inner = tf.train.MomentumOptimizer(0.1, 0.5)
                optimizer = tf.train.SyncReplicasOptimizer(inner, replicas_to_aggregate=2, total_num_replicas=2)
                train = optimizer.minimize(loss, global_step=step)
            hooks = [optimizer.make_session_run_hook(is_chief, num_tokens=0), tf.train.StopAtStepHook(last_step=20)]
            seen = []
            with tf.train.MonitoredTrainingSession(master=server.target, is_chief=is_chief, hooks=hooks) as session:
                while not session.should_stop():
                    seen.append(session.run([train, w, step])[1:])
            results[task] = seen
    except Exception as error:  # told by the test
        errors.append((task, error))


class SyncReplicasTest(unittest.TestCase):
    def test_two_workers_make_one_update(self):
        import socket

        ports = []
        for _ in range(3):
            with socket.socket() as found:
                found.bind(("127.0.0.1", 0))
                ports.append(found.getsockname()[1])
        cluster = tf.train.ClusterSpec({"ps": [f"127.0.0.1:{ports[0]}"], "worker": [f"127.0.0.1:{port}" for port in ports[1:]]})
        servers = [tf.train.Server(cluster, job_name=job, task_index=task) for job, task in (("ps", 0), ("worker", 0), ("worker", 1))]
        results, errors = {}, []
        threads = [threading.Thread(target=_work, args=(cluster, servers[1 + task], task, results, errors), daemon=True) for task in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        self.assertFalse(errors, errors)
        self.assertEqual(sorted(results), [0, 1])
        with tf.Graph().as_default():
            with tf.device("/job:ps/task:0"):
                w = tf.get_variable("w", [2])
                step = tf.train.get_or_create_global_step()
            with tf.Session(servers[0].target) as session:
                count, value = session.run([step, w])
        # The mean of the targets is 1.5; each round is one step of the mean gradient.
        expected, momentum = 10.0, 0.0
        for _ in range(count):
            momentum = 0.5 * momentum + 2.0 * (expected - 1.5)
            expected -= 0.1 * momentum
        self.assertGreaterEqual(count, 20)
        self.assertAlmostEqual(float(value[0]), expected, places=3)


if __name__ == "__main__":
    unittest.main()
