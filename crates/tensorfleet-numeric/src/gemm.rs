//! GEMM: products of two matrices in memory, and the one place that calls the `gemm` library.
//!
//! Transposes and conjugates are expressed in strides and flags. Small and narrow products of floats are computed by
//! `implicit_gemm.rs`, which needs no packing; the step of a recurrent network multiplies few rows by one matrix again and again,
//! and packing that matrix each time took as long as the products. A sparse left
//! operand is `sparse_lhs_gemm.rs`'s.

use half::{bf16, f16};
use num_complex::Complex;
use smallvec::SmallVec;
use tensorfleet_core::{Element, Result, Shape, Tensor, ensure};

use crate::implicit_gemm::{Gathered, Lines, Offsets, Tile, gemm_gathered_lhs};
use crate::sparse_lhs_gemm::gemm_sparse_lhs;
use crate::transpose::transpose;
use tensorfleet_threads::{Loops, first_error};

/// Below this many multiplications the library's preparations cost more than the product.
const TINY: usize = 512;
/// An output with at most so many rows or columns is narrow: a packed matrix is read too few times.
const NARROW: usize = 32;
/// From this many multiplications on, a second thread pays.
const WORTH_THREADS: usize = 1 << 23;

/// From this many on, one that has nothing else to do.
const WORTH_IDLE_THREADS: usize = 1 << 21;
/// Such a product is cut into about so many parts, of full tiles.
const SHORT_SHARDS: usize = 4;
const ROWS_OF_A_TILE: usize = 8;

fn is_worth_threads(m: usize, n: usize, k: usize) -> bool {
    m.saturating_mul(n).saturating_mul(k) >= WORTH_THREADS
}

/// About what a row of a product without packing costs, in hundredths of a nanosecond.
fn centi_ns_per_row(n: usize, k: usize) -> usize {
    n.saturating_mul(k).saturating_mul(2)
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
    conjugated: bool,
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

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    fn row(&self, row: usize) -> impl Iterator<Item = T> + '_ {
        (0..self.cols).map(move |col| self.data[row * self.row_stride + col * self.col_stride])
    }

    /// Copies the elements into a row-major matrix.
    fn copy_to(&self, out: &mut [T]) {
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
    fn map<U>(&self, change: impl Fn(T) -> U) -> Vec<U> {
        (0..self.rows).flat_map(|row| self.row(row)).map(change).collect()
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
    fn worth(self, m: usize, n: usize, k: usize) -> Option<&'a Loops> {
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

/// Computes `a * b` into the row-major matrix `out`.
pub fn multiply<T: Multiply>(
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
    out: &mut [T],
    mode: Output,
    threads: Threads<'_>,
) -> Result<()> {
    ensure!(
        a.cols == b.rows && a.rows.checked_mul(b.cols) == Some(out.len()),
        Internal,
        "a {}x{} matrix times a {}x{} one does not give {} elements",
        a.rows,
        a.cols,
        b.rows,
        b.cols,
        out.len()
    );
    T::product(a, b, out, mode, threads)
}

/// A matrix of up to so many elements stays in a core's own cache while products with it are summed up.
const STAYS_IN_CACHE: usize = 1 << 17;

macro_rules! floats {
    ($($float:ty),*) => {
        $(impl Multiply for $float {
            fn product(a: Matrix<'_, $float>, b: Matrix<'_, $float>, out: &mut [$float], mode: Output, threads: Threads<'_>) -> Result<()> {
                float_product(a, b, out, mode, threads)
            }
        })*
    };
}
floats!(f32, f64);

fn float_product<T: Tile + num_traits::Float>(
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
    out: &mut [T],
    mode: Output,
    threads: Threads<'_>,
) -> Result<()> {
    if a.rows.saturating_mul(b.cols).saturating_mul(a.cols) <= TINY {
        tiny(a, b, out, mode, |x| x);
        return Ok(());
    }
    // The library packs both matrices first. That pays where the output is not narrow, or neither matrix stays in the cache.
    if a.rows.min(b.cols) > NARROW {
        let loops = threads.worth(a.rows, b.cols, a.cols);
        let shared = loops.map(|loops| (loops, centi_ns_per_row(b.cols, a.cols)));
        if gemm_sparse_lhs(a, b, out, mode, shared)? {
            return Ok(());
        }
        library_product(a, b, out, mode, threads);
        return Ok(());
    }
    let (left, right) = (a.rows.saturating_mul(a.cols), b.rows.saturating_mul(b.cols));
    if right <= STAYS_IN_CACHE && (b.col_stride == 1 || left >= right) {
        return unpacked_product(a, b, out, mode, threads);
    }
    if left <= STAYS_IN_CACHE && b.col_stride != 1 {
        // All transposed: so the smaller matrix is the one that is copied because its rows have to be in one piece.
        let turned = Tensor::build::<T>(Shape::new(&[b.cols, a.rows])?, |turned| {
            if mode == Output::Accumulate {
                Matrix::new(out, a.rows, b.cols)?.transposed().copy_to(turned);
            }
            unpacked_product(b.transposed(), a.transposed(), turned, mode, threads)
        })?;
        Matrix::new(turned.as_slice::<T>()?, b.cols, a.rows)?.transposed().copy_to(out);
        return Ok(());
    }
    library_product(a, b, out, mode, threads);
    Ok(())
}

/// A product without any packing, but for a right matrix whose rows are not in one piece.
fn unpacked_product<T: Tile>(
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
    out: &mut [T],
    mode: Output,
    threads: Threads<'_>,
) -> Result<()> {
    let (n, k) = (b.cols, a.cols);
    let copy;
    let (data, stride) = if b.col_stride == 1 && b.row_stride > 0 {
        (b.data, b.row_stride)
    } else {
        copy = Tensor::build::<T>(Shape::new(&[k, n])?, |lines| {
            b.copy_to(lines);
            Ok(())
        })?;
        (copy.as_slice::<T>()?, n)
    };
    let right = Lines { data, stride, cols: n };
    let offsets =
        |count: usize, stride: usize| (0..count).map(|at| at * stride).collect::<SmallVec<[usize; 64]>>();
    let (rows, cols, places) = (offsets(a.rows, a.row_stride), offsets(k, a.col_stride), offsets(a.rows, n));
    let (rows, cols, places) = (Offsets::new(&rows), Offsets::new(&cols), Offsets::new(&places));
    let some_rows = |first: usize, out: &mut [T]| {
        let count = out.len() / n;
        let left = Gathered {
            data: a.data.get(first * a.row_stride..).unwrap_or_default(),
            rows: rows.first(count),
            cols,
        };
        gemm_gathered_lhs(left, right, out, places.first(count), mode)
    };
    match threads {
        Threads::Many(loops) if is_worth_threads(a.rows, n, k) => first_error(|keep| {
            loops.chunks_mut(out, n, centi_ns_per_row(n, k), |first, out| {
                keep(some_rows(first, out));
            });
        }),
        Threads::Many(loops) if a.rows.saturating_mul(n).saturating_mul(k) >= WORTH_IDLE_THREADS => {
            let rows = a.rows.div_ceil(SHORT_SHARDS).next_multiple_of(ROWS_OF_A_TILE);
            first_error(|keep| {
                loops.short_chunks_mut(out, rows * n, |first, out| keep(some_rows(first / n, out)));
            })
        }
        _ => some_rows(0, out),
    }
}

macro_rules! by_library {
    ($($number:ty, $conjugate:expr;)*) => {
        $(impl Multiply for $number {
            fn product(a: Matrix<'_, $number>, b: Matrix<'_, $number>, out: &mut [$number], mode: Output, threads: Threads<'_>) -> Result<()> {
                if a.rows.saturating_mul(b.cols).saturating_mul(a.cols) <= TINY {
                    tiny(a, b, out, mode, $conjugate);
                } else {
                    library_product(a, b, out, mode, threads);
                }
                Ok(())
            }
        })*
    };
}

by_library! {
    Complex<f32>, |x: Complex<f32>| x.conj();
    Complex<f64>, |x: Complex<f64>| x.conj();
}

fn library_product<T: Element + num_traits::Num>(
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
    out: &mut [T],
    mode: Output,
    threads: Threads<'_>,
) {
    let (m, n, k) = (a.rows, b.cols, a.cols);
    // The threads are started for the first product that is worth them.
    match threads.worth(m, n, k).and_then(Loops::gemm_pool) {
        Some(pool) => pool.install(|| {
            library_call(a, b, out, mode, gemm::Parallelism::Rayon(pool.current_num_threads()));
        }),
        None => library_call(a, b, out, mode, gemm::Parallelism::None),
    }
}

fn library_call<T: Element + num_traits::Num>(
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
    out: &mut [T],
    mode: Output,
    parallelism: gemm::Parallelism,
) {
    let (m, n, k) = (a.rows, b.cols, a.cols);
    let accumulate = mode == Output::Accumulate;
    // SAFETY: `multiply` checked that `out` is m by n and that the inner sizes agree; a `Matrix` holds every
    // element its sizes and strides reach; `out` is borrowed mutably, so it overlaps neither.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            out.as_mut_ptr(),
            1,
            n as isize,
            accumulate,
            a.data.as_ptr(),
            a.col_stride as isize,
            a.row_stride as isize,
            b.data.as_ptr(),
            b.col_stride as isize,
            b.row_stride as isize,
            if accumulate { T::one() } else { T::zero() },
            T::one(),
            false,
            a.conjugated,
            b.conjugated,
            parallelism,
        );
    }
}

/// The definition, for matrices too small for anything else.
fn tiny<T: Element + std::ops::Mul<Output = T> + std::ops::Add<Output = T>>(
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
    out: &mut [T],
    mode: Output,
    conjugate: impl Fn(T) -> T,
) {
    if b.cols == 0 {
        return;
    }
    let (left, right) =
        (|x| if a.conjugated { conjugate(x) } else { x }, |x| if b.conjugated { conjugate(x) } else { x });
    for (row, out) in out.chunks_mut(b.cols).enumerate() {
        if mode == Output::Overwrite {
            out.fill(T::default());
        }
        for (x, inner) in a.row(row).zip(0..) {
            for (sum, y) in out.iter_mut().zip(b.row(inner)) {
                *sum = *sum + left(x) * right(y);
            }
        }
    }
}

macro_rules! through_single_precision {
    ($($half:ty;)*) => {
        // TensorFlow sums halves in single precision too, and rounds once.
        $(impl Multiply for $half {
            fn product(a: Matrix<'_, $half>, b: Matrix<'_, $half>, out: &mut [$half], mode: Output, threads: Threads<'_>) -> Result<()> {
                let (left, right) = (a.map(<$half>::to_f32), b.map(<$half>::to_f32));
                let mut sums: Vec<f32> = match mode {
                    Output::Overwrite => vec![0.0; out.len()],
                    Output::Accumulate => out.iter().map(|x| x.to_f32()).collect(),
                };
                let row_major = |data, rows, cols| Matrix { data, rows, cols, row_stride: cols, col_stride: 1, conjugated: false };
                f32::product(row_major(&left, a.rows, a.cols), row_major(&right, b.rows, b.cols), &mut sums, mode, threads)?;
                for (out, sum) in out.iter_mut().zip(sums) {
                    *out = <$half>::from_f32(sum);
                }
                Ok(())
            }
        })*
    };
}

through_single_precision! {
    f16;
    bf16;
}

macro_rules! integers {
    ($($integer:ty;)*) => {
        $(impl Multiply for $integer {
            fn product(a: Matrix<'_, $integer>, b: Matrix<'_, $integer>, out: &mut [$integer], mode: Output, threads: Threads<'_>) -> Result<()> {
                let (n, k) = (b.cols, a.cols);
                if n == 0 {
                    return Ok(());
                }
                // Rows of `b` are added up, so they should lie in one piece.
                let copy;
                let right = if b.col_stride == 1 && b.row_stride == n {
                    b.data
                } else {
                    copy = b.map(|x| x);
                    &copy
                };
                let rows = |first: usize, out: &mut [$integer]| {
                    for (row, out) in out.chunks_mut(n).enumerate() {
                        if mode == Output::Overwrite {
                            out.fill(0);
                        }
                        for (x, right) in a.row(first + row).zip(right.chunks(n)) {
                            for (sum, &y) in out.iter_mut().zip(right) {
                                *sum = sum.wrapping_add(x.wrapping_mul(y));
                            }
                        }
                    }
                };
                match threads {
                    Threads::One => rows(0, out),
                    Threads::Many(loops) => loops.chunks_mut(out, n, n.saturating_mul(k).saturating_mul(40), rows),
                }
                Ok(())
            }
        })*
    };
}

integers! {
    i16;
    i32;
    i64;
}
