//! Binds the inputs of a new node to its op's arguments: infers type and length attributes, gives literals their
//! dtype, and says in TensorFlow's words what does not fit.

use rustc_hash::FxHashMap;
use tensorfleet_core::attr::{FromAttr, IntoAttr};
use tensorfleet_core::{DType, EdgeType, Endpoint, Result, Status, Tensor, bail, ensure};
use tensorfleet_proto::tensorflow::AttrValue;

use super::literal;
use super::new_node::Input;
use crate::signature::{Arg, ArgTypes, AttrDecl, AttrKind, Signature};

/// One data input after binding.
pub(super) enum Bound {
    Edge(Endpoint),
    /// A constant to be added under this name.
    Constant(String, Tensor),
    /// A read of a resource variable to be added.
    Read(Endpoint, DType),
}

/// The result of binding: data inputs in order, and the ones that take references.
pub(super) struct Bindings {
    pub(super) inputs: Vec<Bound>,
    pub(super) references: Vec<Endpoint>,
}

/// Binds `inputs` to the arguments of `op` and completes `attrs`.
pub(super) fn bind(
    op: &str,
    signature: &Signature,
    inputs: Vec<Input>,
    attrs: &mut std::collections::BTreeMap<String, AttrValue>,
    type_of: impl Fn(Endpoint) -> Result<EdgeType>,
) -> Result<Bindings> {
    let groups = group(op, signature, inputs)?;
    let mut binder = Binder { op, signature, attrs, inferred_from: FxHashMap::default() };
    let mut types: Vec<Vec<Option<DType>>> = Vec::with_capacity(groups.len());
    let mut references = Vec::new();
    // What has a dtype of its own comes first, so that `2 * x` knows the type of `x` when it meets the 2.
    for (arg, group) in signature.inputs.iter().zip(&groups) {
        let mut known = Vec::with_capacity(group.len());
        for input in group {
            known.push(match input {
                Input::Edge(endpoint) => {
                    let edge = type_of(*endpoint)?;
                    if arg.is_ref {
                        ensure!(
                            edge.is_ref,
                            InvalidArgument,
                            "'{op}' Op requires that input '{}' be a mutable tensor (e.g.: a variable)",
                            arg.name
                        );
                        references.push(*endpoint);
                    }
                    Some(edge.dtype)
                }
                Input::Tensor(tensor) => Some(tensor.dtype()),
                Input::Read(_, dtype) => Some(*dtype),
                Input::Literal(_) | Input::List(_) => None,
            });
        }
        binder.infer(arg, &known)?;
        types.push(known);
    }
    let mut bound = Vec::new();
    for ((arg, group), mut known) in signature.inputs.iter().zip(groups).zip(types) {
        let count = group.len();
        for (index, input) in group.into_iter().enumerate() {
            let name = if arg.is_several() { format!("{}_{index}", arg.name) } else { arg.name.clone() };
            bound.push(match input {
                Input::Edge(endpoint) => Bound::Edge(endpoint),
                Input::Read(handle, dtype) => Bound::Read(handle, dtype),
                Input::Tensor(tensor) => Bound::Constant(name, tensor),
                Input::Literal(tensor) => {
                    let tensor = binder.adapt(arg, index, tensor);
                    known[index] = Some(tensor.dtype());
                    binder.infer(arg, &known)?;
                    Bound::Constant(name, tensor)
                }
                Input::List(_) => bail!(InvalidArgument, "argument '{}' of '{op}' Op nests lists", arg.name),
            });
        }
        binder.finish(arg, count, &known)?;
    }
    binder.complete()?;
    Ok(Bindings { inputs: bound, references })
}

/// Distributes the inputs over the arguments. Where one argument alone has several edges, they may be given one
/// by one instead of as a list.
fn group(op: &str, signature: &Signature, inputs: Vec<Input>) -> Result<Vec<Vec<Input>>> {
    let args = &signature.inputs;
    let several: Vec<usize> = (0..args.len()).filter(|&index| args[index].is_several()).collect();
    let listed = inputs.iter().any(|input| matches!(input, Input::List(_)));
    let wrong_count = |found: usize| {
        let names: Vec<&str> = args.iter().map(|arg| &*arg.name).collect();
        Status::invalid_argument(format!(
            "'{op}' Op takes {} inputs ({}), got {found}",
            args.len(),
            names.join(", ")
        ))
    };
    if let ([only], false) = (&several[..], listed) {
        let count = inputs.len().checked_sub(args.len() - 1).ok_or_else(|| wrong_count(inputs.len()))?;
        let mut rest = inputs.into_iter();
        let sizes = (0..args.len()).map(|index| if index == *only { count } else { 1 });
        return Ok(sizes.map(|size| rest.by_ref().take(size).collect()).collect());
    }
    if inputs.len() != args.len() {
        return Err(wrong_count(inputs.len()));
    }
    let mut groups = Vec::with_capacity(args.len());
    for (arg, input) in args.iter().zip(inputs) {
        groups.push(match (input, arg.is_several()) {
            (Input::List(list), true) => list,
            (Input::List(_), false) => {
                bail!(InvalidArgument, "input '{}' of '{op}' Op is one tensor, got a list", arg.name)
            }
            (_, true) => {
                bail!(InvalidArgument, "input '{}' of '{op}' Op is a list, got one tensor", arg.name)
            }
            (single, false) => vec![single],
        });
    }
    Ok(groups)
}

struct Binder<'a> {
    op: &'a str,
    signature: &'a Signature,
    attrs: &'a mut std::collections::BTreeMap<String, AttrValue>,
    /// Which argument an attribute was inferred from.
    inferred_from: FxHashMap<String, String>,
}

impl Binder<'_> {
    /// Infers or checks the type attribute of `arg` from those of its edges whose dtype is known.
    fn infer(&mut self, arg: &Arg, known: &[Option<DType>]) -> Result<()> {
        let each = match &arg.types {
            ArgTypes::Repeated(_, each) => {
                let mut dtypes = known.iter().flatten();
                if let Some(first) = dtypes.next()
                    && dtypes.any(|dtype| dtype != first)
                {
                    let names: Vec<&str> = known.iter().flatten().map(|&dtype| python_name(dtype)).collect();
                    bail!(
                        InvalidArgument,
                        "Tensors in list passed to '{}' of '{}' Op have types [{}] that don't all match.",
                        arg.name,
                        self.op,
                        names.join(", ")
                    );
                }
                each
            }
            other => other,
        };
        let Some(dtype) = known.iter().copied().flatten().next() else { return Ok(()) };
        match each {
            ArgTypes::Fixed(expected) => self.expect(arg, dtype, *expected, None),
            ArgTypes::Attr(attr) => match self.attrs.get(attr) {
                Some(value) => {
                    let expected = DType::from_attr(value)
                        .map_err(|status| status.context(format!("attr '{attr}' of '{}' Op", self.op)))?;
                    let source = self.inferred_from.get(attr).cloned();
                    self.expect(arg, dtype, expected, source.as_deref())
                }
                None => {
                    self.check_allowed(arg, attr, dtype)?;
                    self.inferred_from.insert(attr.clone(), arg.name.clone());
                    self.attrs.insert(attr.clone(), dtype.into_attr());
                    Ok(())
                }
            },
            _ => Ok(()),
        }
    }

    fn expect(&self, arg: &Arg, found: DType, expected: DType, source: Option<&str>) -> Result<()> {
        let (found, expected) = (python_name(found), python_name(expected));
        let start = format!("Input '{}' of '{}' Op has type {found} that does not match", arg.name, self.op);
        ensure!(
            found == expected,
            InvalidArgument,
            "{start} {}",
            match source {
                Some(source) => format!("type {expected} of argument '{source}'."),
                None => format!("expected type of {expected}."),
            }
        );
        Ok(())
    }

    fn check_allowed(&self, arg: &Arg, attr: &str, dtype: DType) -> Result<()> {
        let Some(AttrDecl { kind: AttrKind::Type(Some(allowed)), .. }) = self.signature.attr(attr) else {
            return Ok(());
        };
        let names: Vec<&str> = allowed.iter().map(|&dtype| python_name(dtype)).collect();
        ensure!(
            allowed.contains(&dtype),
            InvalidArgument,
            "Value passed to parameter '{}' has DataType {} not in list of allowed values: {}",
            arg.name,
            python_name(dtype),
            names.join(", ")
        );
        Ok(())
    }

    /// Gives a literal the dtype its place asks for: the one already known, or else its own if the op takes it,
    /// or else the attribute's default.
    fn adapt(&self, arg: &Arg, index: usize, tensor: Tensor) -> Tensor {
        let attr_dtype = |attr: &str| self.attrs.get(attr).and_then(|value| DType::from_attr(value).ok());
        let each = match &arg.types {
            ArgTypes::Repeated(_, each) => each,
            other => other,
        };
        let wanted = match each {
            ArgTypes::Fixed(dtype) => Some(*dtype),
            ArgTypes::Attr(attr) => attr_dtype(attr).or_else(|| {
                let decl = self.signature.attr(attr)?;
                let AttrKind::Type(Some(allowed)) = &decl.kind else { return None };
                if allowed.contains(&tensor.dtype()) {
                    return None;
                }
                DType::from_attr(decl.default.as_ref()?).ok()
            }),
            ArgTypes::List(attr) => {
                let types = self.attrs.get(attr).and_then(|value| Vec::<DType>::from_attr(value).ok());
                types.and_then(|types| types.get(index).copied())
            }
            ArgTypes::Repeated(..) => None,
        };
        match wanted {
            Some(dtype) => literal::adapted(&tensor, dtype).unwrap_or(tensor),
            None => tensor,
        }
    }

    /// Infers or checks the attribute that says how many edges an argument has, or of which types.
    fn finish(&mut self, arg: &Arg, count: usize, known: &[Option<DType>]) -> Result<()> {
        let (attr, value) = match &arg.types {
            ArgTypes::Repeated(attr, _) => (attr, (count as i64).into_attr()),
            ArgTypes::List(attr) => {
                (attr, known.iter().copied().flatten().collect::<Vec<DType>>().into_attr())
            }
            _ => return Ok(()),
        };
        let minimum = self.signature.attr(attr).and_then(|decl| decl.minimum).unwrap_or(0);
        ensure!(
            count as i64 >= minimum,
            InvalidArgument,
            "List argument '{}' to '{}' Op with length {count} shorter than minimum length {minimum}.",
            arg.name,
            self.op
        );
        if let Some(present) = self.attrs.get(attr) {
            ensure!(
                *present == value,
                InvalidArgument,
                "List argument '{}' to '{}' Op with {count} tensors of types [{}] does not fit attr '{attr}'.",
                arg.name,
                self.op,
                known.iter().flatten().map(|&dtype| python_name(dtype)).collect::<Vec<_>>().join(", ")
            );
            return Ok(());
        }
        self.attrs.insert(attr.clone(), value);
        Ok(())
    }

    /// Writes defaults into the node, as TensorFlow's front end does, and asks for what is missing. Attributes that servers
    /// of TensorFlow 1.15 do not know are left out where they have their defaults.
    fn complete(&mut self) -> Result<()> {
        for decl in &self.signature.attrs {
            if is_newer_than_1_15(self.op, &decl.name) {
                if self.attrs.get(&decl.name) == decl.default.as_ref() {
                    self.attrs.remove(&decl.name);
                }
                continue;
            }
            if self.attrs.contains_key(&decl.name) {
                continue;
            }
            let Some(default) = &decl.default else {
                bail!(InvalidArgument, "'{}' Op needs a value for attr '{}'", self.op, decl.name)
            };
            self.attrs.insert(decl.name.clone(), default.clone());
        }
        let declared = |name: &str| name.starts_with('_') || self.signature.attr(name).is_some();
        if let Some(unknown) = self.attrs.keys().find(|name| !declared(name)) {
            bail!(InvalidArgument, "'{}' Op has no attr '{unknown}'", self.op);
        }
        Ok(())
    }
}

/// Whether TensorFlow 1.15, whose graph version the builder writes, has the op without this attribute. All of them have
/// defaults. (Found by comparing the catalogue with its registry.)
fn is_newer_than_1_15(op: &str, attr: &str) -> bool {
    match attr {
        "allow_missing_files"
        | "allowed_devices"
        | "bad_indices_policy"
        | "buffer_size_min"
        | "cardinality_options"
        | "debug_name"
        | "exponential_avg_factor"
        | "force_synchronous"
        | "grad_a"
        | "grad_b"
        | "grad_x"
        | "grad_y"
        | "is_files"
        | "metadata"
        | "multiply_linear_by_lr"
        | "ram_budget"
        | "replicate_on_split"
        | "resize_if_index_out_of_bounds"
        | "shape_type"
        | "sparse_gradient"
        | "Tk"
        | "Tsegmentids"
        | "use_default_device" => true,
        "index_type" => op == "TopKV2",
        "offset" => op.starts_with("InitializeTableFromTextFile"),
        "reshuffle_each_iteration" => op == "ShuffleAndRepeatDataset",
        "explicit_paddings" => op.starts_with("DepthwiseConv2d") || op.starts_with("MaxPool"),
        "validate_shape" => op == "AssignVariableOp",
        _ => false,
    }
}

impl Arg {
    /// Whether the argument may have any number of edges.
    fn is_several(&self) -> bool {
        matches!(self.types, ArgTypes::Repeated(..) | ArgTypes::List(_))
    }
}

/// The dtype's name in TensorFlow's Python messages, where floats carry their width.
pub fn python_name(dtype: DType) -> &'static str {
    match dtype {
        DType::Float => "float32",
        DType::Double => "float64",
        DType::Half => "float16",
        other => other.name(),
    }
}
