"""TFRecord files from Python: `tf.python_io`."""

import os

from tensorfleet import _native
from tensorfleet.framework.export import export


@export("io.TFRecordCompressionType", "python_io.TFRecordCompressionType")
class TFRecordCompressionType:
    """How a record file is compressed."""

    NONE = 0
    ZLIB = 1
    GZIP = 2


@export("io.TFRecordOptions", "python_io.TFRecordOptions")
class TFRecordOptions:
    """How a record file is written or read."""

    compression_type_map = {
        TFRecordCompressionType.ZLIB: "ZLIB",
        TFRecordCompressionType.GZIP: "GZIP",
        TFRecordCompressionType.NONE: "",
    }

    def __init__(
        self,
        compression_type=None,
        flush_mode=None,
        input_buffer_size=None,
        output_buffer_size=None,
        window_bits=None,
        compression_level=None,
        compression_method=None,
        mem_level=None,
        compression_strategy=None,
    ):
        self.get_compression_type_string(compression_type)
        self.compression_type = compression_type
        self.flush_mode = flush_mode
        self.input_buffer_size = input_buffer_size
        self.output_buffer_size = output_buffer_size
        self.window_bits = window_bits
        self.compression_level = compression_level
        self.compression_method = compression_method
        self.mem_level = mem_level
        self.compression_strategy = compression_strategy

    @classmethod
    def get_compression_type_string(cls, options):
        """`""`, `ZLIB` or `GZIP`, for options, a number or a name."""
        if not options:
            return ""
        if isinstance(options, TFRecordOptions):
            return cls.get_compression_type_string(options.compression_type)
        if isinstance(options, (bool, int)) and options in cls.compression_type_map:
            return cls.compression_type_map[options]
        if options in cls.compression_type_map.values():
            return options
        raise ValueError(f'Not a valid compression_type: "{options}"')


def _path(path):
    return os.fsdecode(path) if isinstance(path, (bytes, os.PathLike)) else path


@export("io.tf_record_iterator", "python_io.tf_record_iterator")
def tf_record_iterator(path, options=None):
    """The records of a file, one after the other."""
    reader = _native.RecordReader(_path(path), TFRecordOptions.get_compression_type_string(options))
    while True:
        record = reader.next()
        if record is None:
            return
        yield record


@export("io.TFRecordWriter", "python_io.TFRecordWriter")
class TFRecordWriter:
    """Writes records to a file: `with tf.python_io.TFRecordWriter(path) as writer: writer.write(record)`."""

    def __init__(self, path, options=None):
        if not isinstance(options, TFRecordOptions):
            options = TFRecordOptions(compression_type=options)
        self._native = _native.RecordWriter(_path(path), TFRecordOptions.get_compression_type_string(options))

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        self.close()

    def write(self, record):
        """Appends a record."""
        self._native.write(record.encode() if isinstance(record, str) else bytes(record))

    def flush(self):
        """Passes on to the file what has been gathered."""
        self._native.flush()

    def close(self):
        """Ends the file."""
        self._native.close()
