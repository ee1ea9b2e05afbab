"""Made by `python -m tensorfleet.framework.stubs`: `tf.gfile`."""

from tensorfleet.platform.file_io import copy_v1 as Copy
from tensorfleet.platform.file_io import delete_recursively as DeleteRecursively
from tensorfleet.platform.file_io import file_exists as Exists
from tensorfleet.platform.file_io import FastGFile as FastGFile
from tensorfleet.platform.file_io import GFile as GFile
from tensorfleet.platform.file_io import get_matching_files as Glob
from tensorfleet.platform.file_io import is_directory as IsDirectory
from tensorfleet.platform.file_io import list_directory as ListDirectory
from tensorfleet.platform.file_io import recursive_create_dir as MakeDirs
from tensorfleet.platform.file_io import create_dir as MkDir
from tensorfleet.platform.file_io import GFile as Open
from tensorfleet.platform.file_io import delete_file as Remove
from tensorfleet.platform.file_io import rename_v1 as Rename
from tensorfleet.platform.file_io import stat_v1 as Stat
from tensorfleet.platform.file_io import walk_v1 as Walk
