//! GEMM with a gathered left operand (implicit im2col): element (row, col) lies at `rows[row] + cols[col]`.
//!
//! The patches of an image are such a matrix: a row begins where its window does, and every window sees its taps at the same
//! distances. So are their transpose, and every matrix with strides. Multiplying them where they lie saves what convolutions
//! otherwise spend most time on when there are few channels: copying each pixel once for each tap, and adding it back.
//!
//! The sums of a tile of the output, some rows by one vector of columns, stay in registers while the inner index runs. A step of
//! it loads one vector of the right matrix and, for each row, multiplies it by one number of the left one; processors with
//! AVX-512 do that at full speed with numbers that come from memory. So nothing is packed beforehand, which pays where the output
//! has few rows or few columns; a product of two large matrices is the matrix-product library's.

use smallvec::SmallVec;
use tensorfleet_core::{Result, ensure};

use crate::matrix::{Multiply, Output};
use crate::vector::{Lanes, Vector, Vectorized};

/// Places in a slice, relative to a common start.
#[derive(Clone, Copy)]
pub struct Offsets<'a> {
    at: &'a [usize],
    /// Invariant: none of `at` is larger.
    largest: usize,
}

impl<'a> Offsets<'a> {
    /// These offsets.
    pub fn new(at: &'a [usize]) -> Offsets<'a> {
        Offsets { at, largest: at.iter().copied().max().unwrap_or(0) }
    }

    /// The first of them.
    pub fn first(self, count: usize) -> Offsets<'a> {
        Offsets::new(&self.at[..count])
    }

    /// Whether `len` elements at any of the offsets lie in a slice of `limit`.
    fn fit(self, len: usize, limit: usize) -> bool {
        self.at.is_empty() || self.largest.checked_add(len).is_some_and(|end| end <= limit)
    }
}

/// A matrix whose element (row, col) is `data[rows[row] + cols[col]]`.
#[derive(Clone, Copy)]
pub struct Gathered<'a, T> {
    /// The elements.
    pub data: &'a [T],
    /// Where the rows start.
    pub rows: Offsets<'a>,
    /// Where the columns lie, counted from the start of a row.
    pub cols: Offsets<'a>,
}

/// A matrix whose rows are pieces of a slice, at equal distances.
#[derive(Clone, Copy)]
pub struct Lines<'a, T> {
    /// The elements.
    pub data: &'a [T],
    /// From the start of a row to that of the next.
    pub stride: usize,
    /// Elements of a row.
    pub cols: usize,
}

/// Computes `left * right`, on this thread. Row `i` of the product begins at `places[i]` of `out`. Rows are written one after
/// another, so those that are added may overlap.
pub fn gemm_gathered_lhs<T: Tile>(
    left: Gathered<'_, T>,
    right: Lines<'_, T>,
    out: &mut [T],
    places: Offsets<'_>,
    mode: Output,
) -> Result<()> {
    let (rows, inner) = (left.rows.at.len(), left.cols.at.len());
    if rows == 0 || right.cols == 0 {
        return Ok(());
    }
    let last_line = inner.saturating_sub(1).checked_mul(right.stride);
    ensure!(
        places.at.len() == rows
            && places.fit(right.cols, out.len())
            && right.stride > 0
            && (inner == 0 || last_line.is_some_and(|at| at.saturating_add(right.cols) <= right.data.len())),
        Internal,
        "a product of {rows} by {inner} and {inner} by {} elements does not fit its places",
        right.cols
    );
    ensure!(
        inner == 0 || left.rows.fit(left.cols.largest.saturating_add(1), left.data.len()),
        Internal,
        "a scattered matrix reaches beyond its {} elements",
        left.data.len()
    );
    T::compute((&Job { left, right, places: places.at, mode }, out));
    Ok(())
}

/// A product whose sizes have been checked. Invariants: the largest row and the largest column of `left` together lie in its data;
/// all rows of `right` lie in its data, one for each column of `left`; there are as many places as rows.
pub struct Job<'a, T> {
    left: Gathered<'a, T>,
    right: Lines<'a, T>,
    places: &'a [usize],
    mode: Output,
}

/// Numbers whose sums are kept in registers.
pub trait Tile: Multiply + Lanes {}

impl Tile for f32 {}
impl Tile for f64 {}
impl Tile for i32 {}

impl<T: Tile> Vectorized<T> for (&Job<'_, T>, &mut [T]) {
    #[inline(always)]
    unsafe fn run<V: Vector<T>, W: Vector<T>, const SUMS: usize>(self) {
        // SAFETY: upheld by this function's own contract: the processor has the features of the vectors.
        unsafe { all_panels::<T, V, W, SUMS>(self.0, self.1) }
    }
}

/// Goes through the columns of the product, a vector at a time. `MOST` is how many rows of sums there are registers for.
///
/// # Safety
///
/// The processor must have the features of the vectors `V` and `W`, of which `W` is not wider.
#[inline(always)]
unsafe fn all_panels<T: Tile, V: Vector<T>, W: Vector<T>, const MOST: usize>(
    job: &Job<'_, T>,
    out: &mut [T],
) {
    let mut col = 0;
    while col < job.right.cols {
        // SAFETY: upheld by this function's own contract: the processor has the features of the vectors.
        unsafe {
            if job.right.cols - col > W::LANES {
                panel::<T, V, MOST>(job, col, out);
                col += V::LANES;
            } else {
                panel::<T, W, MOST>(job, col, out);
                col += W::LANES;
            }
        }
    }
}

/// Lines of the right matrix, from the first column of a panel on, with the columns of the left one that they meet. Invariant:
/// from the start of each line there is a vector to read.
type Part<'a, T> = (&'a [usize], &'a [T], usize);

/// Which columns a panel has.
#[derive(Clone, Copy)]
struct Place {
    first: usize,
    width: usize,
    /// Whether a whole vector may be written where there is room for it, even if there are not so many columns.
    runs_over: bool,
}

/// Columns of the product from `first` on: those of a vector, as far as there are so many.
///
/// # Safety
///
/// The processor must have the vector's features.
#[inline(always)]
unsafe fn panel<T: Tile, V: Vector<T>, const MOST: usize>(job: &Job<'_, T>, first: usize, out: &mut [T]) {
    let Lines { data, stride, cols } = job.right;
    let (inner, width) = (job.left.cols.at.len(), V::LANES.min(cols - first));
    let lines = data.get(first..).unwrap_or_default();
    // A narrow line is loaded with what follows it, whose sums nobody looks at. At the end of the slice nothing follows.
    let whole = lines.len().checked_sub(V::LANES).map_or(0, |room| (room / stride + 1).min(inner));
    let mut rest = SmallVec::<[T; 64]>::new();
    for line in whole..inner {
        rest.extend_from_slice(&lines[line * stride..][..width]);
        rest.extend(std::iter::repeat_n(T::default(), V::LANES - width));
    }
    let (most, few) = job.left.cols.at.split_at(whole);
    let parts: [Part<'_, T>; 2] = [(most, lines, stride), (few, &rest, V::LANES)];
    // Zeros may be added behind a row; other numbers may be left there if the next row overwrites them, and the last has no room.
    let runs_over = match job.mode {
        Output::Accumulate => true,
        Output::Overwrite => {
            let ends_with_rows =
                job.places.last().is_some_and(|last| last.checked_add(cols) == Some(out.len()));
            let is_dense = job.places.windows(2).all(|two| two[1] == two[0].wrapping_add(cols));
            cols < V::LANES && ends_with_rows && is_dense
        }
    };
    let place = Place { first, width, runs_over };
    let (mut row, rows) = (0, job.places.len());
    while row < rows {
        // SAFETY: the features by this function's own contract; `parts` keep their invariant.
        unsafe {
            row += match rows - row {
                12.. if MOST >= 14 => tile::<T, V, 14>(job, &parts, row, place, out),
                9.. if MOST >= 11 => tile::<T, V, 11>(job, &parts, row, place, out),
                6.. if MOST >= 8 => tile::<T, V, 8>(job, &parts, row, place, out),
                3.. => tile::<T, V, 5>(job, &parts, row, place, out),
                _ => tile::<T, V, 2>(job, &parts, row, place, out),
            };
        }
    }
}

/// Up to `M` rows of a panel. Gives `M`. Where there are not so many rows, the last one is summed up again.
///
/// # Safety
///
/// The processor must have the vector's features, and `parts` must keep their invariant.
#[inline(always)]
unsafe fn tile<T: Tile, V: Vector<T>, const M: usize>(
    job: &Job<'_, T>,
    parts: &[Part<'_, T>; 2],
    row: usize,
    columns: Place,
    out: &mut [T],
) -> usize {
    let starts = &job.left.rows.at[row..];
    // SAFETY: offsets of rows and columns lie in the data by the invariant of `Job`, lines by that of `Part`. The features
    // are there by this function's own contract.
    let sums = unsafe {
        let starts: [*const T; M] =
            std::array::from_fn(|m| job.left.data.as_ptr().add(starts[m.min(starts.len() - 1)]));
        let mut sums = [V::zero(); M];
        for &(cols, lines, stride) in parts {
            let mut line = lines.as_ptr();
            for &col in cols {
                let right = V::load(line);
                // The last line is followed by none, so this may leave the slice, but nothing is read there.
                line = line.wrapping_add(stride);
                for m in 0..M {
                    sums[m] = right.multiply_add(*starts[m].add(col), sums[m]);
                }
            }
        }
        sums
    };
    #[expect(clippy::needless_range_loop, reason = "a known index keeps the sums in registers")]
    for m in 0..M {
        let Some(&place) = job.places.get(row + m) else { break };
        // SAFETY: the features are there by this function's own contract.
        unsafe { finish(sums[m], &mut out[place + columns.first..], columns, job.mode) };
    }
    M
}

/// Writes the columns of a panel to the start of `to`, the rest of the output.
///
/// # Safety
///
/// The processor must have the vector's features.
#[inline(always)]
unsafe fn finish<T: Tile, V: Vector<T>>(
    sums: V,
    to: &mut [T],
    Place { width, runs_over, .. }: Place,
    mode: Output,
) {
    if to.len() >= V::LANES && (runs_over || width == V::LANES) {
        let to = to.as_mut_ptr();
        // SAFETY: `to` has as many elements as the vector. The features are there by this function's own contract.
        return unsafe {
            match mode {
                Output::Overwrite => sums.store(to),
                Output::Accumulate => sums.first(width).plus(V::load(to)).store(to),
            }
        };
    }
    let mut lanes = [T::default(); 16];
    const { assert!(V::LANES <= 16) };
    // SAFETY: no vector has more lanes. The features are there by this function's own contract.
    unsafe { sums.store(lanes.as_mut_ptr()) };
    match mode {
        Output::Overwrite => each_lane(&mut to[..width], &lanes, |_, sum| sum),
        Output::Accumulate => each_lane(&mut to[..width], &lanes, T::plus),
    }
}

/// Changes `to`, up to sixteen numbers, with the first of `from`. Pieces of known length are vectors; a loop to a length that
/// is not known is slower.
#[inline(always)]
fn each_lane<T: Copy>(to: &mut [T], from: &[T; 16], change: impl Fn(T, T) -> T) {
    #[inline(always)]
    fn piece<T: Copy, const L: usize>(
        to: &mut [T],
        from: &[T; 16],
        at: usize,
        change: &impl Fn(T, T) -> T,
    ) -> usize {
        if to.len() & L == 0 {
            return at;
        }
        let (to, from) = (&mut to[at..at + L], &from[at..at + L]);
        (0..L).for_each(|lane| to[lane] = change(to[lane], from[lane]));
        at + L
    }
    let at = piece::<T, 16>(to, from, 0, &change);
    let at = piece::<T, 8>(to, from, at, &change);
    let at = piece::<T, 4>(to, from, at, &change);
    let at = piece::<T, 2>(to, from, at, &change);
    piece::<T, 1>(to, from, at, &change);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::has_avx2_fma;
    use proptest::prelude::*;

    /// Small integers, so that sums are exact in any order.
    fn numbers<T: num_traits::NumCast>(count: usize, salt: usize) -> Vec<T> {
        (0..count).map(|i| T::from(((i * 31 + salt * 17) % 13) as i32 - 6).unwrap()).collect()
    }

    fn check<T: Tile + num_traits::NumCast + std::fmt::Debug>(
        [rows, inner, cols]: [usize; 3],
        gap: usize,
        mode: Output,
        run: impl Fn(&Job<'_, T>, &mut [T]),
    ) {
        let row_starts: Vec<usize> = (0..rows).map(|row| row * 5 % 11 + row).collect();
        let col_starts: Vec<usize> = (0..inner).map(|col| col * 7 % 5 + 2 * col).collect();
        let places: Vec<usize> = (0..rows).map(|row| row * (cols + gap)).collect();
        let (row_offsets, col_offsets) = (Offsets::new(&row_starts), Offsets::new(&col_starts));
        // Exactly what is needed and nothing behind it.
        let left: Vec<T> = numbers(row_offsets.largest + col_offsets.largest + 1, 1);
        let right: Vec<T> = numbers((inner.max(1) - 1) * (cols + gap) + cols, 2);
        let mut out: Vec<T> = numbers(rows * (cols + gap), 3);
        let mut expected = out.clone();
        for row in 0..rows {
            for col in 0..cols {
                let product = (0..inner).fold(T::default(), |sum, at| {
                    sum.plus(left[row_starts[row] + col_starts[at]].times(right[at * (cols + gap) + col]))
                });
                let to = &mut expected[places[row] + col];
                *to = if mode == Output::Accumulate { to.plus(product) } else { product };
            }
        }
        let left = Gathered { data: &left, rows: row_offsets, cols: col_offsets };
        let right = Lines { data: &right, stride: cols + gap, cols };
        let mut again = out.clone();
        gemm_gathered_lhs(left, right, &mut out, Offsets::new(&places), mode).unwrap();
        assert_eq!(out, expected);
        run(&Job { left, right, places: &places, mode }, &mut again);
        assert_eq!(again, expected);
    }

    proptest! {
        #[test]
        fn products_follow_the_definition_with_every_kind_of_vector(
            sizes in [1usize..33, 0usize..20, 1usize..40], gap in 0usize..3, accumulate: bool,
        ) {
            let mode = if accumulate { Output::Accumulate } else { Output::Overwrite };
            check::<f32>(sizes, gap, mode, |job, out| (job, out).run_portable());
            check::<f64>(sizes, gap, mode, |job, out| (job, out).run_portable());
            check::<i32>(sizes, gap, mode, |job, out| (job, out).run_portable());
            #[cfg(target_arch = "x86_64")]
            if has_avx2_fma() {
                use std::arch::x86_64::{__m256, __m256d};
                // SAFETY: the features were just found present.
                check::<f32>(sizes, gap, mode, |job, out| unsafe { all_panels::<f32, __m256, __m256, 11>(job, out) });
                // SAFETY: as above.
                check::<f64>(sizes, gap, mode, |job, out| unsafe { all_panels::<f64, __m256d, __m256d, 11>(job, out) });
            }
        }
    }

    #[test]
    fn what_is_not_a_number_does_not_spread_to_neighbours() {
        let (rows, cols, places) = ([0, 1], [0], [0, 5]);
        let left =
            Gathered { data: &[f32::INFINITY, 1.0], rows: Offsets::new(&rows), cols: Offsets::new(&cols) };
        let right = Lines { data: &[1.0; 5], stride: 5, cols: 5 };
        let mut out = [1.0; 40];
        gemm_gathered_lhs(left, right, &mut out, Offsets::new(&places), Output::Accumulate).unwrap();
        assert_eq!((&out[..5], &out[5..10]), (&[f32::INFINITY; 5][..], &[2.0; 5][..]));
        assert_eq!(out[10..], [1.0; 30]);
    }

    #[test]
    fn rows_that_overlap_are_added_up() {
        let (rows, cols) = ([0, 1, 2], [0]);
        let left =
            Gathered { data: &[1.0f32, 10.0, 100.0], rows: Offsets::new(&rows), cols: Offsets::new(&cols) };
        let right = Lines { data: &[1.0, 2.0], stride: 2, cols: 2 };
        let mut out = [0.0; 4];
        gemm_gathered_lhs(left, right, &mut out, Offsets::new(&rows), Output::Accumulate).unwrap();
        assert_eq!(out, [1.0, 12.0, 120.0, 200.0]);
    }

    #[test]
    fn what_reaches_out_of_a_slice_is_refused() {
        let (zero, two) = ([0], [2]);
        let (zero, two) = (Offsets::new(&zero), Offsets::new(&two));
        let run = |rows, cols, places, right_len: usize| {
            let right = vec![1.0; right_len];
            let left = Gathered { data: &[1.0f32, 2.0, 3.0], rows, cols };
            gemm_gathered_lhs(
                left,
                Lines { data: &right, stride: 2, cols: 2 },
                &mut [0.0; 3],
                places,
                Output::Overwrite,
            )
        };
        assert!(run(zero, two, zero, 2).is_ok());
        assert!(run(two, two, zero, 2).is_err());
        assert!(run(zero, zero, two, 2).is_err());
        assert!(run(zero, zero, zero, 1).is_err());
    }
}
