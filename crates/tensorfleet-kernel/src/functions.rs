//! What kernels see of a graph's functions: [`Functions`] finds one by name, [`Function`] is called.
//!
//! Most calls of functions are dissolved before a graph runs. What is left are functions that kernels call by themselves,
//! those of datasets: once for each element, with values that no edge of the graph carries. How a function runs is the
//! executor's business; here it takes tensors and gives tensors, now or later.

use std::sync::Arc;

use tensorfleet_core::{DType, Result, Status, Tensor};
use tensorfleet_proto::tensorflow::NameAttrList;
use tensorfleet_threads::Completion;

use crate::cancellation::Cancellation;
use crate::kernel::{SessionContext, StepContext};

/// The functions of a graph.
pub trait Functions: Send + Sync {
    /// The function with these attributes, ready to be called any number of times.
    fn instantiate(self: Arc<Self>, function: &NameAttrList) -> Result<Arc<dyn Function>>;
}

/// The continuation of a call.
pub type OnReturn = Box<dyn FnOnce(Result<Vec<Tensor>>) + Send>;

/// A function that can be called, by several threads at once.
pub trait Function: Send + Sync {
    /// The dtypes of its arguments.
    fn arguments(&self) -> &[DType];

    /// The dtypes of its results.
    fn results(&self) -> &[DType];

    /// Runs it, as far as it need not wait, on this thread. `done` is called once, on any thread.
    fn call(&self, context: &CallContext, arguments: Vec<Tensor>, done: OnReturn);

    /// Runs it on another thread.
    fn call_elsewhere(&self, context: &CallContext, arguments: Vec<Tensor>, done: OnReturn);
}

/// On whose behalf a function runs.
#[derive(Clone)]
pub struct CallContext {
    /// The number of the step that asked first.
    pub step_id: i64,
    /// The session of that step.
    pub session: Arc<SessionContext>,
    /// Tells that the results are no longer wanted.
    pub cancellation: Arc<Cancellation>,
}

impl CallContext {
    /// A context for calls on behalf of a step.
    pub fn of_step(step: &StepContext) -> CallContext {
        CallContext {
            step_id: step.step_id,
            session: step.session.clone(),
            cancellation: step.cancellation.clone(),
        }
    }

    /// The same with another cancellation.
    pub fn cancelled_by(&self, cancellation: Arc<Cancellation>) -> CallContext {
        CallContext { cancellation, ..self.clone() }
    }
}

/// Calls a function and waits for it. Only for threads that may wait.
pub fn call_and_wait(
    function: &dyn Function,
    context: &CallContext,
    arguments: Vec<Tensor>,
) -> Result<Vec<Tensor>> {
    let call = Arc::new(CallResult::default());
    let setter = call.clone();
    function.call(context, arguments, Box::new(move |result| setter.set(result)));
    // A call that is cancelled completes with an error, so this ends.
    call.wait()
}

/// The result of a call that a thread waits for.
pub type CallResult = Completion<Result<Vec<Tensor>>>;

/// Waits for the result of a call, or for the cancellation; then the result is still to come.
pub fn wait_unless_cancelled(
    call: &Arc<CallResult>,
    cancellation: &Cancellation,
) -> Result<Result<Vec<Tensor>>> {
    let wakes = call.clone();
    // It may have been cancelled when the result had come already: the result counts.
    let token = match cancellation.register(move |_| wakes.wake()) {
        Ok(token) => token,
        Err(reason) => return call.wait_unless(|| Some(reason.clone())),
    };
    let result = call.wait_unless(|| cancellation.reason());
    cancellation.deregister(token);
    result
}

/// For steps that have no functions.
pub struct NoFunctions;

impl Functions for NoFunctions {
    fn instantiate(self: Arc<Self>, function: &NameAttrList) -> Result<Arc<dyn Function>> {
        Err(Status::not_found(format!("Function '{}' is not in the graph's library", function.name)))
    }
}
