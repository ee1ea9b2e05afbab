//! GEMM: products of two matrices in memory. Which way a product goes is decided here.
//!
//! Transposes and conjugates are expressed in strides and flags. Small and narrow products of floats are computed by
//! `implicit_gemm.rs`, which needs no packing; the step of a recurrent network multiplies few rows by one matrix again and again,
//! and packing that matrix each time took as long as the products. A sparse left
//! operand is `sparse_lhs_gemm.rs`'s. The rest is `library_gemm.rs`'s.

use half::{bf16, f16};
use num_complex::Complex;
use smallvec::SmallVec;
use tensorfleet_core::{Element, Result, Shape, Tensor, ensure, memory};

use crate::implicit_gemm::{Gathered, Lines, Offsets, Tile, gemm_gathered_lhs};
use crate::library_gemm::{Real, complex_product, real_product};
use crate::matrix::is_worth_threads;
use crate::sparse_lhs_gemm::gemm_sparse_lhs;
use tensorfleet_threads::first_error;

pub use crate::matrix::{Matrix, Multiply, Output, Threads};

/// Below this many multiplications the library's preparations cost more than the product.
const TINY: usize = 512;
/// An output with at most so many rows or columns is narrow: a packed matrix is read too few times.
const NARROW: usize = 32;
/// From this many on, one that has nothing else to do.
const WORTH_IDLE_THREADS: usize = 1 << 21;
/// Such a product is cut into about so many parts, of full tiles.
const SHORT_SHARDS: usize = 4;
const ROWS_OF_A_TILE: usize = 8;

/// A product of more multiplications is computed some rows at a time, each some tenths of a second: it may be given up between them.
const PRODUCTS_AT_ONCE: usize = 1 << 33;

/// About what a row of a product without packing costs, in hundredths of a nanosecond.
fn centi_ns_per_row(n: usize, k: usize) -> usize {
    n.saturating_mul(k).saturating_mul(2)
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
    let Threads::Many(loops) = threads else { return T::product(a, b, out, mode, threads) };
    let rows = (PRODUCTS_AT_ONCE / a.cols.saturating_mul(b.cols).max(1)).max(NARROW);
    if rows >= a.rows {
        return T::product(a, b, out, mode, threads);
    }
    for (block, out) in out.chunks_mut(rows * b.cols).enumerate() {
        if loops.are_given_up() {
            return Ok(());
        }
        T::product(a.rows_from(block * rows, out.len() / b.cols), b, out, mode, threads)?;
    }
    Ok(())
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

fn float_product<T: Tile + Real>(
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
        real_product(a, b, out, mode, threads);
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
    real_product(a, b, out, mode, threads);
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

macro_rules! complex {
    ($($part:ty),*) => {
        $(impl Multiply for Complex<$part> {
            fn product(a: Matrix<'_, Self>, b: Matrix<'_, Self>, out: &mut [Self], mode: Output, threads: Threads<'_>) -> Result<()> {
                if a.rows.saturating_mul(b.cols).saturating_mul(a.cols) <= TINY {
                    tiny(a, b, out, mode, |x| x.conj());
                } else {
                    complex_product(a, b, out, mode, threads);
                }
                Ok(())
            }
        })*
    };
}
complex!(f32, f64);

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
                let (left, right) = (a.map(<$half>::to_f32)?, b.map(<$half>::to_f32)?);
                let mut sums: Vec<f32> = match mode {
                    Output::Overwrite => memory::vec_of(0.0, out.len())?,
                    Output::Accumulate => memory::collect(out.iter().map(|x| x.to_f32()))?,
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
                    copy = b.map(|x| x)?;
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
