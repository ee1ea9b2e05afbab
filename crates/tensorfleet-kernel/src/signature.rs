//! [`Signature`]: what an op's declaration says, parsed.
//!
//! The notation is that of TensorFlow's op registry:
//!
//! * arguments `x: T, values: N * T, handle: resource, ref: Ref(T), parts: Tlist -> y: float`, where `T` is a
//!   type attribute, `N` an int attribute, and `Tlist` a list(type) attribute;
//! * attributes `T: {float, double}; N: int >= 2; keep_dims: bool = false; Tidx: {int32, int64} = int32;
//!   mode: {'REFLECT', 'SYMMETRIC'}; shape: shape = {}; dims: list(int) = []; f: func`, separated by `;`. The
//!   words `type`, `number`, `real` and `floating` stand for sets of dtypes. Default tensors are a float (`0.5`) or a
//!   vector of bytes (`[255, 0]`).

use bytes::Bytes;
use tensorfleet_core::attr::{IntoAttr, kind_of};
use tensorfleet_core::{DType, PartialShape, Result, Status, Tensor, bail, ensure, excerpt};
use tensorfleet_proto::tensorflow::AttrValue;
use tensorfleet_proto::tensorflow::attr_value::{ListValue, Value};

/// The parsed declaration of an op.
#[derive(Debug, Clone, Default)]
pub struct Signature {
    /// Inputs in order.
    pub inputs: Vec<Arg>,
    /// Outputs in order.
    pub outputs: Vec<Arg>,
    /// Attributes in order of declaration.
    pub attrs: Vec<AttrDecl>,
}

/// An input or output argument, which stands for one or several edges.
#[derive(Debug, Clone)]
pub struct Arg {
    /// The argument's name.
    pub name: String,
    /// Whether it is a reference.
    pub is_ref: bool,
    /// Which types its edges have.
    pub types: ArgTypes,
}

/// How many edges an argument has, and of which types.
#[derive(Debug, Clone)]
pub enum ArgTypes {
    /// One edge of a fixed dtype.
    Fixed(DType),
    /// One edge whose dtype is an attribute.
    Attr(String),
    /// As many edges as an int attribute says, all of one type.
    Repeated(String, Box<ArgTypes>),
    /// One edge for each type in a list(type) attribute.
    List(String),
}

/// A declared attribute.
#[derive(Debug, Clone)]
pub struct AttrDecl {
    /// The attribute's name.
    pub name: String,
    /// What kind of value it has.
    pub kind: AttrKind,
    /// Whether it is a list of such values.
    pub is_list: bool,
    /// Smallest value of an int, or smallest length of a list.
    pub minimum: Option<i64>,
    /// The value if a node does not give one.
    pub default: Option<AttrValue>,
}

/// Kinds of attribute values.
#[derive(Debug, Clone, PartialEq)]
pub enum AttrKind {
    /// A byte string, possibly one of a few.
    String(Option<Vec<String>>),
    /// A 64-bit integer.
    Int,
    /// A 32-bit float.
    Float,
    /// A boolean.
    Bool,
    /// A dtype, possibly one of a few.
    Type(Option<Vec<DType>>),
    /// A partial shape.
    Shape,
    /// A tensor.
    Tensor,
    /// A function's name with attributes.
    Func,
}

const NUMBER: &[DType] = &[
    DType::Float,
    DType::Double,
    DType::Int32,
    DType::UInt8,
    DType::Int16,
    DType::Int8,
    DType::Complex64,
    DType::Int64,
    DType::QInt8,
    DType::QUInt8,
    DType::QInt32,
    DType::BFloat16,
    DType::QInt16,
    DType::QUInt16,
    DType::UInt16,
    DType::Complex128,
    DType::Half,
    DType::UInt32,
    DType::UInt64,
];
const REAL: &[DType] = &[
    DType::Float,
    DType::Double,
    DType::Int32,
    DType::UInt8,
    DType::Int16,
    DType::Int8,
    DType::Int64,
    DType::BFloat16,
    DType::UInt16,
    DType::Half,
    DType::UInt32,
    DType::UInt64,
];
const FLOATING: &[DType] = &[DType::Half, DType::BFloat16, DType::Float, DType::Double];

impl Signature {
    /// Parses the two declarations of an op.
    pub fn parse(arguments: &str, attributes: &str) -> Result<Signature> {
        let mut signature = Signature::default();
        for declaration in attributes.split(';').map(str::trim).filter(|text| !text.is_empty()) {
            signature.attrs.push(parse_attr(declaration)?);
        }
        let (inputs, outputs) = arguments.split_once("->").unwrap_or((arguments, ""));
        signature.inputs = signature.parse_args(inputs)?;
        signature.outputs = signature.parse_args(outputs)?;
        Ok(signature)
    }

    /// The declaration of attribute `name`.
    pub fn attr(&self, name: &str) -> Option<&AttrDecl> {
        self.attrs.iter().find(|decl| decl.name == name)
    }

    fn parse_args(&self, text: &str) -> Result<Vec<Arg>> {
        text.split(',').map(str::trim).filter(|arg| !arg.is_empty()).map(|arg| self.parse_arg(arg)).collect()
    }

    fn parse_arg(&self, text: &str) -> Result<Arg> {
        let Some((name, types)) = text.split_once(':') else {
            bail!(Internal, "argument '{text}' has no type")
        };
        let types = types.trim();
        let inner = types.strip_prefix("Ref(").and_then(|rest| rest.strip_suffix(')'));
        Ok(Arg {
            name: name.trim().to_string(),
            is_ref: inner.is_some(),
            types: self.parse_types(inner.unwrap_or(types))?,
        })
    }

    fn parse_types(&self, text: &str) -> Result<ArgTypes> {
        if let Some((count, each)) = text.split_once('*') {
            let count = count.trim().to_string();
            ensure!(
                self.attr(&count).is_some_and(|decl| decl.kind == AttrKind::Int),
                Internal,
                "'{count}' in '{text}' is not an int attribute"
            );
            return Ok(ArgTypes::Repeated(count, Box::new(self.parse_types(each.trim())?)));
        }
        if let Some(dtype) = DType::from_name(text) {
            return Ok(ArgTypes::Fixed(dtype));
        }
        match self.attr(text) {
            Some(AttrDecl { kind: AttrKind::Type(_), is_list: false, .. }) => {
                Ok(ArgTypes::Attr(text.to_string()))
            }
            Some(AttrDecl { kind: AttrKind::Type(_), is_list: true, .. }) => {
                Ok(ArgTypes::List(text.to_string()))
            }
            _ => bail!(Internal, "'{text}' is neither a dtype nor a type attribute"),
        }
    }
}

impl AttrDecl {
    /// Checks that a value a node gives is of the declared kind and allowed.
    pub fn check(&self, value: &AttrValue) -> Result<()> {
        let wrong = || {
            let list = if self.is_list { "list of " } else { "" };
            let expected = match self.kind {
                AttrKind::String(_) => "string",
                AttrKind::Int => "int",
                AttrKind::Float => "float",
                AttrKind::Bool => "bool",
                AttrKind::Type(_) => "type",
                AttrKind::Shape => "shape",
                AttrKind::Tensor => "tensor",
                AttrKind::Func => "func",
            };
            let name = &self.name;
            Status::invalid_argument(format!(
                "attr '{name}' must be a {list}{expected}, got {}",
                kind_of(value)
            ))
        };
        match (&value.value, self.is_list) {
            (Some(Value::List(list)), true) => self.check_list(list, wrong),
            (Some(single), false) => self.check_single(single, wrong),
            _ => Err(wrong()),
        }
    }

    fn check_single(&self, value: &Value, wrong: impl Fn() -> Status) -> Result<()> {
        match (&self.kind, value) {
            (AttrKind::String(allowed), Value::S(value)) => self.check_string(allowed, value),
            (AttrKind::Int, Value::I(value)) => self.check_minimum(*value, "value"),
            (AttrKind::Type(allowed), Value::Type(value)) => self.check_type(allowed, *value),
            (AttrKind::Float, Value::F(_))
            | (AttrKind::Bool, Value::B(_))
            | (AttrKind::Shape, Value::Shape(_))
            | (AttrKind::Tensor, Value::Tensor(_))
            | (AttrKind::Func, Value::Func(_)) => Ok(()),
            _ => Err(wrong()),
        }
    }

    fn check_list(&self, list: &ListValue, wrong: impl Fn() -> Status) -> Result<()> {
        let total = list.s.len()
            + list.i.len()
            + list.f.len()
            + list.b.len()
            + list.r#type.len()
            + list.shape.len()
            + list.tensor.len()
            + list.func.len();
        let own = match &self.kind {
            AttrKind::String(allowed) => {
                list.s.iter().try_for_each(|value| self.check_string(allowed, value))?;
                list.s.len()
            }
            AttrKind::Type(allowed) => {
                list.r#type.iter().try_for_each(|&value| self.check_type(allowed, value))?;
                list.r#type.len()
            }
            AttrKind::Int => list.i.len(),
            AttrKind::Float => list.f.len(),
            AttrKind::Bool => list.b.len(),
            AttrKind::Shape => list.shape.len(),
            AttrKind::Tensor => list.tensor.len(),
            AttrKind::Func => list.func.len(),
        };
        if own != total {
            return Err(wrong());
        }
        self.check_minimum(own as i64, "length")
    }

    fn check_minimum(&self, value: i64, what: &str) -> Result<()> {
        let minimum = self.minimum.unwrap_or(i64::MIN);
        ensure!(
            value >= minimum,
            InvalidArgument,
            "{what} for attr '{}' of {value} must be at least minimum {minimum}",
            self.name
        );
        Ok(())
    }

    fn check_string(&self, allowed: &Option<Vec<String>>, value: &Bytes) -> Result<()> {
        let Some(allowed) = allowed else { return Ok(()) };
        ensure!(
            allowed.iter().any(|text| text.as_bytes() == &**value),
            InvalidArgument,
            "Value for attr '{}' of \"{}\" is not in the list of allowed values: {}",
            self.name,
            excerpt(value),
            allowed.join(", ")
        );
        Ok(())
    }

    fn check_type(&self, allowed: &Option<Vec<DType>>, number: i32) -> Result<()> {
        let dtype = DType::from_number(number)?;
        let Some(allowed) = allowed else { return Ok(()) };
        ensure!(
            allowed.contains(&dtype),
            InvalidArgument,
            "Value for attr '{}' of {dtype} is not in the list of allowed values: {}",
            self.name,
            allowed.iter().map(|dtype| dtype.name()).collect::<Vec<_>>().join(", ")
        );
        Ok(())
    }
}

fn parse_attr(text: &str) -> Result<AttrDecl> {
    let Some((name, rest)) = text.split_once(':') else { bail!(Internal, "attribute '{text}' has no kind") };
    let (rest, default) = match rest.split_once(" = ") {
        Some((kind, default)) => (kind.trim(), Some(default.trim())),
        None => (rest.trim(), None),
    };
    let (kind, minimum) = match rest.split_once(">=") {
        Some((kind, minimum)) => {
            let minimum = minimum.trim().parse();
            (kind.trim(), Some(minimum.map_err(|_| Status::internal(format!("bad minimum in '{text}'")))?))
        }
        None => (rest, None),
    };
    let inner = kind.strip_prefix("list(").and_then(|rest| rest.strip_suffix(')'));
    let mut decl = AttrDecl {
        name: name.trim().to_string(),
        kind: parse_kind(inner.unwrap_or(kind))?,
        is_list: inner.is_some(),
        minimum,
        default: None,
    };
    if let Some(default) = default {
        let value = parse_default(&decl, default);
        decl.default = Some(value.ok_or_else(|| Status::internal(format!("bad default in '{text}'")))?);
    }
    Ok(decl)
}

fn parse_kind(text: &str) -> Result<AttrKind> {
    Ok(match text {
        "string" => AttrKind::String(None),
        "int" => AttrKind::Int,
        "float" => AttrKind::Float,
        "bool" => AttrKind::Bool,
        "type" => AttrKind::Type(None),
        "number" => AttrKind::Type(Some(NUMBER.to_vec())),
        "real" => AttrKind::Type(Some(REAL.to_vec())),
        "floating" => AttrKind::Type(Some(FLOATING.to_vec())),
        "shape" => AttrKind::Shape,
        "tensor" => AttrKind::Tensor,
        "func" => AttrKind::Func,
        _ => {
            let choices = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
            let Some(choices) = choices else { bail!(Internal, "unknown attribute kind '{text}'") };
            let choices: Vec<&str> = choices.split(',').map(str::trim).collect();
            if choices.iter().all(|choice| choice.starts_with('\'')) {
                AttrKind::String(Some(
                    choices.iter().map(|choice| choice.trim_matches('\'').to_string()).collect(),
                ))
            } else {
                let dtypes = choices.iter().map(|choice| {
                    DType::from_name(choice)
                        .ok_or_else(|| Status::internal(format!("unknown dtype '{choice}'")))
                });
                AttrKind::Type(Some(dtypes.collect::<Result<_>>()?))
            }
        }
    })
}

fn parse_default(decl: &AttrDecl, text: &str) -> Option<AttrValue> {
    if !decl.is_list {
        return parse_value(&decl.kind, text);
    }
    let items = text.strip_prefix('[')?.strip_suffix(']')?;
    let items: Vec<&str> = items.split(',').map(str::trim).filter(|item| !item.is_empty()).collect();
    Some(match &decl.kind {
        AttrKind::Int => {
            items.iter().map(|item| item.parse::<i64>()).collect::<Result<Vec<_>, _>>().ok()?.into_attr()
        }
        AttrKind::Float => {
            items.iter().map(|item| item.parse::<f32>()).collect::<Result<Vec<_>, _>>().ok()?.into_attr()
        }
        AttrKind::Type(_) => {
            items.iter().map(|item| DType::from_name(item)).collect::<Option<Vec<_>>>()?.into_attr()
        }
        AttrKind::String(_) => {
            items.iter().map(|item| item.trim_matches('\'').to_string()).collect::<Vec<_>>().into_attr()
        }
        _ if items.is_empty() => AttrValue { value: Some(Value::List(Box::default())) },
        _ => return None,
    })
}

fn parse_value(kind: &AttrKind, text: &str) -> Option<AttrValue> {
    Some(match kind {
        AttrKind::String(_) => text.strip_prefix('\'')?.strip_suffix('\'')?.into_attr(),
        AttrKind::Int => text.parse::<i64>().ok()?.into_attr(),
        AttrKind::Float => text.parse::<f32>().ok()?.into_attr(),
        AttrKind::Bool => text.parse::<bool>().ok()?.into_attr(),
        AttrKind::Type(_) => DType::from_name(text)?.into_attr(),
        AttrKind::Shape if text == "unknown" => PartialShape::unknown().into_attr(),
        AttrKind::Shape if text == "[]" => PartialShape::scalar().into_attr(),
        AttrKind::Tensor if text.starts_with('[') => {
            let items = text.strip_prefix('[')?.strip_suffix(']')?.split(',');
            let bytes = items.map(|item| item.trim().parse::<u8>()).collect::<Result<Vec<_>, _>>().ok()?;
            Tensor::vector(&bytes).ok()?.into_attr()
        }
        AttrKind::Tensor => Tensor::scalar(text.parse::<f32>().ok()?).into_attr(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensorfleet_core::attr::FromAttr;

    #[test]
    fn declarations_are_understood() {
        let signature = Signature::parse(
            "var: Ref(T), values: N * T, rest: Tlist, index: int32 -> out: T",
            "T: {float, double}; N: int >= 2; Tlist: list(type) >= 1; mode: {'A', 'B'} = 'A'; dims: list(int) = [1, 2]",
        )
        .unwrap();
        assert!(signature.inputs[0].is_ref && !signature.outputs[0].is_ref);
        assert!(matches!(&signature.inputs[1].types, ArgTypes::Repeated(count, _) if count == "N"));
        assert!(matches!(&signature.inputs[2].types, ArgTypes::List(attr) if attr == "Tlist"));
        assert!(matches!(signature.inputs[3].types, ArgTypes::Fixed(DType::Int32)));
        assert_eq!(signature.attr("N").unwrap().minimum, Some(2));
        let mode = signature.attr("mode").unwrap();
        assert_eq!(String::from_attr(mode.default.as_ref().unwrap()).unwrap(), "A");
        let dims = signature.attr("dims").unwrap().default.as_ref().unwrap();
        assert_eq!(Vec::<i64>::from_attr(dims).unwrap(), [1, 2]);
        assert!(Signature::parse("x: Missing", "").is_err());
    }

    #[test]
    fn values_outside_the_declaration_are_refused() {
        let signature =
            Signature::parse("", "T: {float}; N: int >= 1; mode: {'A'}; l: list(int) >= 1").unwrap();
        let check = |name: &str, value: AttrValue| signature.attr(name).unwrap().check(&value);
        assert!(check("T", DType::Float.into_attr()).is_ok());
        assert!(
            check("T", DType::Int32.into_attr())
                .unwrap_err()
                .text()
                .contains("not in the list of allowed values")
        );
        assert!(check("T", 3i64.into_attr()).unwrap_err().text().contains("must be a type, got int"));
        assert!(check("N", 0i64.into_attr()).is_err());
        assert!(check("mode", "B".into_attr()).is_err());
        assert!(check("l", Vec::<i64>::new().into_attr()).is_err());
        assert!(check("l", vec![1.0f32].into_attr()).is_err());
    }
}
