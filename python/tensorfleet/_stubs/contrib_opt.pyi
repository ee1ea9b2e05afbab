"""Made by `python -m tensorfleet.framework.stubs`: `tf.contrib.opt`."""

from tensorfleet.contribs.opt import AdamWOptimizer as AdamWOptimizer
from tensorfleet.contribs.opt import DecoupledWeightDecayExtension as DecoupledWeightDecayExtension
from tensorfleet.contribs.opt import LazyAdamOptimizer as LazyAdamOptimizer
from tensorfleet.contribs.opt import MomentumWOptimizer as MomentumWOptimizer
from tensorfleet.contribs.opt import MovingAverageOptimizer as MovingAverageOptimizer
from tensorfleet.contribs.opt import NadamOptimizer as NadamOptimizer
from tensorfleet.contribs.opt import extend_with_decoupled_weight_decay as extend_with_decoupled_weight_decay
