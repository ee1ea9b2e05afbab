//! [`ResourceHandle`]: the name of a resource that lives on some device.
//!
//! A handle is a key into the owner's table, never an address: a handle that someone made up leads to
//! "not found", not to foreign memory.

use std::sync::Arc;

use tensorfleet_proto::tensorflow::ResourceHandleProto;
use tensorfleet_proto::tensorflow::resource_handle_proto::DtypeAndShape;

use crate::dtype::DType;
use crate::shape::PartialShape;
use crate::status::Result;

/// Names a resource: device, container, name and kind. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResourceHandle(Arc<Fields>);

#[derive(PartialEq, Eq, Debug)]
struct Fields {
    device: String,
    container: String,
    name: String,
    type_name: String,
    hash_code: u64,
    dtypes_and_shapes: Vec<(DType, PartialShape)>,
}

impl ResourceHandle {
    /// A handle for resource `name` of kind `type_name` in `container` on `device`.
    pub fn new(device: &str, container: &str, name: &str, type_name: &str) -> ResourceHandle {
        ResourceHandle::with_types(device, container, name, type_name, Vec::new())
    }

    /// Like [`ResourceHandle::new`], with what is known of the values the resource holds.
    pub fn with_types(
        device: &str,
        container: &str,
        name: &str,
        type_name: &str,
        dtypes_and_shapes: Vec<(DType, PartialShape)>,
    ) -> ResourceHandle {
        ResourceHandle(Arc::new(Fields {
            device: device.to_string(),
            container: container.to_string(),
            name: name.to_string(),
            type_name: type_name.to_string(),
            hash_code: 0,
            dtypes_and_shapes,
        }))
    }

    /// The device the resource lives on, as a full device name.
    pub fn device(&self) -> &str {
        &self.0.device
    }

    /// The container the resource is in.
    pub fn container(&self) -> &str {
        &self.0.container
    }

    /// The name inside the container.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The kind of resource, e.g. TensorFlow's mangled name of its variable class.
    pub fn type_name(&self) -> &str {
        &self.0.type_name
    }

    /// Dtype and shape of the values the resource holds, where known.
    pub fn dtypes_and_shapes(&self) -> &[(DType, PartialShape)] {
        &self.0.dtypes_and_shapes
    }

    /// Decodes a handle.
    pub fn from_proto(proto: &ResourceHandleProto) -> Result<ResourceHandle> {
        let mut dtypes_and_shapes = Vec::new();
        for entry in &proto.dtypes_and_shapes {
            let shape = entry.shape.as_ref().map_or(Ok(PartialShape::unknown()), PartialShape::from_proto)?;
            dtypes_and_shapes.push((DType::from_number(entry.dtype)?, shape));
        }
        Ok(ResourceHandle(Arc::new(Fields {
            device: proto.device.clone(),
            container: proto.container.clone(),
            name: proto.name.clone(),
            type_name: proto.maybe_type_name.clone(),
            hash_code: proto.hash_code,
            dtypes_and_shapes,
        })))
    }

    /// Encodes the handle.
    pub fn to_proto(&self) -> ResourceHandleProto {
        let entry = |(dtype, shape): &(DType, PartialShape)| DtypeAndShape {
            dtype: dtype.number(),
            shape: Some(shape.to_proto()),
        };
        ResourceHandleProto {
            device: self.0.device.clone(),
            container: self.0.container.clone(),
            name: self.0.name.clone(),
            hash_code: self.0.hash_code,
            maybe_type_name: self.0.type_name.clone(),
            dtypes_and_shapes: self.0.dtypes_and_shapes.iter().map(entry).collect(),
        }
    }
}
