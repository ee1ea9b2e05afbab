"""Made by `python -m tensorfleet.framework.stubs`: `tf.contrib.cluster_resolver`."""

from tensorfleet.training.cluster_resolver import ClusterResolver as ClusterResolver
from tensorfleet.training.cluster_resolver import SimpleClusterResolver as SimpleClusterResolver
from tensorfleet.training.cluster_resolver import TFConfigClusterResolver as TFConfigClusterResolver
from tensorfleet.training.cluster_resolver import UnionClusterResolver as UnionClusterResolver
