"""Made by `python -m tensorfleet.framework.stubs`: `tf.contrib.training`."""

from tensorfleet.training.device_setter import GreedyLoadBalancingStrategy as GreedyLoadBalancingStrategy
from tensorfleet.contribs.hparams import HParams as HParams
from tensorfleet.training.device_setter import RandomStrategy as RandomStrategy
from tensorfleet.contribs.training import StopAfterNEvalsHook as StopAfterNEvalsHook
from tensorfleet.contribs.training import add_gradients_summaries as add_gradients_summaries
from tensorfleet.training.device_setter import byte_size_load_fn as byte_size_load_fn
from tensorfleet.contribs.training import checkpoints_iterator as checkpoints_iterator
from tensorfleet.contribs.training import clip_gradient_norms as clip_gradient_norms
from tensorfleet.contribs.training import clip_gradient_norms_fn as clip_gradient_norms_fn
from tensorfleet.contribs.training import create_train_op as create_train_op
from tensorfleet.contribs.training import evaluate_once as evaluate_once
from tensorfleet.contribs.training import get_or_create_eval_step as get_or_create_eval_step
from tensorfleet.contribs.training import multiply_gradients as multiply_gradients
from tensorfleet.contribs.training import train as train
from tensorfleet.contribs.training import wait_for_new_checkpoint as wait_for_new_checkpoint
