//! Staging areas: a buffer of tuples between the steps of one task, to prefetch what the next step needs.
//!
//! Like a queue it never blocks a thread; unlike a queue it has no end, may be bounded in bytes, and can be looked
//! into.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tensorfleet_core::memory::Kept;
use tensorfleet_core::{DType, Result, Status, Tensor, ensure};

use super::naming::{container_attr, no_outputs, shared_name_attr};
use super::queue::{Tuple, kept_bytes};
use super::waiting::{RequestId, Waiting, WaitingList, Waits, watch};
use tensorfleet_kernel::Work;
use tensorfleet_kernel::cancellation::Cancellation;
use tensorfleet_kernel::continuation::Resume;
use tensorfleet_kernel::kernel::{
    AsyncContext, AsyncKernel, Done, KernelBox, Outputs, StepContext, Value, tensor_outputs,
};
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::{Cost, Op};
use tensorfleet_kernel::resource::Resource;
use tensorfleet_kernel::shape_context::{scalars, unknown};

const FILLED: &str = "capacity: int >= 0 = 0; memory_limit: int >= 0 = 0; dtypes: list(type) >= 1; \
                      container: string = ''; shared_name: string = ''";
const LOOKED_AT: &str = "capacity: int >= 0 = 0; memory_limit: int >= 0 = 0; dtypes: list(type); \
                         container: string = ''; shared_name: string = ''";

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("Stage", "values: dtypes")
        .work(Work::Inputs)
        .attrs(FILLED)
        .stateful()
        .shape(no_outputs)
        .kernel(stage),
    Op::new("Unstage", "-> values: dtypes")
        .work(Work::Inputs)
        .attrs(FILLED)
        .stateful()
        .shape(unknown)
        .kernel(unstage),
    Op::new("StagePeek", "index: int32 -> values: dtypes")
        .work(Work::Inputs)
        .attrs(FILLED)
        .stateful()
        .shape(unknown)
        .kernel(stage_peek),
    Op::new("StageSize", "-> size: int32")
        .attrs(LOOKED_AT)
        .stateful()
        .shape(scalars)
        .kernel(stage_size)
        .cost(Cost::Trivial),
    Op::new("StageClear", "")
        .attrs(LOOKED_AT)
        .stateful()
        .shape(no_outputs)
        .kernel(stage_clear)
        .cost(Cost::Trivial),
];

/// A buffer of tuples.
struct Staging {
    name: String,
    capacity: usize,
    memory_limit: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    tuples: VecDeque<Tuple>,
    /// For all tuples here, those that wait to get in included.
    kept: Kept,
    bytes: usize,
    puts: WaitingList<Put>,
    takes: WaitingList<Take>,
    peeks: WaitingList<Peek>,
    is_removed: bool,
}

struct Put {
    tuple: Tuple,
    done: Done,
}

struct Take(Done);

struct Peek {
    index: usize,
    done: Done,
}

/// Answers to be given outside the lock.
#[derive(Default)]
struct Answers {
    puts: Vec<(Waiting<Put>, Result<Outputs>)>,
    takes: Vec<(Waiting<Take>, Result<Outputs>)>,
    peeks: Vec<(Waiting<Peek>, Result<Outputs>)>,
}

impl Answers {
    fn give(self, resume: Resume<'_>) {
        self.puts.into_iter().for_each(|(waiting, result)| (waiting.release().done)(result, resume));
        self.peeks.into_iter().for_each(|(waiting, result)| (waiting.release().done)(result, resume));
        self.takes.into_iter().for_each(|(waiting, result)| (waiting.release().0)(result, resume));
    }
}

fn bytes_of(tuple: &Tuple) -> usize {
    tuple.iter().map(Tensor::byte_size).fold(0, usize::saturating_add)
}

impl Staging {
    fn new(name: &str, capacity: usize, memory_limit: usize) -> Staging {
        Staging { name: name.to_string(), capacity, memory_limit, state: Mutex::default() }
    }

    fn put(self: &Arc<Self>, tuple: Tuple, cancellation: &Arc<Cancellation>, done: Done, resume: Resume<'_>) {
        let bytes = bytes_of(&tuple);
        if bytes > self.memory_limit {
            let status = Status::resource_exhausted(format!(
                "Attempted to insert tensors with combined size of '{bytes}' bytes into Staging Area with a memory \
                 limit of '{}'.",
                self.memory_limit
            ));
            return done(Err(status), resume);
        }
        let room = self.state.lock().kept.add(kept_bytes(&tuple));
        if let Err(status) = room {
            return done(Err(status.context(format!("a tuple of staging area '{}'", self.name))), resume);
        }
        self.ask::<Put>(cancellation, resume, |state| state.puts.push(cancellation, Put { tuple, done }));
    }

    fn take(self: &Arc<Self>, cancellation: &Arc<Cancellation>, done: Done, resume: Resume<'_>) {
        self.ask::<Take>(cancellation, resume, |state| state.takes.push(cancellation, Take(done)));
    }

    fn peek(
        self: &Arc<Self>,
        index: usize,
        cancellation: &Arc<Cancellation>,
        done: Done,
        resume: Resume<'_>,
    ) {
        self.ask::<Peek>(cancellation, resume, |state| state.peeks.push(cancellation, Peek { index, done }));
    }

    /// Adds a request, serves whoever can be served, and watches over the request if it has to wait.
    fn ask<T: 'static>(
        self: &Arc<Self>,
        cancellation: &Arc<Cancellation>,
        resume: Resume<'_>,
        add: impl FnOnce(&mut State) -> RequestId,
    ) where
        Staging: Waits<T>,
    {
        let mut answers = Answers::default();
        let id = {
            let mut state = self.state.lock();
            let id = add(&mut state);
            self.advance(&mut state, &mut answers);
            id
        };
        answers.give(resume);
        if <Staging as Waits<T>>::with_list(self, |list| list.contains(id)) {
            watch::<T, _>(self, id, cancellation);
        }
    }

    fn change(&self, resume: Resume<'_>, change: impl FnOnce(&mut State, &mut Answers)) {
        let mut answers = Answers::default();
        {
            let mut state = self.state.lock();
            change(&mut state, &mut answers);
            self.advance(&mut state, &mut answers);
        }
        answers.give(resume);
    }

    fn clear(&self, resume: Resume<'_>) {
        self.change(resume, |state, _| {
            let State { tuples, kept, .. } = state;
            tuples.drain(..).for_each(|tuple| kept.remove(kept_bytes(&tuple)));
            state.bytes = 0;
        });
    }

    /// Serves everyone whose turn has come.
    fn advance(&self, state: &mut State, answers: &mut Answers) {
        if state.is_removed {
            let removed = || Err(Status::aborted(format!("staging area '{}' was removed.", self.name)));
            answers.puts.extend(state.puts.drain().map(|waiting| (waiting, removed())));
            answers.takes.extend(state.takes.drain().map(|waiting| (waiting, removed())));
            answers.peeks.extend(state.peeks.drain().map(|waiting| (waiting, removed())));
            return;
        }
        loop {
            let mut changed = false;
            while let Some(put) = state.puts.front() {
                let bytes = bytes_of(&put.tuple);
                let fits = state.tuples.len() < self.capacity
                    && state.bytes.saturating_add(bytes) <= self.memory_limit;
                if !fits {
                    break;
                }
                state.bytes += bytes;
                state.tuples.push_back(std::mem::take(&mut put.tuple));
                answers.puts.extend(state.puts.pop().map(|waiting| (waiting, Ok(Outputs::new()))));
                changed = true;
            }
            // Whoever only looks does not stand in anyone's way.
            let tuples = &state.tuples;
            for waiting in state.peeks.extract(|peek| peek.index < tuples.len()) {
                let found = tuples.get(waiting.request.index).cloned().unwrap_or_default();
                answers.peeks.push((waiting, Ok(tensor_outputs(found))));
            }
            while state.takes.front().is_some()
                && let Some(tuple) = state.tuples.pop_front()
            {
                state.bytes -= bytes_of(&tuple);
                state.kept.remove(kept_bytes(&tuple));
                answers.takes.extend(state.takes.pop().map(|waiting| (waiting, Ok(tensor_outputs(tuple)))));
                changed = true;
            }
            if !changed {
                return;
            }
        }
    }
}

macro_rules! waits {
    ($request:ty, $list:ident, $held:expr) => {
        impl Waits<$request> for Staging {
            fn with_list<R>(&self, look: impl FnOnce(&mut WaitingList<$request>) -> R) -> R {
                look(&mut self.state.lock().$list)
            }

            fn withdraw(&self, id: RequestId, reason: Status) {
                self.change(Resume::OnPool, |state, answers| {
                    let Some(waiting) = state.$list.remove(id) else { return };
                    let held: fn(&$request) -> usize = $held;
                    state.kept.remove(held(&waiting.request));
                    answers.$list.push((waiting, Err(reason)));
                });
            }
        }
    };
}

waits!(Put, puts, |put| kept_bytes(&put.tuple));
waits!(Take, takes, |_| 0);
waits!(Peek, peeks, |_| 0);

impl Resource for Staging {
    fn kind() -> &'static str {
        "N10tensorflow7StagingE"
    }

    fn on_removed(&self) {
        self.change(Resume::OnPool, |state, _| state.is_removed = true);
    }
}

/// The staging area that a node's attributes name.
struct Area {
    container: String,
    name: String,
    capacity: usize,
    memory_limit: usize,
}

impl Area {
    fn new(node: &NodeSpec<'_>) -> Result<Area> {
        let shared_name = shared_name_attr(node)?;
        // Zero means unbounded.
        let bound = |attr: &str| -> Result<usize> {
            Ok(usize::try_from(node.attr::<i64>(attr)?).ok().filter(|&bound| bound > 0).unwrap_or(usize::MAX))
        };
        Ok(Area {
            container: container_attr(node)?,
            name: if shared_name.is_empty() { node.name().to_string() } else { shared_name },
            capacity: bound("capacity")?,
            memory_limit: bound("memory_limit")?,
        })
    }

    fn find(&self, step: &StepContext) -> Result<Arc<Staging>> {
        let make = || Ok(Staging::new(&self.name, self.capacity, self.memory_limit));
        step.session.resources.get_or_create(&self.container, &self.name, make)
    }
}

/// A kernel that may have to wait for the staging area.
struct StagingKernel {
    area: Area,
    /// What the node declares to come out.
    outputs: Arc<[DType]>,
    request: fn(&Arc<Staging>, AsyncContext, Done, Resume<'_>),
}

impl StagingKernel {
    fn boxed(
        node: &NodeSpec<'_>,
        request: fn(&Arc<Staging>, AsyncContext, Done, Resume<'_>),
    ) -> Result<KernelBox> {
        let outputs = node.outputs.iter().map(|edge| edge.dtype).collect();
        Ok(KernelBox::new_async(StagingKernel { area: Area::new(node)?, outputs, request }))
    }
}

impl AsyncKernel for StagingKernel {
    fn start(&self, ctx: AsyncContext, done: Done, resume: Resume<'_>) {
        let declared = self.outputs.clone();
        let checked: Done =
            Box::new(move |result, resume| done(result.and_then(|out| check(&declared, out)), resume));
        match self.area.find(&ctx.step) {
            Ok(staging) => (self.request)(&staging, ctx, checked, resume),
            Err(status) => checked(Err(status), resume),
        }
    }
}

/// Whoever staged the tuple may have declared other components than whoever gets it.
fn check(declared: &[DType], outputs: Outputs) -> Result<Outputs> {
    let dtype = |output: &Option<Value>| match output {
        Some(Value::Tensor(tensor)) => Some(tensor.dtype()),
        _ => None,
    };
    ensure!(
        outputs.iter().map(dtype).eq(declared.iter().copied().map(Some)),
        InvalidArgument,
        "the staged tuple has other components than the declared {declared:?}"
    );
    Ok(outputs)
}

fn stage(node: &NodeSpec<'_>) -> Result<KernelBox> {
    fn request(staging: &Arc<Staging>, mut ctx: AsyncContext, done: Done, resume: Resume<'_>) {
        match (0..ctx.inputs.len()).map(|index| ctx.take_input(index)?.kept()).collect::<Result<Tuple>>() {
            Ok(tuple) => staging.put(tuple, &ctx.step.cancellation, done, resume),
            Err(status) => done(Err(status), resume),
        }
    }
    StagingKernel::boxed(node, request)
}

fn unstage(node: &NodeSpec<'_>) -> Result<KernelBox> {
    fn request(staging: &Arc<Staging>, ctx: AsyncContext, done: Done, resume: Resume<'_>) {
        staging.take(&ctx.step.cancellation, done, resume);
    }
    StagingKernel::boxed(node, request)
}

fn stage_peek(node: &NodeSpec<'_>) -> Result<KernelBox> {
    fn index_in(ctx: &AsyncContext) -> Result<usize> {
        let index: i32 = ctx.input(0)?.to_scalar()?;
        ensure!(index >= 0, InvalidArgument, "there is no element {index} to peek at");
        Ok(index as usize)
    }
    fn request(staging: &Arc<Staging>, ctx: AsyncContext, done: Done, resume: Resume<'_>) {
        match index_in(&ctx) {
            Ok(index) => staging.peek(index, &ctx.step.cancellation, done, resume),
            Err(status) => done(Err(status), resume),
        }
    }
    StagingKernel::boxed(node, request)
}

fn stage_size(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let area = Area::new(node)?;
    Ok(KernelBox::from_fn(move |ctx| {
        let size = area.find(ctx.step)?.state.lock().tuples.len();
        ctx.set_output(0, Tensor::scalar(i32::try_from(size).unwrap_or(i32::MAX)));
        Ok(())
    }))
}

fn stage_clear(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let area = Area::new(node)?;
    Ok(KernelBox::from_fn(move |ctx| {
        area.find(ctx.step)?.clear(ctx.resume);
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{test_op, test_step};
    use std::sync::mpsc::{Receiver, channel};
    use tensorfleet_core::Code;

    fn asked(
        ask: impl FnOnce(&Arc<Cancellation>, Done),
    ) -> (Arc<Cancellation>, Receiver<Result<Option<i32>>>) {
        let (sender, answer) = channel();
        let cancellation = Arc::new(Cancellation::new());
        let done = move |result: Result<Outputs>, _: Resume<'_>| {
            let value = result.map(|outputs| match outputs.first() {
                Some(Some(Value::Tensor(tensor))) => Some(tensor.to_scalar().unwrap()),
                _ => None,
            });
            sender.send(value).unwrap();
        };
        ask(&cancellation, Box::new(done));
        (cancellation, answer)
    }

    fn put(area: &Arc<Staging>, value: i32) -> Receiver<Result<Option<i32>>> {
        asked(|cancellation, done| {
            area.put([Tensor::scalar(value)].into_iter().collect(), cancellation, done, Resume::OnPool)
        })
        .1
    }

    #[test]
    fn tuples_wait_for_room_and_takers_for_tuples() {
        let area = Arc::new(Staging::new("a", 2, usize::MAX));
        let (_, early) = asked(|cancellation, done| area.take(cancellation, done, Resume::OnPool));
        let (_, peek) = asked(|cancellation, done| area.peek(1, cancellation, done, Resume::OnPool));
        put(&area, 1);
        assert_eq!(early.try_recv().unwrap().unwrap(), Some(1));
        put(&area, 2);
        assert!(peek.try_recv().is_err());
        put(&area, 3);
        assert_eq!(peek.try_recv().unwrap().unwrap(), Some(3));
        let late = put(&area, 4);
        assert!(late.try_recv().is_err());
        let (_, next) = asked(|cancellation, done| area.take(cancellation, done, Resume::OnPool));
        assert_eq!(next.try_recv().unwrap().unwrap(), Some(2));
        assert!(late.try_recv().unwrap().is_ok());
        area.clear(Resume::OnPool);
        assert_eq!(area.state.lock().tuples.len(), 0);
    }

    #[test]
    fn bytes_are_bounded_and_waiting_can_be_given_up() {
        let area = Arc::new(Staging::new("a", usize::MAX, 8));
        let large = Tensor::vector(&[1i32; 3]).unwrap();
        let (_, refused) = asked(|cancellation, done| {
            area.put([large].into_iter().collect(), cancellation, done, Resume::OnPool)
        });
        assert_eq!(refused.try_recv().unwrap().unwrap_err().code(), Code::ResourceExhausted);
        let (cancellation, taken) = asked(|cancellation, done| area.take(cancellation, done, Resume::OnPool));
        cancellation.cancel(Status::cancelled("given up"));
        assert_eq!(taken.try_recv().unwrap().unwrap_err().code(), Code::Cancelled);
        assert!(put(&area, 1).try_recv().unwrap().is_ok() && put(&area, 2).try_recv().unwrap().is_ok());
        let third = put(&area, 3);
        area.on_removed();
        assert_eq!(third.try_recv().unwrap().unwrap_err().code(), Code::Aborted);
    }

    #[test]
    fn ops_of_one_name_share_an_area_and_agree_on_components() {
        let step = test_step();
        let op = |name: &str| test_op(name).attr("shared_name", "s").in_step(&step);
        let put = || {
            op("Stage").attr("dtypes", vec![DType::Int32]).input(Tensor::scalar(5i32)).run_values().map(drop)
        };
        let size =
            || op("StageSize").attr("dtypes", vec![DType::Int32]).run_one().unwrap().to_scalar::<i32>();
        put().unwrap();
        put().unwrap();
        assert_eq!(size(), Ok(2));
        let out = op("Unstage").attr("dtypes", vec![DType::Int32]).run_one().unwrap();
        assert_eq!(out.to_scalar::<i32>(), Ok(5));
        let status = op("Unstage").attr("dtypes", vec![DType::Float]).run().unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        put().unwrap();
        op("StageClear").attr("dtypes", vec![DType::Int32]).run().unwrap();
        assert_eq!(size(), Ok(0));
    }
}
