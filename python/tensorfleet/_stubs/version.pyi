"""Made by `python -m tensorfleet.framework.stubs`: `tf.version`."""

from tensorfleet.platform.versions import COMPILER_VERSION as COMPILER_VERSION
from tensorfleet.platform.versions import GIT_VERSION as GIT_VERSION
from tensorfleet.platform.versions import GRAPH_DEF_VERSION as GRAPH_DEF_VERSION
from tensorfleet.platform.versions import GRAPH_DEF_VERSION_MIN_CONSUMER as GRAPH_DEF_VERSION_MIN_CONSUMER
from tensorfleet.platform.versions import GRAPH_DEF_VERSION_MIN_PRODUCER as GRAPH_DEF_VERSION_MIN_PRODUCER
from tensorfleet.platform.versions import VERSION as VERSION
