"""Made by `python -m tensorfleet.framework.stubs`: `tf.sysconfig`."""

from tensorfleet.platform.versions import CXX11_ABI_FLAG as CXX11_ABI_FLAG
from tensorfleet.platform.versions import MONOLITHIC_BUILD as MONOLITHIC_BUILD
from tensorfleet.platform.versions import get_compile_flags as get_compile_flags
from tensorfleet.platform.versions import get_include as get_include
from tensorfleet.platform.versions import get_lib as get_lib
from tensorfleet.platform.versions import get_link_flags as get_link_flags
