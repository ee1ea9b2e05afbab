"""Made by `python -m tensorfleet.framework.stubs`: `tf.contrib.slim.learning`."""

from tensorfleet.contribs.training import add_gradients_summaries as add_gradients_summaries
from tensorfleet.contribs.training import clip_gradient_norms as clip_gradient_norms
from tensorfleet.contribs.slim import create_train_op as create_train_op
from tensorfleet.contribs.training import multiply_gradients as multiply_gradients
from tensorfleet.contribs.slim import train as train
from tensorfleet.contribs.slim import train_step as train_step
