//! Transposing a matrix in memory, tile by tile: the one loop behind transposed tensors, images and factors of products.

use tensorfleet_core::Element;

/// Edge of the square that is transposed at once: 8 vector registers of 8 floats.
const TILE: usize = 8;
/// Edge of the square whose source and destination lines stay in the first-level cache.
const BLOCK: usize = 64;

/// `to[i * to_stride + k] = from[k * from_stride + i]` for `i < rows`, `k < columns`.
pub fn transpose<T: Element>(
    from: &[T],
    from_stride: usize,
    to: &mut [T],
    to_stride: usize,
    rows: usize,
    columns: usize,
) {
    let tile = fastest_tile();
    for row in (0..rows).step_by(BLOCK) {
        for column in (0..columns).step_by(BLOCK) {
            let (row_end, column_end) = ((row + BLOCK).min(rows), (column + BLOCK).min(columns));
            let (full_rows, full_columns) =
                (row + (row_end - row) / TILE * TILE, column + (column_end - column) / TILE * TILE);
            for i in (row..full_rows).step_by(TILE) {
                for k in (column..full_columns).step_by(TILE) {
                    tile(&from[k * from_stride + i..], from_stride, &mut to[i * to_stride + k..], to_stride);
                }
            }
            let mut copy = |i: usize, k: usize| to[i * to_stride + k] = from[k * from_stride + i];
            for i in row..full_rows {
                (full_columns..column_end).for_each(|k| copy(i, k));
            }
            for i in full_rows..row_end {
                (column..column_end).for_each(|k| copy(i, k));
            }
        }
    }
}

/// Transposes a tile at the start of `from` to the start of `to`, with the distances of their lines.
type Tile<T> = fn(&[T], usize, &mut [T], usize);

fn fastest_tile<T: Element>() -> Tile<T> {
    #[cfg(target_arch = "x86_64")]
    if const { size_of::<T>() == size_of::<f32>() } && crate::simd::has_avx2_fma() {
        // SAFETY: the features were just found present, and the elements have the size of a float.
        return |from, stride, to, to_stride| unsafe { words::transpose_tile(from, stride, to, to_stride) };
    }
    transpose_tile
}

fn transpose_tile<T: Element>(from: &[T], from_stride: usize, to: &mut [T], to_stride: usize) {
    let mut tile = [[T::default(); TILE]; TILE];
    for (k, line) in tile.iter_mut().enumerate() {
        line.copy_from_slice(&from[k * from_stride..k * from_stride + TILE]);
    }
    for i in 0..TILE {
        let line: [T; TILE] = std::array::from_fn(|k| tile[k][i]);
        to[i * to_stride..i * to_stride + TILE].copy_from_slice(&line);
    }
}

/// Tiles of elements of four bytes, in registers. The compiler moves the elements one by one.
#[cfg(target_arch = "x86_64")]
mod words {
    use std::arch::x86_64::*;

    use super::TILE;

    /// Transposes a tile, as [`super::transpose_tile`] does.
    ///
    /// # Safety
    ///
    /// Elements must have four bytes.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn transpose_tile<T>(from: &[T], from_stride: usize, to: &mut [T], to_stride: usize) {
        let last = TILE - 1;
        // The last lines are the highest, so that all are there if these are.
        let (_, _) = (&from[last * from_stride..][..TILE], &to[last * to_stride..][..TILE]);
        let (from, to) = (from.as_ptr().cast::<f32>(), to.as_mut_ptr().cast::<f32>());
        // SAFETY: eight words are readable from the start of each line, at any alignment; loads and shuffles keep all bits.
        let lines: [__m256; TILE] =
            std::array::from_fn(|k| unsafe { _mm256_loadu_ps(from.add(k * from_stride)) });
        // In each half of a register: elements of two lines by turns, then of four lines.
        let pairs: [__m256; TILE] = std::array::from_fn(|at| {
            let (first, second) = (lines[at / 2 * 2], lines[at / 2 * 2 + 1]);
            if at % 2 == 0 { _mm256_unpacklo_ps(first, second) } else { _mm256_unpackhi_ps(first, second) }
        });
        let fours: [__m256; TILE] = std::array::from_fn(|at| {
            let first = at / 4 * 4 + at % 4 / 2;
            let (first, second) = (pairs[first], pairs[first + 2]);
            if at % 2 == 0 {
                _mm256_shuffle_ps::<0b01_00_01_00>(first, second)
            } else {
                _mm256_shuffle_ps::<0b11_10_11_10>(first, second)
            }
        });
        for i in 0..TILE {
            let (first, second) = (fours[i % 4], fours[i % 4 + 4]);
            let line = if i < 4 {
                _mm256_permute2f128_ps::<0x20>(first, second)
            } else {
                _mm256_permute2f128_ps::<0x31>(first, second)
            };
            // SAFETY: eight words are writable from the start of each line, at any alignment.
            unsafe { _mm256_storeu_ps(to.add(i * to_stride), line) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_changes_places_whatever_the_edges_of_the_tiles() {
        for (rows, columns) in [(1, 1), (8, 8), (7, 9), (65, 3), (16, 130), (0, 5), (5, 0)] {
            let (from_stride, to_stride) = (rows + 3, columns + 2);
            let from: Vec<i32> = (0..(columns * from_stride) as i32).collect();
            let mut to = vec![-1; rows * to_stride];
            transpose(&from, from_stride, &mut to, to_stride, rows, columns);
            for (at, &element) in to.iter().enumerate() {
                let (i, k) = (at / to_stride, at % to_stride);
                let expected = if k < columns { (k * from_stride + i) as i32 } else { -1 };
                assert_eq!(element, expected, "({i}, {k}) of {rows} by {columns}");
            }
            let short: Vec<i16> = from.iter().map(|&x| x as i16).collect();
            let mut turned = vec![-1; to.len()];
            transpose(&short, from_stride, &mut turned, to_stride, rows, columns);
            assert!(turned.iter().zip(&to).all(|(&short, &word)| i32::from(short) == word));
        }
    }
}
