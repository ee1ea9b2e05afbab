//! Large products, by the kernels of the `gemm` library: the one place that calls it.
//!
//! Of the library only the kernels for real numbers are compiled. A product of complex matrices is four of real ones, over
//! the parts where they lie: `(a + ib)(c + id) = (ac - bd) + i(ad + bc)`, each part a matrix with twice the strides.

use bytemuck::Pod;
use gemm_common::Parallelism;
use num_complex::Complex;
use tensorfleet_core::Element;
use tensorfleet_threads::Loops;

use crate::matrix::{Matrix, Output, Threads};

/// `output = (read ? scale_output * output : 0) + scale_product * lhs * rhs`, as the library's kernels take it: sizes m, n, k; the
/// output, lhs and rhs each with their distances from column to column and from row to row; three flags for conjugates.
type Kernel<T> = unsafe fn(
    usize,
    usize,
    usize,
    *mut T,
    isize,
    isize,
    bool,
    *const T,
    isize,
    isize,
    *const T,
    isize,
    isize,
    T,
    T,
    bool,
    bool,
    bool,
    Parallelism,
);

/// Real numbers that the library has kernels for.
pub(crate) trait Real: Element + Pod + num_traits::Float {
    /// The kernel for this processor.
    fn kernel() -> Kernel<Self>;
}

impl Real for f32 {
    fn kernel() -> Kernel<f32> {
        gemm_f32::gemm::f32::get_gemm_fn()
    }
}

impl Real for f64 {
    fn kernel() -> Kernel<f64> {
        gemm_f64::gemm::f64::get_gemm_fn()
    }
}

/// Computes `a * b` into the row-major matrix `out`. The caller has checked the sizes.
pub(crate) fn real_product<T: Real>(
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
    out: &mut [T],
    mode: Output,
    threads: Threads<'_>,
) {
    let out = Strided { data: out, stride: 1 };
    on_threads(threads, [a.rows, b.cols, a.cols], |parallelism| {
        call(a, b, out, mode, T::one(), parallelism);
    });
}

/// The same for complex numbers.
pub(crate) fn complex_product<T: Real>(
    a: Matrix<'_, Complex<T>>,
    b: Matrix<'_, Complex<T>>,
    out: &mut [Complex<T>],
    mode: Output,
    threads: Threads<'_>,
) where
    Complex<T>: Pod,
{
    if out.is_empty() {
        return;
    }
    let sign = |conjugated: bool| if conjugated { -T::one() } else { T::one() };
    let (a_sign, b_sign) = (sign(a.conjugated), sign(b.conjugated));
    let [a_real, a_imaginary] = parts(a);
    let [b_real, b_imaginary] = parts(b);
    let out: &mut [T] = bytemuck::cast_slice_mut(out);
    on_threads(threads, [a.rows, b.cols, a.cols], |parallelism| {
        let mut product = |a, b, part: usize, mode, scale| {
            let out = Strided { data: &mut out[part..], stride: 2 };
            call(a, b, out, mode, scale, parallelism);
        };
        product(a_real, b_real, 0, mode, T::one());
        product(a_imaginary, b_imaginary, 0, Output::Accumulate, -(a_sign * b_sign));
        product(a_real, b_imaginary, 1, mode, b_sign);
        product(a_imaginary, b_real, 1, Output::Accumulate, a_sign);
    });
}

/// The real and the imaginary parts of a matrix, without signs of conjugates.
fn parts<T: Real>(matrix: Matrix<'_, Complex<T>>) -> [Matrix<'_, T>; 2]
where
    Complex<T>: Pod,
{
    let data: &[T] = bytemuck::cast_slice(matrix.data);
    [0, 1].map(|part| Matrix {
        data: data.get(part..).unwrap_or_default(),
        rows: matrix.rows,
        cols: matrix.cols,
        row_stride: matrix.row_stride * 2,
        col_stride: matrix.col_stride * 2,
        conjugated: false,
    })
}

/// Runs a product of sizes m, n, k on the threads that it is worth, which are started for the first one that is.
fn on_threads(threads: Threads<'_>, [m, n, k]: [usize; 3], product: impl FnOnce(Parallelism) + Send) {
    match threads.worth(m, n, k).and_then(Loops::gemm_pool) {
        Some(pool) => pool.install(|| product(Parallelism::Rayon(pool.current_num_threads()))),
        None => product(Parallelism::None),
    }
}

/// A row-major matrix of the product's size, of which only every so many elements are meant.
struct Strided<'a, T> {
    data: &'a mut [T],
    stride: usize,
}

fn call<T: Real>(
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
    out: Strided<'_, T>,
    mode: Output,
    scale: T,
    parallelism: Parallelism,
) {
    let (m, n, k) = (a.rows, b.cols, a.cols);
    let accumulate = mode == Output::Accumulate;
    let signed = |stride: usize| stride as isize;
    // The kernels like outputs whose columns lie in one piece. Ours has its rows so, and is computed transposed.
    // SAFETY: `multiply` checked that the output is m by n and that the inner sizes agree; a `Matrix` holds every element its
    // sizes and strides reach; the output is borrowed mutably, so it overlaps neither.
    unsafe {
        T::kernel()(
            n,
            m,
            k,
            out.data.as_mut_ptr(),
            signed(n * out.stride),
            signed(out.stride),
            accumulate,
            b.data.as_ptr(),
            signed(b.row_stride),
            signed(b.col_stride),
            a.data.as_ptr(),
            signed(a.row_stride),
            signed(a.col_stride),
            if accumulate { T::one() } else { T::zero() },
            scale,
            false,
            false,
            false,
            parallelism,
        );
    }
}
