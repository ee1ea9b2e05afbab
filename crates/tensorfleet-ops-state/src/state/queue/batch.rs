//! Making one batch out of dequeued elements: a new first dimension, and padding where a queue asks for it.

use tensorfleet_core::{DType, PartialShape, Result, Shape, Status, Tensor, ensure, memory};

use super::spec::{Kind, QueueSpec};
use super::store::Tuple;

impl QueueSpec {
    /// Checks that elements can be batched at all.
    pub(super) fn check_batchable(&self) -> Result<()> {
        ensure!(
            self.shapes.len() == self.types.len(),
            InvalidArgument,
            "{}'s DequeueMany and DequeueUpTo require the components to have specified shapes.",
            self.kind.name()
        );
        Ok(())
    }

    /// The batch of these elements, one tensor for each component.
    pub(super) fn batch(&self, elements: &[Tuple]) -> Result<Vec<Tensor>> {
        self.check_batchable()?;
        let component = |(index, &dtype): (usize, &DType)| {
            let rows: Vec<&Tensor> = elements.iter().filter_map(|tuple| tuple.get(index)).collect();
            let shape = self.row_shape(index, &rows)?;
            if self.kind == Kind::PaddingFifo {
                pad(dtype, &shape, &rows)
            } else {
                stack(dtype, &shape, &rows)
            }
        };
        self.types.iter().enumerate().map(component).collect()
    }

    /// The shape of a row: as declared, and as large as the largest where that is open.
    fn row_shape(&self, index: usize, rows: &[&Tensor]) -> Result<Shape> {
        let declared = self.shapes.get(index).and_then(PartialShape::dims).unwrap_or_default();
        let largest = |axis: usize| rows.iter().filter_map(|row| row.shape().get(axis)).copied().max();
        let dims: Vec<usize> = declared
            .iter()
            .enumerate()
            .map(|(axis, dim)| dim.unwrap_or_else(|| largest(axis).unwrap_or(0)))
            .collect();
        Shape::new(&dims)
    }
}

fn batch_shape(rows: usize, row: &Shape) -> Result<Shape> {
    let dims: Vec<usize> = std::iter::once(rows).chain(row.iter().copied()).collect();
    Shape::new(&dims)
}

/// What the rows hold, one after another.
fn appended<'a, E: Clone + 'a>(
    rows: &[&'a Tensor],
    elements: impl Fn(&'a Tensor) -> Result<&'a [E]>,
) -> Result<Vec<E>> {
    let mut all = memory::vec_with_room(rows.iter().map(|row| row.num_elements()).sum())?;
    for row in rows {
        all.extend_from_slice(elements(row)?);
    }
    Ok(all)
}

/// Rows of one shape, one after another.
pub fn stack(dtype: DType, row: &Shape, rows: &[&Tensor]) -> Result<Tensor> {
    for tensor in rows {
        ensure!(
            tensor.dtype() == dtype && tensor.shape() == row,
            Internal,
            "a {} row of shape {} does not fit in a {dtype} batch of {row}",
            tensor.dtype(),
            tensor.shape()
        );
    }
    let shape = batch_shape(rows.len(), row)?;
    match dtype {
        DType::String => {
            let strings = appended(rows, Tensor::as_strings)?;
            Tensor::from_strings(strings, &shape)
        }
        DType::Resource => {
            let handles = appended(rows, Tensor::as_resources)?;
            Tensor::from_resources(handles, &shape)
        }
        DType::Variant => {
            let variants = appended(rows, Tensor::as_variants)?;
            Tensor::from_variants(variants, &shape)
        }
        DType::Bool => {
            Tensor::build::<bool>(shape, |out| copy_rows(out, rows.iter().map(|row| row.as_slice())))
        }
        _ => {
            let mut batch = Tensor::allocate(dtype, shape)?;
            copy_rows(batch.make_bytes_mut()?, rows.iter().map(|row| row.as_bytes()))?;
            Ok(batch)
        }
    }
}

fn copy_rows<'a, T: Copy + 'a>(mut out: &mut [T], rows: impl Iterator<Item = Result<&'a [T]>>) -> Result<()> {
    for row in rows {
        let row = row?;
        let (head, rest) = std::mem::take(&mut out)
            .split_at_mut_checked(row.len())
            .ok_or_else(|| Status::internal("the rows of a batch exceed it"))?;
        head.copy_from_slice(row);
        out = rest;
    }
    Ok(())
}

/// Rows of different shapes in the corners of rows of one shape, zeros or empty strings around them.
fn pad(dtype: DType, row: &Shape, rows: &[&Tensor]) -> Result<Tensor> {
    if rows.iter().all(|tensor| tensor.shape() == row) {
        return stack(dtype, row, rows);
    }
    let shape = batch_shape(rows.len(), row)?;
    let row_len = row.num_elements();
    if dtype == DType::String {
        let mut out = memory::vec_of(bytes::Bytes::new(), shape.num_elements())?;
        for (index, tensor) in rows.iter().enumerate() {
            let strings = tensor.as_strings()?;
            for_each_run(tensor.shape(), row, |from, to, len| {
                out[index * row_len + to..][..len].clone_from_slice(&strings[from..from + len]);
            });
        }
        return Tensor::from_strings(out, &shape);
    }
    let mut batch = Tensor::zeros(dtype, shape)?;
    tensorfleet_numeric::dispatch!(dtype, T in plain => {
        let out = batch.make_mut::<T>()?;
        for (index, tensor) in rows.iter().enumerate() {
            let elements = tensor.as_slice::<T>()?;
            for_each_run(tensor.shape(), row, |from, to, len| {
                out[index * row_len + to..][..len].copy_from_slice(&elements[from..from + len]);
            });
        }
        Ok(())
    })?;
    Ok(batch)
}

/// Visits the contiguous runs of a tensor of shape `inner` that lies in the corner of one of shape `outer`, of the
/// same rank and nowhere smaller: offset in the inner, offset in the outer, length.
fn for_each_run(inner: &Shape, outer: &Shape, mut visit: impl FnMut(usize, usize, usize)) {
    if inner.num_elements() == 0 {
        return;
    }
    let Some((&len, inner_lead)) = inner.split_last() else { return visit(0, 0, 1) };
    let Some((&outer_len, outer_lead)) = outer.split_last() else { return };
    let runs: usize = inner_lead.iter().product();
    for run in 0..runs {
        // The run's coordinates, read as a number in the outer's mixed radix.
        let (mut rest, mut row, mut stride) = (run, 0, 1);
        for (&dim, &outer_dim) in inner_lead.iter().zip(outer_lead).rev() {
            row += rest % dim * stride;
            rest /= dim;
            stride *= outer_dim;
        }
        visit(run * len, row * outer_len, len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smaller_rows_are_padded_with_zeros_at_the_end_of_each_dimension() {
        let small = Tensor::from_slice(&[1i32, 2], &[1, 2]).unwrap();
        let large = Tensor::from_slice(&[3i32, 4, 5, 6, 7, 8], &[2, 3]).unwrap();
        let batch = pad(DType::Int32, &Shape::new(&[2, 3]).unwrap(), &[&small, &large]).unwrap();
        assert_eq!(batch.shape().dims(), [2, 2, 3]);
        assert_eq!(batch.as_slice::<i32>().unwrap(), [1, 2, 0, 0, 0, 0, 3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn strings_are_padded_with_empty_ones() {
        let row = |words: &[&'static str]| {
            let words: Vec<bytes::Bytes> = words.iter().map(|&word| word.into()).collect();
            let len = words.len();
            Tensor::from_strings(words, &[len]).unwrap()
        };
        let (one, none) = (row(&["a"]), row(&[]));
        let batch = pad(DType::String, &Shape::new(&[1]).unwrap(), &[&one, &none]).unwrap();
        assert_eq!(batch.shape().dims(), [2, 1]);
        assert_eq!(batch.as_strings().unwrap(), ["a", ""]);
    }
}
