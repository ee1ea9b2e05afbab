//! Matrices where they lie, what is done with a product's output, and on which threads it is computed.

use tensorfleet_core::{Element, Result, ensure, memory};
use tensorfleet_threads::Loops;

use crate::transpose::transpose;

/// From this many multiplications on, a second thread pays.
const WORTH_THREADS: usize = 1 << 23;

pub(crate) fn is_worth_threads(m: usize, n: usize, k: usize) -> bool {
    m.saturating_mul(n).saturating_mul(k) >= WORTH_THREADS
}

/// A matrix that is a view of a slice, possibly transposed or conjugated.
#[derive(Clone, Copy)]
pub struct Matrix<'a, T> {
    /// Invariant: holds every element that `rows`, `cols` and the strides can reach.
    pub data: &'a [T],
    /// The number of rows.
    pub rows: usize,
    /// The number of columns.
    pub cols: usize,
    /// Elements from one row to the next.
    pub row_stride: usize,
    /// Elements from one column to the next.
    pub col_stride: usize,
    pub(crate) conjugated: bool,
}

impl<'a, T: Element> Matrix<'a, T> {
    /// A row-major matrix.
    pub fn new(data: &'a [T], rows: usize, cols: usize) -> Result<Matrix<'a, T>> {
        ensure!(
            rows.checked_mul(cols) == Some(data.len()),
            Internal,
            "{} elements are no {rows} by {cols} matrix",
            data.len()
        );
        Ok(Matrix { data, rows, cols, row_stride: cols, col_stride: 1, conjugated: false })
    }

    /// The transpose.
    pub fn transposed(self) -> Matrix<'a, T> {
        Matrix {
            rows: self.cols,
            cols: self.rows,
            row_stride: self.col_stride,
            col_stride: self.row_stride,
            ..self
        }
    }

    /// The transpose, if `condition`.
    pub fn transposed_if(self, condition: bool) -> Matrix<'a, T> {
        if condition { self.transposed() } else { self }
    }

    /// The conjugate transpose, if `condition`.
    pub fn adjoint_if(self, condition: bool) -> Matrix<'a, T> {
        Matrix { conjugated: condition, ..self.transposed_if(condition) }
    }

    /// Some of the rows; `first` and those after it are there.
    pub(crate) fn rows_from(self, first: usize, rows: usize) -> Matrix<'a, T> {
        Matrix { data: &self.data[first * self.row_stride..], rows, ..self }
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    pub(crate) fn row(&self, row: usize) -> impl Iterator<Item = T> + '_ {
        (0..self.cols).map(move |col| self.data[row * self.row_stride + col * self.col_stride])
    }

    /// Copies the elements into a row-major matrix.
    pub(crate) fn copy_to(&self, out: &mut [T]) {
        if self.rows == 0 || self.cols == 0 {
            return;
        }
        if self.row_stride == 1 && self.col_stride != 1 {
            return transpose(self.data, self.col_stride, out, self.cols, self.rows, self.cols);
        }
        for (row, out) in out.chunks_mut(self.cols).enumerate() {
            out.iter_mut().zip(self.row(row)).for_each(|(out, element)| *out = element);
        }
    }

    /// The same matrix with each element changed, row-major.
    pub(crate) fn map<U>(&self, change: impl Fn(T) -> U) -> Result<Vec<U>> {
        let mut mapped = memory::vec_with_room(self.rows.saturating_mul(self.cols))?;
        for row in 0..self.rows {
            mapped.extend(self.row(row).map(&change));
        }
        Ok(mapped)
    }
}

/// What is done with the numbers that are in the output.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// They are overwritten.
    Overwrite,
    /// The product is added to them.
    Accumulate,
}

/// How many threads a product may use.
#[derive(Clone, Copy)]
pub enum Threads<'a> {
    /// The calling one.
    One,
    /// As many of these as pay.
    Many(&'a Loops),
}

impl<'a> Threads<'a> {
    /// The threads, if an m by n product with inner size k is worth several.
    pub(crate) fn worth(self, m: usize, n: usize, k: usize) -> Option<&'a Loops> {
        match self {
            Threads::Many(loops) if is_worth_threads(m, n, k) => Some(loops),
            _ => None,
        }
    }
}

/// Numbers that matrices are made of.
pub trait Multiply: Element {
    /// Computes `a * b` into the row-major matrix `out`. The caller has checked the sizes.
    fn product(
        a: Matrix<'_, Self>,
        b: Matrix<'_, Self>,
        out: &mut [Self],
        mode: Output,
        threads: Threads<'_>,
    ) -> Result<()>;
}
