//! `AddN`: the sum of tensors of one shape.
//!
//! Gradients that meet are added here, so it is hot: memory is gone through once, block by block, however many terms
//! there are, and an input that nobody else holds becomes the sum.

use tensorfleet_core::{DType, PartialShape, Result, Tensor, ensure};

use super::binary::Plus;
use crate::variants;
use tensorfleet_kernel::Work;
use tensorfleet_kernel::gradients::{Differential, Grads};
use tensorfleet_kernel::kernel::{Context, KernelBox};
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::ShapeContext;
use tensorfleet_numeric::broadcast::BLOCK;
use tensorfleet_numeric::dispatch;
use tensorfleet_numeric::elementwise::{BinaryLoop, binary_loop, cost};
use tensorfleet_numeric::number::Number;
use tensorfleet_numeric::stored::Stored;
use tensorfleet_threads::Loops;

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("AddN", "inputs: N * T -> sum: T").work(Work::Inputs)
        .attrs(
            "N: int >= 1; T: {float, double, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32, \
             bfloat16, qint16, quint16, uint16, complex128, half, uint32, uint64, variant}",
        )
        .shape(shape)
        .kernel(kernel)
        .gradient(gradient),
    Op::new("AccumulateNV2", "inputs: N * T -> sum: T").work(Work::Inputs)
        .attrs("N: int >= 1; T: number; shape: shape")
        .shape(shape)
        .kernel(kernel)
        .gradient(gradient),
];

/// Each term gets what arrives.
fn gradient(d: &mut Differential<'_>) -> Result<Grads> {
    Ok(vec![d.arriving(0); d.inputs().len()])
}

fn shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let mut merged = ctx.input(0).clone();
    for index in 1..ctx.num_inputs() {
        merged = merged.merge(ctx.input(index))?;
    }
    Ok(vec![merged])
}

fn kernel(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let name = node.name().to_string();
    if node.dtype()? == DType::Variant {
        return Ok(KernelBox::from_fn(move |ctx| {
            let mut sum = ctx.take_input(0)?;
            for index in 1..ctx.num_inputs() {
                sum = variants::add(sum, ctx.input(index)?)?;
            }
            ctx.set_output(0, sum);
            Ok(())
        }));
    }
    dispatch!(node.dtype()?, T in numeric => Ok(KernelBox::from_fn(move |ctx| {
        let sum = add_n::<T>(ctx, &name)?;
        ctx.set_output(0, sum);
        Ok(())
    })))
}

fn add_n<S: Stored<Compute: Number>>(ctx: &mut Context<'_>, node: &str) -> Result<Tensor> {
    let loops = ctx.loops();
    let mut terms = Vec::with_capacity(ctx.num_inputs());
    for index in 0..ctx.num_inputs() {
        terms.push(ctx.take_input(index)?);
    }
    for (index, term) in terms.iter().enumerate().skip(1) {
        ensure!(
            term.shape() == terms[0].shape(),
            InvalidArgument,
            "Inputs to operation {node} of type AddN must have the same size and shape.  Input 0: {} != input {index}: {}",
            terms[0].shape(),
            term.shape()
        );
    }
    if terms.len() == 1 {
        return Ok(terms.swap_remove(0));
    }
    // The sum takes over a term that nobody else holds; the order of addition stays that of the inputs, so that the
    // result does not depend on who holds what.
    let Some(own) = terms.iter_mut().position(Tensor::is_unique) else {
        let mut sum = Tensor::allocate(terms[0].dtype(), terms[0].shape().clone())?;
        let terms = terms.iter().map(|term| Ok(Some(term.as_slice::<S>()?))).collect::<Result<Vec<_>>>()?;
        add_all(loops, sum.make_mut::<S>()?, &terms);
        return Ok(sum);
    };
    let mut sum = terms.remove(own);
    let mut others = terms.iter().map(|term| Ok(Some(term.as_slice::<S>()?))).collect::<Result<Vec<_>>>()?;
    others.insert(own, None);
    add_all(loops, sum.make_mut::<S>()?, &others);
    Ok(sum)
}

/// Adds `terms` up into `sum`; the term that is `None` is what `sum` holds.
fn add_all<S: Stored<Compute: Number>>(loops: &Loops, sum: &mut [S], terms: &[Option<&[S]>]) {
    let run: BinaryLoop<S::Compute, S::Compute> = binary_loop::<S::Compute, Plus>();
    loops.chunks_mut(sum, BLOCK, cost::ARITHMETIC * BLOCK * terms.len(), |block, sum| {
        // Two totals take turns: a loop reads one and writes the other.
        let mut buffers = [[S::Compute::default(); BLOCK]; 2];
        let [mut total, mut next] = buffers.each_mut();
        let mut wide = [S::Compute::default(); BLOCK];
        for (index, sum) in sum.chunks_mut(BLOCK).enumerate() {
            let (start, len) = ((block + index) * BLOCK, sum.len());
            for (index, term) in terms.iter().enumerate() {
                let term = term.map_or(&*sum, |term| &term[start..start + len]);
                if index == 0 {
                    S::widen(term, &mut total[..len]);
                    continue;
                }
                let term = match S::as_compute(term) {
                    Some(direct) => direct,
                    None => {
                        S::widen(term, &mut wide[..len]);
                        &wide[..len]
                    }
                };
                run(&total[..len], term, &mut next[..len]);
                std::mem::swap(&mut total, &mut next);
            }
            S::narrow(&total[..len], sum);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestOp, test_op};

    fn run(terms: Vec<Tensor>) -> Result<Tensor> {
        let op = test_op("AddN").attr("N", terms.len() as i64).attr("T", terms[0].dtype());
        terms.into_iter().fold(op, TestOp::input).run_one()
    }

    #[test]
    fn any_number_of_terms_add_up_whoever_holds_them() {
        let terms: Vec<Tensor> =
            (1..=5).map(|i| Tensor::from_slice(&[i as f32; 1300], &[1300]).unwrap()).collect();
        for held in [0..0, 0..5, 0..2] {
            let _holders: Vec<Tensor> = terms[held].to_vec();
            let own = terms.iter().map(|term| term.deep_copy().unwrap()).collect();
            assert!(run(own).unwrap().as_slice::<f32>().unwrap().iter().all(|&sum| sum == 15.0));
        }
        let shared = run(terms.clone()).unwrap();
        assert!(shared.as_slice::<f32>().unwrap().iter().all(|&sum| sum == 15.0));
        assert_eq!(terms[0].as_slice::<f32>().unwrap()[0], 1.0);
        let mixed = vec![terms[0].clone(), terms[1].deep_copy().unwrap(), terms[2].clone()];
        assert!(run(mixed).unwrap().as_slice::<f32>().unwrap().iter().all(|&sum| sum == 6.0));
    }

    #[test]
    fn one_term_is_the_sum_and_shapes_must_be_equal() {
        assert_eq!(run(vec![Tensor::scalar(3i32)]).unwrap().to_scalar::<i32>(), Ok(3));
        let status = run(vec![Tensor::scalar(3i32), Tensor::vector(&[1i32]).unwrap()]).unwrap_err();
        assert!(status.text().contains("must have the same size and shape.  Input 0: [] != input 1: [1]"));
    }
}
