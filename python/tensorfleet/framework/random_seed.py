"""Seeds of random ops."""

from tensorfleet.framework import stacks
from tensorfleet.framework.export import export


@export("get_seed", "random.get_seed")
def get_seed(op_seed):
    """The graph's and the op's part of a seed: `None` for both if neither has one."""
    return stacks.get_default_graph()._native.seeds(None if op_seed is None else int(op_seed))


@export("set_random_seed", "random.set_random_seed")
def set_random_seed(seed):
    """Sets the graph's part of the seeds of ops made from now on."""
    stacks.get_default_graph().seed = seed
