"""Made by `python -m tensorfleet.framework.stubs`: `tf.io.gfile`."""

from tensorfleet.platform.file_io import GFile as GFile
from tensorfleet.platform.file_io import copy as copy
from tensorfleet.platform.file_io import exists as exists
from tensorfleet.platform.file_io import glob as glob
from tensorfleet.platform.file_io import isdir as isdir
from tensorfleet.platform.file_io import listdir as listdir
from tensorfleet.platform.file_io import makedirs as makedirs
from tensorfleet.platform.file_io import mkdir as mkdir
from tensorfleet.platform.file_io import remove as remove
from tensorfleet.platform.file_io import rename as rename
from tensorfleet.platform.file_io import rmtree as rmtree
from tensorfleet.platform.file_io import stat as stat
from tensorfleet.platform.file_io import walk as walk
