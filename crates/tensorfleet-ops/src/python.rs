//! `PyFunc`: a node that calls a function of the Python interpreter whose process runs it.

use std::sync::Arc;

use parking_lot::Mutex;
use tensorfleet_core::{DType, Result, Tensor, ensure};

use tensorfleet_kernel::continuation::Resume;
use tensorfleet_kernel::kernel::{AsyncContext, AsyncKernel, Done, KernelBox, Value};
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::py_func::py_func;
use tensorfleet_kernel::shape_context::unknown;

use crate::unsupported::refuse;

/// The family's table.
pub(crate) static OPS: &[Op] = &[python("PyFunc").stateful(), python("PyFuncStateless")];

const fn python(name: &'static str) -> Op {
    Op::new(name, "input: Tin -> output: Tout")
        .attrs("token: string; Tin: list(type) >= 0; Tout: list(type) >= 0")
        .shape(unknown)
        .kernel(make)
}

fn make(node: &NodeSpec<'_>) -> Result<KernelBox> {
    if py_func().is_none() {
        return refuse(node);
    }
    Ok(KernelBox::new_async(PyFunc(Arc::new(Call {
        token: node.attr("token")?,
        results: node.attr("Tout")?,
    }))))
}

struct PyFunc(Arc<Call>);

struct Call {
    token: String,
    results: Vec<DType>,
}

impl AsyncKernel for PyFunc {
    /// Calls the function on a thread that may wait: it takes the interpreter's lock, and as long as it likes.
    fn start(&self, mut ctx: AsyncContext, done: Done, resume: Resume<'_>) {
        let arguments: Result<Vec<Tensor>> =
            (0..ctx.inputs.len()).map(|index| ctx.take_input(index)).collect();
        let arguments = match arguments {
            Ok(arguments) => arguments,
            Err(status) => return done(Err(status), resume),
        };
        let call = self.0.clone();
        let done = Arc::new(Mutex::new(Some(done)));
        let later = done.clone();
        let job = move || {
            let results = call.run(arguments);
            let done = later.lock().take();
            if let Some(done) = done {
                let results =
                    results.map(|all| all.into_iter().map(|one| Some(Value::Tensor(one))).collect());
                done(results, Resume::OnPool);
            }
        };
        if let Err(status) = ctx.step.session.threads.input().spawn(job)
            && let Some(done) = done.lock().take()
        {
            done(Err(status), Resume::OnPool);
        }
    }
}

impl Call {
    fn run(&self, arguments: Vec<Tensor>) -> Result<Vec<Tensor>> {
        let Some(callback) = py_func() else { return Ok(Vec::new()) };
        let (token, expected) = (&self.token, self.results.len());
        let results = callback(token, arguments, &self.results)?;
        ensure!(
            results.len() == expected,
            InvalidArgument,
            "{token} returns {} values, but expects to see {expected} values.",
            results.len()
        );
        for (index, (result, &dtype)) in results.iter().zip(&self.results).enumerate() {
            ensure!(
                result.dtype() == dtype,
                InvalidArgument,
                "{index}-th value returned by {token} is {}, but expects {dtype}",
                result.dtype()
            );
        }
        Ok(results)
    }
}
