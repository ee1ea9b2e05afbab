"""Readers: they take file names from a queue and give records."""

from tensorfleet.framework import gen
from tensorfleet.framework.export import export


@export("ReaderBase")
class ReaderBase:
    """What all readers have."""

    def __init__(self, reader_ref, supports_serialize=False):
        self._reader_ref = reader_ref
        self._supports_serialize = supports_serialize

    @property
    def reader_ref(self):
        return self._reader_ref

    @property
    def supports_serialize(self):
        return self._supports_serialize

    def read(self, queue, name=None):
        """The next record, as key and value."""
        return gen.ReaderReadV2(self._reader_ref, getattr(queue, "queue_ref", queue), name=name)

    def read_up_to(self, queue, num_records, name=None):
        """Up to `num_records` records, as keys and values."""
        return gen.ReaderReadUpToV2(self._reader_ref, getattr(queue, "queue_ref", queue), num_records, name=name)

    def num_records_produced(self, name=None):
        """The number of records so far."""
        return gen.ReaderNumRecordsProducedV2(self._reader_ref, name=name)

    def num_work_units_completed(self, name=None):
        """The number of files that have been read."""
        return gen.ReaderNumWorkUnitsCompletedV2(self._reader_ref, name=name)

    def serialize_state(self, name=None):
        """No reader of TensorFlow's can: an error when it runs."""
        return gen.ReaderSerializeStateV2(self._reader_ref, name=name)

    def restore_state(self, state, name=None):
        """No reader of TensorFlow's can: an error when it runs."""
        return gen.ReaderRestoreStateV2(self._reader_ref, state, name=name)

    def reset(self, name=None):
        """Begins anew."""
        return gen.ReaderResetV2(self._reader_ref, name=name)


@export("WholeFileReader")
class WholeFileReader(ReaderBase):
    """A record is a file."""

    def __init__(self, name=None):
        super().__init__(gen.WholeFileReaderV2(name=name), supports_serialize=True)


@export("TextLineReader")
class TextLineReader(ReaderBase):
    """A record is a line."""

    def __init__(self, skip_header_lines=None, name=None):
        super().__init__(gen.TextLineReaderV2(skip_header_lines=skip_header_lines, name=name))


@export("FixedLengthRecordReader")
class FixedLengthRecordReader(ReaderBase):
    """Records have the same number of bytes."""

    def __init__(self, record_bytes, header_bytes=None, footer_bytes=None, hop_bytes=None, name=None, encoding=None):
        reader = gen.FixedLengthRecordReaderV2(
            record_bytes=record_bytes,
            header_bytes=header_bytes,
            footer_bytes=footer_bytes,
            hop_bytes=hop_bytes,
            encoding=encoding,
            name=name,
        )
        super().__init__(reader)


@export("TFRecordReader")
class TFRecordReader(ReaderBase):
    """Records of TFRecord files."""

    def __init__(self, name=None, options=None):
        from tensorfleet.input import records

        compression = records.TFRecordOptions.get_compression_type_string(options)
        super().__init__(gen.TFRecordReaderV2(name=name, compression_type=compression))


@export("IdentityReader")
class IdentityReader(ReaderBase):
    """A record is a name from the queue."""

    def __init__(self, name=None):
        super().__init__(gen.IdentityReaderV2(name=name), supports_serialize=True)


