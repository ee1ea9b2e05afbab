"""Made by `python -m tensorfleet.framework.stubs`: `tf.resource_loader`."""

from tensorfleet.platform.resource_loader import get_data_files_path as get_data_files_path
from tensorfleet.platform.resource_loader import get_path_to_datafile as get_path_to_datafile
from tensorfleet.platform.resource_loader import get_root_dir_with_all_resources as get_root_dir_with_all_resources
from tensorfleet.platform.resource_loader import load_resource as load_resource
from tensorfleet.platform.resource_loader import readahead_file_path as readahead_file_path
