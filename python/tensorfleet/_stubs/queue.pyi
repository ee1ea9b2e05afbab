"""Made by `python -m tensorfleet.framework.stubs`: `tf.queue`."""

from tensorfleet.input.queues import FIFOQueue as FIFOQueue
from tensorfleet.input.queues import PaddingFIFOQueue as PaddingFIFOQueue
from tensorfleet.input.queues import PriorityQueue as PriorityQueue
from tensorfleet.input.queues import QueueBase as QueueBase
from tensorfleet.input.queues import RandomShuffleQueue as RandomShuffleQueue
