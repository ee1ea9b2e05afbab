"""Made by `python -m tensorfleet.framework.stubs`: `tf.contrib`."""

from tensorfleet._stubs import contrib_checkpoint as checkpoint
from tensorfleet._stubs import contrib_cluster_resolver as cluster_resolver
from tensorfleet._stubs import contrib_framework as framework
from tensorfleet._stubs import contrib_layers as layers
from tensorfleet._stubs import contrib_learn as learn
from tensorfleet._stubs import contrib_lookup as lookup
from tensorfleet._stubs import contrib_losses as losses
from tensorfleet._stubs import contrib_metrics as metrics
from tensorfleet._stubs import contrib_opt as opt
from tensorfleet._stubs import contrib_rnn as rnn
from tensorfleet._stubs import contrib_slim as slim
from tensorfleet._stubs import contrib_staging as staging
from tensorfleet._stubs import contrib_training as training
from tensorfleet._stubs import contrib_util as util
