//! Placement on a single device: whether every node may live there.
//!
//! As in TensorFlow the whole graph is placed, not only what a step needs: one node that asks for an impossible
//! device fails every step of its session.

use tensorfleet_core::{DeviceName, Graph, Result, ensure};

/// Checks that all nodes from index `first` on may be placed on `device`. Soft placement lets a node that asks for
/// another type or index of device have this one; it never changes the task.
pub fn check_local_placement(
    graph: &Graph,
    first: usize,
    device: &DeviceName,
    allow_soft: bool,
) -> Result<()> {
    // Most nodes repeat the device string of the node before.
    let mut last: Option<(&str, bool)> = None;
    for node in &graph.nodes()[first..] {
        let fits = match last {
            Some((text, fits)) if text == &*node.device => fits,
            _ => {
                let requested: DeviceName = node.device.parse()?;
                requested.matches(device) || (allow_soft && requested.task_name().matches(device))
            }
        };
        last = Some((&node.device, fits));
        ensure!(
            fits,
            InvalidArgument,
            "Cannot assign a device for operation {name}: {{{{node {name}}}}} was explicitly assigned to {} but \
             available devices are [ {device} ]. Make sure the device specification refers to a valid device.",
            node.device,
            name = node.name
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensorfleet_core::Node;

    #[test]
    fn an_impossible_device_is_refused_unless_soft_placement_helps() {
        let device = DeviceName::full("localhost", 0, "CPU", 0);
        let check = |text: &str, soft| {
            let mut graph = Graph::new();
            let id = graph.add(Node::new("x", "NoOp")).unwrap();
            graph.node_mut(id).set_device(text);
            check_local_placement(&graph, 0, &device, soft)
        };
        for text in ["", "/cpu:0", "/job:localhost", "/job:localhost/replica:0/task:0/device:CPU:0"] {
            assert!(check(text, false).is_ok(), "{text}");
        }
        assert!(
            check("/gpu:0", false).unwrap_err().text().contains("Cannot assign a device for operation x")
        );
        assert!(check("/gpu:0", true).is_ok());
        assert!(check("/job:ps", true).is_err(), "soft placement never changes the task");
    }
}
