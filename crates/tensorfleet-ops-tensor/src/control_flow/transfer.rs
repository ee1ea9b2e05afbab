//! `_Send` and `_Recv`: edges that cross from one device to another.
//!
//! Both run even if an input is dead, because the other side counts on a message; a dead value is sent as such.
//! The host forms do the same: a CPU has no memory but the host's.

use std::sync::Arc;

use tensorfleet_core::{DType, PartialShape, RendezvousEdge, RendezvousKey, Result, ensure};

use tensorfleet_kernel::continuation::Resume;
use tensorfleet_kernel::kernel::{AsyncContext, AsyncKernel, Done, FrameIteration, KernelBox, Value};
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::{Cost, Flow, Op};
use tensorfleet_kernel::rendezvous::Transfer;
use tensorfleet_kernel::shape_context::{ShapeContext, unknown};

const SEND_ATTRS: &str = "T: type; tensor_name: string; send_device: string; send_device_incarnation: int; \
                          recv_device: string; client_terminated: bool = false";
const RECV_ATTRS: &str = "tensor_type: type; tensor_name: string; send_device: string; send_device_incarnation: int; \
                          recv_device: string; client_terminated: bool = false";

/// The family's table.
pub(crate) static OPS: &[Op] = &[send("_Send"), send("_HostSend"), recv("_Recv"), recv("_HostRecv")];

const fn send(name: &'static str) -> Op {
    Op::new(name, "tensor: T")
        .attrs(SEND_ATTRS)
        .stateful()
        .flow(Flow::Transfer)
        .cost(Cost::Trivial)
        .shape(nothing)
        .kernel(send_kernel)
}

const fn recv(name: &'static str) -> Op {
    Op::new(name, "-> tensor: tensor_type")
        .attrs(RECV_ATTRS)
        .stateful()
        .flow(Flow::Transfer)
        .cost(Cost::Trivial)
        .shape(unknown)
        .kernel(recv_kernel)
}

fn nothing(_: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    Ok(Vec::new())
}

fn edge(node: &NodeSpec<'_>) -> Result<RendezvousEdge> {
    let incarnation: i64 = node.attr("send_device_incarnation")?;
    let (sender, receiver): (String, String) = (node.attr("send_device")?, node.attr("recv_device")?);
    let name: String = node.attr("tensor_name")?;
    // The attribute is a signed integer with the bits of an unsigned one.
    RendezvousEdge::new(&sender, incarnation as u64, &receiver, &name)
}

fn key(edge: &RendezvousEdge, frame: FrameIteration) -> RendezvousKey {
    edge.key(frame.frame_id, frame.iteration)
}

fn send_kernel(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let edge = edge(node)?;
    Ok(KernelBox::from_fn(move |ctx| {
        let (rendezvous, key) = (&ctx.step.rendezvous, key(&edge, ctx.frame));
        match ctx.inputs[0].take().filter(|_| !ctx.is_input_dead) {
            Some(Value::Tensor(tensor)) => rendezvous.send(key, Some(tensor), ctx.resume),
            Some(Value::Ref(variable)) => rendezvous.send_variable(key, variable, ctx.resume),
            None => rendezvous.send(key, None, ctx.resume),
        }
    }))
}

fn recv_kernel(node: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::new_async(Recv { edge: edge(node)?, dtype: node.attr("tensor_type")? }))
}

struct Recv {
    edge: RendezvousEdge,
    dtype: DType,
}

impl AsyncKernel for Recv {
    fn start(&self, ctx: AsyncContext, done: Done, _: Resume<'_>) {
        let (dtype, is_input_dead) = (self.dtype, ctx.is_input_dead);
        let rendezvous = Arc::clone(&ctx.step.rendezvous);
        let receive = move |result: Result<Transfer>, resume: Resume<'_>| {
            let checked = result.and_then(|value| {
                if let Some(tensor) = &value {
                    let found = tensor.dtype();
                    ensure!(
                        found == dtype,
                        Internal,
                        "a {dtype} tensor was expected from a peer, but a {found} tensor came"
                    );
                }
                let value = value.filter(|_| !is_input_dead).map(Value::Tensor);
                Ok(std::iter::once(value).collect())
            });
            done(checked, resume);
        };
        rendezvous.receive(key(&self.edge, ctx.frame), Box::new(receive));
    }
}
