//! [`Op`]: everything the system knows about one operation, in one place.
//!
//! An op is a constant in its family's table:
//!
//! ```ignore
//! Op::new("MatMul", "a: T, b: T -> product: T")
//!     .attrs("transpose_a: bool = false; transpose_b: bool = false; T: {float, double}")
//!     .shape(matmul_shape)
//!     .kernel(matmul_kernel)
//! ```
//!
//! Signature and attributes are written in the notation of TensorFlow's op registry (see
//! [`crate::signature`]); the shape rule and the kernel are functions that stand beside the table. Tables are
//! constants, so that a process pays only for the ops it uses.

use tensorfleet_core::{PartialShape, Result};

use crate::gradients::{Differential, Grad};
use crate::kernel::KernelBox;
use crate::node_spec::NodeSpec;
use crate::shape_context::ShapeContext;

/// Computes the output shapes from what is known of the inputs.
pub type ShapeFn = fn(&ShapeContext<'_>) -> Result<Vec<PartialShape>>;

/// Makes the kernel of a node. Reads attributes here, once, not in every step.
pub type KernelFn = fn(&NodeSpec<'_>) -> Result<KernelBox>;

/// Adds the nodes that compute the gradients with respect to a node's inputs, one for each data input; `None`
/// where nothing flows back.
pub type GradientFn = fn(&mut Differential<'_>) -> Result<Vec<Option<Grad>>>;

/// How an op is differentiated.
#[derive(Clone, Copy, Debug, Default)]
pub enum Gradient {
    /// Nobody has said: differentiating through it is an error.
    #[default]
    Unknown,
    /// Nothing flows back, and rightly so.
    None,
    /// By the graph this function adds.
    By(GradientFn),
}

/// How the executor treats an op's inputs and outputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Flow {
    /// Runs when all inputs are there; dead if any input is dead.
    #[default]
    Plain,
    /// Passes its input to one of two outputs, the other one is dead.
    Switch,
    /// Runs when the first live input is there.
    Merge,
    /// Brings a value into a loop's frame.
    Enter,
    /// Brings a value out of a loop's frame.
    Exit,
    /// Brings a value to the next iteration of its frame.
    NextIteration,
    /// Runs even if inputs are dead, and passes deadness on by itself (sends, receives).
    Transfer,
    /// Runs even if inputs are dead, and is live.
    Trigger,
}

/// How much work a node is, so that the executor can decide what is worth another thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Cost {
    /// Constant time whatever the size of the inputs (reshape, identity, shape).
    Trivial,
    /// About one pass over inputs and outputs.
    #[default]
    Linear,
    /// About one pass over an output whose shape is the value of input 0 (fills, random numbers): the inputs are small whatever
    /// the work.
    Shaped,
    /// Many operations per byte (matrix products, convolutions).
    Heavy,
}

/// The description of one operation.
pub struct Op {
    /// The op type as graphs name it.
    pub name: &'static str,
    /// Inputs and outputs.
    pub signature: &'static str,
    /// Attributes, separated by `;`.
    pub attrs: &'static str,
    /// Shape rule.
    pub shape: Option<ShapeFn>,
    /// CPU kernel.
    pub kernel: Option<KernelFn>,
    /// How it is differentiated.
    pub gradient: Gradient,
    /// Whether running the op has effects or depends on state: never folded, merged or dropped.
    pub stateful: bool,
    /// How it takes part in control flow.
    pub flow: Flow,
    /// How much work it is.
    pub cost: Cost,
    /// Whether it may take a reference to a variable that has no value yet.
    pub allows_uninitialized: bool,
    /// Whether it only looks at a variable where its declaration says value: it may get the variable itself, and asks for
    /// inputs with [`Context::look`](crate::kernel::Context::look).
    pub looks_at_variables: bool,
}

impl Op {
    /// An op with this name and signature, and nothing else yet.
    pub const fn new(name: &'static str, signature: &'static str) -> Op {
        Op {
            name,
            signature,
            attrs: "",
            shape: None,
            kernel: None,
            gradient: Gradient::Unknown,
            stateful: false,
            flow: Flow::Plain,
            cost: Cost::Linear,
            allows_uninitialized: false,
            looks_at_variables: false,
        }
    }

    /// Declares the attributes.
    pub const fn attrs(mut self, attrs: &'static str) -> Op {
        self.attrs = attrs;
        self
    }

    /// Gives the shape rule.
    pub const fn shape(mut self, shape: ShapeFn) -> Op {
        self.shape = Some(shape);
        self
    }

    /// Gives the kernel.
    pub const fn kernel(mut self, kernel: KernelFn) -> Op {
        self.kernel = Some(kernel);
        self
    }

    /// Gives the gradient.
    pub const fn gradient(mut self, gradient: GradientFn) -> Op {
        self.gradient = Gradient::By(gradient);
        self
    }

    /// Says that nothing flows back through the op.
    pub const fn not_differentiable(mut self) -> Op {
        self.gradient = Gradient::None;
        self
    }

    /// Marks the op as having effects or depending on state.
    pub const fn stateful(mut self) -> Op {
        self.stateful = true;
        self
    }

    /// Sets the part it plays in control flow.
    pub const fn flow(mut self, flow: Flow) -> Op {
        self.flow = flow;
        self
    }

    /// Sets how much work it is.
    pub const fn cost(mut self, cost: Cost) -> Op {
        self.cost = cost;
        self
    }

    /// Lets the op take references to variables without a value.
    pub const fn allow_uninitialized(mut self) -> Op {
        self.allows_uninitialized = true;
        self
    }

    /// Says that the op reads little of a large variable, such as some rows or the shape. It then holds no snapshot of it, for
    /// which a writer would have to copy the whole.
    pub const fn looks_at_variables(mut self) -> Op {
        self.looks_at_variables = true;
        self
    }
}
