"""Coordinators with threads of Python."""

import threading
import time


def program(tf, check):
    coord = tf.train.Coordinator()
    counts = []

    def count():
        while not coord.should_stop():
            counts.append(1)
            time.sleep(0.005)

    threads = [threading.Thread(target=count) for _ in range(2)]
    for thread in threads:
        thread.start()
    check("waits", coord.wait_for_stop(0.05))
    coord.request_stop()
    coord.join(threads)
    check("joined", [coord.joined, coord.should_stop(), any(thread.is_alive() for thread in threads)])

    coord.clear_stop()
    check("cleared", [coord.joined, coord.should_stop()])

    def fails():
        with coord.stop_on_exception():
            raise ValueError("first")

    thread = threading.Thread(target=fails)
    thread.start()
    try:
        coord.join([thread])
    except ValueError as error:
        check("raised", str(error))
    try:
        coord.raise_requested_exception()
    except ValueError as error:
        check("again", str(error))

    coord = tf.train.Coordinator()
    coord.request_stop(tf.errors.OutOfRangeError(None, None, "clean"))
    coord.request_stop(ValueError("late"))
    coord.join()
    check("clean", coord.should_stop())

    coord = tf.train.Coordinator(clean_stop_exception_types=(KeyError,))
    coord.request_stop(KeyError("fine"))
    coord.join()
    ticks = []
    coord = tf.train.Coordinator()
    looper = tf.train.LooperThread.loop(coord, 0.01, target=ticks.append, args=(1,))
    while len(ticks) < 3:
        time.sleep(0.005)
    coord.request_stop()
    coord.join([looper])
    check("looped", len(ticks) >= 3)

    stuck = threading.Event()
    thread = threading.Thread(target=stuck.wait, name="stuck")
    thread.start()
    coord = tf.train.Coordinator()
    coord.request_stop()
    try:
        coord.join([thread], stop_grace_period_secs=0.05)
    except RuntimeError as error:
        check("stuck", str(error))
    stuck.set()
