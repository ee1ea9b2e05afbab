"""What the library tells people: what TensorFlow logs goes to `tf.logging`, what a program waits for to the standard error."""

import sys

from tensorfleet.platform import tf_logging as logging

#: Beginnings of messages that TensorFlow logs as information.
_LOGGED = ("Saving checkpoint", "Restoring parameters", "Done waiting", "Waiting for global step", "Starting")


def tell(is_warning, text):
    """Called by the library, in a thread of its own."""
    if is_warning:
        logging.get_logger().warning("%s", text)
    elif text.startswith(_LOGGED) or "/sec: " in text:
        logging.get_logger().info("%s", text)
    else:
        sys.stderr.write(f"tensorfleet: {text}\n")
        sys.stderr.flush()
