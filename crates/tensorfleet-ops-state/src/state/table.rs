//! [`Table`]: a lookup table from integers or strings to values of any dtype.
//!
//! One kind is filled once by its initialiser and then only read; the other can be changed at any time. Values lie in
//! one array, row by row, so that a lookup copies and never allocates per key.

use bytes::Bytes;
use parking_lot::RwLock;
use rustc_hash::FxHashMap;
use tensorfleet_core::memory::Kept;
use tensorfleet_core::{Buffer, DType, Result, Shape, Status, Tensor, bail, ensure, excerpt, memory};

use tensorfleet_kernel::resource::Resource;
use tensorfleet_kernel::shape_context::integers_of;
use tensorfleet_ops_tensor::array::axes::concat_dims;

/// What may happen to a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// It is filled once, and cannot be used before.
    Initializable,
    /// It can be changed at any time.
    Mutable,
}

/// A lookup table.
pub(super) struct Table {
    name: String,
    kind: Kind,
    key_dtype: DType,
    value_dtype: DType,
    value_shape: Shape,
    rows: RwLock<Rows>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum Key {
    Integer(i64),
    String(Bytes),
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Key::Integer(number) => write!(f, "{number}"),
            Key::String(text) => write!(f, "{}", excerpt(text)),
        }
    }
}

#[derive(Default)]
struct Rows {
    is_initialized: bool,
    row_of: FxHashMap<Key, usize>,
    keys: Vec<Key>,
    values: Values,
    kept: Kept,
}

/// What a row takes besides its key and values: its number, and room that the map keeps free.
const ROW_BYTES: usize = 64;

/// What a string takes in a table; a long one is charged by itself.
fn string_bytes(text: &Bytes) -> usize {
    size_of::<Bytes>() + text.len().min(LONG_STRING)
}

const LONG_STRING: usize = 1 << 10;

fn row_bytes(key: &Key, strings: &[Bytes], plain: usize) -> usize {
    let key = match key {
        Key::Integer(_) => 0,
        Key::String(text) => string_bytes(text),
    };
    ROW_BYTES + 2 * size_of::<Key>() + key + strings.iter().map(string_bytes).sum::<usize>() + plain
}

/// Rows of equal length. Which of the two is used depends on the dtype.
#[derive(Default)]
struct Values {
    plain: Vec<u8>,
    strings: Vec<Bytes>,
}

impl Resource for Table {
    fn kind() -> &'static str {
        "N10tensorflow6lookup15LookupInterfaceE"
    }
}

impl Table {
    pub(super) fn new(
        name: &str,
        kind: Kind,
        key_dtype: DType,
        value_dtype: DType,
        value_shape: Shape,
    ) -> Result<Table> {
        ensure!(
            matches!(key_dtype, DType::Int32 | DType::Int64 | DType::String)
                && (value_dtype.is_plain() || value_dtype == DType::String),
            InvalidArgument,
            "No OpKernel was registered to support a table from {key_dtype} to {value_dtype} on CPU"
        );
        let rows = RwLock::default();
        Ok(Table { name: name.to_string(), kind, key_dtype, value_dtype, value_shape, rows })
    }

    /// Checks that a node means a table of these dtypes.
    pub(super) fn check_dtypes(&self, key_dtype: DType, value_dtype: DType) -> Result<()> {
        ensure!(
            (key_dtype, value_dtype) == (self.key_dtype, self.value_dtype),
            InvalidArgument,
            "Conflicting key/value dtypes {key_dtype}->{value_dtype} with {}-{} for table {}",
            self.key_dtype,
            self.value_dtype,
            self.name
        );
        Ok(())
    }

    /// The dtypes of keys and values.
    pub(super) fn dtypes(&self) -> (DType, DType) {
        (self.key_dtype, self.value_dtype)
    }

    /// The number of keys.
    pub(super) fn size(&self) -> usize {
        self.rows.read().keys.len()
    }

    /// Elements in a row.
    fn row_len(&self) -> usize {
        self.value_shape.num_elements()
    }

    /// Bytes in a row of plain values.
    fn row_bytes(&self) -> usize {
        self.row_len().saturating_mul(self.value_dtype.size().unwrap_or(0))
    }

    fn keys_of(&self, keys: &Tensor) -> Result<Vec<Key>> {
        ensure!(
            keys.dtype() == self.key_dtype,
            InvalidArgument,
            "Key must be type {} but got {}",
            self.key_dtype,
            keys.dtype()
        );
        if self.key_dtype == DType::String {
            return memory::collect(keys.as_strings()?.iter().cloned().map(Key::String));
        }
        memory::collect(integers_of(keys)?.into_iter().map(Key::Integer))
    }

    fn check_values(&self, keys: &Tensor, values: &Tensor) -> Result<()> {
        ensure!(
            values.dtype() == self.value_dtype,
            InvalidArgument,
            "Value must be type {} but got {}",
            self.value_dtype,
            values.dtype()
        );
        let expected = concat_dims(&[keys.shape(), &self.value_shape])?;
        ensure!(
            *values.shape() == expected,
            InvalidArgument,
            "Expected shape {expected} for value, got {}",
            values.shape()
        );
        Ok(())
    }

    /// The values of `keys`, and `default` (one for all, or one for each) where there is none.
    pub(super) fn find(&self, keys: &Tensor, default: &Tensor) -> Result<Tensor> {
        let shape = concat_dims(&[keys.shape(), &self.value_shape])?;
        let single = *default.shape() == self.value_shape;
        ensure!(
            default.dtype() == self.value_dtype && (single || *default.shape() == shape),
            InvalidArgument,
            "Expected shape {} or {shape} for default value, got {} of {}",
            self.value_shape,
            default.shape(),
            default.dtype()
        );
        let keys = self.keys_of(keys)?;
        let rows = self.rows.read();
        ensure!(self.is_usable(&rows), FailedPrecondition, "Table not initialized.");
        let found = keys.iter().map(|key| rows.row_of.get(key).copied());
        if self.value_dtype == DType::String {
            let (len, defaults) = (self.row_len(), default.as_strings()?);
            let out = gather_rows(found, &rows.values.strings, defaults, len, single);
            return Tensor::from_strings(out, &shape);
        }
        let out = gather_rows(found, &rows.values.plain, default.as_bytes()?, self.row_bytes(), single);
        plain_tensor(self.value_dtype, shape, &out)
    }

    fn is_usable(&self, rows: &Rows) -> bool {
        rows.is_initialized || self.kind == Kind::Mutable
    }

    /// Fills the table: all of it at once or nothing.
    pub(super) fn import(&self, keys: &Tensor, values: &Tensor) -> Result<()> {
        self.check_values(keys, values)?;
        let keys = self.keys_of(keys)?;
        let mut rows = self.rows.write();
        if self.kind == Kind::Initializable && rows.is_initialized {
            // An initialiser that runs again, say in another session, is no error.
            ensure!(rows.keys.len() == keys.len(), FailedPrecondition, "Table already initialized.");
            return Ok(());
        }
        let mut filled = Rows { is_initialized: true, ..Rows::default() };
        self.put(&mut filled, keys, values)?;
        *rows = filled;
        Ok(())
    }

    /// Adds keys or changes their values.
    pub(super) fn insert(&self, keys: &Tensor, values: &Tensor) -> Result<()> {
        self.check_values(keys, values)?;
        self.check_mutable("Insert")?;
        let keys = self.keys_of(keys)?;
        self.put(&mut self.rows.write(), keys, values)
    }

    fn check_mutable(&self, what: &str) -> Result<()> {
        ensure!(
            self.kind == Kind::Mutable,
            Unimplemented,
            "{what} not supported by InitializableLookupTable implementations"
        );
        Ok(())
    }

    fn put(&self, rows: &mut Rows, keys: Vec<Key>, values: &Tensor) -> Result<()> {
        let is_string = self.value_dtype == DType::String;
        let strings: &[Bytes] = if is_string { values.as_strings()? } else { &[] };
        let plain: &[u8] = if is_string { &[] } else { values.as_bytes()? };
        let (len, bytes) = (if is_string { self.row_len() } else { 0 }, self.row_bytes());
        for (number, key) in keys.into_iter().enumerate() {
            let strings = &strings[number * len..(number + 1) * len];
            let plain = &plain[number * bytes..(number + 1) * bytes];
            match rows.row_of.get(&key) {
                None => {
                    rows.kept.add(row_bytes(&key, strings, plain.len()))?;
                    rows.row_of.insert(key.clone(), rows.keys.len());
                    rows.keys.push(key);
                    rows.values.strings.extend_from_slice(strings);
                    rows.values.plain.extend_from_slice(plain);
                }
                Some(&row) => {
                    let old_strings = &mut rows.values.strings[row * len..(row + 1) * len];
                    let old_plain = &mut rows.values.plain[row * bytes..(row + 1) * bytes];
                    let is_same = old_strings == strings && old_plain == plain;
                    if self.kind == Kind::Initializable && !is_same {
                        bail!(
                            FailedPrecondition,
                            "HashTable has different value for same key. Key {key} occurs twice in table {}",
                            self.name
                        );
                    }
                    rows.kept.add(strings.iter().map(string_bytes).sum())?;
                    rows.kept.remove(old_strings.iter().map(string_bytes).sum());
                    old_strings.clone_from_slice(strings);
                    old_plain.copy_from_slice(plain);
                }
            }
        }
        Ok(())
    }

    /// Removes keys; those that are not there do not matter.
    pub(super) fn remove(&self, keys: &Tensor) -> Result<()> {
        self.check_mutable("Remove")?;
        let keys = self.keys_of(keys)?;
        let mut rows = self.rows.write();
        let len = if self.value_dtype == DType::String { self.row_len() } else { 0 };
        for key in keys {
            let Some(row) = rows.row_of.remove(&key) else { continue };
            let strings = rows.values.strings.get(row * len..(row + 1) * len).unwrap_or_default();
            let freed = row_bytes(&key, strings, self.row_bytes());
            rows.kept.remove(freed);
            // The last row takes the place of the removed one.
            rows.keys.swap_remove(row);
            swap_remove_row(&mut rows.values.strings, row, len);
            swap_remove_row(&mut rows.values.plain, row, self.row_bytes());
            if let Some(moved) = rows.keys.get(row).cloned() {
                rows.row_of.insert(moved, row);
            }
        }
        Ok(())
    }

    /// All keys and their values.
    pub(super) fn export(&self) -> Result<(Tensor, Tensor)> {
        let rows = self.rows.read();
        ensure!(self.is_usable(&rows), FailedPrecondition, "Table not initialized.");
        let count = rows.keys.len();
        let integers =
            || rows.keys.iter().map(|key| if let Key::Integer(number) = key { *number } else { 0 });
        let keys = match self.key_dtype {
            DType::Int32 => Tensor::vector(&memory::collect(integers().map(|number| number as i32))?)?,
            DType::Int64 => Tensor::vector(&memory::collect(integers())?)?,
            _ => {
                let text = |key: &Key| if let Key::String(text) = key { text.clone() } else { Bytes::new() };
                Tensor::from_strings(memory::collect(rows.keys.iter().map(text))?, &[count])?
            }
        };
        let shape = concat_dims(&[&[count], &self.value_shape])?;
        let values = match self.value_dtype {
            DType::String => Tensor::from_strings(memory::copy_of(&rows.values.strings)?, &shape)?,
            dtype => plain_tensor(dtype, shape, &rows.values.plain)?,
        };
        Ok((keys, values))
    }
}

/// The rows that were found, defaults in place of the others.
fn gather_rows<T: Clone>(
    found: impl Iterator<Item = Option<usize>>,
    values: &[T],
    defaults: &[T],
    len: usize,
    single_default: bool,
) -> Vec<T> {
    let mut out = Vec::new();
    for (number, row) in found.enumerate() {
        let row = match row {
            Some(row) => &values[row * len..(row + 1) * len],
            None if single_default => defaults,
            None => &defaults[number * len..(number + 1) * len],
        };
        out.extend_from_slice(row);
    }
    out
}

fn swap_remove_row<T>(values: &mut Vec<T>, row: usize, len: usize) {
    let Some(last) = values.len().checked_sub(len) else { return };
    for element in 0..len {
        values.swap(row * len + element, last + element);
    }
    values.truncate(last);
}

fn plain_tensor(dtype: DType, shape: Shape, bytes: &[u8]) -> Result<Tensor> {
    let mut buffer = Buffer::new(bytes.len())?;
    let out = buffer.as_bytes_mut().ok_or_else(|| Status::internal("a new buffer cannot be written"))?;
    out.copy_from_slice(bytes);
    Tensor::from_buffer(dtype, shape, buffer)
}
