//! Kernels of element-wise ops: each runs the loop of an op over tensors of any shapes.

use tensorfleet_core::{Result, Status, Tensor};
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_numeric::broadcast::Broadcast;
use tensorfleet_numeric::elementwise::{
    BinaryLoop, BinaryOp, UnaryLoop, UnaryOp, apply_binary, apply_unary, apply_unary_to, binary_loop,
    unary_loop, zip_to_new,
};
use tensorfleet_numeric::stored::Stored;

/// The kernel of an op whose result has its operand's type.
pub(super) fn unary_kernel<S: Stored, F>() -> KernelBox
where
    F: UnaryOp<S::Compute, Out = S::Compute>,
{
    // The kernel itself knows the op as a function pointer only, and so is compiled once per dtype.
    fn kernel<S: Stored>(run: UnaryLoop<S::Compute, S::Compute>, cost: usize) -> KernelBox {
        KernelBox::from_fn(move |ctx| {
            let input = ctx.take_input(0)?;
            ctx.set_output(0, apply_unary::<S>(ctx.loops(), input, &run, cost)?);
            Ok(())
        })
    }
    kernel::<S>(unary_loop::<S::Compute, F>(), F::COST)
}

/// The kernel of an op whose result is of another type.
pub(super) fn unary_kernel_to<S: Stored, O: Stored, F>() -> KernelBox
where
    F: UnaryOp<S::Compute, Out = O::Compute>,
{
    fn kernel<S: Stored, O: Stored>(run: UnaryLoop<S::Compute, O::Compute>, cost: usize) -> KernelBox {
        KernelBox::from_fn(move |ctx| {
            let output = apply_unary_to::<S, O>(ctx.loops(), ctx.input(0)?, &run, cost)?;
            ctx.set_output(0, output);
            Ok(())
        })
    }
    kernel::<S, O>(unary_loop::<S::Compute, F>(), F::COST)
}

/// The kernel of an op whose result has its operands' type.
pub(super) fn binary_kernel<S: Stored, F>() -> KernelBox
where
    F: BinaryOp<S::Compute, Out = S::Compute>,
{
    fn kernel<S: Stored>(
        run: BinaryLoop<S::Compute, S::Compute>,
        cost: usize,
        check: Check<S::Compute>,
    ) -> KernelBox {
        KernelBox::from_fn(move |ctx| {
            let (a, b) = (ctx.take_input(0)?, ctx.take_input(1)?);
            check_second::<S>(&a, &b, check)?;
            ctx.set_output(0, apply_binary::<S>(ctx.loops(), a, b, &run, cost)?);
            Ok(())
        })
    }
    kernel::<S>(binary_loop::<S::Compute, F>(), F::COST, F::check)
}

/// The kernel of an op whose result is of another type.
pub(super) fn binary_kernel_to<S: Stored, O: Stored, F>() -> KernelBox
where
    F: BinaryOp<S::Compute, Out = O::Compute>,
{
    fn kernel<S: Stored, O: Stored>(run: BinaryLoop<S::Compute, O::Compute>, cost: usize) -> KernelBox {
        KernelBox::from_fn(move |ctx| {
            let (a, b) = (ctx.input(0)?, ctx.input(1)?);
            let broadcast = Broadcast::of_two(a.shape(), b.shape())?;
            let output = zip_to_new::<S, O>(ctx.loops(), &broadcast, a, b, &run, cost)?;
            ctx.set_output(0, output);
            Ok(())
        })
    }
    kernel::<S, O>(binary_loop::<S::Compute, F>(), F::COST)
}

/// See [`BinaryOp::check`].
type Check<T> = fn(&[T]) -> Result<()>;

/// Lets the op refuse second operands. Where the output is empty none is looked at.
fn check_second<S: Stored>(a: &Tensor, b: &Tensor, check: Check<S::Compute>) -> Result<()> {
    if a.num_elements() == 0 {
        return Ok(());
    }
    match S::as_compute(b.as_slice::<S>()?) {
        // A clash of shapes is reported as such, not as what their elements would give.
        Some(second) => check(second).or_else(|status: Status| {
            Broadcast::of_two(a.shape(), b.shape())?;
            Err(status)
        }),
        None => Ok(()),
    }
}
