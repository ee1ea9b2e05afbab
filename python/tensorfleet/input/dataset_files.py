"""Datasets from files: lines, records, names of files."""

from tensorfleet.framework import dtypes, gen, ops
from tensorfleet.framework.export import export
from tensorfleet.framework.type_spec import TensorSpec
from tensorfleet.input.dataset import Dataset

_STRING = TensorSpec([], dtypes.string)
_BUFFER_BYTES = 256 * 1024


def list_files(file_pattern, shuffle=None, seed=None):
    """The names of files that match a pattern."""
    from tensorfleet.ops import array, strings

    with ops.name_scope("list_files"):
        shuffle = True if shuffle is None else shuffle
        file_pattern = ops.convert_to_tensor(file_pattern, dtype=dtypes.string, name="file_pattern")
        matching = gen.MatchingFiles(file_pattern)
        is_there = gen.Greater(array.shape(matching)[0], 0, name="match_not_empty")
        message = gen.Add("No files matched pattern: ", strings.reduce_join(file_pattern, separator=", "), name="message")
        checked = gen.Assert(is_there, [message], summarize=1, name="assert_not_empty/Assert")
        with ops.control_dependencies([checked]):
            matching = gen.Identity(matching)
        dataset = Dataset.from_tensor_slices(matching)
        if shuffle:
            buffer_size = gen.Maximum(array.shape(matching, out_type=dtypes.int64)[0], 1)
            dataset = dataset.shuffle(buffer_size, seed=seed)
        return dataset


def _filenames(filenames):
    """Names of files as a dataset of them."""
    if isinstance(filenames, Dataset):
        if filenames.output_types != dtypes.string:
            raise TypeError("`filenames` must be a `tf.data.Dataset` of `tf.string` elements.")
        return filenames
    filenames = ops.convert_to_tensor(filenames, dtype=dtypes.string)
    from tensorfleet.ops import array

    return Dataset.from_tensor_slices(array.reshape(filenames, [-1], name="flat_filenames"))


def _read(filenames, read_one_file, num_parallel_reads):
    dataset = _filenames(filenames)
    if num_parallel_reads is None:
        return dataset.flat_map(read_one_file)
    return dataset.interleave(read_one_file, cycle_length=num_parallel_reads, block_length=1, num_parallel_calls=num_parallel_reads)


def _optional(value, name, default, dtype):
    return ops.convert_to_tensor(default if value is None else value, dtype=dtype, name=name)


class _FileDataset(Dataset):
    """What the datasets of files have in common."""

    def _begin(self, dataset, shown_name):
        self._variant_tensor = dataset._variant_tensor
        self._element_spec = _STRING
        self._inputs = (dataset,)
        self._shown_name = shown_name


@export("data.TextLineDataset")
class TextLineDataset(_FileDataset):
    """The lines of text files."""

    def __init__(self, filenames, compression_type=None, buffer_size=None, num_parallel_reads=None):
        def read_one_file(filename):
            compression = _optional(compression_type, "compression_type", "", dtypes.string)
            return Dataset._of(gen.TextLineDataset(filename, compression, _optional(buffer_size, "buffer_size", _BUFFER_BYTES, dtypes.int64)), _STRING)

        self._begin(_read(filenames, read_one_file, num_parallel_reads), "TextLineDatasetV1")


@export("data.TFRecordDataset")
class TFRecordDataset(_FileDataset):
    """The records of TFRecord files."""

    def __init__(self, filenames, compression_type=None, buffer_size=None, num_parallel_reads=None):
        def read_one_file(filename):
            compression = _optional(compression_type, "compression_type", "", dtypes.string)
            return Dataset._of(gen.TFRecordDataset(filename, compression, _optional(buffer_size, "buffer_size", _BUFFER_BYTES, dtypes.int64)), _STRING)

        self._begin(_read(filenames, read_one_file, num_parallel_reads), "TFRecordDatasetV1")


@export("data.FixedLengthRecordDataset")
class FixedLengthRecordDataset(_FileDataset):
    """Records with the same number of bytes."""

    def __init__(self, filenames, record_bytes, header_bytes=None, footer_bytes=None, buffer_size=None, compression_type=None, num_parallel_reads=None):
        def read_one_file(filename):
            sizes = [
                ops.convert_to_tensor(record_bytes, dtype=dtypes.int64, name="record_bytes"),
                _optional(footer_bytes, "footer_bytes", 0, dtypes.int64),
                _optional(buffer_size, "buffer_size", _BUFFER_BYTES, dtypes.int64),
            ]
            header = _optional(header_bytes, "header_bytes", 0, dtypes.int64)
            compression = _optional(compression_type, "compression_type", "", dtypes.string)
            return Dataset._of(gen.FixedLengthRecordDatasetV2(filename, header, *sizes, compression), _STRING)

        self._begin(_read(filenames, read_one_file, num_parallel_reads), "FixedLengthRecordDatasetV1")
