//! The queue ops: each in its first form, whose handle is two strings, and in its second, with a resource handle.

use std::sync::Arc;

use tensorfleet_core::{DType, PartialShape, Result, Status, Tensor, ensure};

use super::spec::{Kind, QueueSpec};
use super::tokens::TokenUse;
use super::{Amount, OnEnqueued, Queue, Taker, Tuple};
use crate::state::naming::{Owner, handle_shape, no_outputs, own_attr};
use tensorfleet_kernel::Work;
use tensorfleet_kernel::cancellation::Cancellation;
use tensorfleet_kernel::continuation::Resume;
use tensorfleet_kernel::kernel::{AsyncContext, AsyncKernel, Done, KernelBox, Outputs, tensor_outputs};
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::{Cost, Op};
use tensorfleet_kernel::shape_context::{ShapeContext, scalars, unknown};

/// How a node of synchronous training uses its queue of tokens.
const TOKENS: &str = "_tensorfleet_tokens";

const FIFO_ATTRS: &str = "component_types: list(type) >= 1; shapes: list(shape) >= 0 = []; capacity: int = -1; \
                          container: string = ''; shared_name: string = ''";
const SHUFFLE_ATTRS: &str = "component_types: list(type) >= 1; shapes: list(shape) >= 0 = []; capacity: int = -1; \
                             min_after_dequeue: int = 0; seed: int = 0; seed2: int = 0; container: string = ''; \
                             shared_name: string = ''";
const PRIORITY_ATTRS: &str = "component_types: list(type) >= 0 = []; shapes: list(shape) >= 0; \
                              capacity: int = -1; container: string = ''; shared_name: string = ''";
const ENQUEUE_ATTRS: &str = "Tcomponents: list(type) >= 1; timeout_ms: int = -1";
const DEQUEUE_ATTRS: &str = "component_types: list(type) >= 1; timeout_ms: int = -1";
const CLOSE_ATTRS: &str = "cancel_pending_enqueues: bool = false";

/// An op that makes a queue.
const fn maker(name: &'static str, signature: &'static str, attrs: &'static str) -> Op {
    Op::new(name, signature).attrs(attrs).stateful().shape(handle_shape).cost(Cost::Trivial)
}

const STRINGS: &str = "-> handle: Ref(string)";
const RESOURCE: &str = "-> handle: resource";

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    maker("FIFOQueue", STRINGS, FIFO_ATTRS).kernel(|node| make(node, Kind::Fifo)),
    maker("FIFOQueueV2", RESOURCE, FIFO_ATTRS).kernel(|node| make(node, Kind::Fifo)),
    maker("PaddingFIFOQueue", STRINGS, FIFO_ATTRS).kernel(|node| make(node, Kind::PaddingFifo)),
    maker("PaddingFIFOQueueV2", RESOURCE, FIFO_ATTRS).kernel(|node| make(node, Kind::PaddingFifo)),
    maker("RandomShuffleQueue", STRINGS, SHUFFLE_ATTRS).kernel(|node| make(node, Kind::RandomShuffle)),
    maker("RandomShuffleQueueV2", RESOURCE, SHUFFLE_ATTRS).kernel(|node| make(node, Kind::RandomShuffle)),
    maker("PriorityQueue", STRINGS, PRIORITY_ATTRS).kernel(|node| make(node, Kind::Priority)),
    maker("PriorityQueueV2", RESOURCE, PRIORITY_ATTRS).kernel(|node| make(node, Kind::Priority)),
    enqueue_op("QueueEnqueue", "handle: Ref(string), components: Tcomponents")
        .not_differentiable()
        .kernel(enqueue),
    enqueue_op("QueueEnqueueV2", "handle: resource, components: Tcomponents").stateful().kernel(enqueue),
    enqueue_op("QueueEnqueueMany", "handle: Ref(string), components: Tcomponents")
        .not_differentiable()
        .kernel(enqueue_many),
    enqueue_op("QueueEnqueueManyV2", "handle: resource, components: Tcomponents")
        .stateful()
        .kernel(enqueue_many),
    Op::new("QueueDequeue", "handle: Ref(string) -> components: component_types")
        .work(Work::Inputs)
        .not_differentiable()
        .attrs(DEQUEUE_ATTRS)
        .shape(unknown)
        .kernel(dequeue),
    Op::new("QueueDequeueV2", "handle: resource -> components: component_types")
        .work(Work::Inputs)
        .attrs(DEQUEUE_ATTRS)
        .stateful()
        .shape(unknown)
        .kernel(dequeue),
    batch_op("QueueDequeueMany", "handle: Ref(string), n: int32 -> components: component_types")
        .not_differentiable()
        .kernel(|node| dequeue_batch(node, "DequeueManyOp", false)),
    batch_op("QueueDequeueManyV2", "handle: resource, n: int32 -> components: component_types")
        .stateful()
        .kernel(|node| dequeue_batch(node, "DequeueManyOp", false)),
    batch_op("QueueDequeueUpTo", "handle: Ref(string), n: int32 -> components: component_types")
        .not_differentiable()
        .kernel(|node| dequeue_batch(node, "DequeueUpToOp", true)),
    batch_op("QueueDequeueUpToV2", "handle: resource, n: int32 -> components: component_types")
        .stateful()
        .kernel(|node| dequeue_batch(node, "DequeueUpToOp", true)),
    Op::new("QueueClose", "handle: Ref(string)")
        .work(Work::Inputs)
        .not_differentiable()
        .attrs(CLOSE_ATTRS)
        .shape(no_outputs)
        .kernel(close),
    Op::new("QueueCloseV2", "handle: resource")
        .work(Work::Inputs)
        .attrs(CLOSE_ATTRS)
        .stateful()
        .shape(no_outputs)
        .kernel(close),
    Op::new("QueueSize", "handle: Ref(string) -> size: int32")
        .work(Work::Inputs)
        .not_differentiable()
        .shape(scalars)
        .kernel(size),
    Op::new("QueueSizeV2", "handle: resource -> size: int32")
        .work(Work::Inputs)
        .stateful()
        .shape(scalars)
        .kernel(size),
    Op::new("QueueIsClosed", "handle: Ref(string) -> is_closed: bool")
        .work(Work::Inputs)
        .shape(scalars)
        .kernel(is_closed),
    Op::new("QueueIsClosedV2", "handle: resource -> is_closed: bool")
        .work(Work::Inputs)
        .stateful()
        .shape(scalars)
        .kernel(is_closed),
];

const fn enqueue_op(name: &'static str, signature: &'static str) -> Op {
    Op::new(name, signature).work(Work::Inputs).attrs(ENQUEUE_ATTRS).shape(no_outputs)
}

const fn batch_op(name: &'static str, signature: &'static str) -> Op {
    Op::new(name, signature).attrs(DEQUEUE_ATTRS).shape(dequeue_batch_shape)
}

fn dequeue_batch_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    ctx.input_with_rank(1, 0)?;
    unknown(ctx)
}

fn make(node: &NodeSpec<'_>, kind: Kind) -> Result<KernelBox> {
    let owner = Owner::<Queue>::new(node)?;
    let spec = QueueSpec::from_node(node, kind)?;
    let op = node.op().name;
    Ok(KernelBox::from_fn(move |ctx| {
        let handle = owner.handle(
            ctx.step,
            |name| Queue::new(name, spec.clone()),
            |queue| queue.check_same(&spec, op),
        )?;
        ctx.set_output(0, handle);
        Ok(())
    }))
}

/// What a node asks of its queue.
enum Request {
    Enqueue(Tuple),
    EnqueueMany(Tuple),
    Begin(Tuple),
    Round(Tuple),
    Dequeue(Taker),
    DequeueBatch(Amount),
    Close { cancel_pending: bool },
}

/// A kernel that looks its queue up, makes a request of its inputs, and leaves the rest to the queue.
struct QueueKernel<F>(F);

impl<F> AsyncKernel for QueueKernel<F>
where
    F: Fn(&Queue, &mut AsyncContext) -> Result<Request> + Send + Sync + 'static,
{
    fn start(&self, mut ctx: AsyncContext, done: Done, resume: Resume<'_>) {
        let prepared = ctx.resource::<Queue>(0).and_then(|queue| {
            let request = (self.0)(&queue, &mut ctx)?;
            Ok((queue, request))
        });
        match prepared {
            Ok((queue, Request::Begin(batch))) => {
                let epoch = ctx.step.session.resources.begin_anew();
                done(queue.begin(&batch, epoch, resume).map(|()| Outputs::new()), resume);
            }
            Ok((queue, request)) => submit(&queue, request, &ctx.step.cancellation, done, resume),
            Err(status) => done(Err(status), resume),
        }
    }
}

fn queue_kernel(
    request: impl Fn(&Queue, &mut AsyncContext) -> Result<Request> + Send + Sync + 'static,
) -> Result<KernelBox> {
    Ok(KernelBox::new_async(QueueKernel(request)))
}

fn submit(
    queue: &Arc<Queue>,
    request: Request,
    cancellation: &Arc<Cancellation>,
    done: Done,
    resume: Resume<'_>,
) {
    match request {
        Request::Enqueue(tuple) => queue.enqueue(tuple, cancellation, without_outputs(done), resume),
        Request::EnqueueMany(batch) => {
            queue.enqueue_many(&batch, cancellation, without_outputs(done), resume);
        }
        Request::Round(batch) => queue.enqueue_round(&batch, cancellation, without_outputs(done), resume),
        // Needs more of its step than its cancellation, and is done where that is at hand.
        Request::Begin(_) => done(Err(Status::internal("a queue is begun by its kernel")), resume),
        Request::Close { cancel_pending } => {
            queue.close(cancel_pending, cancellation, without_outputs(done), resume);
        }
        Request::Dequeue(taker) => {
            let dequeued = |result: Result<Vec<Tuple>>, resume: Resume<'_>| {
                done(result.map(|elements| tensor_outputs(elements.into_iter().flatten())), resume);
            };
            let one = Amount { count: 1, or_fewer: false };
            queue.dequeue_for(Some(taker), one, cancellation, Box::new(dequeued), resume);
        }
        Request::DequeueBatch(amount) => {
            let from = queue.clone();
            let dequeued = move |result: Result<Vec<Tuple>>, resume: Resume<'_>| {
                let batch = result.and_then(|elements| from.spec().batch(&elements));
                done(batch.map(tensor_outputs), resume);
            };
            queue.dequeue(amount, cancellation, Box::new(dequeued), resume);
        }
    }
}

fn without_outputs(done: Done) -> OnEnqueued {
    Box::new(move |result, resume| done(result.map(|()| Outputs::new()), resume))
}

fn check_timeout(node: &NodeSpec<'_>) -> Result<()> {
    ensure!(node.attr::<i64>("timeout_ms")? == -1, InvalidArgument, "Timeout not supported yet.");
    Ok(())
}

fn token_use(node: &NodeSpec<'_>) -> Result<TokenUse> {
    TokenUse::parse(&own_attr::<String>(node, TOKENS)?)
}

fn components(ctx: &mut AsyncContext) -> Result<Tuple> {
    (1..ctx.inputs.len()).map(|index| ctx.take_input(index)?.kept()).collect()
}

fn enqueue(node: &NodeSpec<'_>) -> Result<KernelBox> {
    check_timeout(node)?;
    queue_kernel(|_, ctx| Ok(Request::Enqueue(components(ctx)?)))
}

fn enqueue_many(node: &NodeSpec<'_>) -> Result<KernelBox> {
    check_timeout(node)?;
    let token_use = token_use(node)?;
    queue_kernel(move |_, ctx| {
        let batch = components(ctx)?;
        Ok(match token_use {
            TokenUse::Begin => Request::Begin(batch),
            TokenUse::Round => Request::Round(batch),
            TokenUse::Plain | TokenUse::Member => Request::EnqueueMany(batch),
        })
    })
}

fn dequeue(node: &NodeSpec<'_>) -> Result<KernelBox> {
    check_timeout(node)?;
    let types: Vec<DType> = node.attr("component_types")?;
    let token_use = token_use(node)?;
    queue_kernel(move |queue, ctx| {
        queue.spec().check_components(&types)?;
        let (origin, epoch) = (ctx.step.session.origin.clone(), ctx.step.epoch);
        Ok(Request::Dequeue(Taker { origin, epoch, token_use }))
    })
}

fn dequeue_batch(node: &NodeSpec<'_>, title: &'static str, or_fewer: bool) -> Result<KernelBox> {
    check_timeout(node)?;
    let types: Vec<DType> = node.attr("component_types")?;
    queue_kernel(move |queue, ctx| {
        queue.spec().check_components(&types)?;
        queue.spec().check_batchable()?;
        Ok(Request::DequeueBatch(Amount { count: requested(ctx.input(1)?, title)?, or_fewer }))
    })
}

fn requested(n: &Tensor, title: &str) -> Result<usize> {
    let n: i32 = n.to_scalar()?;
    ensure!(n >= 0, InvalidArgument, "{title} requested {n} < 0 elements");
    Ok(n as usize)
}

fn close(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let cancel_pending: bool = node.attr("cancel_pending_enqueues")?;
    queue_kernel(move |_, _| Ok(Request::Close { cancel_pending }))
}

fn size(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let size = ctx.resource::<Queue>(0)?.size();
        ctx.set_output(0, Tensor::scalar(i32::try_from(size).unwrap_or(i32::MAX)));
        Ok(())
    }))
}

fn is_closed(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let closed = ctx.resource::<Queue>(0)?.is_closed();
        ctx.set_output(0, Tensor::scalar(closed));
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestOp, test_op, test_step};
    use tensorfleet_core::Code;
    use tensorfleet_kernel::kernel::StepContext;

    fn make(step: &Arc<StepContext>, op: &str, shared_name: &str, capacity: i64) -> Result<Tensor> {
        let op = test_op(op).attr("component_types", vec![DType::Int32, DType::Float]);
        let op = op.attr("shapes", vec![PartialShape::scalar(), PartialShape::vector(Some(2))]);
        op.attr("capacity", capacity).attr("shared_name", shared_name).in_step(step).run_one()
    }

    fn types() -> Vec<DType> {
        vec![DType::Int32, DType::Float]
    }

    #[test]
    fn the_two_forms_of_handles_lead_to_one_queue() {
        let step = test_step();
        let strings = make(&step, "FIFOQueue", "q", 5).unwrap();
        let resource = make(&step, "FIFOQueueV2", "q", 5).unwrap();
        assert_eq!(strings.as_strings().unwrap(), ["localhost", "q"]);
        let op = |name: &str, handle: &Tensor| test_op(name).in_step(&step).input(handle.clone());
        let batch =
            [Tensor::vector(&[1i32, 2, 3]).unwrap(), Tensor::from_slice(&[0.5f32; 6], &[3, 2]).unwrap()];
        let enqueue = op("QueueEnqueueMany", &strings).attr("Tcomponents", types());
        batch.into_iter().fold(enqueue, TestOp::input).run().unwrap();
        assert_eq!(op("QueueSizeV2", &resource).run_one().unwrap().to_scalar::<i32>(), Ok(3));
        let dequeue = op("QueueDequeueManyV2", &resource).attr("component_types", types());
        let out = dequeue.input(Tensor::scalar(2i32)).run().unwrap();
        assert_eq!((out[0].as_slice::<i32>().unwrap(), out[1].shape().dims()), (&[1, 2][..], &[2, 2][..]));
        let out = op("QueueDequeue", &strings).attr("component_types", types()).run().unwrap();
        assert_eq!((out[0].to_scalar::<i32>(), out[1].shape().dims()), (Ok(3), &[2][..]));
        op("QueueCloseV2", &resource).run().unwrap();
        assert!(op("QueueIsClosed", &strings).run_one().unwrap().to_scalar::<bool>().unwrap());
        let dequeue = op("QueueDequeueUpToV2", &resource).attr("component_types", types());
        assert_eq!(dequeue.input(Tensor::scalar(2i32)).run().unwrap_err().code(), Code::OutOfRange);
        let dequeue = op("QueueDequeueUpToV2", &resource).attr("component_types", types());
        let status = dequeue.input(Tensor::scalar(-1i32)).run().unwrap_err();
        assert_eq!(status.text(), "DequeueUpToOp requested -1 < 0 elements");
        let dequeue = op("QueueDequeueV2", &resource).attr("component_types", vec![DType::Int32]);
        assert!(dequeue.run().unwrap_err().text().starts_with("Signature mismatch"));
    }

    #[test]
    fn another_node_must_ask_for_the_same_queue() {
        let step = test_step();
        make(&step, "FIFOQueueV2", "q", 5).unwrap();
        make(&step, "FIFOQueueV2", "q", 5).unwrap();
        let status = make(&step, "FIFOQueueV2", "q", 6).unwrap_err();
        assert_eq!(status.text(), "Shared queue 'q' has capacity 5 but requested capacity was 6");
        let status = make(&step, "PaddingFIFOQueueV2", "q", 5).unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.text().contains("Expected FIFOQueue, found PaddingFIFOQueueV2"));
    }

    #[test]
    fn a_queue_without_a_shared_name_goes_with_its_kernel() {
        let step = test_step();
        let first = make(&step, "FIFOQueueV2", "", 5).unwrap();
        let second = make(&step, "FIFOQueueV2", "", 5).unwrap();
        assert_ne!(first.as_resources().unwrap()[0].name(), second.as_resources().unwrap()[0].name());
        let size = test_op("QueueSizeV2").in_step(&step).input(first).run_one();
        assert_eq!(size.unwrap_err().code(), Code::NotFound);
    }

    #[test]
    fn attributes_that_make_no_sense_are_refused() {
        let step = test_step();
        let text = |op: TestOp| op.in_step(&step).run().unwrap_err().text().to_string();
        let padding = test_op("PaddingFIFOQueueV2").attr("component_types", types());
        assert!(text(padding).starts_with("Shapes must be provided for all components"));
        let fifo = test_op("FIFOQueueV2").attr("component_types", vec![DType::Int32]);
        assert_eq!(
            text(fifo.attr("shapes", vec![PartialShape::of_rank(1)])),
            "Shape [?] is not fully defined"
        );
        let shuffle = test_op("RandomShuffleQueueV2").attr("component_types", types());
        assert_eq!(
            text(shuffle.attr("capacity", 3i64).attr("min_after_dequeue", 3i64)),
            "min_after_dequeue 3 must be < capacity 3"
        );
    }
}
