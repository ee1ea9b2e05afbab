"""`tensorfleet.install_as_tensorflow()`: an import hook that answers `tensorflow` and everything below it, until it is taken out again.

Nothing is written anywhere: a real TensorFlow in the same environment stays as it is, and is imported again after `uninstall_as_tensorflow()`."""

import importlib.abc
import importlib.machinery
import os
import sys

from tensorfleet.framework.export import export

from . import modules


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds `tensorflow` and `tensorflow.…` here. What is not here is an error: no other finder may look for it, since it could mix in a real TensorFlow."""

    def __init__(self):
        self.names = set()

    def find_spec(self, full_name, path=None, target=None):
        if full_name != "tensorflow" and not full_name.startswith("tensorflow."):
            return None
        if modules.resolve(full_name) is None:
            raise ModuleNotFoundError(
                "No module named %r: tensorfleet stands in for tensorflow here and has no such module; tensorfleet.missing('script.py') lists what a script uses "
                "and tensorfleet lacks" % full_name, name=full_name)
        return importlib.machinery.ModuleSpec(full_name, self, is_package=True)

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        # The module itself goes into `sys.modules` in place of the one just made: it keeps its own name, file and spec.
        sys.modules[module.__name__] = modules.resolve(module.__name__)
        self.names.add(module.__name__)


_finder = None
_noticed = False


@export("install_as_tensorflow")
def install_as_tensorflow(quiet=False):
    """Lets `import tensorflow` give this package from now on. Raises if a real TensorFlow has been imported already."""
    global _finder, _noticed
    if _finder is not None:
        return
    real = sys.modules.get("tensorflow")
    if real is not None and real is not sys.modules.get(modules.PACKAGE):
        raise RuntimeError("tensorflow %s is already imported from %s; call tensorfleet.install_as_tensorflow() before the first `import tensorflow`" % (
            getattr(real, "__version__", "?"), getattr(real, "__file__", "?")))
    _finder = Finder()
    sys.meta_path.insert(0, _finder)
    if not quiet and not _noticed and not os.environ.get("TENSORFLEET_QUIET"):
        import tensorfleet

        print("tensorfleet %s stands in for tensorflow %s" % (tensorfleet.__tensorfleet_version__, tensorfleet.__version__), file=sys.stderr)
    _noticed = True


@export("uninstall_as_tensorflow")
def uninstall_as_tensorflow():
    """Takes the import hook out again: `import tensorflow` gives the real one, if there is one. Modules that have `tf` keep what they have."""
    global _finder
    if _finder is None:
        return
    sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not _finder]
    for name in _finder.names:
        sys.modules.pop(name, None)
    _finder = None


@export("load_ipython_extension")
def load_ipython_extension(ipython):
    """`%load_ext tensorfleet`: stands in for TensorFlow in a notebook."""
    install_as_tensorflow()


@export("unload_ipython_extension")
def unload_ipython_extension(ipython):
    """`%unload_ext tensorfleet`."""
    uninstall_as_tensorflow()
