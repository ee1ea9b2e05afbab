//! Ops that look at a whole dataset within a step.

use std::sync::Arc;

use tensorfleet_core::{DType, Result, Status, Tensor, ensure};

use super::captured::CapturedSpec;
use super::dataset::{ElementSpec, Nesting, from_tensor};
use super::functional::check_results;
use super::iterator_ops::on_waiting_thread;
use super::optional::announced_shapes;
use super::sequence::check_wanted;
use tensorfleet_kernel::continuation::Resume;
use tensorfleet_kernel::functions::CallContext;
use tensorfleet_kernel::kernel::{AsyncContext, AsyncKernel, Context, Done, KernelBox};
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::{Cost, Op};
use tensorfleet_kernel::shape_context::scalars;

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new(
        "ReduceDataset",
        "input_dataset: variant, initial_state: Tstate, other_arguments: Targuments -> components: output_types",
    )
    .attrs(
        "f: func; Tstate: list(type) >= 1; Targuments: list(type) >= 0; output_types: list(type) >= 1; \
         output_shapes: list(shape) >= 1; use_inter_op_parallelism: bool = true; metadata: string = ''",
    )
    .stateful()
    .not_differentiable()
    .shape(announced_shapes)
    .kernel(reduce),
    Op::new("DatasetToSingleElement", "dataset: variant -> components: output_types")
        .attrs("output_types: list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = ''")
        .stateful()
        .not_differentiable()
        .shape(announced_shapes)
        .kernel(single_element),
    Op::new("DatasetCardinality", "input_dataset: variant -> cardinality: int64")
        .attrs("cardinality_options: string = ''")
        .not_differentiable()
        .cost(Cost::Trivial)
        .shape(scalars)
        .kernel(cardinality),
];

struct Reduce {
    spec: ElementSpec,
    states: Vec<DType>,
    function: CapturedSpec,
}

fn reduce(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let states = node.attr::<Vec<DType>>("Tstate")?;
    let function = CapturedSpec::of(node, "f", 1 + states.len())?;
    Ok(KernelBox::new_async(Reduce { spec: ElementSpec::of(node)?, states, function }))
}

impl AsyncKernel for Reduce {
    fn start(&self, mut ctx: AsyncContext, done: Done, resume: Resume<'_>) {
        let prepared = (|| {
            let dataset = from_tensor(ctx.input(0)?)?;
            let arguments: Vec<DType> = self.states.iter().chain(&dataset.spec().dtypes).copied().collect();
            let state: Vec<Tensor> =
                (1..=self.states.len()).map(|index| ctx.input(index).cloned()).collect::<Result<_>>()?;
            let function = {
                let view = Context {
                    step: &ctx.step,
                    frame: ctx.frame,
                    inputs: &mut ctx.inputs,
                    outputs: &mut [],
                    is_input_dead: false,
                    resume,
                    loops: &ctx.step.loops,
                };
                self.function.bind(&view, &arguments)?
            };
            check_results(&function, &self.states)?;
            Ok((dataset, state, function))
        })();
        let (dataset, mut state, function) = match prepared {
            Ok(prepared) => prepared,
            Err(status) => return done(Err(status), resume),
        };
        let (step, spec, threads) = (ctx.step.clone(), self.spec.clone(), ctx.step.session.threads.clone());
        on_waiting_thread(&threads, done, move || {
            let context = CallContext::of_step(&step);
            let mut iterator = dataset.iterate(Nesting::default())?;
            loop {
                check_wanted(&context)?;
                let Some(element) = iterator.next(&context)? else { break };
                let mut arguments = state;
                arguments.extend(element);
                state = function.call(&context, arguments)?;
            }
            spec.check_element(&state)?;
            Ok(state)
        });
    }
}

struct SingleElement(Arc<ElementSpec>);

fn single_element(node: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::new_async(SingleElement(Arc::new(ElementSpec::of(node)?))))
}

impl AsyncKernel for SingleElement {
    fn start(&self, ctx: AsyncContext, done: Done, resume: Resume<'_>) {
        let dataset = match ctx.input(0).and_then(from_tensor) {
            Ok(dataset) => dataset,
            Err(status) => return done(Err(status), resume),
        };
        let (step, spec, threads) = (ctx.step.clone(), self.0.clone(), ctx.step.session.threads.clone());
        on_waiting_thread(&threads, done, move || {
            let context = CallContext::of_step(&step);
            let mut iterator = dataset.iterate(Nesting::default())?;
            let missing = || Status::invalid_argument("Dataset was empty.");
            let element = iterator.next(&context)?.ok_or_else(missing)?;
            ensure!(
                iterator.next(&context)?.is_none(),
                InvalidArgument,
                "Dataset had more than one element."
            );
            spec.check_element(&element)?;
            Ok(element)
        });
    }
}

fn cardinality(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let count = from_tensor(ctx.input(0)?)?.cardinality().number();
        ctx.set_output(0, Tensor::scalar(count));
        Ok(())
    }))
}
