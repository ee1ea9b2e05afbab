//! [`Executable`]: a graph compiled into flat arrays, made once and run many times.

use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;
use tensorfleet_core::{DType, Graph, NodeId, Result, bail, ensure};
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::op::{Cost, Flow};
use tensorfleet_kernel::{Catalogue, NodeSpec, Work};

use super::counts::{Counts, MAX_INPUTS};
use super::kernel_stats::KernelStats;
use crate::plan::{EnterAttrs, FrameIndex, FrameInfo, Frames};

/// Gives the kernel of a node. A session keeps the kernels of stateful ops, so that their state (a random stream, a
/// private queue) goes on from step to step and is the same in every plan that contains the node.
pub trait KernelSource {
    /// The kernel for this node.
    fn kernel(&self, node: &NodeSpec<'_>) -> Result<Arc<KernelBox>>;
}

/// A compiled graph.
pub struct Executable {
    pub(super) nodes: Vec<ExecNode>,
    pub(super) edges: Vec<Edge>,
    pub(super) frames: Vec<FrameLayout>,
    /// Nodes of the root frame without inputs.
    pub(super) sources: Vec<u32>,
    pub(super) num_args: usize,
    pub(super) num_results: usize,
    has_transfers: bool,
}

/// A compiled node.
pub(super) struct ExecNode {
    pub(super) body: Body,
    pub(super) flow: Flow,
    pub(super) cost: Cost,
    pub(super) work: Work,
    pub(super) stats: KernelStats,
    /// Whether it may take long however small its inputs are.
    pub(super) waits_for_disk: bool,
    /// Whether its loops may leave out shards when the step is given up: nobody sees what it has computed.
    pub(super) may_end_early: bool,
    /// The node's input slots in its frame.
    pub(super) first_slot: u32,
    pub(super) num_inputs: u32,
    pub(super) num_outputs: u32,
    /// The node's counter in its frame.
    pub(super) position: u32,
    /// The node's outgoing edges.
    pub(super) out: Range<u32>,
    /// For `Enter`: the frame it leads to.
    pub(super) child_frame: FrameIndex,
    /// For `Enter`: whether every iteration gets the value.
    pub(super) is_invariant: bool,
    /// Whether it reads or writes no more of a variable than some rows, or its shape.
    pub(super) touches_rows: bool,
    /// How to prepare each input; `None` if all are plain values.
    pub(super) references: Option<Box<[InputKind]>>,
    pub(super) name: Arc<str>,
    pub(super) op: Arc<str>,
}

/// What runs when a node does.
pub(super) enum Body {
    Kernel(Arc<KernelBox>),
    Argument(u32),
    Result(u32),
}

/// How an input reaches the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum InputKind {
    /// As it came.
    Value,
    /// The current value of the variable that came.
    Dereferenced,
    /// The variable itself, which must have a value.
    InitializedRef,
    /// The variable itself.
    Ref,
}

/// An edge from a node to a consumer.
#[derive(Clone, Copy)]
pub(super) struct Edge {
    /// The producer's output, or [`CONTROL`].
    pub(super) output: u32,
    pub(super) consumer: u32,
    /// The consumer's input number.
    pub(super) input: u32,
    /// Whether this is the last edge of that output: it gets the value itself, the others a clone.
    pub(super) is_last: bool,
}

/// The `output` of control edges.
pub(super) const CONTROL: u32 = u32::MAX;

/// What one iteration of a frame needs.
pub(super) struct FrameLayout {
    pub(super) name: String,
    pub(super) num_slots: usize,
    pub(super) initial_counts: Vec<u64>,
    pub(super) parallel_iterations: usize,
    /// How many `Enter` nodes lead into the frame.
    pub(super) num_enters: usize,
    /// The frame's `Exit` nodes.
    pub(super) exits: Vec<u32>,
}

impl FrameLayout {
    /// What one iteration takes: itself, a count for each node, and slots, each with a value that is not charged.
    pub(super) fn iteration_bytes(&self) -> usize {
        const ITERATION: usize = 256;
        const SLOT: usize = 256;
        ITERATION + size_of_val(&*self.initial_counts) + self.num_slots.saturating_mul(SLOT)
    }
}

impl Executable {
    /// Compiles `graph`, whose nodes have been checked. Argument and result numbers come from `_Arg` and `_Retval`
    /// nodes.
    pub fn compile(
        graph: &Graph,
        catalogue: &'static Catalogue,
        kernels: &dyn KernelSource,
    ) -> Result<Executable> {
        let specs: Vec<NodeSpec<'_>> =
            graph.nodes().iter().map(|node| NodeSpec::resolve(node, catalogue)).collect::<Result<_>>()?;
        let enter_attrs = |id: NodeId| {
            let spec = &specs[id.index()];
            Ok(EnterAttrs {
                frame_name: spec.attr("frame_name")?,
                parallel_iterations: spec.attr("parallel_iterations")?,
            })
        };
        let frames = Frames::find(graph, |id| specs[id.index()].op().flow, enter_attrs)?;
        let mut executable = Executable {
            nodes: Vec::with_capacity(graph.len()),
            edges: Vec::new(),
            frames: frames.infos.iter().map(FrameLayout::empty).collect(),
            sources: Vec::new(),
            num_args: 0,
            num_results: 0,
            has_transfers: specs.iter().any(|spec| spec.op().flow == Flow::Transfer),
        };
        let passes_reference = passes_reference(graph, &specs);
        for (index, spec) in specs.iter().enumerate() {
            let references = reference_kinds(graph, &specs, &passes_reference, index);
            executable.add_node(&frames, index, spec, references, kernels)?;
        }
        executable.add_edges(graph);
        Ok(executable)
    }

    /// The number of arguments.
    pub fn num_args(&self) -> usize {
        self.num_args
    }

    /// The number of results.
    pub fn num_results(&self) -> usize {
        self.num_results
    }

    /// Whether the graph sends or receives.
    pub fn has_transfers(&self) -> bool {
        self.has_transfers
    }

    fn add_node(
        &mut self,
        frames: &Frames,
        index: usize,
        spec: &NodeSpec<'_>,
        references: Option<Box<[InputKind]>>,
        kernels: &dyn KernelSource,
    ) -> Result<()> {
        let (node, op) = (spec.node(), spec.op());
        let inputs = node.inputs.len() + node.control_inputs.len();
        ensure!(
            inputs <= MAX_INPUTS,
            ResourceExhausted,
            "Node '{}' has {inputs} inputs, more than {MAX_INPUTS}",
            node.name
        );
        let frame = frames.runs_in[index];
        let layout = &mut self.frames[frame as usize];
        let (position, first_slot) = (layout.initial_counts.len() as u32, layout.num_slots as u32);
        layout.num_slots += node.inputs.len();
        layout.initial_counts.push(match op.flow {
            Flow::Merge => Counts::initial_merge(node.control_inputs.len()),
            _ => Counts::initial(inputs),
        });
        if op.flow == Flow::Exit {
            layout.exits.push(index as u32);
        }
        let is_enter = op.flow == Flow::Enter;
        if is_enter {
            self.frames[frames.leads_to[index] as usize].num_enters += 1;
        }
        if inputs == 0 {
            self.sources.push(index as u32);
        }
        let body = self.body(spec, frames.runs_in.len(), kernels)?;
        self.nodes.push(ExecNode {
            body,
            flow: op.flow,
            cost: op.cost,
            work: op.work,
            may_end_early: !has_effects(spec),
            touches_rows: op.reads_in_place || op.touches_rows,
            stats: KernelStats::default(),
            waits_for_disk: op.waits_for_disk,
            first_slot,
            num_inputs: node.inputs.len() as u32,
            num_outputs: spec.outputs.len() as u32,
            position,
            out: 0..0,
            child_frame: frames.leads_to[index],
            is_invariant: is_enter && spec.attr("is_constant")?,
            references,
            name: node.name.clone(),
            op: node.op.clone(),
        });
        Ok(())
    }

    fn body(&mut self, spec: &NodeSpec<'_>, num_nodes: usize, kernels: &dyn KernelSource) -> Result<Body> {
        let index = |count: &mut usize| -> Result<u32> {
            let index = spec.attr::<i64>("index")?;
            // Each step makes room for all up to this one, so there must be nodes for them.
            let index = match u32::try_from(index) {
                Ok(index) if (index as usize) < num_nodes => index,
                _ => bail!(InvalidArgument, "{index} is no index in a graph of {num_nodes} nodes"),
            };
            *count = (*count).max(index as usize + 1);
            Ok(index)
        };
        match spec.op().name {
            "_Arg" => Ok(Body::Argument(index(&mut self.num_args)?)),
            "_Retval" => Ok(Body::Result(index(&mut self.num_results)?)),
            _ => Ok(Body::Kernel(kernels.kernel(spec)?)),
        }
    }

    /// Lays the outgoing edges of each node side by side, data edges by output, control edges last.
    fn add_edges(&mut self, graph: &Graph) {
        let mut outgoing: Vec<SmallVec<[Edge; 2]>> = vec![SmallVec::new(); graph.len()];
        for (id, node) in graph.iter() {
            let consumer = id.index() as u32;
            for (input, from) in node.inputs.iter().enumerate() {
                outgoing[from.node.index()].push(Edge {
                    output: from.slot,
                    consumer,
                    input: input as u32,
                    is_last: false,
                });
            }
            for from in &node.control_inputs {
                outgoing[from.index()].push(Edge { output: CONTROL, consumer, input: 0, is_last: false });
            }
        }
        for (node, mut edges) in self.nodes.iter_mut().zip(outgoing) {
            edges.sort_by_key(|edge| edge.output);
            for i in 0..edges.len() {
                edges[i].is_last = edges.get(i + 1).is_none_or(|next| next.output != edges[i].output);
            }
            let start = self.edges.len() as u32;
            self.edges.extend(edges);
            node.out = start..self.edges.len() as u32;
        }
    }
}

impl FrameLayout {
    fn empty(info: &FrameInfo) -> FrameLayout {
        FrameLayout {
            name: info.name.clone(),
            num_slots: 0,
            initial_counts: Vec::new(),
            parallel_iterations: info.parallel_iterations,
            num_enters: 0,
            exits: Vec::new(),
        }
    }
}

/// Whether running a node may change something that outlives its step.
fn has_effects(spec: &NodeSpec<'_>) -> bool {
    let is_handle = |dtype: DType| matches!(dtype, DType::Resource | DType::Variant);
    (spec.op().stateful && !spec.op().is_random)
        || spec.inputs.iter().any(|edge| edge.is_ref || is_handle(edge.dtype))
}

/// Per node, whether it passes on a variable though its declaration says value: an `Identity` of a reference.
///
/// TensorFlow's `Identity` shares the variable's memory, so a reader that is ordered after an update sees the update
/// although the `Identity` ran before it. Programs rely on it: moving averages over reference variables read `v/read`
/// in nodes that wait for the step's update. Here the variable itself travels on, and whoever computes with it takes
/// the value it has then.
fn passes_reference(graph: &Graph, specs: &[NodeSpec<'_>]) -> Vec<bool> {
    let mut known: Vec<Option<bool>> = vec![None; graph.len()];
    let mut chain = Vec::new();
    for start in 0..graph.len() {
        let mut index = start;
        let answer = loop {
            if let Some(answer) = known[index] {
                break answer;
            }
            let [input] = graph.nodes()[index].inputs[..] else { break false };
            if !specs[index].op().passes_references {
                break false;
            }
            chain.push(index);
            let producer = &specs[input.node.index()];
            if producer.outputs.get(input.slot as usize).is_some_and(|edge| edge.is_ref) {
                break true;
            }
            index = input.node.index();
        };
        chain.drain(..).for_each(|index| known[index] = Some(answer));
        known[start].get_or_insert(false);
    }
    known.into_iter().map(Option::unwrap_or_default).collect()
}

/// How the inputs of node `index` are to be prepared, if any of them comes as a reference.
fn reference_kinds(
    graph: &Graph,
    specs: &[NodeSpec<'_>],
    passes_reference: &[bool],
    index: usize,
) -> Option<Box<[InputKind]>> {
    let spec = &specs[index];
    let comes_as_ref = |slot: usize| {
        let input = graph.nodes()[index].inputs[slot];
        let producer = input.node.index();
        passes_reference[producer]
            || specs[producer].outputs.get(input.slot as usize).is_some_and(|edge| edge.is_ref)
    };
    // A send hands the variable on: it is read when its receiver comes for it.
    let hands_on = passes_reference[index] || spec.op().flow == Flow::Transfer;
    let takes_ref = |slot: usize| spec.inputs[slot].is_ref || hands_on || spec.op().reads_in_place;
    let kinds: Box<[InputKind]> = (0..spec.inputs.len())
        .map(|slot| match (comes_as_ref(slot), takes_ref(slot)) {
            (false, _) => InputKind::Value,
            (true, false) => InputKind::Dereferenced,
            (true, true) if spec.op().allows_uninitialized => InputKind::Ref,
            (true, true) => InputKind::InitializedRef,
        })
        .collect();
    kinds.iter().any(|&kind| kind != InputKind::Value).then_some(kinds)
}

#[cfg(test)]
mod tests {
    use crate::kernels::Kernels;
    use crate::plan::testing::graph;

    use super::*;

    #[test]
    fn random_numbers_that_nobody_waits_for_need_not_be_drawn_but_updates_are_made_to_their_end() {
        let checked = graph(
            "logits = Placeholder<float>
             count = Const<int32> | value=3
             drawn = Multinomial<float>(logits, count)
             sum = AddV2<int64>(drawn, drawn)
             variable = VariableV2<int64>
             assigned = Assign<int64>(variable, sum)",
        );
        let executable =
            Executable::compile(checked.graph(), checked.catalogue(), &Kernels::for_one_graph()).unwrap();
        let may_end_early = |name: &str| {
            let mut nodes = executable.nodes.iter();
            nodes.find(|node| *node.name == *name).is_some_and(|node| node.may_end_early)
        };
        assert!(may_end_early("drawn") && may_end_early("sum"));
        assert!(!may_end_early("variable") && !may_end_early("assigned"));
    }
}
