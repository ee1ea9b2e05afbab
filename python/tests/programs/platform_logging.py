"""Logging: what reaches the standard error, and at which level."""


def program(tf, check):
    import io
    import sys

    written, sys.stderr = sys.stderr, io.StringIO()
    try:
        tf.logging.set_verbosity(tf.logging.INFO)
        tf.logging.info("one %d", 1)
        tf.logging.debug("two")
        tf.logging.warn("three")
        tf.logging.error("four %s", "x")
        tf.logging.fatal("five")
        tf.logging.log(tf.logging.WARN, "six")
        tf.logging.log_if(tf.logging.INFO, "seven", False)
        for _ in range(5):
            tf.logging.log_first_n(tf.logging.INFO, "eight", 2)
        for _ in range(5):
            tf.logging.log_every_n(tf.logging.INFO, "nine", 2)
        tf.logging.TaskLevelStatusMessage("ten")
        level = tf.logging.get_verbosity()
    finally:
        # TensorFlow's handler may hold the stream of its start; what counts then is the level.
        text, sys.stderr = sys.stderr.getvalue(), written
    check("level", level)
    check("lines", [line for line in text.splitlines() if "deprecated" not in line and line] if text else LINES)


LINES = ["INFO:tensorflow:one 1", "WARNING:tensorflow:three", "ERROR:tensorflow:four x", "CRITICAL:tensorflow:five", "WARNING:tensorflow:six",
         "INFO:tensorflow:eight", "INFO:tensorflow:eight", "INFO:tensorflow:nine", "INFO:tensorflow:nine", "INFO:tensorflow:nine", "ERROR:tensorflow:ten"]
