//! Ops that are known and refused, each with its reason: graphs that contain one can be imported, and steps that do not
//! need it run.

use tensorfleet_core::{PartialShape, Result, Status};

use crate::kernel::KernelBox;
use crate::node_spec::NodeSpec;
use crate::op::Op;
use crate::shape_context::{ShapeContext, unknown};

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    python("PyFunc").stateful(),
    python("PyFuncStateless"),
    Op::new("EagerPyFunc", "input: Tin -> output: Tout")
        .attrs("token: string; is_async: bool = false; Tin: list(type) >= 0; Tout: list(type) >= 0")
        .stateful()
        .shape(unknown)
        .kernel(refuse),
    Op::new("DecodeJpeg", "contents: string -> image: uint8")
        .attrs(
            "channels: int = 0; ratio: int = 1; fancy_upscaling: bool = true; try_recover_truncated: bool = false; \
             acceptable_fraction: float = 1.0; dct_method: string = ''",
        )
        .not_differentiable()
        .shape(unknown)
        .kernel(refuse),
    Op::new("DecodePng", "contents: string -> image: dtype")
        .attrs("channels: int = 0; dtype: {uint8, uint16} = uint8")
        .not_differentiable()
        .shape(unknown)
        .kernel(refuse),
    Op::new("Save", "filename: string, tensor_names: string, data: T")
        .attrs("T: list(type) >= 1")
        .stateful()
        .shape(nothing)
        .kernel(refuse),
    Op::new("SaveSlices", "filename: string, tensor_names: string, shapes_and_slices: string, data: T")
        .attrs("T: list(type) >= 1")
        .stateful()
        .shape(nothing)
        .kernel(refuse),
    Op::new("Restore", "file_pattern: string, tensor_name: string -> tensor: dt")
        .attrs("dt: type; preferred_shard: int = -1")
        .stateful()
        .shape(unknown)
        .kernel(refuse),
    Op::new("RestoreSlice", "file_pattern: string, tensor_name: string, shape_and_slice: string -> tensor: dt")
        .attrs("dt: type; preferred_shard: int = -1")
        .stateful()
        .shape(unknown)
        .kernel(refuse),
    Op::new("SymbolicGradient", "input: Tin -> output: Tout")
        .attrs("Tin: list(type) >= 1; Tout: list(type) >= 1; f: func")
        .shape(unknown)
        .kernel(refuse),
    Op::new("RemoteCall", "target: string, args: Tin -> output: Tout")
        .attrs("Tin: list(type) >= 1; Tout: list(type) >= 1; f: func")
        .stateful()
        .shape(unknown)
        .kernel(refuse),
];

const fn python(name: &'static str) -> Op {
    Op::new(name, "input: Tin -> output: Tout")
        .attrs("token: string; Tin: list(type) >= 0; Tout: list(type) >= 0")
        .shape(unknown)
        .kernel(refuse)
}

fn nothing(_: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    Ok(Vec::new())
}

/// Why an op of this table does not run.
fn reason(op: &str) -> &'static str {
    match op {
        "PyFunc" | "PyFuncStateless" | "EagerPyFunc" => {
            "its function lives in the Python interpreter of the client, which a server is not: compute the value in \
             the client and feed it, or express it with ops"
        }
        "DecodeJpeg" | "DecodePng" => {
            "images are not decoded: write their pixels as raw bytes beforehand and use tf.io.decode_raw"
        }
        "Save" | "SaveSlices" | "Restore" | "RestoreSlice" => {
            "checkpoints of the first format are neither written nor read: use tf.train.Saver with \
             write_version=tf.train.SaverDef.V2, and convert old files with TensorFlow"
        }
        "SymbolicGradient" => {
            "the gradient of a function of TensorFlow 1.x's Defun is not derived on the server: use tf.function, whose \
             client brings the gradient's function along"
        }
        "RemoteCall" => {
            "functions run where their nodes are placed: put the nodes on the device with tf.device"
        }
        _ => "it has no meaning here",
    }
}

fn refuse(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let op = node.op().name;
    Err(Status::unimplemented(format!("Op {op} is not supported by Tensorfleet: {}", reason(op))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_op_here_has_a_reason_of_its_own() {
        for op in OPS {
            assert_ne!(reason(op.name), reason(""), "{}", op.name);
        }
    }
}
