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
use crate::known_value::KnownValue;
use crate::node_spec::NodeSpec;
use crate::shape_context::ShapeContext;
use crate::work::Work;

/// Computes the output shapes from what is known of the inputs.
pub type ShapeFn = fn(&ShapeContext<'_>) -> Result<Vec<PartialShape>>;

/// Makes the kernel of a node. Reads attributes here, once, not in every step.
pub type KernelFn = fn(&NodeSpec<'_>) -> Result<KernelBox>;

/// Adds the nodes that compute the gradients with respect to a node's inputs, one for each data input; `None`
/// where nothing flows back.
pub type GradientFn = fn(&mut Differential<'_>) -> Result<Vec<Option<Grad>>>;

/// Says what is known of the value of output number `.1`, if anything is.
pub type KnownValueFn = fn(&ShapeContext<'_>, usize) -> Option<KnownValue>;

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
    /// Many operations per byte (matrix products, convolutions).
    Heavy,
}

/// What a node calls. The nodes of the functions take its place when a graph arrives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Call {
    /// The function in attribute `f`.
    Function,
    /// One of two functions.
    If,
    /// One of several functions.
    Case,
    /// A function again and again, as long as another one says so.
    While,
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
    /// Whether its only state is where it is in its sequence of random numbers: a run that is broken off leaves nothing behind.
    pub is_random: bool,
    /// How it takes part in control flow.
    pub flow: Flow,
    /// How much work it is.
    pub cost: Cost,
    /// What tells how much work a node is before it runs.
    pub work: Work,
    /// Whether it may take a reference to a variable that has no value yet.
    pub allows_uninitialized: bool,
    /// See [`Op::reads_in_place`].
    pub reads_in_place: bool,
    /// See [`Op::touches_rows`].
    pub touches_rows: bool,
    /// See [`Op::writes_variable`].
    pub writes_variable: bool,
    /// See [`Op::waits_for_disk`].
    pub waits_for_disk: bool,
    /// See [`Op::passes_through`].
    pub passes_through: bool,
    /// See [`Op::passes_references`].
    pub passes_references: bool,
    /// See [`Op::reads_shape_only`].
    pub reads_shape_only: bool,
    /// See [`Op::never_longer`].
    pub never_longer: bool,
    /// See [`Op::never_merged`].
    pub never_merged: bool,
    /// See [`Op::placeholder`].
    pub is_placeholder: bool,
    /// See [`Op::known_value`].
    pub known_value: Option<KnownValueFn>,
    /// See [`Op::calls`].
    pub calls: Option<Call>,
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
            is_random: false,
            flow: Flow::Plain,
            cost: Cost::Linear,
            work: Work::Unknown,
            allows_uninitialized: false,
            reads_in_place: false,
            touches_rows: false,
            writes_variable: false,
            waits_for_disk: false,
            passes_through: false,
            passes_references: false,
            reads_shape_only: false,
            never_longer: false,
            never_merged: false,
            is_placeholder: false,
            known_value: None,
            calls: None,
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

    /// Marks the op as stateful only because it draws other random numbers each time.
    pub const fn random(mut self) -> Op {
        self.is_random = true;
        self.stateful()
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

    /// Says what tells how much work a node is before it runs. Unless this is said, or the op is [`Cost::Trivial`], threads that
    /// serve sockets do not run it.
    pub const fn work(mut self, work: Work) -> Op {
        self.work = work;
        self
    }

    /// Lets the op take references to variables without a value.
    pub const fn allow_uninitialized(mut self) -> Op {
        self.allows_uninitialized = true;
        self
    }

    /// Says that the op reads little of a large variable, such as some rows or the shape. Where its declaration says value it may
    /// get the variable itself, and asks for inputs with [`Context::read_in_place`](crate::kernel::Context::read_in_place): then
    /// nobody holds a snapshot, for which a writer would have to copy the whole.
    pub const fn reads_in_place(mut self) -> Op {
        self.reads_in_place = true;
        self
    }

    /// Says that of a variable the op reads or writes only the rows that other inputs name: the size of the variable tells nothing
    /// of the work.
    pub const fn touches_rows(mut self) -> Op {
        self.touches_rows = true;
        self
    }

    /// Says that the op changes the variable of its first input, a reference or a handle, and gives nothing but that reference: a
    /// node that has done so for a request does not do it again when the request is repeated
    /// ([`crate::applied_updates`]).
    pub const fn writes_variable(mut self) -> Op {
        self.writes_variable = true;
        self
    }

    /// Says that a synchronous kernel reads or writes files. The inputs are names, and tell nothing of the work.
    pub const fn waits_for_disk(mut self) -> Op {
        self.waits_for_disk = true;
        self
    }

    /// Says that the only output is the first input, unchanged.
    pub const fn passes_through(mut self) -> Op {
        self.passes_through = true;
        self
    }

    /// Says that the op passes its input through, and if that is a variable, the variable itself: whoever reads the output later
    /// sees what was written meanwhile.
    pub const fn passes_references(mut self) -> Op {
        self.passes_through = true;
        self.passes_references = true;
        self
    }

    /// Says that the op asks for nothing but the shape of its input, which costs less to send than the input.
    pub const fn reads_shape_only(mut self) -> Op {
        self.reads_shape_only = true;
        self
    }

    /// Says that no output has more elements than all inputs together, though only the kernel knows how many.
    pub const fn never_longer(mut self) -> Op {
        self.never_longer = true;
        self
    }

    /// Says that two nodes of this op are never the same, however equal they look.
    pub const fn never_merged(mut self) -> Op {
        self.never_merged = true;
        self
    }

    /// Says that the value comes from a feed: a node that is fed need not run.
    pub const fn placeholder(mut self) -> Op {
        self.is_placeholder = true;
        self.never_merged = true;
        self
    }

    /// Gives a rule for what is known of the outputs' values while a graph is built.
    pub const fn known_value(mut self, rule: KnownValueFn) -> Op {
        self.known_value = Some(rule);
        self
    }

    /// Says what the op calls.
    pub const fn calls(mut self, call: Call) -> Op {
        self.calls = Some(call);
        self
    }
}
