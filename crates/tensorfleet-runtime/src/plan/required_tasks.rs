//! Which tasks of a cluster a graph can need, so that a session need not wait for the others.

use std::collections::BTreeSet;

use rustc_hash::FxHashSet;
use tensorfleet_core::{DeviceName, Graph, Result};

/// The indices of those `tasks` on which a node of `graph` may be placed when `own` is the master's task.
///
/// A specification that `own` satisfies leads to `own`, since its devices are preferred. Any other leads to a task that
/// satisfies it. Nodes that must share a device merge their specifications, which only narrows the choice: if all of
/// them fit `own` so does the merged one, and otherwise the set lives on a task that the misfit names. Soft placement
/// changes the device, never the task.
pub fn required_tasks(graph: &Graph, tasks: &[DeviceName], own: &DeviceName) -> Result<BTreeSet<usize>> {
    let own = own.task_name();
    let mut required: BTreeSet<usize> =
        (0..tasks.len()).filter(|&index| own.matches(&tasks[index])).collect();
    let mut seen: FxHashSet<&str> = FxHashSet::default();
    for node in graph.nodes() {
        if node.device.is_empty() || !seen.insert(&node.device) {
            continue;
        }
        let spec = node.device.parse::<DeviceName>()?.task_name();
        if !spec.is_compatible_with(&own) {
            required.extend((0..tasks.len()).filter(|&index| spec.is_compatible_with(&tasks[index])));
        }
    }
    Ok(required)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensorfleet_core::Node;

    fn required(devices: &[&str]) -> Vec<usize> {
        let mut graph = Graph::new();
        for (index, device) in devices.iter().enumerate() {
            let id = graph.add(Node::new(format!("n{index}"), "NoOp")).unwrap();
            graph.node_mut(id).set_device(*device);
        }
        let tasks: Vec<DeviceName> = [("ps", 0), ("ps", 1), ("worker", 0), ("worker", 1), ("worker", 2)]
            .into_iter()
            .map(|(job, task)| DeviceName::full(job, task, "CPU", 0).task_name())
            .collect();
        required_tasks(&graph, &tasks, &tasks[2]).unwrap().into_iter().collect()
    }

    #[test]
    fn a_graph_that_names_no_task_needs_only_the_masters_own() {
        assert_eq!(required(&["", "/cpu:0", "/gpu:3", "/job:*", "/replica:0"]), [2]);
        assert_eq!(required(&["/job:worker", "/task:0", "/job:worker/task:0/gpu:1"]), [2]);
    }

    #[test]
    fn named_jobs_and_tasks_are_waited_for_and_others_are_not() {
        assert_eq!(required(&["/job:ps/task:1"]), [1, 2]);
        assert_eq!(required(&["/job:ps"]), [0, 1, 2]);
        assert_eq!(required(&["/task:1"]), [1, 2, 3]);
        assert_eq!(required(&["/job:worker/task:2/gpu:0", "/job:nobody"]), [2, 4]);
    }
}
