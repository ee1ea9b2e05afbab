"""Made by `python -m tensorfleet.framework.stubs`: `tf.contrib.losses`."""

from typing import Any
from tensorfleet.contribs.losses import absolute_difference as absolute_difference
from tensorfleet.contribs.losses import compute_weighted_loss as compute_weighted_loss
from tensorfleet.contribs.losses import cosine_distance as cosine_distance
from tensorfleet.contribs.losses import hinge_loss as hinge_loss
from tensorfleet.contribs.losses import log_loss as log_loss
from tensorfleet.contribs.losses import mean_pairwise_squared_error as mean_pairwise_squared_error
from tensorfleet.contribs.losses import mean_squared_error as mean_squared_error
from tensorfleet.contribs.losses import sigmoid_cross_entropy as sigmoid_cross_entropy
from tensorfleet.contribs.losses import softmax_cross_entropy as softmax_cross_entropy
from tensorfleet.contribs.losses import sparse_softmax_cross_entropy as sparse_softmax_cross_entropy

def add_loss(loss, loss_collection='losses') -> Any: ...
def get_losses(scope=None, loss_collection='losses') -> Any: ...
def get_regularization_losses(scope=None) -> Any: ...
def get_total_loss(add_regularization_losses=True, name='total_loss', scope=None) -> Any: ...
