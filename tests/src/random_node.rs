//! Graphs around one node of any op, with random attributes and inputs: most of them make no sense, and many make just
//! enough sense to reach the kernel.
//!
//! Inputs that can be fed are placeholders with values; references, handles and variants come from nodes that make them
//! (`random_variants.rs`), functions from `random_functions.rs`.
//! Shapes are often shared between inputs and indices often small, because kernels look at their data only after such checks.

use std::collections::BTreeMap;

use bytes::Bytes;
use tensorfleet_core::attr::{FromAttr, IntoAttr};
use tensorfleet_core::{DType, PartialShape, Tensor};
use tensorfleet_kernel::signature::{Arg, ArgTypes, AttrDecl, AttrKind};
use tensorfleet_ops::catalogue;
use tensorfleet_proto::tensorflow::attr_value::{ListValue, Value};
use tensorfleet_proto::tensorflow::{AttrValue, GraphDef, NodeDef};

use crate::mutation::{Choices, damage_bytes};
use crate::random_functions::{Profile, function_attr, function_list_attr, random_function};

/// A graph whose node `node` is to be run.
pub struct RandomNode {
    /// The graph.
    pub graph: GraphDef,
    /// Values for its placeholders.
    pub feeds: Vec<(String, Tensor)>,
    /// Nodes to run before, in a step of their own: initializers of variables.
    pub before: Vec<String>,
    /// Whether the node has an output to fetch.
    pub has_output: bool,
}

/// Texts that some op parses: numbers, patterns, formats, paths, records.
const TEXTS: &[&[u8]] = &[
    b"",
    b"a",
    b"a,b,c",
    b"1,2.5,\"x\"",
    b"\"unclosed",
    b"1e400",
    b"-9223372036854775809",
    b"[a-z",
    b"(a(b(c)))*\\3",
    b"%d{}%s{",
    b"{}{}",
    b"ij,jk->ik",
    b"...ij->...ji",
    b"ii",
    b"/no/such/file",
    b"VALID",
    b"SAME",
    b"\x0a\x07\x0a\x05\x0a\x01a\x12\x00",
    b"\xff\xfe\x00\x80",
    b"YWJj",
    b"0 0 0 0",
    b"2 3 0,1:1,2",
];

const DTYPES: &[DType] = &[
    DType::Float,
    DType::Float,
    DType::Int32,
    DType::Int64,
    DType::Double,
    DType::Half,
    DType::BFloat16,
    DType::Bool,
    DType::String,
    DType::UInt8,
    DType::Int8,
    DType::Int16,
    DType::UInt16,
    DType::UInt32,
    DType::UInt64,
    DType::Complex64,
    DType::Complex128,
];

pub(crate) struct Builder<'a> {
    pub(crate) choices: &'a mut Choices,
    pub(crate) made: RandomNode,
    /// Shapes that earlier inputs have.
    shapes: Vec<Vec<usize>>,
    /// What nodes before this one give, for graphs of several.
    outputs: Vec<(String, DType)>,
    /// Types of the elements of datasets.
    pub(crate) element: Vec<DType>,
    /// How many nodes wait for this one to be made.
    pub(crate) depth: usize,
}

/// A graph around a node of `op`; `None` if nobody knows how to make its inputs.
pub fn random_node(op: &str, choices: &mut Choices) -> Option<RandomNode> {
    random_graph(&[op], choices)
}

/// A graph of nodes of these ops, each of which may take what those before it give. The last one is to be run.
pub fn random_graph(ops: &[&str], choices: &mut Choices) -> Option<RandomNode> {
    let (last, before) = ops.split_last()?;
    let signature = catalogue().find(last)?.signature().ok()?;
    let made = RandomNode {
        graph: GraphDef::default(),
        feeds: Vec::new(),
        before: Vec::new(),
        has_output: !signature.outputs.is_empty(),
    };
    let (shapes, outputs, element) = (Vec::new(), Vec::new(), Vec::new());
    let mut builder = Builder { choices, made, shapes, outputs, element, depth: 0 };
    builder.choose_element();
    for (at, op) in before.iter().enumerate() {
        let name = builder.named(&format!("before{at}"), op)?;
        builder.keep_outputs(&name, op);
    }
    builder.named("node", last)?;
    Some(builder.made)
}

/// The dtypes of an argument's edges; a few at most.
fn edge_types(arg: &Arg, attrs: &BTreeMap<String, AttrValue>, decls: &[AttrDecl]) -> Vec<DType> {
    let value = |name: &str| {
        let default = || decls.iter().find(|decl| decl.name == name)?.default.as_ref();
        attrs.get(name).or_else(default)
    };
    let dtype =
        |name: &str| value(name).and_then(|value| DType::from_attr(value).ok()).unwrap_or(DType::Float);
    match &arg.types {
        ArgTypes::Fixed(dtype) => vec![*dtype],
        ArgTypes::Attr(name) => vec![dtype(name)],
        ArgTypes::List(name) => {
            value(name).and_then(|value| Vec::<DType>::from_attr(value).ok()).unwrap_or_default()
        }
        ArgTypes::Repeated(count, each) => {
            let count = value(count).and_then(|value| i64::from_attr(value).ok()).unwrap_or(0).clamp(0, 9);
            let each = match &**each {
                ArgTypes::Fixed(dtype) => *dtype,
                ArgTypes::Attr(name) => dtype(name),
                _ => DType::Float,
            };
            vec![each; count as usize]
        }
    }
}

impl Builder<'_> {
    /// A node of any op.
    pub(crate) fn any(&mut self, op: &str) -> Option<String> {
        self.depth += 1;
        let name = format!("d{}_{}", self.depth, self.made.graph.node.len());
        let made = self.named(&name, op);
        self.depth -= 1;
        made
    }

    /// A node of this name and op, with attributes and inputs.
    fn named(&mut self, name: &str, op: &str) -> Option<String> {
        let signature = catalogue().find(op)?.signature().ok()?;
        let mut attrs = BTreeMap::new();
        // What functions take and give follows from the other attributes.
        let (functions, others): (Vec<&AttrDecl>, Vec<&AttrDecl>) =
            signature.attrs.iter().partition(|decl| decl.kind == AttrKind::Func);
        for decl in others {
            if decl.default.is_some() && self.choices.below(3) > 0 {
                continue;
            }
            attrs.insert(decl.name.clone(), self.attr(decl, op)?);
        }
        for decl in functions {
            let value = self.function(decl, op, &attrs);
            attrs.insert(decl.name.clone(), value);
        }
        let mut inputs = Vec::new();
        for arg in &signature.inputs {
            for dtype in edge_types(arg, &attrs, &signature.attrs) {
                inputs.push(self.input(dtype, arg.is_ref, op)?);
            }
        }
        if self.choices.below(40) == 0 {
            inputs.pop();
        }
        Some(self.node(name, op, inputs, attrs.into_iter().collect()))
    }

    /// Lets later nodes take what this one gives.
    fn keep_outputs(&mut self, name: &str, op: &str) {
        let Some(Ok(signature)) = catalogue().find(op).map(|entry| entry.signature()) else { return };
        let Some(node) = self.made.graph.node.iter().find(|node| node.name == name) else { return };
        let dtypes: Vec<DType> = signature
            .outputs
            .iter()
            .filter(|arg| !arg.is_ref)
            .flat_map(|arg| edge_types(arg, &node.attr, &signature.attrs))
            .collect();
        self.outputs
            .extend(dtypes.into_iter().enumerate().map(|(at, dtype)| (format!("{name}:{at}"), dtype)));
    }

    /// An edge of this type that is there already, perhaps.
    fn earlier_output(&mut self, dtype: DType) -> Option<String> {
        let fitting: Vec<&String> =
            self.outputs.iter().filter(|output| output.1 == dtype).map(|output| &output.0).collect();
        if fitting.is_empty() || self.choices.below(4) == 0 {
            return None;
        }
        Some(self.choices.one_of(&fitting).to_string())
    }

    /// An attribute that names one or several functions, which are added to the library.
    fn function(&mut self, decl: &AttrDecl, op: &str, attrs: &BTreeMap<String, AttrValue>) -> AttrValue {
        if self.choices.below(30) == 0 {
            return function_attr("nobody");
        }
        let profile = self.profile(decl, op, attrs);
        let count = if decl.is_list { 1 + self.choices.below(3) } else { 1 };
        let library = self.made.graph.library.get_or_insert_default();
        let mut names = Vec::new();
        for _ in 0..count {
            let name = format!("f{}", library.function.len());
            library.function.push(random_function(&name, &profile, self.choices));
            names.push(name);
        }
        match &names[..] {
            [only] if !decl.is_list => function_attr(only),
            names => function_list_attr(names),
        }
    }

    /// What the op passes to its function and expects of it; at times something else.
    fn profile(&mut self, decl: &AttrDecl, op: &str, attrs: &BTreeMap<String, AttrValue>) -> Profile {
        let types = |name: &str| {
            attrs.get(name).and_then(|value| Vec::<DType>::from_attr(value).ok()).unwrap_or_default()
        };
        let element = || self.element.clone();
        let with = |more: Vec<DType>| [element(), more].concat();
        let (inputs, outputs) = match (op, &*decl.name) {
            ("While" | "StatelessWhile", "cond") => (types("T"), vec![DType::Bool]),
            ("While" | "StatelessWhile", _) => (types("T"), types("T")),
            (_, "predicate") => (with(types("Targuments")), vec![DType::Bool]),
            (_, "key_func") => (with(types("Tkey_func_other_arguments")), vec![DType::Int64]),
            (_, "reduce_func") => {
                let others = types("Treduce_func_other_arguments");
                ([vec![DType::Int64, DType::Variant], others].concat(), vec![DType::Variant])
            }
            (_, "window_size_func") => (
                [vec![DType::Int64], types("Twindow_size_func_other_arguments")].concat(),
                vec![DType::Int64],
            ),
            (_, "dataset_factory") => (Vec::new(), vec![DType::Variant]),
            ("ScanDataset", _) => {
                let state = types("Tstate");
                let inputs = [state.clone(), with(types("Targuments"))].concat();
                (inputs, [state, types("output_types")].concat())
            }
            ("ReduceDataset", _) => ([types("Tstate"), with(types("Targuments"))].concat(), types("Tstate")),
            _ if op.contains("Interleave") || op.contains("FlatMap") => {
                (with(types("Targuments")), vec![DType::Variant])
            }
            _ if op.contains("Dataset") => (with(types("Targuments")), types("output_types")),
            _ => (types("Tin"), types("Tout")),
        };
        let mut profile = Profile { inputs, outputs };
        match self.choices.below(16) {
            0 => drop(profile.inputs.pop()),
            1 => profile.outputs.push(DType::Int32),
            2 => drop(profile.outputs.pop()),
            _ => {}
        }
        profile
    }

    pub(crate) fn node(
        &mut self,
        name: &str,
        op: &str,
        input: Vec<String>,
        attrs: Vec<(String, AttrValue)>,
    ) -> String {
        let attr = attrs.into_iter().collect();
        self.made.graph.node.push(NodeDef {
            name: name.into(),
            op: op.into(),
            input,
            attr,
            ..Default::default()
        });
        name.to_string()
    }

    pub(crate) fn fresh(&self) -> String {
        format!("n{}", self.made.graph.node.len())
    }

    fn attr(&mut self, decl: &AttrDecl, op: &str) -> Option<AttrValue> {
        if let Some(value) = self.element_attr(decl, op) {
            return Some(value);
        }
        let choices = &mut *self.choices;
        let length = (decl.minimum.unwrap_or(0).clamp(0, 8) as usize) + choices.below(5);
        let is_wild = choices.below(12) == 0;
        let int = |choices: &mut Choices| match is_wild {
            true => choices.awkward_int(),
            false => decl.minimum.filter(|_| !decl.is_list).unwrap_or(0).max(0) + choices.below(5) as i64,
        };
        let dtype = |choices: &mut Choices, allowed: &Option<Vec<DType>>| match allowed {
            Some(allowed) if !is_wild => *choices.one_of(allowed),
            _ => *choices.one_of(DTYPES),
        };
        let text = |choices: &mut Choices, allowed: &Option<Vec<String>>| match allowed {
            Some(allowed) if !is_wild => Bytes::from(choices.one_of(allowed).clone()),
            _ => Bytes::from_static(choices.one_of::<&[u8]>(TEXTS)),
        };
        Some(match (&decl.kind, decl.is_list) {
            (AttrKind::Int, false) => int(choices).into_attr(),
            (AttrKind::Int, true) => (0..length).map(|_| int(choices)).collect::<Vec<i64>>().into_attr(),
            (AttrKind::Float, false) => {
                (*choices.one_of(&[0.0f32, 0.5, 1.0, -1.0, f32::NAN, 1e30])).into_attr()
            }
            (AttrKind::Float, true) => vec![choices.below(3) as f32; length].into_attr(),
            (AttrKind::Bool, false) => (choices.below(2) == 0).into_attr(),
            (AttrKind::Type(allowed), false) => dtype(choices, allowed).into_attr(),
            (AttrKind::Type(allowed), true) => {
                (0..length.max(1)).map(|_| dtype(choices, allowed)).collect::<Vec<_>>().into_attr()
            }
            (AttrKind::String(allowed), false) => AttrValue { value: Some(Value::S(text(choices, allowed))) },
            (AttrKind::Shape, false) => shape_attr(choices).into_attr(),
            (AttrKind::Shape, true) => {
                (0..length).map(|_| shape_attr(choices)).collect::<Vec<_>>().into_attr()
            }
            (AttrKind::Tensor, false) => {
                let dtype = *choices.one_of(DTYPES);
                let dims = [choices.below(3)];
                random_tensor(dtype, &dims, choices).into_attr()
            }
            (AttrKind::String(allowed), true) => {
                let texts: Vec<Bytes> = (0..length).map(|_| text(choices, allowed)).collect();
                AttrValue { value: Some(Value::List(Box::new(ListValue { s: texts, ..Default::default() }))) }
            }
            _ => return None,
        })
    }

    /// The attributes by which datasets, iterators and what takes functions agree on types, mostly.
    fn element_attr(&mut self, decl: &AttrDecl, op: &str) -> Option<AttrValue> {
        if self.choices.below(10) == 0 {
            return None;
        }
        match &*decl.name {
            "output_types" if op == "RangeDataset" => Some(vec![DType::Int64].into_attr()),
            "output_types" | "Toutput_types" | "Tout" | "Tin" | "Tstate" => {
                Some(self.element.clone().into_attr())
            }
            "T" if decl.is_list => Some(self.element.clone().into_attr()),
            "output_shapes" if decl.is_list => {
                Some(vec![PartialShape::unknown(); self.element.len()].into_attr())
            }
            name if name.ends_with("arguments") => {
                Some(vec![DType::Int32; self.choices.below(2)].into_attr())
            }
            "element_dtype" => Some(DType::Float.into_attr()),
            _ => None,
        }
    }

    /// An edge of this type: a fed placeholder, or a node that makes a reference or a handle.
    fn input(&mut self, dtype: DType, is_ref: bool, op: &str) -> Option<String> {
        if !is_ref && let Some(output) = self.earlier_output(dtype) {
            return Some(output);
        }
        let dims = self.dims();
        let name = self.fresh();
        if is_ref && dtype == DType::String && is_of_old_queue(op) {
            return Some(self.old_handle(&name, op));
        }
        match dtype {
            DType::Resource => self.handle(&name, op),
            DType::Variant => self.variant(op),
            _ if is_ref => {
                let shape = known(&dims);
                let attrs = vec![("dtype".into(), dtype.into_attr()), ("shape".into(), shape.into_attr())];
                self.node(&name, "VariableV2", Vec::new(), attrs);
                let value = self.placeholder(dtype, &dims);
                let assign = self.fresh();
                self.node(
                    &assign,
                    "Assign",
                    vec![name.clone(), value],
                    vec![("T".into(), dtype.into_attr())],
                );
                self.made.before.push(assign);
                Some(name)
            }
            _ => Some(self.placeholder(dtype, &dims)),
        }
    }

    fn placeholder(&mut self, dtype: DType, dims: &[usize]) -> String {
        let name = self.fresh();
        let value = random_tensor(dtype, dims, self.choices);
        self.node(&name, "Placeholder", Vec::new(), vec![("dtype".into(), value.dtype().into_attr())]);
        self.made.feeds.push((name.clone(), value));
        name
    }

    fn dims(&mut self) -> Vec<usize> {
        if !self.shapes.is_empty() && self.choices.below(2) == 0 {
            let mut dims = self.choices.one_of(&self.shapes).clone();
            match self.choices.below(6) {
                0 => drop(dims.pop()),
                1 => dims.push(1 + self.choices.below(3)),
                2 if !dims.is_empty() => dims[0] = self.choices.below(5),
                _ => {}
            }
            return dims;
        }
        let rank = *self.choices.one_of(&[0, 0, 1, 1, 1, 2, 2, 2, 3, 4, 4, 5, 8]);
        let dims: Vec<usize> = (0..rank).map(|_| *self.choices.one_of(&[0, 1, 1, 2, 2, 3, 4, 5])).collect();
        self.shapes.push(dims.clone());
        dims
    }

    /// A resource the op may want.
    fn handle(&mut self, name: &str, op: &str) -> Option<String> {
        let dtype = *self.choices.one_of(DTYPES);
        let text = |text: &'static str| Bytes::from_static(text.as_bytes()).into_attr();
        let types = || vec![DType::Float, DType::Int32].into_attr();
        let maker = match op {
            _ if op.starts_with("Queue") => "FIFOQueueV2",
            _ if op.contains("Iterator") => return self.iterator(),
            _ if op.starts_with("Reader") => "TextLineReaderV2",
            _ if op.starts_with("CacheDataset") => "DummyMemoryCache",
            _ if op.starts_with("ShuffleDataset") || op.ends_with("SeedGenerator") => "DummySeedGenerator",
            _ if op.starts_with("LookupTable") || op.starts_with("InitializeTable") => "MutableHashTableV2",
            _ if op.starts_with("TensorArray") => return self.tensor_array(name),
            _ if op.starts_with("Stack") => "StackV2",
            _ if op.contains("Accumulator") => "ResourceConditionalAccumulator",
            _ => "VarHandleOp",
        };
        let attrs = match maker {
            "FIFOQueueV2" => vec![("component_types".into(), types()), ("capacity".into(), 3i64.into_attr())],
            "MutableHashTableV2" => vec![
                ("key_dtype".into(), choose_dtype(self.choices).into_attr()),
                ("value_dtype".into(), choose_dtype(self.choices).into_attr()),
            ],
            "StackV2" => {
                let size = self.placeholder(DType::Int32, &[]);
                let attrs = vec![("elem_type".into(), dtype.into_attr()), ("stack_name".into(), text("s"))];
                return Some(self.node(name, maker, vec![size], attrs));
            }
            "ResourceConditionalAccumulator" => vec![
                ("dtype".into(), DType::Float.into_attr()),
                ("shape".into(), PartialShape::unknown().into_attr()),
            ],
            "VarHandleOp" => {
                let dims = self.dims();
                let shape = known(&dims);
                let own: Vec<(String, AttrValue)> =
                    vec![("dtype".into(), dtype.into_attr()), ("shape".into(), shape.into_attr())];
                self.node(name, maker, Vec::new(), own);
                let value = self.placeholder(dtype, &dims);
                let assign = self.fresh();
                let typed = vec![("dtype".into(), dtype.into_attr())];
                self.node(&assign, "AssignVariableOp", vec![name.into(), value], typed);
                self.made.before.push(assign);
                return Some(name.to_string());
            }
            _ => Vec::new(),
        };
        Some(self.node(name, maker, Vec::new(), attrs))
    }

    fn tensor_array(&mut self, name: &str) -> Option<String> {
        let size = self.placeholder(DType::Int32, &[]);
        let dtype = *self.choices.one_of(DTYPES);
        Some(self.node(name, "TensorArrayV3", vec![size], vec![("dtype".into(), dtype.into_attr())]))
    }

    fn old_handle(&mut self, name: &str, op: &str) -> String {
        let float = || ("dtype".to_string(), DType::Float.into_attr());
        let shape = || ("shape".to_string(), PartialShape::unknown().into_attr());
        let (maker, attrs) = match op {
            _ if op.starts_with("Queue") => {
                let types = vec![DType::Float, DType::Int32].into_attr();
                (
                    "FIFOQueue",
                    vec![("component_types".to_string(), types), ("capacity".to_string(), 3i64.into_attr())],
                )
            }
            _ if op.starts_with("Sparse") => ("SparseConditionalAccumulator", vec![float(), shape()]),
            _ => ("ConditionalAccumulator", vec![float(), shape()]),
        };
        self.node(name, maker, Vec::new(), attrs)
    }
}

fn is_of_old_queue(op: &str) -> bool {
    op.starts_with("Queue") || op.contains("Accumulator")
}

fn choose_dtype(choices: &mut Choices) -> DType {
    *choices.one_of(&[DType::Int64, DType::String, DType::Float, DType::Int32])
}

fn known(dims: &[usize]) -> PartialShape {
    PartialShape::new(dims.iter().map(|&size| Some(size)))
}

fn shape_attr(choices: &mut Choices) -> PartialShape {
    match choices.below(3) {
        0 => PartialShape::unknown(),
        _ => known(&vec![choices.below(4); choices.below(4)]),
    }
}

/// A tensor of random values: small numbers mostly, awkward ones at times.
pub(crate) fn random_tensor(dtype: DType, dims: &[usize], choices: &mut Choices) -> Tensor {
    let count = dims.iter().product::<usize>();
    let spread = 1 + choices.below(6) as i64;
    let (offset, is_wild, is_sorted) =
        (choices.below(2) as i64 * -2, choices.below(6) == 0, choices.below(4) == 0);
    let mut numbers: Vec<i64> = (0..count)
        .map(|_| match is_wild && choices.below(3) == 0 {
            true => choices.awkward_int(),
            false => choices.below(spread as usize) as i64 + offset.max(if spread > 3 { -2 } else { 0 }),
        })
        .collect();
    if is_sorted {
        numbers.sort_unstable();
    }
    if dtype == DType::String {
        let text = |choices: &mut Choices| match choices.below(4) {
            0 => {
                let text = *choices.one_of::<&[u8]>(TEXTS);
                Bytes::from(damage_bytes(text, choices))
            }
            _ => Bytes::from_static(choices.one_of::<&[u8]>(TEXTS)),
        };
        let texts = (0..count).map(|_| text(choices)).collect();
        return Tensor::from_strings(texts, dims).unwrap_or_else(|_| Tensor::scalar(0i32));
    }
    macro_rules! of {
        ($($variant:ident $type:ty),*) => {
            match dtype {
                $(DType::$variant => Tensor::from_slice(&numbers.iter().map(|&n| n as $type).collect::<Vec<$type>>(), dims),)*
                DType::Bool => Tensor::from_slice(&numbers.iter().map(|&n| n > 0).collect::<Vec<_>>(), dims),
                _ => {
                    let shape = tensorfleet_core::Shape::new(dims);
                    return shape.and_then(|shape| Tensor::zeros(dtype, shape)).unwrap_or_else(|_| Tensor::scalar(0i32));
                }
            }
        };
    }
    let made = of!(Float f32, Double f64, Int32 i32, Int64 i64, UInt8 u8, Int8 i8, Int16 i16, UInt16 u16, UInt32 u32, UInt64 u64);
    made.unwrap_or_else(|_| Tensor::scalar(0i32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ops_can_be_made_and_a_seed_says_everything() {
        let can = |name: &str| (0..20).any(|seed| random_node(name, &mut Choices::new(seed)).is_some());
        let missing: Vec<&str> =
            catalogue().all().iter().map(|op| op.name).filter(|name| !can(name)).collect();
        assert!(missing.is_empty(), "{missing:?}");
        let graph = |seed| random_node("Conv2D", &mut Choices::new(seed)).unwrap().graph;
        assert_eq!(graph(3), graph(3));
    }
}
