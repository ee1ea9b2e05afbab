//! Sparse gradients and their sum: rows by index.
//!
//! Sums are made like TensorFlow's: both index lists are walked in step, so gradients should come sorted and without
//! repeats, and the mean of a row divides by the number of gradients that had this row.

use tensorfleet_core::{PartialShape, Result, Shape, Tensor, ensure, memory};

use tensorfleet_numeric::number::Number;
use tensorfleet_threads::Loops;

/// Rows of a gradient with their indices.
pub(crate) struct SparseGradient {
    /// The index of each row.
    pub(crate) indices: Tensor,
    /// The rows.
    pub(crate) values: Tensor,
    /// The shape of the whole, if the worker knows it; -1 is unknown.
    pub(crate) shape: Option<Vec<i64>>,
}

impl SparseGradient {
    /// Checks the gradient against itself and the accumulator's declared shape.
    pub(super) fn check(&self, declared: &PartialShape) -> Result<()> {
        let (indices, values) = (self.indices.shape(), self.values.shape());
        ensure!(
            indices.rank() == 1,
            InvalidArgument,
            "Input indices should be vector but received shape: {indices}"
        );
        ensure!(
            values.first() == indices.first(),
            InvalidArgument,
            "Expected one row of values for each index, but values have shape {values} and indices {indices}"
        );
        let rank = declared.rank().unwrap_or(0);
        if let Some(shape) = &self.shape {
            ensure!(
                shape.len() >= rank,
                InvalidArgument,
                "Shape mismatch: expected shape rank at least {rank}, got {}",
                shape.len()
            );
            for (axis, &dim) in shape.iter().enumerate() {
                if let Some(expected) = declared.dim(axis) {
                    ensure!(
                        dim < 0 || dim as usize == expected,
                        InvalidArgument,
                        "Shape mismatch: expected shape dim {axis} to be {expected}, got {dim}"
                    );
                }
            }
        }
        ensure!(
            values.rank() >= rank,
            InvalidArgument,
            "Shape mismatch: expected values rank at least {rank}, got {}",
            values.rank()
        );
        for (axis, &dim) in values.iter().enumerate().skip(1) {
            check_value_dim(axis, declared.dim(axis), dim)?;
        }
        // Only the accumulator's own shape bounds the rows; TensorFlow does not hold the gradient's against them.
        if let Some(limit) = declared.dim(0).map(|rows| rows as i64) {
            for (slice, &index) in self.indices.as_slice::<i64>()?.iter().enumerate() {
                ensure!(
                    index < limit,
                    InvalidArgument,
                    "Shape mismatch: index of slice {slice} exceeded limits of shape; index is {index} exceeded {limit}"
                );
            }
        }
        Ok(())
    }
}

fn check_value_dim(axis: usize, expected: Option<usize>, found: usize) -> Result<()> {
    if let Some(expected) = expected {
        ensure!(
            found == expected,
            InvalidArgument,
            "Shape mismatch: expected values dim {axis} to be {expected}, got {found}"
        );
    }
    Ok(())
}

/// The sum of checked sparse gradients.
pub(super) struct SparseSum {
    indices: Vec<i64>,
    /// How many gradients had each row.
    counts: Vec<usize>,
    values: Tensor,
}

/// Where a row of a merged sum comes from.
enum Source {
    Ours(usize),
    Theirs(usize),
    Both(usize, usize),
}

impl SparseSum {
    pub(super) fn new(gradient: SparseGradient) -> Result<SparseSum> {
        let indices = memory::copy_of(gradient.indices.as_slice::<i64>()?)?;
        Ok(SparseSum { counts: memory::vec_of(1, indices.len())?, indices, values: gradient.values })
    }

    pub(super) fn add(&mut self, loops: &Loops, gradient: &SparseGradient) -> Result<()> {
        let row = &self.values.shape()[1..];
        let (own_rank, rank) = (self.values.shape().rank(), gradient.values.shape().rank());
        ensure!(
            own_rank == rank,
            InvalidArgument,
            "Shape mismatch: expected values rank {own_rank}, got {rank}"
        );
        for (axis, (&expected, &dim)) in row.iter().zip(gradient.values.shape().iter().skip(1)).enumerate() {
            check_value_dim(axis + 1, Some(expected), dim)?;
        }
        let theirs = gradient.indices.as_slice::<i64>()?;
        if theirs == self.indices {
            self.counts.iter_mut().for_each(|count| *count += 1);
            return tensorfleet_numeric::assign::add_assign(loops, &mut self.values, &gradient.values);
        }
        let sources = merge(&self.indices, theirs)?;
        let mut dims = self.values.shape().to_vec();
        dims[0] = sources.len();
        let shape = Shape::new(&dims)?;
        let row_len: usize = row.iter().product();
        let values = tensorfleet_numeric::dispatch!(self.values.dtype(), T in [f32, f64, half::f16] => {
            let (ours, theirs) = (self.values.as_slice::<T>()?, gradient.values.as_slice::<T>()?);
            Tensor::build::<T>(shape, |out| {
                if row_len > 0 {
                    fill_rows(out, row_len, &sources, ours, theirs);
                }
                Ok(())
            })
        })?;
        let counts = sources.iter().map(|source| match *source {
            Source::Ours(i) => self.counts[i],
            Source::Theirs(_) => 1,
            Source::Both(i, _) => self.counts[i] + 1,
        });
        let indices = sources.iter().map(|source| match *source {
            Source::Ours(i) | Source::Both(i, _) => self.indices[i],
            Source::Theirs(j) => theirs[j],
        });
        let (counts, indices) = (memory::collect(counts)?, memory::collect(indices)?);
        (self.counts, self.indices, self.values) = (counts, indices, values);
        Ok(())
    }

    /// Indices, values and shape of the sum, or of the mean.
    pub(super) fn finish(mut self, declared: &PartialShape, mean: bool) -> Result<Vec<Tensor>> {
        let dims: Vec<i64> = self
            .values
            .shape()
            .iter()
            .enumerate()
            .map(|(axis, &dim)| match (declared.dim(axis), axis) {
                (Some(known), _) => known as i64,
                (None, 0) => -1,
                (None, _) => dim as i64,
            })
            .collect();
        let row_len: usize = self.values.shape()[1..].iter().product();
        if mean && row_len > 0 && self.counts.iter().any(|&count| count > 1) {
            let counts = &self.counts;
            tensorfleet_numeric::dispatch!(self.values.dtype(), T in [f32, f64, half::f16] => {
                for (row, &count) in self.values.make_mut::<T>()?.chunks_exact_mut(row_len).zip(counts) {
                    let count: T = num_traits::NumCast::from(count).unwrap_or_default();
                    row.iter_mut().for_each(|x| *x /= count);
                }
                Ok(())
            })?;
        }
        Ok(vec![Tensor::vector(&self.indices)?, self.values, Tensor::vector(&dims)?])
    }
}

fn merge(ours: &[i64], theirs: &[i64]) -> Result<Vec<Source>> {
    let mut sources = memory::vec_with_room(ours.len() + theirs.len())?;
    let (mut i, mut j) = (0, 0);
    loop {
        let source = match (ours.get(i), theirs.get(j)) {
            (None, None) => return Ok(sources),
            (Some(a), Some(b)) if a == b => Source::Both(i, j),
            (Some(a), Some(b)) if a < b => Source::Ours(i),
            (Some(_), None) => Source::Ours(i),
            (_, Some(_)) => Source::Theirs(j),
        };
        i += !matches!(source, Source::Theirs(_)) as usize;
        j += !matches!(source, Source::Ours(_)) as usize;
        sources.push(source);
    }
}

fn fill_rows<T: Number>(out: &mut [T], row_len: usize, sources: &[Source], ours: &[T], theirs: &[T]) {
    let row = |values: &'_ [T], index: usize| index * row_len..(index * row_len + row_len).min(values.len());
    for (out, source) in out.chunks_exact_mut(row_len).zip(sources) {
        match *source {
            Source::Ours(i) => out.copy_from_slice(&ours[row(ours, i)]),
            Source::Theirs(j) => out.copy_from_slice(&theirs[row(theirs, j)]),
            Source::Both(i, j) => {
                let pairs = ours[row(ours, i)].iter().zip(&theirs[row(theirs, j)]);
                out.iter_mut().zip(pairs).for_each(|(x, (&a, &b))| *x = a.plus(b));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gradient(indices: &[i64], values: &[f32]) -> SparseGradient {
        SparseGradient {
            indices: Tensor::vector(indices).unwrap(),
            values: Tensor::from_slice(values, &[indices.len(), values.len() / indices.len().max(1)])
                .unwrap(),
            shape: None,
        }
    }

    fn mean_of(gradients: &[(&[i64], &[f32])]) -> (Vec<i64>, Vec<f32>) {
        let mut gradients = gradients.iter().map(|(indices, values)| gradient(indices, values));
        let mut sum = SparseSum::new(gradients.next().unwrap()).unwrap();
        gradients.for_each(|gradient| {
            sum.add(tensorfleet_threads::Threads::of_process().loops(), &gradient).unwrap()
        });
        let taken = sum.finish(&PartialShape::unknown(), true).unwrap();
        assert_eq!(taken[2].as_slice::<i64>().unwrap()[0], -1);
        (taken[0].as_slice().unwrap().to_vec(), taken[1].as_slice().unwrap().to_vec())
    }

    #[test]
    fn a_row_is_averaged_over_the_gradients_that_had_it() {
        let mean = mean_of(&[(&[0, 3], &[1.0, 2.0]), (&[3, 5], &[4.0, 8.0]), (&[1, 3], &[6.0, 6.0])]);
        assert_eq!(mean, (vec![0, 1, 3, 5], vec![1.0, 6.0, 4.0, 8.0]));
    }

    #[test]
    fn unsorted_and_repeated_indices_are_walked_in_step_as_tensorflow_does() {
        assert_eq!(
            mean_of(&[(&[3, 0], &[1.0, 2.0]), (&[0, 3], &[10.0, 20.0])]),
            (vec![0, 3, 0], vec![10.0, 10.5, 2.0])
        );
        assert_eq!(
            mean_of(&[(&[3, 3], &[1.0, 2.0]), (&[3, 3], &[10.0, 20.0])]),
            (vec![3, 3], vec![5.5, 11.0])
        );
    }

    #[test]
    fn gradients_must_fit_the_declared_shape() {
        let declared = PartialShape::new([Some(4), Some(2)]);
        let text = |gradient: SparseGradient| gradient.check(&declared).unwrap_err().text().to_string();
        let shaped =
            |shape: &[i64]| SparseGradient { shape: Some(shape.to_vec()), ..gradient(&[0], &[1.0, 2.0]) };
        assert_eq!(text(shaped(&[3, 2])), "Shape mismatch: expected shape dim 0 to be 4, got 3");
        assert_eq!(text(shaped(&[4])), "Shape mismatch: expected shape rank at least 2, got 1");
        assert_eq!(text(gradient(&[0], &[1.0])), "Shape mismatch: expected values dim 1 to be 2, got 1");
        assert!(text(gradient(&[4], &[1.0, 2.0])).contains("index is 4 exceeded 4"));
        assert!(text(gradient(&[], &[])).contains("values dim 1"));
        assert!(gradient(&[3], &[1.0, 2.0]).check(&declared).is_ok());
    }
}
