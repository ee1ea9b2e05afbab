"""Made by `python -m tensorfleet.framework.stubs`: `tf.contrib.slim.evaluation`."""

from tensorfleet.contribs.training import checkpoints_iterator as checkpoints_iterator
from tensorfleet.contribs.slim import evaluate_once as evaluate_once
from tensorfleet.contribs.slim import evaluation_loop as evaluation_loop
from tensorfleet.contribs.training import wait_for_new_checkpoint as wait_for_new_checkpoint
