//! Which tasks of a cluster a graph can need, so that a session need not wait for the others.

use std::collections::BTreeSet;

use rustc_hash::FxHashSet;
use tensorfleet_core::{DeviceName, Graph, Result};

/// The indices of those `tasks` on which a node of `graph` may be placed when `own` is the master's task.
///
/// If `own` is preferred, a specification that `own` satisfies leads to `own`; any other to a task that satisfies it. Nodes that
/// must share a device merge their specifications, which only narrows the choice: if all of them fit `own` so does the merged
/// one, and otherwise the set lives on a task that the misfit names. Soft placement changes the device, never the task.
///
/// If the order of names is all, a specification leads to the first task that satisfies it, and `own` is needed as the master's
/// task only.
pub fn required_tasks(
    graph: &Graph,
    tasks: &[DeviceName],
    own: &DeviceName,
    own_is_preferred: bool,
) -> Result<BTreeSet<usize>> {
    let own = own.task_name();
    let matching = |spec: &DeviceName| {
        let fits = |&index: &usize| spec.is_compatible_with(&tasks[index]);
        (0..tasks.len()).filter(fits).collect::<Vec<usize>>()
    };
    let specs = specifications(graph)?;
    let mut required: BTreeSet<usize> =
        (0..tasks.len()).filter(|&index| own.matches(&tasks[index])).collect();
    if own_is_preferred {
        required.extend(specs.iter().filter(|spec| !spec.is_compatible_with(&own)).flat_map(matching));
        return Ok(required);
    }
    // One node says a job, another one a task: together they mean a task that is the first of neither. Rare, so it may
    // cost a wait for all of them.
    let may_be_crossed = specs.iter().any(|spec| spec.job.is_none() && spec.task.is_some());
    let first_by_name =
        |tasks_that_fit: Vec<usize>| tasks_that_fit.into_iter().min_by_key(|&index| tasks[index].to_string());
    for spec in &specs {
        let says_nothing = spec.job.is_none() && spec.task.is_none();
        match may_be_crossed && !says_nothing {
            true => required.extend(matching(spec)),
            false => required.extend(first_by_name(matching(spec))),
        }
    }
    Ok(required)
}

/// The tasks that nodes ask for, each once.
fn specifications(graph: &Graph) -> Result<Vec<DeviceName>> {
    let mut seen: FxHashSet<&str> = FxHashSet::default();
    let devices = graph.nodes().iter().map(|node| &*node.device);
    let new = devices.filter(|device| seen.insert(device));
    new.map(|device| Ok(device.parse::<DeviceName>()?.task_name())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensorfleet_core::Node;

    fn required(devices: &[&str]) -> Vec<usize> {
        required_if(devices, true)
    }

    fn required_if(devices: &[&str], own_is_preferred: bool) -> Vec<usize> {
        let mut graph = Graph::new();
        for (index, device) in devices.iter().enumerate() {
            let id = graph.add(Node::new(format!("n{index}"), "NoOp")).unwrap();
            graph.node_mut(id).set_device(*device);
        }
        let tasks: Vec<DeviceName> = [("ps", 0), ("ps", 1), ("worker", 0), ("worker", 1), ("worker", 2)]
            .into_iter()
            .map(|(job, task)| DeviceName::full(job, task, "CPU", 0).task_name())
            .collect();
        required_tasks(&graph, &tasks, &tasks[2], own_is_preferred).unwrap().into_iter().collect()
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

    #[test]
    fn in_the_order_of_names_only_the_first_is_waited_for() {
        let required = |devices: &[&str]| required_if(devices, false);
        assert_eq!(required(&["", "/cpu:0", "/gpu:3", "/job:*", "/replica:0"]), [0, 2]);
        assert_eq!(required(&["/job:worker", "/job:worker/task:0/gpu:1"]), [2]);
        assert_eq!(required(&["/job:worker/task:2", "/job:ps"]), [0, 2, 4]);
        assert_eq!(required(&["/job:nobody"]), [2]);
        // Colocated they mean worker 1.
        assert_eq!(required(&["/job:worker", "/task:1"]), [1, 2, 3, 4]);
    }
}
