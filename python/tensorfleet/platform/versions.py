"""Versions and builds, as TensorFlow 1.15.5 states its own: programs compare them."""

import os

from tensorfleet.framework.export import export, export_values

VERSION = "1.15.5"
GIT_VERSION = "v1.15.4-39-g3db52be"
COMPILER_VERSION = "7.3.1 20180303"
GRAPH_DEF_VERSION, GRAPH_DEF_VERSION_MIN_CONSUMER, GRAPH_DEF_VERSION_MIN_PRODUCER = 134, 0, 0
CXX11_ABI_FLAG = MONOLITHIC_BUILD = 0
__version__, __git_version__, __compiler_version__ = VERSION, GIT_VERSION, COMPILER_VERSION
__cxx11_abi_flag__, __monolithic_build__ = CXX11_ABI_FLAG, MONOLITHIC_BUILD

_VERSIONS = "VERSION GIT_VERSION COMPILER_VERSION GRAPH_DEF_VERSION GRAPH_DEF_VERSION_MIN_CONSUMER GRAPH_DEF_VERSION_MIN_PRODUCER".split()
export_values(__name__, {prefix + name: name for prefix in ("", "version.") for name in _VERSIONS})
export_values(__name__, {prefix + name: name for prefix in ("", "sysconfig.") for name in ("CXX11_ABI_FLAG", "MONOLITHIC_BUILD")})
export_values(__name__, {"__" + name.lower() + "__": name for name in ("GIT_VERSION", "COMPILER_VERSION", "CXX11_ABI_FLAG", "MONOLITHIC_BUILD")})

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@export("sysconfig.get_include")
def get_include():
    """Where C++ headers would be. There are none: ops are written in Rust."""
    return os.path.join(_PACKAGE, "include")


@export("sysconfig.get_lib")
def get_lib():
    """Where the extension module is."""
    return _PACKAGE


@export("sysconfig.get_compile_flags")
def get_compile_flags():
    """Compiler flags for TensorFlow's custom ops in C++, which cannot be loaded here."""
    return ["-I%s" % get_include(), "-D_GLIBCXX_USE_CXX11_ABI=%d" % CXX11_ABI_FLAG]


@export("sysconfig.get_link_flags")
def get_link_flags():
    """Linker flags for TensorFlow's custom ops in C++, which cannot be loaded here."""
    return ["-L%s" % get_lib()]
