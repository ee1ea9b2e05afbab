//! Products of two matrices in memory: the one place that calls the matrix-product library.
//!
//! Transposes and conjugates are expressed in strides and flags. Small and narrow products of floats are computed by
//! `scattered.rs`, which needs no packing; the step of a recurrent network multiplies few rows by one matrix again and again,
//! and packing that matrix each time took as long as the products. Products with many zeros are those of `mostly_zeros.rs`.

use std::sync::LazyLock;

use half::{bf16, f16};
use num_complex::Complex;
use smallvec::SmallVec;
use tensorfleet_core::{Element, Result, Shape, Tensor, ensure};

use super::mostly_zeros::multiply_few;
use super::scattered::{Lines, Offsets, Scattered, Tile, multiply_scattered};
use crate::denormals::FlushDenormals;
use crate::parallel;

/// Below this many multiplications the library's preparations cost more than the product.
const TINY: usize = 512;
/// An output with at most so many rows or columns is narrow: a packed matrix is read too few times.
const NARROW: usize = 32;
/// From this many multiplications on, a second thread pays.
const WORTH_THREADS: usize = 1 << 23;

fn is_worth_threads(m: usize, n: usize, k: usize) -> bool {
    m.saturating_mul(n).saturating_mul(k) >= WORTH_THREADS
}

/// About what a row of a product without packing costs, in hundredths of a nanosecond.
fn centi_ns_per_row(n: usize, k: usize) -> usize {
    n.saturating_mul(k).saturating_mul(2)
}

/// A matrix that is a view of a slice, possibly transposed or conjugated.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a, T> {
    /// Invariant: holds every element that `rows`, `cols` and the strides can reach.
    pub(super) data: &'a [T],
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) row_stride: usize,
    pub(super) col_stride: usize,
    conjugated: bool,
}

impl<'a, T: Element> Matrix<'a, T> {
    /// A row-major matrix.
    pub(crate) fn new(data: &'a [T], rows: usize, cols: usize) -> Result<Matrix<'a, T>> {
        ensure!(
            rows.checked_mul(cols) == Some(data.len()),
            Internal,
            "{} elements are no {rows} by {cols} matrix",
            data.len()
        );
        Ok(Matrix { data, rows, cols, row_stride: cols, col_stride: 1, conjugated: false })
    }

    /// The transpose.
    pub(crate) fn transposed(self) -> Matrix<'a, T> {
        Matrix {
            rows: self.cols,
            cols: self.rows,
            row_stride: self.col_stride,
            col_stride: self.row_stride,
            ..self
        }
    }

    /// The transpose, if `condition`.
    pub(crate) fn transposed_if(self, condition: bool) -> Matrix<'a, T> {
        if condition { self.transposed() } else { self }
    }

    /// The conjugate transpose, if `condition`.
    pub(crate) fn adjoint_if(self, condition: bool) -> Matrix<'a, T> {
        Matrix { conjugated: condition, ..self.transposed_if(condition) }
    }

    /// The number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// The number of columns.
    pub(crate) fn cols(&self) -> usize {
        self.cols
    }

    fn row(&self, row: usize) -> impl Iterator<Item = T> + '_ {
        (0..self.cols).map(move |col| self.data[row * self.row_stride + col * self.col_stride])
    }

    /// Calls `element` with each element and where it is in a row-major matrix. In blocks, so that whole lines of the cache are
    /// used on both sides of a transposition.
    #[inline(always)]
    fn each_in_blocks(&self, mut element: impl FnMut(usize, T)) {
        const BLOCK: usize = 16;
        for first_row in (0..self.rows).step_by(BLOCK) {
            for first_col in (0..self.cols).step_by(BLOCK) {
                for row in first_row..self.rows.min(first_row + BLOCK) {
                    for col in first_col..self.cols.min(first_col + BLOCK) {
                        element(
                            row * self.cols + col,
                            self.data[row * self.row_stride + col * self.col_stride],
                        );
                    }
                }
            }
        }
    }

    /// The same matrix with each element changed, row-major.
    fn map<U>(&self, change: impl Fn(T) -> U) -> Vec<U> {
        (0..self.rows).flat_map(|row| self.row(row)).map(change).collect()
    }
}

/// What is done with the numbers that are in the output.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    /// They are overwritten.
    Overwrite,
    /// The product is added to them.
    Accumulate,
}

/// How many threads a product may use.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Threads {
    /// The calling one.
    One,
    /// As many as pay.
    Many,
}

/// Numbers that matrices are made of.
pub(crate) trait Multiply: Element {
    /// Computes `a * b` into the row-major matrix `out`. The caller has checked the sizes.
    fn product(
        a: Matrix<'_, Self>,
        b: Matrix<'_, Self>,
        out: &mut [Self],
        mode: Output,
        threads: Threads,
    ) -> Result<()>;
}

/// Computes `a * b` into the row-major matrix `out`.
pub(crate) fn multiply<T: Multiply>(
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
    out: &mut [T],
    mode: Output,
    threads: Threads,
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
            fn product(a: Matrix<'_, $float>, b: Matrix<'_, $float>, out: &mut [$float], mode: Output, threads: Threads) -> Result<()> {
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
    threads: Threads,
) -> Result<()> {
    if a.rows.saturating_mul(b.cols).saturating_mul(a.cols) <= TINY {
        tiny(a, b, out, mode, |x| x);
        return Ok(());
    }
    // The library packs both matrices first. That pays where the output is not narrow, or neither matrix stays in the cache.
    if a.rows.min(b.cols) > NARROW {
        let shared = threads == Threads::Many && is_worth_threads(a.rows, b.cols, a.cols);
        let cost = shared.then(|| centi_ns_per_row(b.cols, a.cols));
        if multiply_few(a, b, out, mode, cost)? {
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
            unpacked_product(b.transposed(), a.transposed(), turned, Output::Overwrite, threads)
        })?;
        let turned = Matrix::new(turned.as_slice::<T>()?, b.cols, a.rows)?.transposed();
        match mode {
            Output::Overwrite => turned.each_in_blocks(|at, x| out[at] = x),
            Output::Accumulate => turned.each_in_blocks(|at, x| out[at] = out[at] + x),
        }
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
    threads: Threads,
) -> Result<()> {
    let (n, k) = (b.cols, a.cols);
    let copy;
    let (data, stride) = if b.col_stride == 1 && b.row_stride > 0 {
        (b.data, b.row_stride)
    } else {
        copy = Tensor::build::<T>(Shape::new(&[k, n])?, |lines| {
            b.each_in_blocks(|at, x| lines[at] = x);
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
        let left = Scattered {
            data: a.data.get(first * a.row_stride..).unwrap_or_default(),
            rows: rows.first(count),
            cols,
        };
        multiply_scattered(left, right, out, places.first(count), mode)
    };
    match threads {
        Threads::Many if is_worth_threads(a.rows, n, k) => parallel::first_error(|keep| {
            parallel::chunks_mut(out, n, centi_ns_per_row(n, k), |first, out| {
                keep(some_rows(first, out));
            });
        }),
        _ => some_rows(0, out),
    }
}

macro_rules! by_library {
    ($($number:ty, $conjugate:expr;)*) => {
        $(impl Multiply for $number {
            fn product(a: Matrix<'_, $number>, b: Matrix<'_, $number>, out: &mut [$number], mode: Output, threads: Threads) -> Result<()> {
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
    threads: Threads,
) {
    let (m, n, k) = (a.rows, b.cols, a.cols);
    let pays = threads == Threads::Many && is_worth_threads(m, n, k);
    // The threads are started for the first product that is worth them.
    match pays.then(|| THREADS.as_ref()).flatten() {
        Some(pool) => pool.install(|| {
            library_call(a, b, out, mode, gemm::Parallelism::Rayon(pool.current_num_threads()));
        }),
        None => library_call(a, b, out, mode, gemm::Parallelism::None),
    }
}

/// The threads that share a big product; none on a machine with one core. Not those that all users of rayon in the
/// process share, because these flush denormal numbers.
static THREADS: LazyLock<Option<rayon::ThreadPool>> = LazyLock::new(|| {
    let threads = rayon::ThreadPoolBuilder::new()
        .thread_name(|index| format!("tensorfleet-product-{index}"))
        // For as long as the thread lives.
        .start_handler(|_| std::mem::forget(FlushDenormals::begin()));
    threads.build().ok().filter(|pool| pool.current_num_threads() > 1)
});

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
            fn product(a: Matrix<'_, $half>, b: Matrix<'_, $half>, out: &mut [$half], mode: Output, threads: Threads) -> Result<()> {
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
            fn product(a: Matrix<'_, $integer>, b: Matrix<'_, $integer>, out: &mut [$integer], mode: Output, threads: Threads) -> Result<()> {
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
                    Threads::Many => parallel::chunks_mut(out, n, n.saturating_mul(k).saturating_mul(40), rows),
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn naive(a: &[f64], b: &[f64], m: usize, n: usize, k: usize, ta: bool, tb: bool) -> Vec<f64> {
        let left = |i: usize, j: usize| if ta { a[j * m + i] } else { a[i * k + j] };
        let right = |i: usize, j: usize| if tb { b[j * k + i] } else { b[i * n + j] };
        (0..m * n).map(|at| (0..k).map(|inner| left(at / n, inner) * right(inner, at % n)).sum()).collect()
    }

    fn view<T: Element>(data: &[T], rows: usize, cols: usize, transposed: bool) -> Matrix<'_, T> {
        if transposed {
            Matrix::new(data, cols, rows).unwrap().transposed()
        } else {
            Matrix::new(data, rows, cols).unwrap()
        }
    }

    proptest! {
        #[test]
        fn products_agree_with_the_definition_for_all_types_and_transposes(
            (m, n, k) in (0usize..20, 0usize..20, 0usize..20), ta: bool, tb: bool, accumulate: bool, seed in 0i64..1000,
        ) {
            let numbers = |len: usize, salt: i64| -> Vec<i64> {
                (0..len as i64).map(|i| (i * 7 + salt * 3 + seed) % 11 - 5).collect()
            };
            let (a, b) = (numbers(m * k, 1), numbers(k * n, 2));
            let (mode, start) = if accumulate { (Output::Accumulate, 1) } else { (Output::Overwrite, 0) };
            macro_rules! check {
                ($T:ty, $from:expr, $to:expr) => {{
                    let (a, b): (Vec<$T>, Vec<$T>) = (a.iter().map($from).collect(), b.iter().map($from).collect());
                    let mut out: Vec<$T> = vec![$from(&start); m * n];
                    multiply(view(&a, m, k, ta), view(&b, k, n, tb), &mut out, mode, Threads::Many).unwrap();
                    out.into_iter().map($to).collect::<Vec<f64>>()
                }};
            }
            let as_floats = |x: &[i64]| x.iter().map(|&x| x as f64).collect::<Vec<_>>();
            let mut expected = naive(&as_floats(&a), &as_floats(&b), m, n, k, ta, tb);
            expected.iter_mut().for_each(|x| *x += start as f64);
            prop_assert_eq!(check!(f32, |&x: &i64| x as f32, |x| x as f64), expected.clone());
            prop_assert_eq!(check!(f64, |&x: &i64| x as f64, |x| x), expected.clone());
            prop_assert_eq!(check!(f16, |&x: &i64| f16::from_f64(x as f64), |x: f16| x.to_f64()), expected.clone());
            prop_assert_eq!(check!(i32, |&x: &i64| x as i32, |x| x as f64), expected.clone());
            prop_assert_eq!(check!(Complex<f32>, |&x: &i64| Complex::from(x as f32), |x: Complex<f32>| x.re as f64), expected);
        }
    }

    #[test]
    fn products_of_all_sizes_and_transposes_agree_whoever_computes_them() {
        // Around the sizes at which one way of computing gives place to another; the last two are the library's.
        for (m, n, k) in
            [(33, 70, 41), (3, 500, 300), (500, 3, 300), (1, 900, 90), (130, 400, 500), (400, 410, 390)]
        {
            let numbers = |count: usize, salt: usize| -> Vec<f32> {
                (0..count).map(|i| ((i * 7 + salt) % 11) as f32 - 5.0).collect()
            };
            let (a, b) = (numbers(m * k, 1), numbers(k * n, 2));
            let wide = |x: &[f32]| x.iter().map(|&x| x as f64).collect::<Vec<_>>();
            for (ta, tb, mode) in [(false, false), (false, true), (true, false), (true, true)]
                .into_iter()
                .flat_map(|(ta, tb)| [(ta, tb, Output::Overwrite), (ta, tb, Output::Accumulate)])
            {
                let mut out = vec![1.0f32; m * n];
                multiply(view(&a, m, k, ta), view(&b, k, n, tb), &mut out, mode, Threads::Many).unwrap();
                let start = if mode == Output::Accumulate { 1.0 } else { 0.0 };
                let expected = naive(&wide(&a), &wide(&b), m, n, k, ta, tb);
                let same =
                    expected.iter().zip(&out).all(|(&expected, &found)| expected + start == found as f64);
                assert!(same, "{m} {n} {k} {ta} {tb}");
            }
        }
    }

    #[test]
    fn conjugates_are_taken_in_small_and_in_large_products() {
        for size in [1, 16] {
            let a = vec![Complex::new(1.0f32, 2.0); size * size];
            let b = vec![Complex::new(1.0f32, 1.0); size * size];
            let mut out = vec![Complex::default(); size * size];
            let (left, right) = (Matrix::new(&a, size, size).unwrap(), Matrix::new(&b, size, size).unwrap());
            multiply(left.adjoint_if(true), right, &mut out, Output::Overwrite, Threads::One).unwrap();
            let scale = size as f32;
            assert!(out.iter().all(|&x| x == Complex::new(3.0 * scale, -scale)), "{out:?}");
        }
    }
}
