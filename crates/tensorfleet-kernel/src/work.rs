//! [`Work`]: what tells how much work a node is, before it runs.
//!
//! Threads that serve sockets run nodes that are known to be short, and no others: to hand a small node to another thread takes
//! longer than the node, but one that takes a minute there would keep a task from answering anybody. How long a node takes
//! follows, for most ops, from the size of its inputs. For others a handful of bytes says how large the result becomes
//! (`Fill`, `Range`, `Tile`); for some nothing tells before it is over (a regular expression, an image). Each op says which of
//! them it is; one that says nothing is of the last kind.

use tensorfleet_core::{DType, Tensor};

/// What tells how much work a node is.
#[derive(Clone, Copy, Debug, Default)]
pub enum Work {
    /// Nothing: it may depend on what is in strings, on attributes, on the contents of a resource.
    #[default]
    Unknown,
    /// The size of its inputs. Of a linear op, no output is much larger than all inputs; of a [heavy](crate::op::Cost::Heavy) one, none is
    /// larger than the product of two of them.
    Inputs,
    /// The size of the shape that all inputs are stretched to.
    Broadcast,
    /// What is in its inputs: the function gives the number of elements of the result, or `None` if it cannot tell.
    Values(ElementsFn),
    /// The size of its inputs, times something that the node does not see, such as the length of a variable's rows: the time that
    /// it took before tells.
    Measured,
}

/// Gives the number of elements that the result for these inputs has at most.
pub type ElementsFn = fn(&dyn NodeInputs) -> Option<usize>;

/// The inputs of a node that has not run yet.
pub trait NodeInputs {
    /// How many there are.
    fn count(&self) -> usize;

    /// Input `index`, if it is a tensor.
    fn tensor(&self, index: usize) -> Option<&Tensor>;
}

/// The number of elements of a tensor whose shape is the value of input `INPUT`.
pub fn elements_of_shape<const INPUT: usize>(inputs: &dyn NodeInputs) -> Option<usize> {
    product(inputs.tensor(INPUT)?)
}

/// The number that input `index` is.
pub fn number_in(inputs: &dyn NodeInputs, index: usize) -> Option<f64> {
    let tensor = inputs.tensor(index)?;
    match tensor.dtype() {
        DType::Float => tensor.as_slice::<f32>().ok()?.first().map(|&number| number.into()),
        DType::Double => tensor.as_slice::<f64>().ok()?.first().copied(),
        _ => integers_in(tensor)?.next().map(|number| number as f64),
    }
}

/// The integers that a tensor is made of; `None` if it is made of something else.
pub fn integers_in(tensor: &Tensor) -> Option<impl Iterator<Item = i64> + '_> {
    let (narrow, wide): (&[i32], &[i64]) = match tensor.dtype() {
        DType::Int32 => (tensor.as_slice().ok()?, &[]),
        DType::Int64 => (&[], tensor.as_slice().ok()?),
        _ => return None,
    };
    Some(narrow.iter().map(|&number| number.into()).chain(wide.iter().copied()))
}

/// The product of a tensor's integers, without those that are negative: a kernel refuses them.
pub fn product(tensor: &Tensor) -> Option<usize> {
    Some(
        integers_in(tensor)?
            .fold(1, |product: usize, number| product.saturating_mul(usize::try_from(number).unwrap_or(0))),
    )
}

/// The number of elements of the shape that all inputs are stretched to.
pub fn broadcast(inputs: &dyn NodeInputs) -> Option<usize> {
    let shapes = || (0..inputs.count()).filter_map(|index| Some(inputs.tensor(index)?.shape().dims()));
    let rank = shapes().map(<[usize]>::len).max()?;
    let longest = |from_end: usize| {
        shapes().filter_map(|dims| dims.len().checked_sub(from_end).map(|axis| dims[axis])).max().unwrap_or(1)
    };
    Some((1..=rank).map(longest).fold(1, usize::saturating_mul))
}

#[cfg(test)]
mod tests {
    use super::*;

    impl NodeInputs for Vec<Tensor> {
        fn count(&self) -> usize {
            self.len()
        }

        fn tensor(&self, index: usize) -> Option<&Tensor> {
            self.get(index)
        }
    }

    #[test]
    fn a_shape_tells_of_its_elements_and_never_of_too_few() {
        let elements = |shape: Tensor| elements_of_shape::<0>(&vec![shape]);
        assert_eq!(elements(Tensor::vector(&[1000i32, 64]).unwrap()), Some(64_000));
        assert_eq!(elements(Tensor::vector(&[1i64 << 40, 1 << 40]).unwrap()), Some(usize::MAX));
        assert_eq!(elements(Tensor::vector(&[-1i32, 5]).unwrap()), Some(0));
        assert_eq!(elements(Tensor::vector(&[1.5f32]).unwrap()), None);
    }

    #[test]
    fn small_inputs_may_be_stretched_to_a_large_shape() {
        let ones = |dims: &[usize]| Tensor::from_slice(&vec![1f32; dims.iter().product()], dims).unwrap();
        let stretched =
            |dims: &[&[usize]]| broadcast(&dims.iter().map(|dims| ones(dims)).collect::<Vec<_>>());
        assert_eq!(stretched(&[&[30, 1], &[40]]), Some(1200));
        assert_eq!(stretched(&[&[], &[2, 3], &[3]]), Some(6));
        assert_eq!(stretched(&[]), None);
    }
}
