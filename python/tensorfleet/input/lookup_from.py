"""Tables from files, tensors and by hand: the rest of `tf.contrib.lookup`."""

from tensorfleet.framework import dtypes, gen, ops
from tensorfleet.framework.composite import SparseTensor
from tensorfleet.framework.export import export
from tensorfleet.framework.tensor import Tensor
from tensorfleet.input import lookup
from tensorfleet.input.lookup import FastHashSpec, HashTable, IdTableWithHashBuckets, TextFileIndex


def _check_words(vocabulary_list, num_oov_buckets, what):
    if vocabulary_list is None:
        raise ValueError(f"{what} must be specified.")
    if num_oov_buckets < 0:
        raise ValueError("num_oov_buckets must be greater or equal than 0, got %d." % num_oov_buckets)


@export("contrib.lookup.index_table_from_file")
def index_table_from_file(
    vocabulary_file=None,
    num_oov_buckets=0,
    vocab_size=None,
    default_value=-1,
    hasher_spec=FastHashSpec,
    key_dtype=dtypes.string,
    name=None,
    key_column_index=TextFileIndex.WHOLE_LINE,
    value_column_index=TextFileIndex.LINE_NUMBER,
    delimiter="\t",
):
    """Ids of words, from the lines of a file."""
    if vocabulary_file is None or (isinstance(vocabulary_file, str) and not vocabulary_file):
        raise ValueError("vocabulary_file must be specified and must not be empty.")
    if num_oov_buckets < 0:
        raise ValueError("num_oov_buckets must be greater or equal than 0, got %d." % num_oov_buckets)
    if vocab_size is not None and vocab_size < 1:
        names = vocabulary_file if not isinstance(vocabulary_file, Tensor) else "?"
        raise ValueError("vocab_size must be greater than 0, got %d for vocabulary_file %s." % (vocab_size, names))
    key_dtype = dtypes.as_dtype(key_dtype)
    if not key_dtype.is_integer and key_dtype != dtypes.string:
        raise TypeError("Only integer and string keys are supported.")
    with ops.name_scope(name, "string_to_index"):
        with ops.name_scope(None, "hash_table"):
            init = lookup.TextFileIdTableInitializer(
                vocabulary_file,
                vocab_size=vocab_size,
                key_dtype=dtypes.int64 if key_dtype.is_integer else key_dtype,
                name="table_init",
                key_column_index=key_column_index,
                value_column_index=value_column_index,
                delimiter=delimiter,
            )
            table = HashTable(init, default_value)
        if num_oov_buckets:
            table = IdTableWithHashBuckets(table, num_oov_buckets=num_oov_buckets, hasher_spec=hasher_spec, key_dtype=key_dtype)
        return table


@export("contrib.lookup.index_table_from_tensor")
def index_table_from_tensor(mapping, num_oov_buckets=0, default_value=-1, hasher_spec=FastHashSpec, dtype=dtypes.string, name=None):
    """Ids of words, from a list of them."""
    from tensorfleet.ops import array, math

    _check_words(mapping, num_oov_buckets, "mapping")
    dtype = dtypes.as_dtype(dtype)
    if not dtype.is_integer and dtype != dtypes.string:
        raise TypeError("Only integer and string keys are supported.")
    with ops.name_scope(name, "string_to_index"):
        keys = ops.convert_to_tensor(mapping)
        if keys.dtype.is_integer != dtype.is_integer:
            raise ValueError(f"Expected {'integer' if dtype.is_integer else 'non-integer'}, got {keys.dtype}.")
        if not dtype.is_integer and keys.dtype.base_dtype != dtype:
            raise ValueError(f"Expected {dtype}, got {keys.dtype}.")
        values = math.cast(math.range(array.size(keys)), dtypes.int64)
        with ops.name_scope(None, "hash_table"):
            keys = math.cast(keys, dtypes.int64) if keys.dtype.is_integer else keys
            init = lookup.KeyValueTensorInitializer(keys, values, keys.dtype.base_dtype, dtypes.int64, name="table_init")
            table = HashTable(init, default_value)
        if num_oov_buckets:
            table = IdTableWithHashBuckets(table, num_oov_buckets=num_oov_buckets, hasher_spec=hasher_spec, key_dtype=dtype)
        return table


@export("contrib.lookup.index_to_string_table_from_file")
def index_to_string_table_from_file(
    vocabulary_file, vocab_size=None, default_value="UNK", name=None, key_column_index=TextFileIndex.LINE_NUMBER, value_column_index=TextFileIndex.WHOLE_LINE, delimiter="\t"
):
    """Words of ids, from the lines of a file."""
    if vocabulary_file is None or (isinstance(vocabulary_file, str) and not vocabulary_file):
        raise ValueError("vocabulary_file must be specified and must not be empty.")
    if vocab_size is not None and vocab_size < 1:
        raise ValueError("vocab_size must be greater than 0, got %d." % vocab_size)
    with ops.name_scope(name, "index_to_string"):
        init = lookup.TextFileStringTableInitializer(
            vocabulary_file,
            vocab_size=vocab_size,
            name="table_init",
            key_column_index=key_column_index,
            value_column_index=value_column_index,
            delimiter=delimiter,
        )
        return HashTable(init, default_value)


@export("contrib.lookup.index_to_string_table_from_tensor")
def index_to_string_table_from_tensor(mapping, default_value="UNK", name=None):
    """Words of ids, from a list of them."""
    from tensorfleet.ops import array, math

    if mapping is None:
        raise ValueError("mapping must be specified.")
    with ops.name_scope(name, "index_to_string"):
        values = ops.convert_to_tensor(mapping)
        keys = math.cast(math.range(array.size(values)), dtypes.int64)
        init = lookup.KeyValueTensorInitializer(keys, values, dtypes.int64, dtypes.string, name="table_init")
        return HashTable(init, default_value)


@export("contrib.lookup.MutableHashTable")
class MutableHashTable(lookup.LookupInterface):
    """A table that grows while the graph runs."""

    def __init__(self, key_dtype, value_dtype, default_value, name="MutableHashTable", checkpoint=True):
        self._default_value = ops.convert_to_tensor(default_value, dtype=value_dtype)
        self._value_shape = self._default_value.shape
        self._table_name = name
        super().__init__(key_dtype, value_dtype)
        if self._default_value.shape.rank == 0:
            self._handle = gen.MutableHashTableV2(use_node_name_sharing=checkpoint, key_dtype=key_dtype, value_dtype=value_dtype, name=name)
        else:
            self._handle = gen.MutableHashTableOfTensorsV2(
                use_node_name_sharing=checkpoint, key_dtype=key_dtype, value_dtype=value_dtype, value_shape=self._default_value.shape, name=name
            )
        self._short_name = self._handle.op.name.split("/")[-1]

    @property
    def name(self):
        return self._short_name

    @property
    def resource_handle(self):
        return self._handle

    def size(self, name=None):
        """The number of entries."""
        with ops.name_scope(name, f"{self.name}_Size", [self._handle]):
            with ops.colocate_with(self._handle):
                return gen.LookupTableSizeV2(self._handle)

    def remove(self, keys, name=None):
        """Takes entries out."""
        keys = ops.convert_to_tensor(keys, dtype=self._key_dtype) if not isinstance(keys, Tensor) else keys
        if keys.dtype.base_dtype != self._key_dtype:
            raise TypeError("Signature mismatch. Keys must be dtype %s, got %s." % (self._key_dtype, keys.dtype))
        with ops.name_scope(name, f"{self.name}_lookup_table_remove", (self._handle, keys, self._default_value)):
            return gen.LookupTableRemoveV2(self._handle, keys)

    def lookup(self, keys, name=None):
        """The values of keys; the default value where there is none."""
        found = keys.values if isinstance(keys, SparseTensor) else keys
        with ops.name_scope(name, f"{self.name}_lookup_table_find", (self._handle, found, self._default_value)):
            found = ops.convert_to_tensor(found, dtype=self._key_dtype, name="keys")
            with ops.colocate_with(self._handle):
                values = gen.LookupTableFindV2(self._handle, found, self._default_value)
        return SparseTensor(keys.indices, values, keys.dense_shape) if isinstance(keys, SparseTensor) else values

    def insert(self, keys, values, name=None):
        """Puts entries in, in place of those with the same keys."""
        with ops.name_scope(name, f"{self.name}_lookup_table_insert", [self._handle, keys, values]):
            keys = ops.convert_to_tensor(keys, self._key_dtype, name="keys")
            values = ops.convert_to_tensor(values, self._value_dtype, name="values")
            with ops.colocate_with(self._handle):
                return gen.LookupTableInsertV2(self._handle, keys, values)

    def export(self, name=None):
        """All keys and values."""
        with ops.name_scope(name, f"{self.name}_lookup_table_export_values", [self._handle]):
            with ops.colocate_with(self._handle):
                return gen.LookupTableExportV2(self._handle, Tkeys=self._key_dtype, Tvalues=self._value_dtype)
