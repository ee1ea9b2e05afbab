//! Stacks: where the forward pass of a loop leaves values for its gradient. They live as long as the step.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tensorfleet_core::memory::Kept;
use tensorfleet_core::{DType, ResourceHandle, Result, Status, Tensor, ensure};

use super::naming::{handle_shape, no_outputs};
use tensorfleet_kernel::kernel::{Context, KernelBox, handle_in};
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::{Cost, Op};
use tensorfleet_kernel::resource::Resource;
use tensorfleet_kernel::shape_context::{ShapeContext, unknown};

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("Stack", "-> handle: Ref(string)")
        .not_differentiable()
        .attrs("elem_type: type; stack_name: string = ''")
        .stateful()
        .shape(handle_shape)
        .kernel(make)
        .cost(Cost::Trivial),
    Op::new("StackV2", "max_size: int32 -> handle: resource")
        .attrs("elem_type: type; stack_name: string = ''")
        .stateful()
        .shape(handle_shape)
        .kernel(make)
        .cost(Cost::Trivial),
    Op::new("StackPush", "handle: Ref(string), elem: T -> output: T")
        .not_differentiable()
        .attrs("T: type; swap_memory: bool = false")
        .shape(pushed_shape)
        .kernel(push)
        .cost(Cost::Trivial),
    Op::new("StackPushV2", "handle: resource, elem: T -> output: T")
        .attrs("T: type; swap_memory: bool = false")
        .stateful()
        .shape(pushed_shape)
        .kernel(push)
        .cost(Cost::Trivial),
    Op::new("StackPop", "handle: Ref(string) -> elem: elem_type")
        .not_differentiable()
        .attrs("elem_type: type")
        .shape(unknown)
        .kernel(pop)
        .cost(Cost::Trivial),
    Op::new("StackPopV2", "handle: resource -> elem: elem_type")
        .attrs("elem_type: type")
        .stateful()
        .shape(unknown)
        .kernel(pop)
        .cost(Cost::Trivial),
    Op::new("StackClose", "handle: Ref(string)")
        .not_differentiable()
        .shape(no_outputs)
        .kernel(close)
        .cost(Cost::Trivial),
    Op::new("StackCloseV2", "handle: resource")
        .stateful()
        .shape(no_outputs)
        .kernel(close)
        .cost(Cost::Trivial),
];

/// Where stacks live among a step's resources.
const CONTAINER: &str = "stacks";

/// A stack of tensors; `None` once it is closed.
struct Stack {
    name: String,
    /// Negative means unbounded.
    max_size: i32,
    elements: Mutex<Option<Elements>>,
}

#[derive(Default)]
struct Elements {
    tensors: Vec<Tensor>,
    kept: Kept,
}

impl Resource for Stack {
    fn kind() -> &'static str {
        "N10tensorflow5StackE"
    }
}

impl Stack {
    fn with<R>(&self, change: impl FnOnce(&mut Elements) -> Result<R>) -> Result<R> {
        match &mut *self.elements.lock() {
            Some(elements) => change(elements),
            None => Err(Status::invalid_argument(format!("Stack[{}] has already been closed.", self.name))),
        }
    }

    fn push(&self, element: Tensor) -> Result<()> {
        self.with(|elements| {
            let is_full =
                usize::try_from(self.max_size).is_ok_and(|max_size| elements.tensors.len() >= max_size);
            ensure!(
                !is_full,
                InvalidArgument,
                "Stack[{}] overflowed its max_size ({})",
                self.name,
                self.max_size
            );
            elements.kept.add(element.kept_bytes())?;
            elements.tensors.push(element);
            Ok(())
        })
    }

    fn pop(&self) -> Result<Tensor> {
        self.with(|elements| {
            let element = elements.tensors.pop().ok_or_else(|| {
                Status::invalid_argument(format!("Stack[{}] is empty when calling Pop().", self.name))
            })?;
            elements.kept.remove(element.kept_bytes());
            Ok(element)
        })
    }
}

fn pushed_shape(ctx: &ShapeContext<'_>) -> Result<Vec<tensorfleet_core::PartialShape>> {
    Ok(vec![ctx.input(1).clone()])
}

/// Every run makes a new stack.
fn make(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let stack_name: String = node.attr("stack_name")?;
    let base = if stack_name.is_empty() { node.name().to_string() } else { stack_name };
    let as_strings = node.output_dtype(0)? == DType::String;
    Ok(KernelBox::from_fn(move |ctx| {
        let max_size = if as_strings { -1 } else { ctx.input(0)?.to_scalar()? };
        let resources = &ctx.step.step_resources;
        let name = resources.private_name(&base);
        let stack = Stack { name: name.clone(), max_size, elements: Mutex::new(Some(Elements::default())) };
        resources.get_or_create(CONTAINER, &name, || Ok(stack))?;
        let handle = if as_strings {
            Tensor::from_strings(vec![Bytes::from(CONTAINER), Bytes::from(name)], &[2])?
        } else {
            Tensor::resource(ResourceHandle::new(&ctx.step.session.device, CONTAINER, &name, Stack::kind()))
        };
        ctx.set_output(0, handle);
        Ok(())
    }))
}

fn stack_in(ctx: &Context<'_>) -> Result<Arc<Stack>> {
    ctx.step.step_resources.lookup::<Stack>(&handle_in(ctx.input(0)?)?)
}

fn push(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        stack_in(ctx)?.push(ctx.input(1)?.clone())?;
        ctx.forward(1, 0);
        Ok(())
    }))
}

fn pop(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let dtype = node.output_dtype(0)?;
    Ok(KernelBox::from_fn(move |ctx| {
        let element = stack_in(ctx)?.pop()?;
        ensure!(
            element.dtype() == dtype,
            InvalidArgument,
            "a {} was pushed where a {dtype} is popped",
            element.dtype()
        );
        ctx.set_output(0, element);
        Ok(())
    }))
}

fn close(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        stack_in(ctx)?.elements.lock().take();
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{test_op, test_step};

    #[test]
    fn what_is_pushed_last_is_popped_first_until_the_stack_is_closed() {
        let step = test_step();
        for version in ["", "V2"] {
            let op = |name: &str| test_op(&format!("Stack{name}{version}")).in_step(&step);
            let mut make = op("").attr("elem_type", DType::Float).attr("stack_name", "s");
            if version == "V2" {
                make = make.input(Tensor::scalar(2i32));
            }
            let handle = make.run_one().unwrap();
            let push = |value: f32| {
                let op =
                    op("Push").attr("T", DType::Float).input(handle.clone()).input(Tensor::scalar(value));
                op.run_one()
            };
            let pop = || op("Pop").attr("elem_type", DType::Float).input(handle.clone()).run_one();
            assert_eq!(push(1.0).unwrap().to_scalar::<f32>(), Ok(1.0));
            push(2.0).unwrap();
            assert_eq!(push(3.0).is_ok(), version.is_empty(), "only the second form has a bound");
            if version.is_empty() {
                pop().unwrap();
            }
            assert_eq!(pop().unwrap().to_scalar::<f32>(), Ok(2.0));
            assert_eq!(pop().unwrap().to_scalar::<f32>(), Ok(1.0));
            assert!(pop().unwrap_err().text().contains("is empty when calling Pop()"));
            op("Close").input(handle.clone()).run().unwrap();
            assert!(push(1.0).unwrap_err().text().contains("has already been closed"));
        }
    }
}
