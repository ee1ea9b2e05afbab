//! `RandomShuffle`: the rows of a tensor in random order.

use tensorfleet_core::{Buffer, Result, Status, Tensor, memory};

use super::stream::Stream;
use tensorfleet_kernel::Work;
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::same_as_input;
use tensorfleet_numeric::philox::{Philox, Singles};

/// The family's table.
pub(crate) static OPS: &[Op] = &[Op::new("RandomShuffle", "value: T -> output: T")
    .work(Work::Inputs)
    .not_differentiable()
    .attrs("seed: int = 0; seed2: int = 0; T: type")
    .stateful()
    .shape(same_as_input)
    .kernel(shuffle)];

/// Shuffles in place with TensorFlow's sequence of swaps.
pub(crate) fn shuffle_in_place<T>(items: &mut [T], philox: Philox) {
    let mut singles = Singles::new(philox);
    for index in 0..items.len().saturating_sub(1) {
        // Slightly unfair, as in TensorFlow: no draw is rejected.
        let other = singles.next_u32() as usize % (items.len() - index);
        items.swap(index, index + other);
    }
}

fn shuffle(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let stream = Stream::of_node(node)?;
    Ok(KernelBox::from_fn(move |ctx| {
        let input = ctx.input(0)?;
        let rows = input.shape().first().copied().unwrap_or(1);
        if rows <= 1 || input.num_elements() <= 1 {
            ctx.forward(0, 0);
            return Ok(());
        }
        let mut order: Vec<usize> = memory::collect(0..rows)?;
        shuffle_in_place(&mut order, stream.reserve_u32s(rows as u64 - 1));
        let output = rows_in_order(input, &order)?;
        ctx.set_output(0, output);
        Ok(())
    }))
}

/// The rows of `input` in another order; every index is below the number of rows.
fn rows_in_order(input: &Tensor, order: &[usize]) -> Result<Tensor> {
    let Ok(bytes) = input.as_bytes() else {
        return strings_in_order(input, order);
    };
    let row_bytes = bytes.len() / order.len();
    let mut buffer = Buffer::new(bytes.len())?;
    if let Some(out) = buffer.as_bytes_mut().filter(|_| row_bytes > 0) {
        for (row, &from) in out.chunks_exact_mut(row_bytes).zip(order) {
            row.copy_from_slice(&bytes[from * row_bytes..(from + 1) * row_bytes]);
        }
    }
    Tensor::from_buffer(input.dtype(), input.shape().clone(), buffer)
}

fn strings_in_order(input: &Tensor, order: &[usize]) -> Result<Tensor> {
    let strings = input.as_strings().map_err(|_| {
        Status::unimplemented(format!("RandomShuffle has no kernel for {} tensors", input.dtype()))
    })?;
    let per_row = strings.len() / order.len();
    let rows = order.iter().flat_map(|&row| strings[row * per_row..(row + 1) * per_row].iter().cloned());
    Tensor::from_strings(memory::collect(rows)?, input.shape())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestOp, test_op};
    use tensorfleet_core::DType;

    fn op(dtype: DType, value: Tensor) -> TestOp {
        test_op("RandomShuffle").attr("T", dtype).attr("seed", 5i64).attr("seed2", 2i64).input(value)
    }

    #[test]
    fn rows_come_in_tensorflows_order() {
        let value = Tensor::vector(&[0i32, 1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
        let runs = op(DType::Int32, value).run_times(2).unwrap();
        assert_eq!(runs[0][0].as_slice::<i32>().unwrap(), [4, 6, 0, 7, 5, 8, 3, 1, 2]);
        assert_eq!(runs[1][0].as_slice::<i32>().unwrap(), [7, 3, 2, 5, 6, 8, 4, 1, 0]);
        let pairs: Vec<i64> = (0..18).map(|i| i / 2).collect();
        let shuffled = op(DType::Int64, Tensor::from_slice(&pairs, &[9, 2]).unwrap()).run_one().unwrap();
        assert_eq!(shuffled.as_slice::<i64>().unwrap()[..6], [4, 4, 6, 6, 0, 0]);
        let words = Tensor::from_strings((0..9).map(|i| i.to_string().into()).collect(), &[9]).unwrap();
        let shuffled = op(DType::String, words).run_one().unwrap();
        assert_eq!(shuffled.as_strings().unwrap()[0], "4");
    }

    #[test]
    fn what_cannot_be_shuffled_passes_through() {
        for value in
            [Tensor::scalar(3i32), Tensor::vector::<i32>(&[]).unwrap(), Tensor::vector(&[1i32]).unwrap()]
        {
            assert_eq!(op(DType::Int32, value.clone()).run_one().unwrap(), value);
        }
    }
}
