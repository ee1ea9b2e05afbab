"""Made by `python -m tensorfleet.framework.stubs`: `tf.contrib.slim.utils`."""

from tensorfleet.contribs.slim import convert_collection_to_dict as convert_collection_to_dict
