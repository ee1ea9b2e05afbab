//! Panics outside kernels: the step fails, with the place, and its threads live on.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use tensorfleet_core::{Code, PartialShape, Result, Tensor, Variant, VariantObject};
use tensorfleet_kernel::cancellation::Cancellation;
use tensorfleet_kernel::continuation::Resume;
use tensorfleet_kernel::kernel::{
    AsyncContext, AsyncKernel, Done, KernelBox, SessionContext, StepOrigin, Value,
};
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::resource::ResourceManager;
use tensorfleet_kernel::shape_context::ShapeContext;
use tensorfleet_kernel::{Catalogue, NodeSpec, Work};
use tensorfleet_threads::{ThreadCounts, Threads};

use super::{Caller, Step};
use crate::checked_graph::CheckedGraph;
use crate::function_library::compile_partition;
use crate::kernels::Kernels;
use crate::partition::StepServices;
use crate::plan::testing::extend;
use crate::rendezvous::LocalRendezvous;

/// Long enough for the slowest machine; nobody waits that long unless a step is lost.
const PATIENCE: Duration = Duration::from_secs(60);
const DEVICE: &str = "/job:test/replica:0/task:0/device:CPU:0";

static CATALOGUE: Catalogue = Catalogue::new(&[&[&[OPS]]]);

const OPS: &[Op] = &[
    Op::new("Number", "-> y: int32").stateful().shape(scalar).kernel(number),
    Op::new("Fragile", "-> y: variant").stateful().shape(scalar).kernel(fragile),
    Op::new("FragileLater", "-> y: variant").stateful().shape(scalar).kernel(fragile_later),
    Op::new("Weighed", "x: int32 -> y: int32")
        .stateful()
        .shape(scalar)
        .work(Work::Values(weigh))
        .kernel(number),
    Op::new("Forever", "").stateful().shape(nothing).kernel(forever),
    Op::new("Touchy", "").stateful().shape(nothing).kernel(touchy),
];

fn scalar(_: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    Ok(vec![PartialShape::scalar()])
}

fn nothing(_: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    Ok(Vec::new())
}

fn number(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        ctx.outputs[0] = Some(Value::Tensor(Tensor::scalar(1i32)));
        Ok(())
    }))
}

/// A value that cannot be dropped.
struct Explosive;

impl VariantObject for Explosive {
    fn type_name(&self) -> &str {
        "explosive"
    }
}

impl Drop for Explosive {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

fn explosive() -> Result<Option<Value>> {
    Ok(Some(Value::Tensor(Tensor::from_variants(vec![Variant::from_object(Explosive)], &[])?)))
}

fn fragile(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        ctx.outputs[0] = explosive()?;
        Ok(())
    }))
}

/// A kernel that waits.
struct Waits(fn(AsyncContext, Done));

impl AsyncKernel for Waits {
    fn start(&self, ctx: AsyncContext, done: Done, _: Resume<'_>) {
        self.0(ctx, done);
    }
}

/// Its result comes from another thread, and the step goes on with it on the pool.
fn fragile_later(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::new_async(Waits(|ctx, done| {
        let job = move || done(explosive().map(|value| [value].into_iter().collect()), Resume::OnPool);
        ctx.step.session.threads.input().spawn(job).unwrap();
    })))
}

fn weigh(_: &dyn tensorfleet_kernel::work::NodeInputs) -> Option<usize> {
    panic!("weighed")
}

/// Waits until the step is given up.
fn forever(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::new_async(Waits(|ctx, done| {
        let _ = ctx.step.cancellation.register(move |reason| done(Err(reason), Resume::OnPool));
    })))
}

/// Waits until the step is given up, and does not take it well.
fn touchy(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::new_async(Waits(|ctx, done| {
        let _ = ctx.step.cancellation.register(move |_| {
            let _done = done;
            panic!("told")
        });
    })))
}

fn run(text: &str, caller: Caller, threads: &Arc<Threads>) -> Result<Vec<Option<Tensor>>> {
    let mut checked = CheckedGraph::new(&CATALOGUE);
    extend(&mut checked, text);
    let partition =
        compile_partition(checked.graph(), checked.catalogue(), &Kernels::for_one_graph()).unwrap();
    let services = StepServices {
        step_id: 1,
        session: Arc::new(SessionContext {
            origin: StepOrigin::unknown(),
            device: DEVICE.into(),
            resources: Arc::new(ResourceManager::new("test")),
            threads: threads.clone(),
            background: Arc::default(),
        }),
        applied: None,
        rendezvous: Arc::new(LocalRendezvous::new()),
        cancellation: Arc::new(Cancellation::new()),
    };
    let (sender, receiver) = mpsc::channel();
    let on_done = Box::new(move |result| sender.send(result).unwrap());
    let step: Arc<Step> = partition.step(services, Vec::new(), None, on_done).unwrap();
    step.run(caller);
    receiver.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{caller:?}: the step has no end:\n{text}"))
}

/// The step fails and says where; and the pool's threads are still there.
fn check(text: &str, caller: Caller, place: &str) {
    let threads = Threads::new(ThreadCounts::new(1, 2).unwrap());
    let status = run(text, caller, &threads).unwrap_err();
    assert_eq!(status.code(), Code::Internal, "{caller:?} {status}");
    assert!(status.message().contains(place), "{caller:?} {place}: {}", status.message());
    assert!(status.message().contains(DEVICE), "{caller:?}: {}", status.message());
    assert!(run("n = Number", Caller::OnPool, &threads).is_ok());
}

const CALLERS: [Caller; 3] = [Caller::Waits, Caller::IoThread, Caller::OnPool];

#[test]
fn a_value_that_panics_when_it_is_dropped_fails_its_step_and_ends_those_that_wait() {
    for caller in CALLERS {
        check("f = Fragile", caller, "{{node f}}");
        check("a = Forever\nn = Number\nf = Fragile(^n)\nb = Number(^f)\nc = Forever", caller, "{{node f}}");
    }
}

#[test]
fn a_panic_after_a_wait_fails_the_step() {
    for caller in CALLERS {
        check("a = Forever\nl = FragileLater\nb = Number(^l)", caller, "{{node l}}");
    }
}

#[test]
fn a_panic_while_nodes_are_given_to_threads_fails_the_step() {
    for caller in CALLERS {
        let text = "a = Forever\nn = Number\nv = Weighed(n)\nw = Weighed(n)\nx = Number(^n)";
        check(text, caller, "Weighed");
    }
}

#[test]
fn those_who_panic_when_they_are_told_keep_nobody_from_being_told() {
    for caller in CALLERS {
        check("a = Forever\nt = Touchy\nb = Forever\nf = Fragile(^n)\nn = Number", caller, "{{node f}}");
    }
}

#[test]
fn a_step_ends_though_its_pool_drops_what_it_is_given() {
    let drops = Threads::run_by(Arc::new(drop));
    let status = run("n = Number\nf = Forever", Caller::OnPool, &drops).unwrap_err();
    assert_eq!((status.code(), status.node().is_some()), (Code::Internal, true), "{status}");
    let panics = Threads::run_by(Arc::new(|_| panic!("no thread can be started")));
    for caller in [Caller::OnPool, Caller::IoThread] {
        let status = run("n = Number\nf = Forever", caller, &panics).unwrap_err();
        assert_eq!(status.code(), Code::Internal, "{status}");
    }
    let status = run("l = FragileLater", Caller::Waits, &drops).unwrap_err();
    assert_eq!((status.code(), status.node()), (Code::Internal, Some("l")), "{status}");
}

#[test]
fn without_a_panic_nothing_is_lost() {
    for caller in CALLERS {
        let threads = Threads::new(ThreadCounts::new(1, 2).unwrap());
        assert!(run("n = Number\nb = Number(^n)\nc = Number(^n, ^b)", caller, &threads).is_ok());
    }
}
