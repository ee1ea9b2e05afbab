//! Ops that are known and refused, each with its reason: graphs that contain one can be imported, and steps that do not
//! need it run.

use tensorfleet_core::{Result, Status};

use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::unknown;

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("EagerPyFunc", "input: Tin -> output: Tout")
        .attrs("token: string; is_async: bool = false; Tin: list(type) >= 0; Tout: list(type) >= 0")
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

/// Why an op of this table does not run.
fn reason(op: &str) -> &'static str {
    match op {
        "PyFunc" | "PyFuncStateless" => {
            "its function lives in the Python interpreter of the client, which a server is not: compute the value in \
             the client and feed it, or express it with ops"
        }
        "EagerPyFunc" => {
            "its function runs eagerly in the Python interpreter of the client: use tf.py_func, compute the value in the \
             client and feed it, or express it with ops"
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

/// The kernel of a node that cannot run here.
pub(crate) fn refuse(node: &NodeSpec<'_>) -> Result<KernelBox> {
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
