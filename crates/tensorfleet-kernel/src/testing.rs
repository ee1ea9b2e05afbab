//! Running one op in a unit test, without a graph or an executor.

use std::sync::Arc;

use tensorfleet_core::attr::IntoAttr;
use tensorfleet_core::{Endpoint, Node, NodeId, PartialShape, Result, Status, Tensor};
use tensorfleet_threads::Threads;

use crate::Catalogue;
use crate::cancellation::Cancellation;
use crate::continuation::Resume;
use crate::kernel::{
    AsyncContext, Context, FrameIteration, KernelBox, Outputs, SessionContext, StepContext, StepOrigin, Value,
};
use crate::node_spec::NodeSpec;
use crate::rendezvous::NoRendezvous;
use crate::resource::ResourceManager;
use crate::shape_context::{InputShape, ShapeContext};
use crate::variable::Variable;
use tensorfleet_threads::denormals::FlushDenormals;

/// An op about to be run: `TestOp::new(&OPS, "Neg").attr("T", DType::Float).input(tensor).run()`.
pub struct TestOp {
    catalogue: &'static Catalogue,
    node: Node,
    inputs: Vec<Option<Value>>,
    step: Arc<StepContext>,
    checks_shapes: bool,
}

impl TestOp {
    /// The op called `op`, without attributes and inputs yet.
    pub fn new(catalogue: &'static Catalogue, op: &str) -> TestOp {
        let node = Node::new("node_under_test", op);
        TestOp { catalogue, node, inputs: Vec::new(), step: test_step(), checks_shapes: false }
    }

    /// The shape rule must have foretold the shapes that the kernel gives.
    pub fn with_shape_check(self) -> TestOp {
        TestOp { checks_shapes: true, ..self }
    }

    /// Runs in the same step, and so with the same resources, as other ops.
    pub fn in_step(mut self, step: &Arc<StepContext>) -> TestOp {
        self.step = step.clone();
        self
    }

    /// Sets an attribute.
    pub fn attr(mut self, name: &str, value: impl IntoAttr) -> TestOp {
        self.node.attrs.insert(name.to_string(), value.into_attr());
        self
    }

    /// Adds an input.
    pub fn input(self, tensor: Tensor) -> TestOp {
        self.value(Value::Tensor(tensor))
    }

    /// Adds a reference to a variable as an input.
    pub fn variable(self, variable: &Arc<Variable>) -> TestOp {
        self.value(Value::Ref(variable.clone()))
    }

    fn value(mut self, value: Value) -> TestOp {
        self.node.inputs.push(Endpoint::new(NodeId::from_index(0), 0));
        self.inputs.push(Some(value));
        self
    }

    /// What the shape rule says, knowing all values, shapes only, or nothing.
    fn foretold_shapes(&self) -> Result<Vec<Vec<PartialShape>>> {
        let spec = NodeSpec::resolve(&self.node, self.catalogue)?;
        let Some(rule) = spec.op().shape else { return Ok(Vec::new()) };
        let known: Vec<InputShape> = self
            .inputs
            .iter()
            .map(|input| match input {
                Some(Value::Tensor(tensor)) => {
                    InputShape { shape: tensor.shape().into(), value: Some(tensor.clone()), as_shape: None }
                }
                _ => InputShape::default(),
            })
            .collect();
        let shapes: Vec<InputShape> =
            known.iter().map(|input| InputShape { value: None, ..input.clone() }).collect();
        let unknown = vec![InputShape::default(); known.len()];
        [known, shapes, unknown].iter().map(|inputs| rule(&ShapeContext::new(&spec, inputs))).collect()
    }

    /// All outputs, which must be live tensors or references.
    pub fn run(self) -> Result<Vec<Tensor>> {
        let foretold = if self.checks_shapes { Some(self.foretold_shapes()) } else { None };
        let outputs = self.run_tensors()?;
        for shapes in
            foretold.into_iter().flat_map(|shapes| shapes.expect("the shape rule accepts valid inputs"))
        {
            assert_eq!(shapes.len(), outputs.len(), "the shape rule knows all outputs");
            for (shape, output) in shapes.iter().zip(&outputs) {
                assert!(shape.admits(output.shape()), "foretold {shape}, got {}", output.shape());
            }
        }
        Ok(outputs)
    }

    fn run_tensors(self) -> Result<Vec<Tensor>> {
        let outputs = self.run_values()?;
        outputs
            .into_iter()
            .map(|output| match output {
                Some(Value::Tensor(tensor)) => Ok(tensor),
                Some(Value::Ref(variable)) => variable.read(),
                None => Err(Status::internal("a dead output")),
            })
            .collect()
    }

    /// The only output.
    pub fn run_one(self) -> Result<Tensor> {
        let mut outputs = self.run()?;
        assert_eq!(outputs.len(), 1);
        Ok(outputs.remove(0))
    }

    /// The outputs of `count` runs of one kernel with the same inputs, for kernels that move on from step to step.
    pub fn run_times(self, count: usize) -> Result<Vec<Vec<Tensor>>> {
        let spec = NodeSpec::resolve(&self.node, self.catalogue)?;
        let KernelBox::Sync(kernel) = spec.kernel()? else {
            return Err(Status::unimplemented("only synchronous kernels are run several times"));
        };
        let run = |_| {
            let (mut inputs, step) = (self.inputs.clone(), &self.step);
            let mut outputs: Outputs = (0..spec.outputs.len()).map(|_| None).collect();
            let frame = FrameIteration::default();
            let _flushing = FlushDenormals::begin();
            kernel.compute(&mut Context {
                step,
                frame,
                is_input_dead: false,
                resume: Resume::OnPool,
                loops: &step.loops,
                inputs: &mut inputs,
                outputs: &mut outputs,
            })?;
            let tensor = |output| match output {
                Some(Value::Tensor(tensor)) => Ok(tensor),
                _ => Err(Status::internal("an output that is no tensor")),
            };
            outputs.into_iter().map(tensor).collect()
        };
        (0..count).map(run).collect()
    }

    /// Raw outputs. An asynchronous kernel must finish within the call.
    pub fn run_values(mut self) -> Result<Outputs> {
        let spec = NodeSpec::resolve(&self.node, self.catalogue)?;
        let frame = FrameIteration::default();
        match spec.kernel()? {
            KernelBox::Sync(kernel) => {
                let mut outputs: Outputs = (0..spec.outputs.len()).map(|_| None).collect();
                let (inputs, step) = (&mut self.inputs[..], &self.step);
                let _flushing = FlushDenormals::begin();
                kernel.compute(&mut Context {
                    step,
                    frame,
                    inputs,
                    outputs: &mut outputs,
                    is_input_dead: false,
                    resume: Resume::OnPool,
                    loops: &step.loops,
                })?;
                Ok(outputs)
            }
            KernelBox::Async(kernel) => {
                let (sender, receiver) = std::sync::mpsc::channel();
                let inputs = self.inputs.into_iter().collect();
                let ctx = AsyncContext { step: self.step.clone(), frame, inputs, is_input_dead: false };
                // Nobody listens to an op that was still waiting below.
                let done = Box::new(move |result, _: Resume<'_>| drop(sender.send(result)));
                kernel.start(ctx, done, Resume::OnPool);
                receiver.try_recv().unwrap_or_else(|_| Err(Status::unavailable("the op is still waiting")))
            }
        }
    }
}

/// A step of its own, with empty resources.
pub fn test_step() -> Arc<StepContext> {
    let (cancellation, threads) = (Arc::new(Cancellation::new()), Threads::of_process().clone());
    Arc::new(StepContext {
        step_id: 1,
        applied: None,
        epoch: 0,
        step_resources: ResourceManager::of_step(),
        rendezvous: Arc::new(NoRendezvous),
        loops: threads.loops().until(cancellation.clone()),
        cancellation,
        functions: Arc::new(crate::functions::NoFunctions),
        session: Arc::new(SessionContext {
            origin: StepOrigin::unknown(),
            device: Arc::from("/job:localhost/replica:0/task:0/device:CPU:0"),
            resources: Arc::new(ResourceManager::new("localhost")),
            threads,
            background: Arc::default(),
        }),
    })
}
