//! Random functions for the attributes of random nodes: most fit what the node passes and expects, so that their bodies run;
//! some call themselves, name what is not there, or return something else.

use tensorfleet_core::DType;
use tensorfleet_core::attr::IntoAttr;
use tensorfleet_ops::catalogue;
use tensorfleet_proto::tensorflow::attr_value::Value;
use tensorfleet_proto::tensorflow::op_def::ArgDef;
use tensorfleet_proto::tensorflow::{
    AttrValue, DataType, FunctionDef, NameAttrList, NodeDef, OpDef, attr_value,
};

use crate::mutation::Choices;
use crate::random_node::random_tensor;

/// What a function is given and gives back.
pub(crate) struct Profile {
    pub(crate) inputs: Vec<DType>,
    pub(crate) outputs: Vec<DType>,
}

/// A function of this name and profile, or nearly so.
pub(crate) fn random_function(name: &str, profile: &Profile, choices: &mut Choices) -> FunctionDef {
    let argument = |name: String, dtype: DType| ArgDef { name, r#type: proto(dtype), ..Default::default() };
    let inputs = profile.inputs.iter().enumerate();
    let outputs = profile.outputs.iter().enumerate();
    let mut function = FunctionDef {
        signature: Some(OpDef {
            name: name.to_string(),
            input_arg: inputs.map(|(at, &dtype)| argument(format!("a{at}"), dtype)).collect(),
            output_arg: outputs.map(|(at, &dtype)| argument(format!("r{at}"), dtype)).collect(),
            is_stateful: choices.below(4) == 0,
            ..Default::default()
        }),
        ..Default::default()
    };
    let mut body = Body { function: &mut function, profile, choices };
    for (at, &dtype) in profile.outputs.iter().enumerate() {
        let source = body.value(dtype);
        body.function.ret.insert(format!("r{at}"), source);
    }
    if body.choices.below(3) == 0 {
        body.anything();
    }
    if body.choices.below(10) == 0 {
        body.spoil(name);
    }
    function
}

/// The attribute that names a function.
pub(crate) fn function_attr(name: &str) -> AttrValue {
    AttrValue { value: Some(Value::Func(named(name))) }
}

/// The attribute that names several.
pub(crate) fn function_list_attr(names: &[String]) -> AttrValue {
    let func = names.iter().map(|name| named(name)).collect();
    AttrValue { value: Some(Value::List(Box::new(attr_value::ListValue { func, ..Default::default() }))) }
}

fn named(name: &str) -> NameAttrList {
    NameAttrList { name: name.to_string(), ..Default::default() }
}

fn proto(dtype: DType) -> i32 {
    match dtype.into_attr().value {
        Some(Value::Type(number)) => number,
        _ => DataType::DtInvalid as i32,
    }
}

/// The body of a function that is being made.
struct Body<'a> {
    function: &'a mut FunctionDef,
    profile: &'a Profile,
    choices: &'a mut Choices,
}

impl Body<'_> {
    fn node(&mut self, op: &str, input: Vec<String>, attrs: Vec<(&str, AttrValue)>) -> String {
        let name = format!("b{}", self.function.node_def.len());
        let attr = attrs.into_iter().map(|(name, value)| (name.to_string(), value)).collect();
        self.function.node_def.push(NodeDef {
            name: name.clone(),
            op: op.to_string(),
            input,
            attr,
            ..Default::default()
        });
        name
    }

    fn constant(&mut self, dtype: DType, dims: &[usize]) -> String {
        let value = random_tensor(dtype, dims, self.choices);
        let attrs = vec![("dtype", value.dtype().into_attr()), ("value", value.into_attr())];
        format!("{}:output:0", self.node("Const", Vec::new(), attrs))
    }

    /// Something of this type: an argument, what an op makes of one, or something new.
    fn value(&mut self, dtype: DType) -> String {
        let same: Vec<usize> =
            (0..self.profile.inputs.len()).filter(|&at| self.profile.inputs[at] == dtype).collect();
        if !same.is_empty() && self.choices.below(4) > 0 {
            let argument = format!("a{}", self.choices.one_of(&same));
            let typed = vec![("T", dtype.into_attr())];
            return match self.choices.below(4) {
                0 => argument,
                1 if dtype != DType::Variant && dtype != DType::Resource => {
                    format!("{}:z:0", self.node("AddV2", vec![argument.clone(), argument], typed))
                }
                _ => format!("{}:output:0", self.node("Identity", vec![argument], typed)),
            };
        }
        match dtype {
            DType::Variant => self.dataset(),
            DType::Resource => {
                let attrs =
                    vec![("dtype", DType::Float.into_attr()), ("shape", Vec::<i64>::new().into_attr())];
                format!("{}:resource:0", self.node("VarHandleOp", Vec::new(), attrs))
            }
            _ => {
                let rank = *self.choices.one_of(&[0, 0, 0, 1, 2]);
                let dims = vec![1 + self.choices.below(3); rank];
                self.constant(dtype, &dims)
            }
        }
    }

    fn dataset(&mut self) -> String {
        if let Some((at, &dtype)) =
            self.profile.inputs.iter().enumerate().find(|(_, dtype)| **dtype != DType::Variant)
            && self.choices.below(2) == 0
        {
            let types = ("Toutput_types", vec![dtype].into_attr());
            let shapes = ("output_shapes", vec![tensorfleet_core::PartialShape::unknown()].into_attr());
            let op = *self.choices.one_of(&["TensorDataset", "TensorSliceDataset"]);
            return format!("{}:handle:0", self.node(op, vec![format!("a{at}")], vec![types, shapes]));
        }
        let bounds: Vec<String> = (0..3).map(|_| self.constant(DType::Int64, &[])).collect();
        let types = ("output_types", vec![DType::Int64].into_attr());
        let shapes = ("output_shapes", vec![tensorfleet_core::PartialShape::scalar()].into_attr());
        format!("{}:handle:0", self.node("RangeDataset", bounds, vec![types, shapes]))
    }

    /// A node of any op, with arguments for inputs, that nothing may ever need.
    fn anything(&mut self) {
        let ops = catalogue().all();
        let op = ops[self.choices.below(ops.len())].name;
        let count = self.profile.inputs.len().min(3);
        let inputs = (0..self.choices.below(count + 1)).map(|at| format!("a{at}")).collect();
        let node = self.node(op, inputs, vec![("T", DType::Float.into_attr())]);
        if self.choices.below(3) == 0 {
            self.function.control_ret.insert("effect".to_string(), node);
        }
    }

    /// Makes the function wrong in one of many ways.
    fn spoil(&mut self, name: &str) {
        let first = self.profile.outputs.first().copied().unwrap_or(DType::Float);
        match self.choices.below(7) {
            // It calls itself.
            0 => {
                let arguments = (0..self.profile.inputs.len()).map(|at| format!("a{at}")).collect();
                let attrs = vec![
                    ("Tin", self.profile.inputs.clone().into_attr()),
                    ("Tout", self.profile.outputs.clone().into_attr()),
                    ("f", function_attr(name)),
                ];
                let call = self.node("PartitionedCall", arguments, attrs);
                self.function.ret.insert("r0".to_string(), format!("{call}:output:0"));
            }
            1 => drop(self.function.ret.insert("r0".to_string(), "nowhere:output:0".to_string())),
            2 => drop(self.function.ret.pop_first()),
            3 => {
                drop(self.function.ret.insert("r0".to_string(), "b0:output:99999999999999999999".to_string()))
            }
            // A cycle.
            4 => {
                let next = format!("b{}", self.function.node_def.len() + 1);
                let typed = || vec![("T", first.into_attr())];
                let one = self.node("Identity", vec![format!("{next}:output:0")], typed());
                let other = self.node("Identity", vec![format!("{one}:output:0")], typed());
                self.function.ret.insert("r0".to_string(), format!("{other}:output:0"));
            }
            // Two nodes of one name.
            5 => self.function.node_def.extend(self.function.node_def.first().cloned()),
            _ => drop(self.function.signature.take()),
        }
    }
}
