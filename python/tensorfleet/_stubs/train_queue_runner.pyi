"""Made by `python -m tensorfleet.framework.stubs`: `tf.train.queue_runner`."""

from tensorfleet.training.queue_runner import QueueRunner as QueueRunner
from tensorfleet.training.queue_runner import add_queue_runner as add_queue_runner
from tensorfleet.training.queue_runner import start_queue_runners as start_queue_runners
