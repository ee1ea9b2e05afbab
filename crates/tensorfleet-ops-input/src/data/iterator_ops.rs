//! Ops that make iterators, start them, and take elements from them.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use prost::Message;
use tensorfleet_core::{PartialShape, ResourceHandle, Result, Status, Tensor, Variant, VariantObject};
use tensorfleet_proto::tensorflow::{NameAttrList, ResourceHandleProto};
use tensorfleet_threads::Threads;

use super::dataset::{ElementSpec, from_tensor};
use super::iterator::IteratorResource;
use super::optional::{self, announced_shapes};
use tensorfleet_kernel::continuation::Resume;
use tensorfleet_kernel::functions::{CallContext, call_and_wait};
use tensorfleet_kernel::kernel::{
    AsyncContext, AsyncKernel, Done, KernelBox, StepContext, handle_in, tensor_outputs,
};
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::{Cost, Op};
use tensorfleet_kernel::resource::Resource;
use tensorfleet_kernel::shape_context::{ShapeContext, scalars};
use tensorfleet_ops_state::state::naming::Owner;

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    iterator_op("Iterator", "-> handle: resource").attrs(NAMED).shape(scalars).kernel(named),
    iterator_op("IteratorV2", "-> handle: resource").attrs(NAMED).shape(scalars).kernel(named),
    iterator_op("OneShotIterator", "-> handle: resource")
        .attrs(
            "dataset_factory: func; output_types: list(type) >= 1; output_shapes: list(shape) >= 1; \
             container: string = ''; shared_name: string = ''",
        )
        .shape(scalars)
        .kernel(one_shot),
    iterator_op("AnonymousIterator", "-> handle: resource").attrs(SPEC).shape(scalars).kernel(anonymous),
    iterator_op("AnonymousIteratorV2", "-> handle: resource, deleter: variant")
        .attrs(SPEC)
        .shape(scalars)
        .kernel(anonymous),
    iterator_op("AnonymousIteratorV3", "-> handle: resource").attrs(SPEC).shape(scalars).kernel(anonymous),
    iterator_op("DeleteIterator", "handle: resource, deleter: variant").shape(nothing).kernel(delete),
    iterator_op("MakeIterator", "dataset: variant, iterator: resource").shape(nothing).kernel(make_iterator),
    iterator_op("IteratorGetNext", "iterator: resource -> components: output_types")
        .attrs(SPEC)
        .shape(announced_shapes)
        .kernel(get_next),
    iterator_op("IteratorGetNextSync", "iterator: resource -> components: output_types")
        .attrs(SPEC)
        .shape(announced_shapes)
        .kernel(get_next),
    iterator_op("IteratorGetNextAsOptional", "iterator: resource -> optional: variant")
        .attrs(SPEC)
        .shape(scalars)
        .kernel(get_next_as_optional),
    iterator_op("IteratorToStringHandle", "resource_handle: resource -> string_handle: string")
        .shape(scalars)
        .kernel(to_string_handle),
    iterator_op("IteratorFromStringHandle", "string_handle: string -> resource_handle: resource")
        .attrs(OPTIONAL_SPEC)
        .shape(scalars)
        .kernel(from_string_handle),
    iterator_op("IteratorFromStringHandleV2", "string_handle: string -> resource_handle: resource")
        .attrs(OPTIONAL_SPEC)
        .shape(scalars)
        .kernel(from_string_handle),
];

const SPEC: &str = "output_types: list(type) >= 1; output_shapes: list(shape) >= 1";
const OPTIONAL_SPEC: &str = "output_types: list(type) >= 0 = []; output_shapes: list(shape) >= 0 = []";
const NAMED: &str =
    "shared_name: string; container: string; output_types: list(type) >= 1; output_shapes: list(shape) >= 1";

const fn iterator_op(name: &'static str, signature: &'static str) -> Op {
    Op::new(name, signature).stateful().not_differentiable().cost(Cost::Trivial)
}

fn nothing(_: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    Ok(Vec::new())
}

fn named(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let (spec, owner) = (ElementSpec::of(node)?, Owner::<IteratorResource>::new(node)?);
    Ok(KernelBox::from_fn(move |ctx| {
        let make = |_: &str| Ok(IteratorResource::new(Some(spec.clone())));
        let handle = owner.handle(ctx.step, make, |iterator| iterator.check(&spec))?;
        ctx.set_output(0, handle);
        Ok(())
    }))
}

/// What tells TensorFlow's eager runtime when to delete a resource; here the handle is enough.
pub(super) struct Deleter;

impl VariantObject for Deleter {
    fn type_name(&self) -> &str {
        "tensorflow::ResourceDeleter"
    }
}

/// An iterator that nobody else can name.
fn anonymous(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let (spec, name) = (ElementSpec::of(node)?, node.name().to_string());
    let has_deleter = node.outputs.len() == 2;
    Ok(KernelBox::from_fn(move |ctx| {
        let resources = &ctx.step.session.resources;
        let name = resources.private_name(&name);
        resources.get_or_create("", &name, || Ok(IteratorResource::new(Some(spec.clone()))))?;
        let container = resources.container("");
        let handle =
            ResourceHandle::new(&ctx.step.session.device, container, &name, IteratorResource::kind());
        ctx.set_output(0, Tensor::resource(handle));
        if has_deleter {
            ctx.set_output(1, Tensor::from_variants(vec![Variant::from_object(Deleter)], &[])?);
        }
        Ok(())
    }))
}

fn delete(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let handle = handle_in(ctx.input(0)?)?;
        ctx.step.session.resources.remove::<IteratorResource>(handle.container(), handle.name());
        Ok(())
    }))
}

/// Makes its dataset when it is first asked for, by a function, and walks along it once.
struct OneShot {
    factory: NameAttrList,
    spec: ElementSpec,
    owner: Owner<IteratorResource>,
    /// Set once the walk has begun; held while it is being begun.
    has_begun: Mutex<bool>,
}

fn one_shot(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let (factory, spec) = (node.attr("dataset_factory")?, ElementSpec::of(node)?);
    let one_shot = OneShot { factory, spec, owner: Owner::new(node)?, has_begun: Mutex::new(false) };
    Ok(KernelBox::new_async(OneShotKernel(Arc::new(one_shot))))
}

struct OneShotKernel(Arc<OneShot>);

impl OneShot {
    fn handle(&self, step: &StepContext) -> Result<Tensor> {
        let make = |_: &str| Ok(IteratorResource::new(Some(self.spec.clone())));
        self.owner.handle(step, make, |iterator| iterator.check(&self.spec))
    }

    fn begin(&self, step: &StepContext) -> Result<Tensor> {
        let mut has_begun = self.has_begun.lock();
        let handle = self.handle(step)?;
        if !*has_begun {
            let factory = step.functions.clone().instantiate(&self.factory)?;
            let results = call_and_wait(&*factory, &CallContext::of_step(step), Vec::new())?;
            let [dataset] = &results[..] else {
                return Err(Status::invalid_argument(
                    "The `dataset_factory` function must return a single scalar of dtype DT_VARIANT.",
                ));
            };
            let iterator: Arc<IteratorResource> = step.session.resources.lookup(&handle_in(&handle)?)?;
            iterator.begin(from_tensor(dataset)?)?;
            *has_begun = true;
        }
        Ok(handle)
    }
}

impl AsyncKernel for OneShotKernel {
    fn start(&self, ctx: AsyncContext, done: Done, resume: Resume<'_>) {
        if self.0.has_begun.try_lock().is_some_and(|has_begun| *has_begun) {
            return done(self.0.handle(&ctx.step).map(|handle| tensor_outputs([handle])), resume);
        }
        let one_shot = self.0.clone();
        let threads = ctx.step.session.threads.clone();
        on_waiting_thread(&threads, done, move || one_shot.begin(&ctx.step).map(|handle| vec![handle]));
    }
}

/// Computes outputs on a thread that may wait.
pub(super) fn on_waiting_thread(
    threads: &Threads,
    done: Done,
    compute: impl FnOnce() -> Result<Vec<Tensor>> + Send + 'static,
) {
    let done = Arc::new(Mutex::new(Some(done)));
    let later = done.clone();
    let job = move || {
        let result = compute();
        let done = later.lock().take();
        if let Some(done) = done {
            done(result.map(tensor_outputs), Resume::OnPool);
        }
    };
    if let Err(status) = threads.input().spawn(job)
        && let Some(done) = done.lock().take()
    {
        done(Err(status), Resume::OnPool);
    }
}

fn make_iterator(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let dataset = from_tensor(ctx.input(0)?)?;
        ctx.resource::<IteratorResource>(1)?.begin(dataset)
    }))
}

struct GetNext {
    spec: ElementSpec,
    as_optional: bool,
}

fn get_next(node: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::new_async(GetNext { spec: ElementSpec::of(node)?, as_optional: false }))
}

fn get_next_as_optional(node: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::new_async(GetNext { spec: ElementSpec::of(node)?, as_optional: true }))
}

impl AsyncKernel for GetNext {
    fn start(&self, ctx: AsyncContext, done: Done, resume: Resume<'_>) {
        let iterator = match ctx.resource::<IteratorResource>(0) {
            Ok(iterator) => iterator,
            Err(status) => return done(Err(status), resume),
        };
        let (spec, as_optional) = (self.spec.clone(), self.as_optional);
        let given = move |result: Result<Option<Vec<Tensor>>>| {
            let outputs = result.and_then(|element| {
                if let Some(element) = &element {
                    spec.check_element(element)?;
                }
                match (as_optional, element) {
                    (true, element) => Ok(vec![optional::to_tensor(element)?]),
                    (false, Some(element)) => Ok(element),
                    (false, None) => Err(Status::out_of_range("End of sequence")),
                }
            });
            // Called within `start`, or by a thread of the pipeline.
            done(outputs.map(tensor_outputs), Resume::OnPool);
        };
        iterator.next(CallContext::of_step(&ctx.step), Box::new(given));
    }
}

/// The handle as a string that clients feed back: the encoded message, as in TensorFlow.
fn to_string_handle(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let handle = handle_in(ctx.input(0)?)?;
        ctx.step.session.resources.lookup::<IteratorResource>(&handle)?;
        ctx.set_output(0, Tensor::string(Bytes::from(handle.to_proto().encode_to_vec())));
        Ok(())
    }))
}

fn from_string_handle(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let spec = ElementSpec::of(node)?;
    Ok(KernelBox::from_fn(move |ctx| {
        let text = ctx.input(0)?.to_string_scalar()?;
        let proto = ResourceHandleProto::decode(text.clone()).map_err(|_| {
            Status::invalid_argument("Could not parse string_handle as a valid ResourceHandle")
        })?;
        let handle = ResourceHandle::from_proto(&proto)?;
        if !handle.device().is_empty() && handle.device() != &*ctx.step.session.device {
            return Err(Status::invalid_argument(format!(
                "Attempted create an iterator on device \"{}\" from handle defined on device \"{}\"",
                ctx.step.session.device,
                handle.device()
            )));
        }
        let iterator = ctx.step.session.resources.lookup::<IteratorResource>(&handle)?;
        if !spec.dtypes.is_empty() {
            iterator.check(&spec)?;
        }
        ctx.set_output(0, Tensor::resource(handle));
        Ok(())
    }))
}
