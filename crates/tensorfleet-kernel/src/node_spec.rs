//! [`NodeSpec`]: a node seen through its op's declaration — types resolved, attributes checked and defaulted.

mod once_per_request;

use once_per_request::once_per_request;
use smallvec::SmallVec;
use tensorfleet_core::attr::FromAttr;
use tensorfleet_core::{DType, EdgeType, Node, Result, Status, ensure};
use tensorfleet_proto::tensorflow::AttrValue;

use crate::catalogue::{Catalogue, OpEntry};
use crate::op::Op;
use crate::signature::{Arg, ArgTypes, Signature};

/// Edge types of a node's inputs or outputs.
pub type EdgeTypes = SmallVec<[EdgeType; 2]>;

/// Bounds how many edges one int attribute can claim, before anything is allocated for them.
const MAX_REPEATED: i64 = 1 << 20;

/// A node that agrees with its op's declaration.
pub struct NodeSpec<'a> {
    node: &'a Node,
    entry: &'static OpEntry,
    /// Types of the data inputs the op expects.
    pub inputs: EdgeTypes,
    /// Types of the outputs.
    pub outputs: EdgeTypes,
}

impl<'a> NodeSpec<'a> {
    /// Looks up the op, checks all attributes, and resolves the types of inputs and outputs.
    pub fn resolve(node: &'a Node, catalogue: &'static Catalogue) -> Result<NodeSpec<'a>> {
        let entry = catalogue.find(&node.op).ok_or_else(|| unknown_op(node))?;
        NodeSpec::resolve_with(node, entry)
            .map_err(|status| status.at_node(&node.name, &node.op, &node.device))
    }

    fn resolve_with(node: &'a Node, entry: &'static OpEntry) -> Result<NodeSpec<'a>> {
        let signature = entry.signature()?;
        for decl in &signature.attrs {
            match node.attrs.get(&decl.name) {
                Some(value) => decl.check(value)?,
                None => ensure!(decl.default.is_some(), NotFound, "No attr named '{}' in NodeDef", decl.name),
            }
        }
        let mut spec = NodeSpec { node, entry, inputs: EdgeTypes::new(), outputs: EdgeTypes::new() };
        spec.inputs = spec.edge_types(&signature.inputs)?;
        spec.outputs = spec.edge_types(&signature.outputs)?;
        let (expected, found) = (spec.inputs.len(), node.inputs.len());
        ensure!(
            expected == found,
            InvalidArgument,
            "NodeDef expected inputs '{}' do not match {found} inputs specified",
            spec.inputs.iter().map(EdgeType::to_string).collect::<Vec<_>>().join(", ")
        );
        Ok(spec)
    }

    fn edge_types(&self, args: &[Arg]) -> Result<EdgeTypes> {
        let mut types = EdgeTypes::new();
        for arg in args {
            let is_ref = arg.is_ref;
            let mut push = |dtype| types.push(EdgeType { dtype, is_ref });
            match &arg.types {
                ArgTypes::Fixed(dtype) => push(*dtype),
                ArgTypes::Attr(attr) => push(self.attr(attr)?),
                ArgTypes::List(attr) => self.attr::<Vec<DType>>(attr)?.into_iter().for_each(push),
                ArgTypes::Repeated(count, each) => {
                    let count: i64 = self.attr(count)?;
                    ensure!(
                        (0..=MAX_REPEATED).contains(&count),
                        InvalidArgument,
                        "argument '{}' cannot have {count} edges",
                        arg.name
                    );
                    let dtype = match &**each {
                        ArgTypes::Fixed(dtype) => *dtype,
                        ArgTypes::Attr(attr) => self.attr(attr)?,
                        _ => return Err(Status::internal(format!("argument '{}' nests lists", arg.name))),
                    };
                    (0..count).for_each(|_| push(dtype));
                }
            }
        }
        Ok(types)
    }

    /// The output arguments with the number of edges of each.
    pub fn output_counts(&self) -> Result<Vec<(&'static str, usize)>> {
        let arguments = &self.entry.signature()?.outputs;
        let count = |arg: &'static Arg| Ok((&*arg.name, self.edge_types(std::slice::from_ref(arg))?.len()));
        arguments.iter().map(count).collect()
    }

    /// The node's name.
    pub fn name(&self) -> &str {
        &self.node.name
    }

    /// The node's device, as the graph has it.
    pub fn device(&self) -> &str {
        &self.node.device
    }

    /// The node itself.
    pub fn node(&self) -> &'a Node {
        self.node
    }

    /// The op.
    pub fn op(&self) -> &'static Op {
        self.entry.op
    }

    /// The op's parsed declaration.
    pub fn signature(&self) -> Result<&'static Signature> {
        self.entry.signature()
    }

    /// The value of a declared attribute: the node's own, or the default.
    pub fn attr<A: FromAttr>(&self, name: &str) -> Result<A> {
        A::from_attr(self.raw_attr(name)?).map_err(|status| status.context(format!("attr '{name}'")))
    }

    /// The value of an attribute as it stands in the graph.
    pub fn raw_attr(&self, name: &str) -> Result<&AttrValue> {
        let own = self.node.attrs.get(name);
        let default = || self.entry.signature().ok()?.attr(name)?.default.as_ref();
        own.or_else(default).ok_or_else(|| Status::not_found(format!("No attr named '{name}' in NodeDef")))
    }

    /// The dtype attribute `T`, which most ops have.
    pub fn dtype(&self) -> Result<DType> {
        self.attr("T")
    }

    /// Output types without the reference marks.
    pub fn output_dtype(&self, index: usize) -> Result<DType> {
        let output = self.outputs.get(index);
        output.map(|edge| edge.dtype).ok_or_else(|| Status::internal(format!("there is no output {index}")))
    }

    /// Input types without the reference marks.
    pub fn input_dtype(&self, index: usize) -> Result<DType> {
        let input = self.inputs.get(index);
        input.map(|edge| edge.dtype).ok_or_else(|| Status::internal(format!("there is no input {index}")))
    }

    /// Makes the node's kernel.
    pub fn kernel(&self) -> Result<crate::kernel::KernelBox> {
        let make = self.op().kernel.ok_or_else(|| {
            Status::unimplemented(format!("Op {} has no kernel in Tensorfleet", self.op().name))
        });
        make.and_then(|make| Ok(once_per_request(self, make(self)?)))
            .map_err(|status| status.at_node(&self.node.name, &self.node.op, &self.node.device))
    }
}

#[cold]
fn unknown_op(node: &Node) -> Status {
    Status::not_found(format!(
        "Op type not registered '{}' in Tensorfleet. The node's op must be in the catalogue (cargo xtask ops lists it)",
        node.op
    ))
    .at_node(&node.name, &node.op, &node.device)
}
