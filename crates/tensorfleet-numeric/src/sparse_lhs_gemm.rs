//! GEMM that skips the zeros of a sparse left operand: mostly black images, one-hot rows, bags of words, ReLU outputs.
//!
//! The first layer of a network multiplies by its input twice in a training step: forward, and, transposed, for the gradient of
//! its weights. Where four of five numbers of the input are zero, so are four of five products. Here the places of the others
//! are listed first, row by row; then the sums of a row of the output stay in registers while the rows of the right matrix that
//! its list names are added up. The right matrix is copied first, such that its rows begin at cache lines: a vector that lies across
//! two of them takes twice the time to load, and each is loaded many times.
//!
//! A zero times infinity is not a number, so this is the way for right matrices of finite numbers only.

use tensorfleet_core::{Element, Result, Shape, Tensor};

use crate::implicit_gemm::Tile;
use crate::matrix::{Matrix, Output};
use crate::simd_dispatch;
use crate::vector::{Vector, Vectorized};
use tensorfleet_threads::Loops;

/// A left matrix qualifies if at most 1 in `ONE_IN` entries is nonzero. At one in two, nothing would be gained.
const ONE_IN: usize = 3;
/// So many numbers, spread over the matrix, tell for all.
const SAMPLE: usize = 192;
/// Columns of the left matrix that are looked at in one go: the rows of the right one that they meet stay in a core's cache, and
/// places fit into two bytes.
const COLS: usize = 1024;
/// Numbers that are compared with zero at once, and rows with a list at the same time, where those of a column are neighbours.
const GROUP: usize = 16;
/// A right matrix of more elements is not copied as a whole: the matrix-product library packs piece by piece.
const MOST_COPIED: usize = 1 << 22;
/// Vectors of sums in registers.
const MOST_VECTORS: usize = 8;

/// Computes `a * b` into `out`, if `a` has so many zeros that it pays; whether it was computed. With `shared`, rows are shared by
/// these threads; a row then costs so many hundredths of a nanosecond.
pub fn gemm_sparse_lhs<T: Tile + num_traits::Float>(
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
    out: &mut [T],
    mode: Output,
    shared: Option<(&Loops, usize)>,
) -> Result<bool> {
    let has_lines = (a.row_stride == 1 || a.col_stride == 1) && b.col_stride == 1 && b.row_stride >= b.cols;
    let is_small = b.rows.saturating_mul(line_stride(b.cols)) <= MOST_COPIED;
    if !has_lines || !is_small || b.cols < GROUP || !is_sparse(a) {
        return Ok(false);
    }
    let Some(lines) = padded_lines(b)? else { return Ok(false) };
    let (lines, cols) = (lines.as_slice::<T>()?, b.cols);
    let some_rows = |first: usize, out: &mut [T]| T::compute(Rows { a, lines, cols, first, out, mode });
    match shared {
        None => some_rows(0, out),
        Some((loops, cost)) => loops.chunks_mut(out, cols, cost / ONE_IN, some_rows),
    }
    Ok(true)
}

/// Elements from the start of a line to that of the next: whole groups, which are whole cache lines.
fn line_stride(cols: usize) -> usize {
    cols.next_multiple_of(GROUP)
}

/// A copy of a matrix, with zeros behind each row up to a whole number of groups; none if a number is infinite, or not a number.
fn padded_lines<T: num_traits::Float + Element>(b: Matrix<'_, T>) -> Result<Option<Tensor>> {
    let mut is_finite = true;
    let lines = Tensor::build::<T>(Shape::new(&[b.rows, line_stride(b.cols)])?, |lines| {
        is_finite = copy_finite(lines, b.data, b.row_stride, b.cols);
        Ok(())
    })?;
    Ok(is_finite.then_some(lines))
}

/// Whether a sample of the entries says that the matrix is sparse.
fn is_sparse<T: num_traits::Float + Element>(a: Matrix<'_, T>) -> bool {
    // An odd distance, so that the places are not all in a few columns where their number is a power of two.
    let distance = (a.data.len() / SAMPLE) | 1;
    let (mut looked_at, mut found) = (0, 0);
    for x in a.data.iter().step_by(distance) {
        looked_at += 1;
        found += usize::from(!x.is_zero());
    }
    looked_at > 0 && found * ONE_IN <= looked_at
}

simd_dispatch! {
    /// Copies rows of `cols` numbers, at distances of `stride`, to padded lines; whether all numbers are finite.
    fn copy_finite[T: num_traits::Float](lines: &mut [T], data: &[T], stride: usize, cols: usize) -> bool {
        let mut all = true;
        for (line, row) in lines.chunks_exact_mut(line_stride(cols)).zip(data.chunks(stride)) {
            let (line, padding) = line.split_at_mut(cols);
            line.copy_from_slice(&row[..cols]);
            padding.fill(T::zero());
            all &= line.iter().fold(true, |all, x| all & (x.abs() <= T::max_value()));
        }
        all
    }
}

/// Rows of a product, from row `first` of the left matrix on. Invariants: `out` has whole rows of `cols` numbers, [`GROUP`] at least,
/// and the left matrix so many; one of its strides is 1; there is a padded line for each of its columns.
struct Rows<'a, T> {
    a: Matrix<'a, T>,
    lines: &'a [T],
    cols: usize,
    first: usize,
    out: &'a mut [T],
    mode: Output,
}

/// The columns, counted from the first that is looked at, in which rows of the left matrix have numbers other than zero.
type Places = [u16; COLS];

impl<T: Tile + num_traits::Float> Vectorized<T> for Rows<'_, T> {
    #[inline(always)]
    unsafe fn run<V: Vector<T>, W: Vector<T>, const SUMS: usize>(self) {
        let Rows { a, lines, cols, first, out, mode } = self;
        let mut places: Vec<Places> = vec![[0; COLS]; if a.col_stride == 1 { 1 } else { GROUP }];
        for first_col in (0..a.cols).step_by(COLS) {
            let inner = COLS.min(a.cols - first_col);
            // What the columns before these gave stands in the output.
            let mode = if first_col == 0 { mode } else { Output::Accumulate };
            let start = first * a.row_stride + first_col * a.col_stride;
            let lines = &lines[first_col * line_stride(cols)..];
            for (group, out) in out.chunks_mut(cols * places.len()).enumerate() {
                let start = start + group * places.len() * a.row_stride;
                let (rows, data) = (out.len() / cols, &a.data[start..]);
                // SAFETY: the features are there by this function's own contract.
                let counts = unsafe {
                    match a.col_stride {
                        1 => [list_row::<T, V>(&data[..inner], &mut places[0]); GROUP],
                        stride => list_rows::<T, V>(data, stride, [rows, inner], &mut places),
                    }
                };
                for (row, out) in out.chunks_exact_mut(cols).enumerate() {
                    let factors = &a.data[start + row * a.row_stride..];
                    let terms =
                        Terms { factors, stride: a.col_stride, places: &places[row][..counts[row]], lines };
                    // SAFETY: the features are there by this function's own contract. Places are columns that were looked at.
                    unsafe { sum_row::<T, V>(&terms, out, mode) };
                }
            }
        }
    }
}

/// Lists the numbers of a row that is in one piece; how many there are.
///
/// # Safety
///
/// The processor must have the vector's features.
#[inline(always)]
unsafe fn list_row<T: Tile, V: Vector<T>>(row: &[T], places: &mut Places) -> usize {
    let mut count = 0;
    for (group, numbers) in row.chunks(GROUP).enumerate() {
        // SAFETY: upheld by this function's own contract: the processor has the features of the vectors.
        let mut bits = unsafe { nonzero::<T, V>(numbers) };
        while bits != 0 {
            places[count % COLS] = (group * GROUP) as u16 + bits.trailing_zeros() as u16;
            count += 1;
            bits &= bits - 1;
        }
    }
    count
}

/// Lists the numbers of up to [`GROUP`] rows whose columns are in one piece each; how many each has.
///
/// # Safety
///
/// The processor must have the vector's features.
#[inline(always)]
unsafe fn list_rows<T: Tile, V: Vector<T>>(
    data: &[T],
    col_stride: usize,
    [rows, cols]: [usize; 2],
    places: &mut [Places],
) -> [usize; GROUP] {
    let mut counts = [0; GROUP];
    let Some(places) = places.first_chunk_mut::<GROUP>() else { return counts };
    for col in 0..cols {
        // SAFETY: upheld by this function's own contract: the processor has the features of the vectors.
        let mut bits = unsafe { nonzero::<T, V>(&data[col * col_stride..][..rows]) };
        while bits != 0 {
            // Rows and counts are in range, which the compiler does not know.
            let at = bits.trailing_zeros() as usize % GROUP;
            places[at][counts[at] % COLS] = col as u16;
            counts[at] += 1;
            bits &= bits - 1;
        }
    }
    counts
}

/// A bit for each of up to [`GROUP`] numbers: whether it is not zero.
///
/// # Safety
///
/// The processor must have the vector's features.
#[inline(always)]
unsafe fn nonzero<T: Tile, V: Vector<T>>(numbers: &[T]) -> u32 {
    let Some(numbers) = numbers.first_chunk::<GROUP>() else {
        let bit = |(at, x): (usize, &T)| u32::from(*x != T::default()) << at;
        return numbers.iter().enumerate().map(bit).fold(0, |bits, bit| bits | bit);
    };
    // SAFETY: a group is some whole vectors. The features are there by this function's own contract.
    let bits = |at: usize| unsafe { V::load(numbers.as_ptr().add(at)).nonzero() } << at;
    (0..GROUP).step_by(V::LANES).fold(0, |all, at| all | bits(at))
}

/// What is summed up to a row: line `place` times `factors[place * stride]`, for each of the places. Invariant: there is a factor and
/// a padded line for each of them.
struct Terms<'a, T> {
    factors: &'a [T],
    stride: usize,
    places: &'a [u16],
    lines: &'a [T],
}

/// A row of the product, some vectors of it at a time.
///
/// # Safety
///
/// The processor must have the vector's features, and the terms must keep their invariant for as many columns as `out` has.
#[inline(always)]
unsafe fn sum_row<T: Tile, V: Vector<T>>(terms: &Terms<'_, T>, out: &mut [T], mode: Output) {
    const { assert!(GROUP.is_multiple_of(V::LANES)) };
    let stride = line_stride(out.len());
    for (panel, out) in out.chunks_mut(MOST_VECTORS * V::LANES).enumerate() {
        let at = (panel * MOST_VECTORS * V::LANES, stride);
        // SAFETY: features and terms by this function's own contract; a line is padded to whole vectors, as many as are counted here.
        unsafe {
            match out.len().div_ceil(V::LANES) {
                1 => sum_panel::<T, V, 1>(terms, at, out, mode),
                2 => sum_panel::<T, V, 2>(terms, at, out, mode),
                3 => sum_panel::<T, V, 3>(terms, at, out, mode),
                4 => sum_panel::<T, V, 4>(terms, at, out, mode),
                5 => sum_panel::<T, V, 5>(terms, at, out, mode),
                6 => sum_panel::<T, V, 6>(terms, at, out, mode),
                7 => sum_panel::<T, V, 7>(terms, at, out, mode),
                _ => sum_panel::<T, V, MOST_VECTORS>(terms, at, out, mode),
            }
        }
    }
}

/// Columns from `first` on, as many as `out` has, in `P` vectors.
///
/// # Safety
///
/// As for [`sum_row`]; lines are at distances of `stride` and have `P` vectors from `first` on.
#[inline(always)]
unsafe fn sum_panel<T: Tile, V: Vector<T>, const P: usize>(
    terms: &Terms<'_, T>,
    (first, stride): (usize, usize),
    out: &mut [T],
    mode: Output,
) {
    // SAFETY: upheld by this function's own contract: every place has a factor and a padded line of `P` vectors.
    let sums = unsafe {
        let mut sums = [V::zero(); P];
        for &place in terms.places {
            let factor = *terms.factors.as_ptr().add(usize::from(place) * terms.stride);
            let line = terms.lines.as_ptr().add(usize::from(place) * stride + first);
            #[expect(clippy::needless_range_loop, reason = "a known index keeps the sums in registers")]
            for vector in 0..P {
                sums[vector] = V::load(line.add(vector * V::LANES)).multiply_add(factor, sums[vector]);
            }
        }
        sums
    };
    for (vector, sum) in sums.into_iter().enumerate() {
        let out = &mut out[vector * V::LANES..];
        let to = out.as_mut_ptr();
        // SAFETY: a whole vector goes where there is room for it. The features are there by this function's own contract.
        unsafe {
            if out.len() < V::LANES {
                let mut lanes = [T::default(); GROUP];
                sum.store(lanes.as_mut_ptr());
                for (out, sum) in out.iter_mut().zip(lanes) {
                    *out = if mode == Output::Accumulate { out.plus(sum) } else { sum };
                }
            } else if mode == Output::Accumulate {
                sum.plus(V::load(to)).store(to);
            } else {
                sum.store(to);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(target_arch = "x86_64")]
    use crate::simd::has_avx2_fma;
    use crate::vector::Lanes;
    use proptest::prelude::*;

    /// Small integers, so that sums are exact in any order; one in `one_in` is not zero.
    fn numbers(count: usize, one_in: usize, salt: usize) -> Vec<f32> {
        let number = |i: usize| ((i * 31 + salt * 17) % 13) as f32 - 6.5;
        (0..count).map(|i| if (i * 7 + salt).is_multiple_of(one_in) { number(i) } else { 0.0 }).collect()
    }

    fn view(data: &[f32], rows: usize, cols: usize, transposed: bool) -> Matrix<'_, f32> {
        match transposed {
            true => Matrix::new(data, cols, rows).unwrap().transposed(),
            false => Matrix::new(data, rows, cols).unwrap(),
        }
    }

    fn expected(a: Matrix<'_, f32>, b: &[f32], cols: usize, start: f32) -> Vec<f32> {
        let term = |at: usize, inner: usize| {
            a.data[at / cols * a.row_stride + inner * a.col_stride] * b[inner * cols + at % cols]
        };
        (0..a.rows * cols).map(|at| start + (0..a.cols).map(|inner| term(at, inner)).sum::<f32>()).collect()
    }

    proptest! {
        #[test]
        fn zeros_are_skipped_and_everything_else_counts(
            (rows, inner, cols) in (1usize..40, 1usize..40, 16usize..300), one_in in 1usize..9, transposed: bool, accumulate: bool,
        ) {
            let (a, b) = (numbers(rows * inner, one_in, 1), numbers(inner * cols, 1, 2));
            let (a, right) = (view(&a, rows, inner, transposed), view(&b, inner, cols, false));
            let (mode, start) = if accumulate { (Output::Accumulate, 1.0) } else { (Output::Overwrite, 0.0) };
            let mut out = vec![1.0; rows * cols];
            let lines = padded_lines(right).unwrap().unwrap();
            let lines = lines.as_slice::<f32>().unwrap();
            f32::compute(Rows { a, lines, cols, first: 0, out: &mut out, mode });
            prop_assert_eq!(&out, &expected(a, &b, cols, start));
            out.fill(1.0);
            Rows { a, lines, cols, first: 0, out: &mut out, mode }.run_portable();
            prop_assert_eq!(&out, &expected(a, &b, cols, start));
            #[cfg(target_arch = "x86_64")]
            if has_avx2_fma() {
                use std::arch::x86_64::__m256;
                out.fill(1.0);
                // SAFETY: the features were just found present.
                unsafe { Rows { a, lines, cols, first: 0, out: &mut out, mode }.run::<__m256, __m256, 11>() };
                prop_assert_eq!(&out, &expected(a, &b, cols, start));
            }
        }
    }

    #[test]
    fn more_columns_than_are_looked_at_in_one_go_add_up() {
        for (transposed, cost) in [(false, None), (true, None), (false, Some(1 << 20)), (true, Some(1 << 20))]
        {
            let (rows, inner, cols) = (50, 2 * COLS + 5, 33);
            let (a, b) = (numbers(rows * inner, 10, 1), numbers(inner * cols, 1, 2));
            let (a, right) = (view(&a, rows, inner, transposed), view(&b, inner, cols, false));
            let mut out = vec![7.0; rows * cols];
            let shared = cost.map(|cost| (tensorfleet_threads::Threads::of_process().loops(), cost));
            assert!(gemm_sparse_lhs(a, right, &mut out, Output::Overwrite, shared).unwrap());
            assert_eq!(out, expected(a, &b, cols, 0.0));
        }
    }

    #[test]
    fn dense_matrices_and_infinite_numbers_are_left_to_others() {
        let (dense, zeros) = (vec![1.0; 400], numbers(400, 10, 0));
        let mut infinite = dense.clone();
        infinite[399] = f32::NEG_INFINITY;
        let mut out = vec![5.0; 400];
        let mut is_computed = |a: &[f32], b: &[f32]| {
            let (a, b) = (view(a, 20, 20, false), view(b, 20, 20, false));
            gemm_sparse_lhs(a, b, &mut out, Output::Overwrite, None).unwrap()
        };
        assert!(!is_computed(&dense, &dense));
        assert!(!is_computed(&zeros, &infinite));
        assert!(!is_computed(&zeros, &[&[f32::NAN][..], &dense[1..]].concat()));
        assert!(is_computed(&zeros, &dense));
    }
}
