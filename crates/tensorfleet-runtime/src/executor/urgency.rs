//! How urgent nodes are: how much work there is at least between them and the end of the step.
//!
//! Of the nodes that become ready together, one that a long chain waits for should run before one that nearly ends the step: the
//! second can be computed by another thread, or later, while the first goes on. In the loop of a recurrent network's gradients, say, the
//! next iteration waits for the gradient of the state, and nobody until the end for that of the weights.

use tensorfleet_ops::op::{Cost, Flow};

use super::executable::{Edge, ExecNode};

/// What leads to another task is waited for there.
const TRANSFER: u32 = 1000;

/// About how long a node takes in comparison to others; what it computes with is not known here.
fn weight(node: &ExecNode) -> u32 {
    match (node.flow, node.cost) {
        (Flow::Transfer, _) => TRANSFER,
        (_, Cost::Heavy) => 50,
        (_, Cost::Linear | Cost::Shaped) => 4,
        (_, Cost::Trivial) => 1,
    }
}

/// The urgency of each node. Of a loop one more iteration is taken into account: enough to tell what carries it on from what is
/// merely summed up in it.
pub(super) fn urgencies(nodes: &[ExecNode], edges: &[Edge]) -> Vec<u32> {
    let out = |node: usize| &edges[nodes[node].out.start as usize..nodes[node].out.end as usize];
    let goes_back = |node: usize| nodes[node].flow == Flow::NextIteration;
    // Against the edges, each node after all its consumers; loops are open, without the edges that close them.
    let mut producers: Vec<Vec<u32>> = vec![Vec::new(); nodes.len()];
    let mut missing = vec![0usize; nodes.len()];
    for node in (0..nodes.len()).filter(|&node| !goes_back(node)) {
        missing[node] = out(node).len();
        out(node).iter().for_each(|edge| producers[edge.consumer as usize].push(node as u32));
    }
    let mut order: Vec<usize> = (0..nodes.len()).filter(|&node| missing[node] == 0).collect();
    let mut done = 0;
    while let Some(&node) = order.get(done) {
        done += 1;
        for &producer in &producers[node] {
            missing[producer as usize] -= 1;
            if missing[producer as usize] == 0 {
                order.push(producer as usize);
            }
        }
    }
    let mut urgencies = vec![0u32; nodes.len()];
    for _iteration in 0..2 {
        let before = urgencies.clone();
        for &node in &order {
            let known = if goes_back(node) { &before } else { &urgencies };
            let most = out(node).iter().map(|edge| known[edge.consumer as usize]).max().unwrap_or(0);
            urgencies[node] = most.saturating_add(weight(&nodes[node]));
        }
    }
    urgencies
}

#[cfg(test)]
mod tests {
    use tensorfleet_core::attr::IntoAttr;
    use tensorfleet_core::{DType, Graph};
    use tensorfleet_proto::tensorflow::{AttrValue, GraphDef, NodeDef};

    use super::super::Executable;
    use crate::kernels::Kernels;

    fn node(name: &str, op: &str, inputs: &[&str], attrs: &[(&str, AttrValue)]) -> NodeDef {
        let input = inputs.iter().map(|input| input.to_string()).collect();
        let attr = attrs.iter().map(|(key, value)| (key.to_string(), value.clone())).collect();
        NodeDef { name: name.into(), op: op.into(), input, attr, ..Default::default() }
    }

    fn floats(name: &str, op: &str, inputs: &[&str]) -> NodeDef {
        node(name, op, inputs, &[("T", DType::Float.into_attr())])
    }

    fn urgency_of(nodes: Vec<NodeDef>) -> impl Fn(&str) -> u32 {
        let graph = Graph::from_graph_def(GraphDef { node: nodes, ..Default::default() }).unwrap();
        let executable = Executable::compile(&graph, &Kernels::for_one_graph()).unwrap();
        move |name| executable.nodes.iter().find(|node| &*node.name == name).unwrap().urgency
    }

    #[test]
    fn what_much_work_waits_for_is_more_urgent() {
        let urgency = urgency_of(vec![
            node("x", "Placeholder", &[], &[("dtype", DType::Float.into_attr())]),
            floats("short", "Neg", &["x"]),
            floats("long", "Neg", &["x"]),
            floats("product", "MatMul", &["long", "long"]),
        ]);
        assert!(urgency("long") > urgency("product") && urgency("product") > urgency("short"));
        assert!(urgency("x") > urgency("long"));
    }

    #[test]
    fn what_carries_a_loop_on_is_more_urgent_than_what_it_sums_up() {
        let frame = [("T", DType::Float.into_attr()), ("frame_name", "loop".into_attr())];
        let mut nodes = vec![
            node("x", "Placeholder", &[], &[("dtype", DType::Float.into_attr())]),
            node("go", "Placeholder", &[], &[("dtype", DType::Bool.into_attr())]),
            node(
                "go_in",
                "Enter",
                &["go"],
                &[("T", DType::Bool.into_attr()), frame[1].clone(), ("is_constant", true.into_attr())],
            ),
            node("condition", "LoopCond", &["go_in"], &[]),
        ];
        for (name, input) in [("state", "x"), ("sum", "x")] {
            let named = |suffix: &str| format!("{name}_{suffix}");
            nodes.push(node(&named("in"), "Enter", &[input], &frame));
            nodes.push(floats(&named("merge"), "Merge", &[&named("in"), &named("next")]));
            nodes.push(floats(&named("switch"), "Switch", &[&named("merge"), "condition"]));
            nodes.push(floats(&named("out"), "Exit", &[&named("switch")]));
        }
        nodes.extend([
            floats("to_state", "MatMul", &["state_switch:1", "state_switch:1"]),
            floats("to_sum", "MatMul", &["state_switch:1", "state_switch:1"]),
            floats("more", "AddV2", &["sum_switch:1", "to_sum"]),
            floats("state_next", "NextIteration", &["to_state"]),
            floats("sum_next", "NextIteration", &["more"]),
        ]);
        let urgency = urgency_of(nodes);
        assert!(urgency("to_state") > urgency("to_sum"), "{} {}", urgency("to_state"), urgency("to_sum"));
    }
}
