//! [`Variant`]: an opaque value, and what may be asked of one without knowing what it is.
//!
//! Lists and optionals may hold others. A loop can put one into the next as often as it likes, so both depth and the number of
//! tensors are bounded where a value is put into another ([`VariantExtent`]): whoever walks over the inside, to add, to send or to
//! free it, may do so by recursion.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use tensorfleet_proto::tensorflow::VariantTensorDataProto;

use crate::ensure;
use crate::status::{Result, Status};
use crate::tensor::Tensor;

/// An opaque value: a named type with metadata and tensors, as it travels, or an object of this process.
#[derive(Clone)]
pub struct Variant(Content);

#[derive(Clone)]
enum Content {
    Data(Arc<VariantTensorDataProto>),
    Object(Arc<dyn VariantObject>),
}

/// An object of this process that variants hold.
pub trait VariantObject: Any + Send + Sync {
    /// The name of its type, as TensorFlow's variants have it.
    fn type_name(&self) -> &str;

    /// The value as it travels. By default that is the type's name and nothing more, by which a receiver can tell what
    /// it did not get.
    fn to_data(&self) -> VariantTensorDataProto {
        VariantTensorDataProto { type_name: self.type_name().to_string(), ..Default::default() }
    }

    /// How much is inside.
    fn extent(&self) -> VariantExtent {
        VariantExtent::default()
    }

    /// The same form with zeros inside, for gradients.
    fn zeros_like(&self) -> Result<Variant> {
        Err(not_a_number(self.type_name()))
    }

    /// The sum of this value and another, for gradients.
    fn add(&self, _other: &Variant) -> Result<Variant> {
        Err(not_a_number(self.type_name()))
    }
}

#[cold]
fn not_a_number(type_name: &str) -> Status {
    Status::invalid_argument(format!("Input handle is not a list. Saw: '{type_name}'"))
}

impl Variant {
    /// A value as it came.
    pub fn new(data: VariantTensorDataProto) -> Variant {
        Variant(Content::Data(Arc::new(data)))
    }

    /// An object.
    pub fn from_object(object: impl VariantObject) -> Variant {
        Variant(Content::Object(Arc::new(object)))
    }

    /// The name of the value's type.
    pub fn type_name(&self) -> &str {
        match &self.0 {
            Content::Data(data) => &data.type_name,
            Content::Object(object) => object.type_name(),
        }
    }

    /// The value as it travels.
    pub fn to_data(&self) -> VariantTensorDataProto {
        match &self.0 {
            Content::Data(data) => VariantTensorDataProto::clone(data),
            Content::Object(object) => object.to_data(),
        }
    }

    /// The value as it came, if it did and is no object.
    pub fn data(&self) -> Option<&VariantTensorDataProto> {
        match &self.0 {
            Content::Data(data) => Some(data),
            Content::Object(_) => None,
        }
    }

    /// The object, if there is one.
    pub fn as_object(&self) -> Option<&dyn VariantObject> {
        match &self.0 {
            Content::Object(object) => Some(&**object),
            Content::Data(_) => None,
        }
    }

    /// The object, if there is one and it is a `T`.
    pub fn object<T: VariantObject>(&self) -> Option<&T> {
        match &self.0 {
            Content::Object(object) => (&**object as &dyn Any).downcast_ref(),
            Content::Data(_) => None,
        }
    }

    /// The object for writing, if there is one, it is a `T`, and nobody else holds it.
    pub fn object_mut<T: VariantObject>(&mut self) -> Option<&mut T> {
        match &mut self.0 {
            Content::Object(object) => (Arc::get_mut(object)? as &mut dyn Any).downcast_mut(),
            Content::Data(_) => None,
        }
    }
}

impl PartialEq for Variant {
    fn eq(&self, other: &Variant) -> bool {
        match (&self.0, &other.0) {
            (Content::Data(a), Content::Data(b)) => a == b,
            (Content::Object(a), Content::Object(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

impl fmt::Debug for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Variant({})", self.type_name())
    }
}

/// How deeply lists and optionals may be nested. Gradients of loops in loops nest once for each loop.
const MAX_DEPTH: u32 = 32;
/// How many tensors one value may hold, counting those that occur several times as often as they do.
const MAX_TENSORS: usize = 1 << 26;

/// How much is inside an opaque value.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct VariantExtent {
    depth: u32,
    tensors: usize,
}

impl VariantExtent {
    /// That of a value which holds these tensors, if it may exist.
    pub fn around<'a>(tensors: impl IntoIterator<Item = &'a Tensor>) -> Result<VariantExtent> {
        tensors.into_iter().try_fold(VariantExtent::default(), |extent, tensor| extent.with(tensor))
    }

    /// With one more tensor inside.
    pub fn with(self, tensor: &Tensor) -> Result<VariantExtent> {
        let inner = VariantExtent::inside(tensor);
        let sum = VariantExtent {
            depth: self.depth.max(inner.depth + 1),
            tensors: self.tensors.saturating_add(inner.tensors).saturating_add(1),
        };
        ensure!(
            sum.depth <= MAX_DEPTH,
            InvalidArgument,
            "lists and optionals are nested more than {MAX_DEPTH} times"
        );
        ensure!(
            sum.tensors <= MAX_TENSORS,
            ResourceExhausted,
            "a list or optional would hold more than {MAX_TENSORS} tensors"
        );
        Ok(sum)
    }

    /// With one tensor less inside; the depth stays what it was at most.
    pub fn without(self, tensor: &Tensor) -> VariantExtent {
        VariantExtent {
            tensors: self.tensors.saturating_sub(VariantExtent::inside(tensor).tensors + 1),
            ..self
        }
    }

    /// All that a tensor holds.
    fn inside(tensor: &Tensor) -> VariantExtent {
        let variants = tensor.as_variants().unwrap_or_default();
        variants.iter().fold(VariantExtent::default(), |sum, variant| {
            let one = variant.as_object().map(VariantObject::extent).unwrap_or_default();
            VariantExtent {
                depth: sum.depth.max(one.depth),
                tensors: sum.tensors.saturating_add(one.tensors),
            }
        })
    }
}
