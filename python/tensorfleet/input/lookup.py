"""Tables from keys to values: `tf.lookup`, and `tf.contrib.lookup` under its own names."""

import collections
import uuid

from tensorfleet.framework import dtypes, gen, ops
from tensorfleet.framework.composite import SparseTensor
from tensorfleet.framework.export import export, export_values
from tensorfleet.framework.tensor import Tensor
from tensorfleet.ops import control_flow

_TABLE_INITIALIZERS = ops.GraphKeys.TABLE_INITIALIZERS


@export("initialize_all_tables")
def initialize_all_tables(name="init_all_tables"):
    """Its name before `tf.tables_initializer`."""
    return tables_initializer(name)


@export("tables_initializer", "initializers.tables_initializer")
def tables_initializer(name="init_all_tables"):
    """An operation that fills all tables of the graph."""
    initializers = ops.get_collection(_TABLE_INITIALIZERS)
    if initializers:
        return control_flow.group(*initializers, name=name)
    return control_flow.no_op(name=name)


def _check_table_dtypes(table, key_dtype, value_dtype):
    if dtypes.as_dtype(key_dtype) != table.key_dtype:
        raise TypeError(f"Invalid key dtype for table, expected {table.key_dtype!r} but got {key_dtype!r}.")
    if dtypes.as_dtype(value_dtype) != table.value_dtype:
        raise TypeError(f"Invalid value dtype for table, expected {table.value_dtype!r} but got {value_dtype!r}.")


@export("contrib.lookup.LookupInterface")
class LookupInterface:
    """What all tables have."""

    def __init__(self, key_dtype, value_dtype):
        self._key_dtype = dtypes.as_dtype(key_dtype)
        self._value_dtype = dtypes.as_dtype(value_dtype)

    @property
    def key_dtype(self):
        return self._key_dtype

    @property
    def value_dtype(self):
        return self._value_dtype

    @property
    def name(self):
        raise NotImplementedError

    def size(self, name=None):
        raise NotImplementedError

    def lookup(self, keys, name=None):
        raise NotImplementedError


# ---- what tables are filled with


@export("contrib.lookup.TableInitializerBase")
class TableInitializerBase:
    """What fills a table."""

    def __init__(self, key_dtype, value_dtype):
        self._key_dtype = dtypes.as_dtype(key_dtype)
        self._value_dtype = dtypes.as_dtype(value_dtype)

    @property
    def key_dtype(self):
        return self._key_dtype

    @property
    def value_dtype(self):
        return self._value_dtype

    def initialize(self, table):
        raise NotImplementedError

    @property
    def _shared_name(self):
        return f"hash_table_{uuid.uuid4()}"


@export("lookup.KeyValueTensorInitializer", "contrib.lookup.KeyValueTensorInitializer")
class KeyValueTensorInitializer(TableInitializerBase):
    """Keys and values that the program gives."""

    def __init__(self, keys, values, key_dtype=None, value_dtype=None, name=None):
        with ops.init_scope():
            self._keys = ops.convert_to_tensor(keys, dtype=key_dtype, name="keys")
            self._values = ops.convert_to_tensor(values, dtype=value_dtype, name="values")
        self._name = name if name is not None else "key_value_init"
        super().__init__(self._keys.dtype, self._values.dtype)

    def initialize(self, table):
        """Fills a table; gives the operation that does."""
        _check_table_dtypes(table, self._keys.dtype, self._values.dtype)
        with ops.name_scope(self._name, values=(table.resource_handle, self._keys, self._values)):
            op = gen.LookupTableImportV2(table.resource_handle, self._keys, self._values)
        ops.add_to_collection(_TABLE_INITIALIZERS, op)
        return op


@export("lookup.TextFileIndex", "contrib.lookup.TextFileIndex")
class TextFileIndex:
    """Columns of a text file that are none."""

    WHOLE_LINE = -2
    LINE_NUMBER = -1


@export("lookup.TextFileInitializer", "contrib.lookup.TextFileInitializer")
class TextFileInitializer(TableInitializerBase):
    """Keys and values from the lines of a file."""

    def __init__(self, filename, key_dtype, key_index, value_dtype, value_index, vocab_size=None, delimiter="\t", name=None):
        if not isinstance(filename, Tensor) and not filename:
            raise ValueError("Filename required for %s." % name)
        key_dtype, value_dtype = dtypes.as_dtype(key_dtype), dtypes.as_dtype(value_dtype)
        if key_index < -2:
            raise ValueError(f"Invalid key index {key_index}.")
        if key_index == TextFileIndex.LINE_NUMBER and key_dtype != dtypes.int64:
            raise TypeError(f"Signature mismatch. Keys must be dtype {dtypes.int64}, got {key_dtype}.")
        if key_index == TextFileIndex.WHOLE_LINE and not key_dtype.is_integer and key_dtype != dtypes.string:
            raise TypeError(f"Signature mismatch. Keys must be integer or string, got {key_dtype}.")
        if value_index < -2:
            raise ValueError(f"Invalid value index {value_index}.")
        if value_index == TextFileIndex.LINE_NUMBER and value_dtype != dtypes.int64:
            raise TypeError(f"Signature mismatch. Values must be dtype {dtypes.int64}, got {value_dtype}.")
        if value_index == TextFileIndex.WHOLE_LINE and value_dtype != dtypes.string:
            raise TypeError(f"Signature mismatch. Values must be dtype {dtypes.string}, got {value_dtype}.")
        if vocab_size is not None and vocab_size <= 0:
            raise ValueError(f"Invalid vocab_size {vocab_size}.")
        self._key_index, self._value_index = key_index, value_index
        self._vocab_size, self._delimiter = vocab_size, delimiter
        self._name = name if name is not None else "text_file_init"
        self._filename_arg = filename
        with ops.init_scope():
            if isinstance(filename, Tensor):
                self._filename = filename
            else:
                with ops.device("CPU"):
                    self._filename = ops.convert_to_tensor(filename, dtype=dtypes.string, name="asset_path")
        ops.add_to_collection(ops.GraphKeys.ASSET_FILEPATHS, self._filename)
        super().__init__(key_dtype, value_dtype)

    def initialize(self, table):
        """Fills a table; gives the operation that does."""
        _check_table_dtypes(table, self.key_dtype, self.value_dtype)
        with ops.name_scope(self._name, "text_file_init", (table.resource_handle,)):
            op = gen.InitializeTableFromTextFileV2(
                table.resource_handle,
                self._filename,
                key_index=self._key_index,
                value_index=self._value_index,
                vocab_size=-1 if self._vocab_size is None else self._vocab_size,
                delimiter=self._delimiter,
            )
        ops.add_to_collection(_TABLE_INITIALIZERS, op)
        return op

    @property
    def _shared_name(self):
        name = self._filename_arg.name if isinstance(self._filename_arg, Tensor) else self._filename_arg
        parts = [name] + ([] if self._vocab_size is None else [self._vocab_size]) + [self._key_index, self._value_index]
        return "hash_table_" + "_".join(str(part) for part in parts)


@export("contrib.lookup.TextFileStringTableInitializer")
class TextFileStringTableInitializer(TextFileInitializer):
    """Strings by line number."""

    def __init__(
        self, filename, key_column_index=TextFileIndex.LINE_NUMBER, value_column_index=TextFileIndex.WHOLE_LINE, vocab_size=None, delimiter="\t", name="text_file_string_table_init"
    ):
        super().__init__(filename, dtypes.int64, key_column_index, dtypes.string, value_column_index, vocab_size=vocab_size, delimiter=delimiter, name=name)


@export("contrib.lookup.TextFileIdTableInitializer")
class TextFileIdTableInitializer(TextFileInitializer):
    """Line numbers by string."""

    def __init__(
        self,
        filename,
        key_column_index=TextFileIndex.WHOLE_LINE,
        value_column_index=TextFileIndex.LINE_NUMBER,
        vocab_size=None,
        delimiter="\t",
        name="text_file_id_table_init",
        key_dtype=dtypes.string,
    ):
        super().__init__(filename, key_dtype, key_column_index, dtypes.int64, value_column_index, vocab_size=vocab_size, delimiter=delimiter, name=name)


# ---- tables


@export("contrib.lookup.InitializableLookupTableBase")
class InitializableLookupTableBase(LookupInterface):
    """A table that is filled once."""

    def __init__(self, default_value, initializer):
        super().__init__(initializer.key_dtype, initializer.value_dtype)
        self._default_value = ops.convert_to_tensor(default_value, dtype=self._value_dtype)
        if self._default_value.shape.rank != 0:
            raise ValueError(f"Default value must be a scalar, got shape {self._default_value.shape}")
        self._initializer = initializer
        self._resource_handle = self._create_resource()
        self._init_op = self._initialize()

    def _initialize(self):
        return self._initializer.initialize(self)

    @property
    def default_value(self):
        return self._default_value

    @property
    def resource_handle(self):
        return self._resource_handle

    @property
    def initializer(self):
        return self._init_op

    @property
    def init(self):
        return self._init_op

    @property
    def name(self):
        return self._resource_handle.op.name.split("/")[-1]

    def size(self, name=None):
        """The number of entries."""
        with ops.name_scope(name, f"{self.name}_Size", [self._resource_handle]):
            return gen.LookupTableSizeV2(self._resource_handle)

    def lookup(self, keys, name=None):
        """The values of keys; the default value where there is none."""
        found = keys.values if isinstance(keys, SparseTensor) else keys
        if not isinstance(found, Tensor):
            found = ops.convert_to_tensor(found, dtype=self._key_dtype)
        if found.dtype.base_dtype != self._key_dtype:
            raise TypeError("Signature mismatch. Keys must be dtype %s, got %s." % (self._key_dtype, found.dtype))
        with ops.name_scope(name, f"{self.name}_Lookup", (self._resource_handle, found, self._default_value)):
            values = gen.LookupTableFindV2(self._resource_handle, found, self._default_value)
        values.set_shape(found.shape)
        return SparseTensor(keys.indices, values, keys.dense_shape) if isinstance(keys, SparseTensor) else values


class _StaticHashTableBase(InitializableLookupTableBase):
    def __init__(self, initializer, default_value, shared_name, name):
        self._table_name = name or "hash_table"
        self._table_shared_name = shared_name
        if initializer.key_dtype == dtypes.string or initializer.key_dtype.is_integer:
            super().__init__(default_value, initializer)
        else:
            raise TypeError(f"Signature mismatch. Keys cannot be of dtype {initializer.key_dtype}.")

    def _create_resource(self):
        shared_name = self._table_shared_name if self._table_shared_name is not None else self._initializer._shared_name
        handle = gen.HashTableV2(
            shared_name=shared_name, key_dtype=self._initializer.key_dtype, value_dtype=self._initializer.value_dtype, name=self._table_name
        )
        return handle

    def export(self, name=None):
        """All keys and values."""
        with ops.name_scope(name, f"{self.name}_Export", [self._resource_handle]):
            keys, values = gen.LookupTableExportV2(self._resource_handle, Tkeys=self._key_dtype, Tvalues=self._value_dtype)
        keys.set_shape([None])
        values.set_shape([None])
        return keys, values


@export("lookup.StaticHashTable")
class StaticHashTable(_StaticHashTableBase):
    """A table that is filled once."""

    def __init__(self, initializer, default_value, name=None):
        super().__init__(initializer, default_value, None, name)


@export("contrib.lookup.HashTable")
class HashTable(_StaticHashTableBase):
    """The same with the name under which sessions share it."""

    def __init__(self, initializer, default_value, shared_name=None, name=None):
        super().__init__(initializer, default_value, shared_name, name)


HasherSpec = collections.namedtuple("HasherSpec", ["hasher", "key"])
export("contrib.lookup.HasherSpec")(HasherSpec)
FastHashSpec = HasherSpec("fasthash", None)
export_values(__name__, {"contrib.lookup.FastHashSpec": "FastHashSpec"})


@export("contrib.lookup.StrongHashSpec")
class StrongHashSpec(HasherSpec):
    """A hash that is hard to fool, with a key of two numbers."""

    __slots__ = ()

    def __new__(cls, key):
        if len(key) != 2:
            raise ValueError(f"key must have size 2, got {len(key)}.")
        if not isinstance(key[0], int) or not isinstance(key[1], int):
            raise TypeError("Invalid key %s. Must be unsigned integer values." % key)
        return super().__new__(cls, "stronghash", key)


class _WithBuckets(LookupInterface):
    """A table of ids; keys that it lacks get one of some buckets by their hash."""

    def __init__(self, table, num_oov_buckets, hasher_spec, key_dtype, name):
        self._table = table
        self._num_oov_buckets = num_oov_buckets
        self._hasher_spec = hasher_spec
        self._table_name = name
        super().__init__(key_dtype, dtypes.int64)

    @property
    def initializer(self):
        return self._table.initializer if self._table is not None else control_flow.no_op()

    @property
    def init(self):
        return self.initializer

    @property
    def resource_handle(self):
        return self._table.resource_handle if self._table is not None else None

    @property
    def name(self):
        return self._table_name

    def size(self, name=None):
        """The number of ids, those of buckets included."""
        with ops.name_scope(name, f"{self.name}_Size"):
            if self._table is None:
                return ops.convert_to_tensor(self._num_oov_buckets, dtypes.int64)
            return self._table.size() + self._num_oov_buckets

    def _hashed(self, strings):
        if self._hasher_spec.hasher == "stronghash":
            return gen.StringToHashBucketStrong(strings, num_buckets=self._num_oov_buckets, key=self._hasher_spec.key, name="hash_bucket")
        return gen.StringToHashBucketFast(strings, num_buckets=self._num_oov_buckets, name="hash_bucket")

    def lookup(self, keys, name=None):
        """The ids of keys."""
        if keys.dtype.base_dtype != self._key_dtype:
            raise TypeError("Signature mismatch. Keys must be dtype %s, got %s." % (self._key_dtype, keys.dtype))
        values = keys.values if isinstance(keys, SparseTensor) else keys
        if self._table is not None and self._table.key_dtype.base_dtype == dtypes.int64 and values.dtype.base_dtype != dtypes.int64:
            values = gen.Cast(values, DstT=dtypes.int64)
        if self._num_oov_buckets == 0:
            ids = self._table.lookup(values, name=name)
        else:
            with ops.name_scope(name, f"{self.name}_Lookup"):
                strings = gen.AsString(values) if values.dtype.base_dtype.is_integer else values
                ids = self._hashed(strings)
                if self._table is not None:
                    found = self._table.lookup(values)
                    ids = gen.Add(ids, self._table.size())
                    is_known = gen.NotEqual(found, self._table.default_value)
                    ids = gen.SelectV2(is_known, found, ids)
        return SparseTensor(keys.indices, ids, keys.dense_shape) if isinstance(keys, SparseTensor) else ids


@export("lookup.StaticVocabularyTable")
class StaticVocabularyTable(_WithBuckets):
    """A table from words to ids, with buckets for words that it lacks."""

    def __init__(self, initializer, num_oov_buckets, lookup_key_dtype=None, name=None):
        if num_oov_buckets <= 0:
            raise ValueError("oov_buckets must be > 0.")
        if initializer is None:
            super().__init__(None, num_oov_buckets, FastHashSpec, lookup_key_dtype or dtypes.string, name or "hash_bucket")
            return
        if initializer.key_dtype not in (dtypes.int64, dtypes.string):
            raise TypeError(f"Invalid key dtype, expected one of (tf.int64, tf.string), but got {initializer.key_dtype!r}.")
        if lookup_key_dtype is not None and initializer.key_dtype.is_integer != dtypes.as_dtype(lookup_key_dtype).is_integer:
            raise TypeError(f"Invalid key dtype, expected {'integer' if initializer.key_dtype.is_integer else 'non-integer'} but got {lookup_key_dtype}.")
        if initializer.value_dtype != dtypes.int64:
            raise TypeError(f"Invalid value dtype, expected {dtypes.int64} but got {initializer.value_dtype}.")
        table = HashTable(initializer, default_value=-1)
        super().__init__(table, num_oov_buckets, FastHashSpec, lookup_key_dtype or table.key_dtype, name or table.name)


@export("contrib.lookup.IdTableWithHashBuckets")
class IdTableWithHashBuckets(_WithBuckets):
    """A table of ids with buckets for keys that it lacks."""

    def __init__(self, table, num_oov_buckets, hasher_spec=FastHashSpec, name=None, key_dtype=None):
        if table is None and num_oov_buckets <= 0:
            raise ValueError("table required if num_oov_buckets is not > 0.")
        if table is not None and num_oov_buckets < 0:
            raise ValueError(f"num_oov_buckets must be >= 0, got {num_oov_buckets}.")
        if hasher_spec.hasher not in ("fasthash", "stronghash"):
            raise TypeError(f"hasher_spec must be of type HasherSpec, got {hasher_spec}")
        super().__init__(table, num_oov_buckets, hasher_spec, key_dtype or (dtypes.string if table is None else table.key_dtype), name or (table.name if table is not None else "hash_bucket"))


