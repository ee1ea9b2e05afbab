//! [`Captured`]: a function with the values it takes besides elements.

use std::sync::Arc;

use tensorfleet_core::{DType, Result, Tensor, ensure};
use tensorfleet_proto::tensorflow::NameAttrList;

use super::dataset::Element;
use tensorfleet_kernel::functions::{CallContext, Function, OnReturn, call_and_wait};
use tensorfleet_kernel::kernel::Context;
use tensorfleet_kernel::node_spec::NodeSpec;

/// A function whose last arguments are bound.
pub(super) struct Captured {
    function: Arc<dyn Function>,
    values: Vec<Tensor>,
}

/// How a node names its function and where the bound values stand among its inputs.
pub(super) struct CapturedSpec {
    function: NameAttrList,
    first: usize,
    count: usize,
}

impl CapturedSpec {
    /// The function in attribute `attr`, bound to the inputs from `first` on, as many as `Targuments` says.
    pub(super) fn of(node: &NodeSpec<'_>, attr: &str, first: usize) -> Result<CapturedSpec> {
        CapturedSpec::bound_by(node, attr, first, "Targuments")
    }

    /// The same, with the attribute that says how many inputs are bound.
    pub(super) fn bound_by(
        node: &NodeSpec<'_>,
        attr: &str,
        first: usize,
        types: &str,
    ) -> Result<CapturedSpec> {
        let count = node.attr::<Vec<DType>>(types)?.len();
        Ok(CapturedSpec { function: node.attr(attr)?, first, count })
    }

    /// Where the inputs after the bound values begin.
    pub(super) fn end(&self) -> usize {
        self.first + self.count
    }

    /// The function, for elements of these dtypes.
    pub(super) fn bind(&self, ctx: &Context<'_>, element: &[DType]) -> Result<Arc<Captured>> {
        let function = ctx.step.functions.clone().instantiate(&self.function)?;
        let values: Vec<Tensor> =
            (self.first..self.end()).map(|index| ctx.input(index).cloned()).collect::<Result<_>>()?;
        let given = element.iter().copied().chain(values.iter().map(Tensor::dtype));
        ensure!(
            given.eq(function.arguments().iter().copied()),
            InvalidArgument,
            "function '{}' takes {} arguments, and elements and captured values are {}, of these types or others",
            self.function.name,
            function.arguments().len(),
            element.len() + values.len()
        );
        Ok(Arc::new(Captured { function, values }))
    }
}

impl Captured {
    /// The dtypes of its results.
    pub(super) fn results(&self) -> &[DType] {
        self.function.results()
    }

    fn arguments(&self, mut element: Element) -> Vec<Tensor> {
        element.extend(self.values.iter().cloned());
        element
    }

    /// Calls it and waits for the results.
    pub(super) fn call(&self, ctx: &CallContext, element: Element) -> Result<Element> {
        call_and_wait(&*self.function, ctx, self.arguments(element))
    }

    /// Calls it on another thread.
    pub(super) fn call_elsewhere(&self, ctx: &CallContext, element: Element, done: OnReturn) {
        self.function.call_elsewhere(ctx, self.arguments(element), done);
    }
}
