//! [`Owner`]: how a kernel that makes a resource names it, finds it again and lets it go.
//!
//! With a `shared_name` a resource belongs to the task and outlives sessions. Without one it belongs to the kernel:
//! it gets a name nobody else has, and goes when the kernel goes.

use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::Mutex;
use tensorfleet_core::attr::FromAttr;
use tensorfleet_core::{DType, PartialShape, ResourceHandle, Result, Tensor, ensure};

use tensorfleet_kernel::kernel::StepContext;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::resource::{Resource, ResourceManager};
use tensorfleet_kernel::shape_context::ShapeContext;

/// The kernel's side of a resource of kind `R`.
pub struct Owner<R: Resource> {
    container: String,
    /// Empty for a resource that is private to the kernel.
    shared_name: String,
    node: String,
    /// TensorFlow's first ops of a kind hand out two strings instead of a resource handle.
    as_strings: bool,
    place: OnceLock<Place>,
    making: Mutex<()>,
    kind: PhantomData<fn() -> R>,
}

struct Place {
    handle: Tensor,
    container: String,
    name: String,
    resources: Arc<ResourceManager>,
}

impl<R: Resource> Owner<R> {
    /// Reads the attributes `container` and `shared_name` of a node whose first output is the handle.
    pub fn new(node: &NodeSpec<'_>) -> Result<Owner<R>> {
        Ok(Owner {
            container: container_attr(node)?,
            shared_name: shared_name_attr(node)?,
            node: node.name().to_string(),
            as_strings: node.output_dtype(0)? == DType::String,
            place: OnceLock::new(),
            making: Mutex::new(()),
            kind: PhantomData,
        })
    }

    /// Names a private resource after its node, so that nodes of this name share it.
    pub fn share_by_node_name(mut self) -> Owner<R> {
        if self.shared_name.is_empty() {
            self.shared_name.clone_from(&self.node);
        }
        self
    }

    /// The handle. The first call makes the resource, or checks that the one there already is what the node
    /// asks for.
    pub fn handle(
        &self,
        step: &StepContext,
        make: impl FnOnce(&str) -> Result<R>,
        check: impl FnOnce(&R) -> Result<()>,
    ) -> Result<Tensor> {
        if let Some(place) = self.place.get() {
            return Ok(place.handle.clone());
        }
        let _making = self.making.lock();
        if let Some(place) = self.place.get() {
            return Ok(place.handle.clone());
        }
        let resources = &step.session.resources;
        let container = resources.container(&self.container).to_string();
        let name = if self.shared_name.is_empty() {
            resources.private_name(&self.node)
        } else {
            self.shared_name.clone()
        };
        check(&*resources.get_or_create(&container, &name, || make(&name))?)?;
        let handle = if self.as_strings {
            Tensor::from_strings(vec![Bytes::from(container.clone()), Bytes::from(name.clone())], &[2])?
        } else {
            Tensor::resource(ResourceHandle::new(&step.session.device, &container, &name, R::kind()))
        };
        let place = Place { handle: handle.clone(), container, name, resources: resources.clone() };
        // Nobody else sets it: `making` is held.
        let _ = self.place.set(place);
        Ok(handle)
    }
}

impl<R: Resource> Drop for Owner<R> {
    fn drop(&mut self) {
        if let (true, Some(place)) = (self.shared_name.is_empty(), self.place.get()) {
            place.resources.remove::<R>(&place.container, &place.name);
        }
    }
}

/// The checked attribute `container`.
pub fn container_attr(node: &NodeSpec<'_>) -> Result<String> {
    let container: String = node.attr("container")?;
    let mut letters = container.bytes();
    let fits = letters.next().is_none_or(|first| first.is_ascii_alphanumeric() || first == b'.')
        && letters.all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'/'));
    ensure!(fits, InvalidArgument, "container contains invalid characters: {container}");
    Ok(container)
}

/// The checked attribute `shared_name`: names with an underscore in front are those of private resources.
pub fn shared_name_attr(node: &NodeSpec<'_>) -> Result<String> {
    let name: String = node.attr("shared_name")?;
    ensure!(!name.starts_with('_'), InvalidArgument, "shared_name cannot start with '_':{name}");
    Ok(name)
}

/// Shape rule of ops that make a resource: a scalar handle, or two strings.
pub fn handle_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let as_strings = ctx.node.output_dtype(0)? == DType::String;
    Ok(vec![if as_strings { PartialShape::vector(Some(2)) } else { PartialShape::scalar() }])
}

/// Shape rule of ops without outputs.
pub fn no_outputs(_: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    Ok(Vec::new())
}
/// The value of an attribute that only nodes of Tensorfleet's own programs have, or what says nothing. Its name begins with `_`, so
/// TensorFlow's servers pass it over.
pub(crate) fn own_attr<A: FromAttr + Default>(node: &NodeSpec<'_>, name: &str) -> Result<A> {
    match node.node().attrs.get(name) {
        Some(_) => node.attr(name),
        None => Ok(A::default()),
    }
}
