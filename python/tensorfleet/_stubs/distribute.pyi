"""Made by `python -m tensorfleet.framework.stubs`: `tf.distribute`."""

from tensorfleet._stubs import distribute_cluster_resolver as cluster_resolver
from tensorfleet.training.server_lib import Server as Server
