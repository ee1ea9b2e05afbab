"""Made by `python -m tensorfleet.framework.stubs`: `tf.lookup`."""

from tensorfleet.input.lookup import KeyValueTensorInitializer as KeyValueTensorInitializer
from tensorfleet.input.lookup import StaticHashTable as StaticHashTable
from tensorfleet.input.lookup import StaticVocabularyTable as StaticVocabularyTable
from tensorfleet.input.lookup import TextFileIndex as TextFileIndex
from tensorfleet.input.lookup import TextFileInitializer as TextFileInitializer
