//! Typed values of attributes: making them ([`IntoAttr`]) and reading them ([`FromAttr`]).
//!
//! Reading checks the kind of value once and says what was expected and found; who asked (node and op) is
//! added by the caller.

use bytes::Bytes;
use tensorfleet_proto::tensorflow::attr_value::{ListValue, Value};
use tensorfleet_proto::tensorflow::{AttrValue, NameAttrList, TensorProto};

use crate::dtype::DType;
use crate::shape::PartialShape;
use crate::status::{Result, Status};
use crate::tensor::Tensor;

/// The kind of a value in words, for error messages.
pub fn kind_of(value: &AttrValue) -> &'static str {
    match &value.value {
        None => "nothing",
        Some(Value::S(_)) => "string",
        Some(Value::I(_)) => "int",
        Some(Value::F(_)) => "float",
        Some(Value::B(_)) => "bool",
        Some(Value::Type(_)) => "type",
        Some(Value::Shape(_)) => "shape",
        Some(Value::Tensor(_)) => "tensor",
        Some(Value::List(_)) => "list",
        Some(Value::Func(_)) => "func",
        Some(Value::Placeholder(_)) => "placeholder",
    }
}

fn mismatch(expected: &str, value: &AttrValue) -> Status {
    Status::invalid_argument(format!("expected a value of type {expected}, got {}", kind_of(value)))
}

/// A Rust value that an attribute can be read as.
pub trait FromAttr: Sized {
    /// Reads the value, or says which kind was expected.
    fn from_attr(value: &AttrValue) -> Result<Self>;
}

/// A Rust value that an attribute can hold.
pub trait IntoAttr {
    /// The attribute value.
    fn into_attr(self) -> AttrValue;
}

macro_rules! scalar_attr {
    ($rust:ty, $variant:ident, $kind:literal, $read:expr, $write:expr) => {
        impl FromAttr for $rust {
            fn from_attr(value: &AttrValue) -> Result<$rust> {
                match &value.value {
                    Some(Value::$variant(inner)) => $read(inner),
                    _ => Err(mismatch($kind, value)),
                }
            }
        }
        impl IntoAttr for $rust {
            fn into_attr(self) -> AttrValue {
                AttrValue { value: Some(Value::$variant($write(self))) }
            }
        }
    };
}

macro_rules! list_attr {
    ($rust:ty, $field:ident, $kind:literal, $read:expr, $write:expr) => {
        impl FromAttr for Vec<$rust> {
            fn from_attr(value: &AttrValue) -> Result<Vec<$rust>> {
                match &value.value {
                    Some(Value::List(list)) => list.$field.iter().map($read).collect(),
                    _ => Err(mismatch($kind, value)),
                }
            }
        }
        impl IntoAttr for Vec<$rust> {
            fn into_attr(self) -> AttrValue {
                let $field = self.into_iter().map($write).collect();
                AttrValue { value: Some(Value::List(Box::new(ListValue { $field, ..Default::default() }))) }
            }
        }
    };
}

scalar_attr!(i64, I, "int", |v: &i64| Ok(*v), |v| v);
scalar_attr!(f32, F, "float", |v: &f32| Ok(*v), |v| v);
scalar_attr!(bool, B, "bool", |v: &bool| Ok(*v), |v| v);
scalar_attr!(Bytes, S, "string", |v: &Bytes| Ok(v.clone()), |v| v);
scalar_attr!(String, S, "string", text, |v: String| Bytes::from(v));
scalar_attr!(DType, Type, "type", |v: &i32| DType::from_number(*v), DType::number);
scalar_attr!(PartialShape, Shape, "shape", PartialShape::from_proto, |v: PartialShape| v.to_proto());
scalar_attr!(Tensor, Tensor, "tensor", |v: &TensorProto| Tensor::from_proto(v), |v: Tensor| Box::new(
    v.to_proto()
));
scalar_attr!(NameAttrList, Func, "func", |v: &NameAttrList| Ok(v.clone()), |v| v);

list_attr!(i64, i, "list(int)", |&v| Ok(v), |v| v);
list_attr!(f32, f, "list(float)", |&v| Ok(v), |v| v);
list_attr!(bool, b, "list(bool)", |&v| Ok(v), |v| v);
list_attr!(Bytes, s, "list(string)", |v| Ok(v.clone()), |v| v);
list_attr!(String, s, "list(string)", text, Bytes::from);
list_attr!(DType, r#type, "list(type)", |&v| DType::from_number(v), DType::number);
list_attr!(PartialShape, shape, "list(shape)", PartialShape::from_proto, |v: PartialShape| v.to_proto());
list_attr!(Tensor, tensor, "list(tensor)", Tensor::from_proto, |v: Tensor| v.to_proto());
list_attr!(NameAttrList, func, "list(func)", |v| Ok(v.clone()), |v| v);

fn text(bytes: &Bytes) -> Result<String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| Status::invalid_argument("the string is not valid UTF-8"))
}

impl IntoAttr for &str {
    fn into_attr(self) -> AttrValue {
        self.to_string().into_attr()
    }
}

impl IntoAttr for AttrValue {
    fn into_attr(self) -> AttrValue {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_as_they_went_in_and_other_kinds_are_refused() {
        assert_eq!(i64::from_attr(&(-3i64).into_attr()), Ok(-3));
        assert_eq!(Vec::<DType>::from_attr(&vec![DType::Float].into_attr()), Ok(vec![DType::Float]));
        assert_eq!(String::from_attr(&"NHWC".into_attr()), Ok("NHWC".to_string()));
        let status = bool::from_attr(&1i64.into_attr()).unwrap_err();
        assert_eq!(status.text(), "expected a value of type bool, got int");
    }
}
