//! [`Variant`]: an opaque value, and what may be asked of one without knowing what it is.
//!
//! Lists and optionals may hold others, and a dataset holds those it is made of. A loop can put one into the next as often as it
//! likes, so both depth and the number of tensors are bounded where a value is put into another ([`VariantExtent`]): whoever walks
//! over the inside, to add, to send, to iterate or to free it, may do so by recursion.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use tensorfleet_proto::tensorflow::VariantTensorDataProto;

use crate::dtype::DType;
use crate::status::{Result, Status};
use crate::tensor::Tensor;
use crate::{ensure, memory};

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
/// How many links a chain may have. Each is some hundred bytes of stack for whoever walks along it; programs have dozens.
const MAX_CHAIN: u32 = 1000;
/// How many links there may be altogether, those that occur several times counted as often: a walk along all of them makes
/// something for each.
const MAX_LINKS: usize = 1 << 16;
/// What a tensor takes in a message or a copy of its value, without its data.
const TENSOR_BYTES: usize = 256;

/// How much is inside an opaque value.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct VariantExtent {
    depth: u32,
    tensors: usize,
    /// The longest chain inside.
    chain: u32,
    /// The links of all chains.
    links: usize,
}

impl VariantExtent {
    /// That of a value which holds these tensors, if it may exist.
    pub fn around<'a>(tensors: impl IntoIterator<Item = &'a Tensor>) -> Result<VariantExtent> {
        tensors.into_iter().try_fold(VariantExtent::default(), |extent, tensor| extent.with(tensor))
    }

    /// That of a link in a chain, if it may exist: of a dataset, which is made of others and of these tensors, and lives on this
    /// task only.
    pub fn of_link<'a>(tensors: impl IntoIterator<Item = &'a Tensor>) -> Result<VariantExtent> {
        let mut sum = VariantExtent::default();
        for tensor in tensors {
            let inner = VariantExtent::inside(tensor);
            sum.depth = sum.depth.max(inner.depth);
            sum.tensors = sum.tensors.saturating_add(inner.tensors);
            sum.chain = sum.chain.max(inner.chain);
            sum.links = sum.links.saturating_add(inner.links);
        }
        sum.chain += 1;
        sum.links = sum.links.saturating_add(1);
        sum.check()
    }

    /// With one more tensor inside.
    pub fn with(self, tensor: &Tensor) -> Result<VariantExtent> {
        let inner = VariantExtent::inside(tensor);
        let sum = VariantExtent {
            depth: self.depth.max(inner.depth + 1),
            tensors: self.tensors.saturating_add(inner.tensors).saturating_add(1),
            chain: self.chain.max(inner.chain),
            links: self.links.saturating_add(inner.links),
        };
        let sum = sum.check()?;
        // What is in it several times is there once, but is sent, added and copied several times.
        if inner.tensors > 0 {
            memory::check_fits(sum.tensors.saturating_mul(TENSOR_BYTES))?;
        }
        Ok(sum)
    }

    fn check(self) -> Result<VariantExtent> {
        ensure!(
            self.depth <= MAX_DEPTH,
            InvalidArgument,
            "lists and optionals are nested more than {MAX_DEPTH} times"
        );
        ensure!(
            self.tensors <= MAX_TENSORS,
            ResourceExhausted,
            "a list or optional would hold more than {MAX_TENSORS} tensors"
        );
        ensure!(
            self.chain <= MAX_CHAIN,
            InvalidArgument,
            "datasets are nested {} deep, and at most {MAX_CHAIN} may be",
            self.chain
        );
        ensure!(
            self.links <= MAX_LINKS,
            ResourceExhausted,
            "a dataset is made of {} others, those that occur several times counted as often; at most {MAX_LINKS} may be",
            self.links
        );
        Ok(self)
    }

    /// With one tensor less inside; the depth stays what it was at most.
    pub fn without(self, tensor: &Tensor) -> VariantExtent {
        let inner = VariantExtent::inside(tensor);
        VariantExtent {
            tensors: self.tensors.saturating_sub(inner.tensors + 1),
            links: self.links.saturating_sub(inner.links),
            ..self
        }
    }

    /// All that a tensor holds.
    fn inside(tensor: &Tensor) -> VariantExtent {
        let mut sum = VariantExtent::default();
        if tensor.dtype() != DType::Variant {
            return sum;
        }
        for variant in tensor.as_variants().unwrap_or_default() {
            let one = variant.as_object().map(VariantObject::extent).unwrap_or_default();
            sum.depth = sum.depth.max(one.depth);
            sum.tensors = sum.tensors.saturating_add(one.tensors);
            sum.chain = sum.chain.max(one.chain);
            sum.links = sum.links.saturating_add(one.links);
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;

    struct Link(VariantExtent);

    impl VariantObject for Link {
        fn type_name(&self) -> &str {
            "link"
        }

        fn extent(&self) -> VariantExtent {
            self.0
        }
    }

    fn link(inner: &[&Tensor]) -> Result<Tensor> {
        let extent = VariantExtent::of_link(inner.iter().copied())?;
        Tensor::from_variants(vec![Variant::from_object(Link(extent))], &[])
    }

    #[test]
    fn a_chain_has_an_end_that_is_found_when_it_is_made() {
        let mut tensor = link(&[&Tensor::scalar(1i64)]).unwrap();
        for _ in 1..MAX_CHAIN {
            tensor = link(&[&tensor]).unwrap();
        }
        let status = link(&[&tensor]).unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.text().contains("1001 deep") && status.text().contains("at most 1000"), "{status}");
    }

    #[test]
    fn a_chain_that_doubles_ends_sooner() {
        let mut tensor = link(&[]).unwrap();
        let grown: Result<()> = (0..MAX_CHAIN).try_for_each(|_| {
            tensor = link(&[&tensor, &tensor])?;
            Ok(())
        });
        assert_eq!(grown.unwrap_err().code(), Code::ResourceExhausted);
    }
}
