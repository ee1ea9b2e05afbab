//! Products of two matrices in memory: the one place that calls the matrix-product library.
//!
//! Transposes and conjugates are expressed in strides and flags, never by copying.

use std::sync::LazyLock;

use half::{bf16, f16};
use num_complex::Complex;
use tensorfleet_core::{Element, Result, ensure};

use crate::denormals::FlushDenormals;
use crate::parallel;

/// Below this many multiplications the library's preparations cost more than the product.
const TINY: usize = 512;
/// From this many multiplications on, a second thread pays.
const WORTH_THREADS: usize = 1 << 23;

/// A matrix that is a view of a slice, possibly transposed or conjugated.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a, T> {
    /// Invariant: holds every element that `rows`, `cols` and the strides can reach.
    data: &'a [T],
    rows: usize,
    cols: usize,
    row_stride: usize,
    col_stride: usize,
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
    fn product(a: Matrix<'_, Self>, b: Matrix<'_, Self>, out: &mut [Self], mode: Output, threads: Threads);
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
    T::product(a, b, out, mode, threads);
    Ok(())
}

macro_rules! by_library {
    ($($number:ty, $conjugate:expr;)*) => {
        $(impl Multiply for $number {
            fn product(a: Matrix<'_, $number>, b: Matrix<'_, $number>, out: &mut [$number], mode: Output, threads: Threads) {
                if a.rows.saturating_mul(b.cols).saturating_mul(a.cols) <= TINY {
                    return tiny(a, b, out, mode, $conjugate);
                }
                library_product(a, b, out, mode, threads);
            }
        })*
    };
}

by_library! {
    f32, |x| x;
    f64, |x| x;
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
    let work = m.saturating_mul(n).saturating_mul(k);
    let pays = threads == Threads::Many && work >= WORTH_THREADS;
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
            fn product(a: Matrix<'_, $half>, b: Matrix<'_, $half>, out: &mut [$half], mode: Output, threads: Threads) {
                let (left, right) = (a.map(<$half>::to_f32), b.map(<$half>::to_f32));
                let mut sums: Vec<f32> = match mode {
                    Output::Overwrite => vec![0.0; out.len()],
                    Output::Accumulate => out.iter().map(|x| x.to_f32()).collect(),
                };
                let row_major = |data, rows, cols| Matrix { data, rows, cols, row_stride: cols, col_stride: 1, conjugated: false };
                f32::product(row_major(&left, a.rows, a.cols), row_major(&right, b.rows, b.cols), &mut sums, mode, threads);
                for (out, sum) in out.iter_mut().zip(sums) {
                    *out = <$half>::from_f32(sum);
                }
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
            fn product(a: Matrix<'_, $integer>, b: Matrix<'_, $integer>, out: &mut [$integer], mode: Output, threads: Threads) {
                let (n, k) = (b.cols, a.cols);
                if n == 0 {
                    return;
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
