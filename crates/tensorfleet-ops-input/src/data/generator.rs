//! `GeneratorDataset`: elements that a function gives, called again and again with the state that another made.

use std::sync::Arc;

use tensorfleet_core::{Code, Result};

use super::captured::{Captured, CapturedSpec};
use super::dataset::{Dataset, DatasetIterator, Element, ElementSpec, Nesting, kernel};
use super::functional::check_results;
use super::sequence::check_wanted;
use tensorfleet_kernel::cancellation::Cancellation;
use tensorfleet_kernel::functions::CallContext;
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::{Cost, Op};
use tensorfleet_kernel::shape_context::scalars;

/// The family's table.
pub(crate) static OPS: &[Op] = &[Op::new(
    "GeneratorDataset",
    "init_func_other_args: Tinit_func_args, next_func_other_args: Tnext_func_args, \
     finalize_func_other_args: Tfinalize_func_args -> handle: variant",
)
.attrs(
    "init_func: func; next_func: func; finalize_func: func; Tinit_func_args: list(type) >= 0; \
     Tnext_func_args: list(type) >= 0; Tfinalize_func_args: list(type) >= 0; output_types: list(type) >= 1; \
     output_shapes: list(shape) >= 1; metadata: string = ''",
)
.stateful()
.not_differentiable()
.cost(Cost::Trivial)
.shape(scalars)
.kernel(generator)];

struct Generator {
    spec: ElementSpec,
    init: Arc<Captured>,
    next: Arc<Captured>,
    finalize: Arc<Captured>,
}

fn generator(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let spec = ElementSpec::of(node)?;
    let init = CapturedSpec::bound_by(node, "init_func", 0, "Tinit_func_args")?;
    let next = CapturedSpec::bound_by(node, "next_func", init.end(), "Tnext_func_args")?;
    let finalize = CapturedSpec::bound_by(node, "finalize_func", next.end(), "Tfinalize_func_args")?;
    kernel(move |ctx| {
        let init = init.bind(ctx, &[])?;
        let state = init.results().to_vec();
        let next = next.bind(ctx, &state)?;
        check_results(&next, &spec.dtypes)?;
        let finalize = finalize.bind(ctx, &state)?;
        Ok(Arc::new(Generator { spec: spec.clone(), init, next, finalize }))
    })
}

impl Dataset for Generator {
    fn spec(&self) -> &ElementSpec {
        &self.spec
    }

    fn iterate(self: Arc<Self>, _: Nesting) -> Result<Box<dyn DatasetIterator>> {
        Ok(Box::new(Generating { dataset: self, walk: Walk::NotBegun }))
    }
}

enum Walk {
    NotBegun,
    /// With the state, and the context of the last call, for the end of a walk that nobody ends.
    Going(Element, CallContext),
    Ended,
}

struct Generating {
    dataset: Arc<Generator>,
    walk: Walk,
}

impl DatasetIterator for Generating {
    fn next(&mut self, ctx: &CallContext) -> Result<Option<Element>> {
        check_wanted(ctx)?;
        if let Walk::NotBegun = self.walk {
            self.walk = Walk::Going(self.dataset.init.call(ctx, Vec::new())?, ctx.clone());
        }
        let Walk::Going(state, last) = &mut self.walk else { return Ok(None) };
        *last = ctx.clone();
        match self.dataset.next.call(ctx, state.clone()) {
            Err(status) if status.code() == Code::OutOfRange => {
                let state = std::mem::take(state);
                self.walk = Walk::Ended;
                self.dataset.finalize.call(ctx, state)?;
                Ok(None)
            }
            given => given.map(Some),
        }
    }

    fn is_ready(&self) -> bool {
        false
    }
}

impl Drop for Generating {
    /// Ends a walk that stopped half-way, on a thread that may wait: whoever drops it may not.
    fn drop(&mut self) {
        let Walk::Going(state, mut ctx) = std::mem::replace(&mut self.walk, Walk::Ended) else { return };
        ctx.cancellation = Arc::new(Cancellation::new());
        let (finalize, threads) = (self.dataset.finalize.clone(), ctx.session.threads.clone());
        // What the function frees is freed with its process, if it cannot be called any more.
        let _ = threads.input().spawn(move || {
            let _ = finalize.call(&ctx, state);
        });
    }
}
