"""`tf.resource_loader`: files beside the calling module."""

import os
import sys

from tensorfleet.framework.export import export

from . import errors_of_files


@export("resource_loader.get_data_files_path")
def get_data_files_path():
    """The folder of the module that asks."""
    return os.path.dirname(os.path.abspath(sys._getframe(1).f_code.co_filename))


@export("resource_loader.get_root_dir_with_all_resources")
def get_root_dir_with_all_resources():
    """The folder of the module that asks."""
    return os.path.dirname(os.path.abspath(sys._getframe(1).f_code.co_filename))


@export("resource_loader.get_path_to_datafile")
def get_path_to_datafile(path):
    """A file beside the module that asks."""
    return os.path.join(os.path.dirname(os.path.abspath(sys._getframe(1).f_code.co_filename)), path)


@export("resource_loader.load_resource")
def load_resource(path):
    """The bytes of a file of this package."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    with errors_of_files.translated(path), open(os.path.join(package, path), "rb") as file:
        return file.read()


@export("resource_loader.readahead_file_path")
def readahead_file_path(path, readahead="128M"):
    """The path as it is."""
    return path
