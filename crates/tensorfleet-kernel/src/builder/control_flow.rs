//! Branches and loops from TensorFlow 1.x's primitives: `Switch` and `Merge`, `Enter`, `Exit`, `NextIteration`,
//! `LoopCond`.
//!
//! A branch or loop body is a context. A node built in a context may use any value from around it; the value is
//! then brought in, one context at a time: into a branch through a `Switch`, which makes it dead if the branch is
//! not taken; into a loop through a constant `Enter`. Each value is brought in once. A node without inputs would
//! run regardless of its context, so it waits for the context's pivot.

use rustc_hash::{FxHashMap, FxHashSet};
use tensorfleet_core::{DType, Endpoint, NodeId, PartialShape, Result, Status, bail, ensure};

use super::GraphBuilder;
use super::arguments::python_name;
use super::backward::{Backward, LoopParts, LoopVariable};
use super::new_node::NewNode;
use super::scope::Frame;

/// A context of a [`GraphBuilder`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FlowId(u32);

#[derive(Clone, Debug)]
pub(super) struct FlowContext {
    pub(super) parent: Option<FlowId>,
    pub(super) kind: FlowKind,
    /// Runs if and only if the context does.
    pivot: NodeId,
    /// Values from around and what they are inside.
    captured: FxHashMap<Endpoint, Endpoint>,
    /// The nodes that brought values in.
    pub(super) entries: FxHashSet<NodeId>,
    /// A finished loop's parts.
    pub(super) parts: Option<LoopParts>,
    /// What ties the backward pass of a loop to that loop.
    pub(super) backward: Option<Backward>,
}

#[derive(Clone, Debug)]
pub(super) enum FlowKind {
    Branch { predicate: Endpoint, slot: u32 },
    Loop { frame_name: String, parallel_iterations: i64 },
}

/// The two branches of a condition.
#[derive(Clone, Copy, Debug)]
pub struct Cond {
    /// Runs if the predicate is true.
    pub then: FlowId,
    /// Runs if it is false.
    pub otherwise: FlowId,
}

/// A loop under construction.
#[derive(Clone, Debug)]
pub struct Loop {
    flow: FlowId,
    first_node: usize,
    merges: Vec<Endpoint>,
    switches: Vec<NodeId>,
    condition: Option<NodeId>,
}

/// How a loop runs.
#[derive(Clone, Debug)]
pub struct LoopOptions {
    /// How many iterations may overlap.
    pub parallel_iterations: i64,
    /// What stays true of the shapes of the loop variables; empty if their first shapes never change.
    pub shape_invariants: Vec<PartialShape>,
}

impl Default for LoopOptions {
    fn default() -> LoopOptions {
        LoopOptions { parallel_iterations: 10, shape_invariants: Vec::new() }
    }
}

impl GraphBuilder {
    /// Starts a condition. Build each branch inside [`GraphBuilder::enter_flow`], and join their outputs with
    /// [`GraphBuilder::join`].
    pub fn begin_cond(&mut self, predicate: Endpoint) -> Result<Cond> {
        let switch = self.add(NewNode::new("Switch").input(predicate).input(predicate))?;
        let mut pivot = |slot: u32, name: &str| {
            self.add(NewNode::new("Identity").name(name).input(Endpoint::new(switch, slot)))
        };
        let (then_pivot, otherwise_pivot) = (pivot(1, "switch_t")?, pivot(0, "switch_f")?);
        let predicate = self.emit(NewNode::new("Identity").name("pred_id").input(predicate))?;
        let parent = self.scopes.flow();
        let mut branch = |slot: u32, pivot| {
            let mut context = FlowContext::new(parent, FlowKind::Branch { predicate, slot }, pivot);
            // What chooses the branch needs no choice itself.
            let pivot = Endpoint::new(pivot, 0);
            context.captured.extend([(predicate, predicate), (pivot, pivot)]);
            self.open_context(context)
        };
        Ok(Cond { then: branch(1, then_pivot), otherwise: branch(0, otherwise_pivot) })
    }

    /// Enters a branch or loop, until [`GraphBuilder::leave`].
    pub fn enter_flow(&mut self, flow: FlowId) {
        self.scopes.push(Frame::Flow(flow));
    }

    /// An output that is there if and only if the branch or loop `flow` runs.
    pub fn pivot(&self, flow: FlowId) -> Endpoint {
        Endpoint::new(self.context(flow).pivot, 0)
    }

    /// A result of a branch as [`GraphBuilder::join`] takes it. A value from around is brought in, which `join` does
    /// otherwise: nodes then come in the order in which TensorFlow adds them.
    pub fn branch_result(&mut self, branch: FlowId, value: Endpoint) -> Result<Endpoint> {
        let name = self.scopes.prefix().to_string();
        self.bring_into(Some(branch), value, &name)
    }

    /// Joins a value of each branch into one: that of the branch which ran.
    pub fn join(&mut self, cond: Cond, then: Endpoint, otherwise: Endpoint) -> Result<Endpoint> {
        let (a, b) = (self.dtype(then)?, self.dtype(otherwise)?);
        ensure!(
            a == b,
            InvalidArgument,
            "Outputs of the two branches must have the same type, but are {} and {}",
            python_name(a),
            python_name(b)
        );
        let name = self.scopes.prefix().to_string();
        let then = self.bring_into(Some(cond.then), then, &name)?;
        let otherwise = self.bring_into(Some(cond.otherwise), otherwise, &name)?;
        let are_refs = self.edge_type(then)?.is_ref && self.edge_type(otherwise)?.is_ref;
        let op = if are_refs { "RefMerge" } else { "Merge" };
        self.emit(NewNode::new(op).name("Merge").input_list([otherwise, then]))
    }

    /// Starts a loop over `variables`. The condition is built from [`Loop::variables`], inside
    /// [`GraphBuilder::enter_flow`] of [`Loop::flow`].
    pub fn begin_loop(&mut self, variables: &[Endpoint], options: &LoopOptions) -> Result<Loop> {
        ensure!(!variables.is_empty(), InvalidArgument, "a loop needs at least one variable");
        let invariants = &options.shape_invariants;
        ensure!(
            invariants.is_empty() || invariants.len() == variables.len(),
            InvalidArgument,
            "a loop over {} variables got {} shape invariants",
            variables.len(),
            invariants.len()
        );
        let first_node = self.graph.len();
        let parent = self.scopes.flow();
        let frame_name = self.scopes.qualified("while_context");
        let kind = FlowKind::Loop { frame_name, parallel_iterations: options.parallel_iterations };
        let flow = self.open_context(FlowContext::new(parent, kind, NodeId::from_index(0)));
        let mut enters = Vec::with_capacity(variables.len());
        for &variable in variables {
            let name = self.scopes.prefix().to_string();
            let outside = self.bring_into(parent, variable, &name)?;
            enters.push(self.add_enter(flow, outside, false)?);
        }
        let mut merges = Vec::with_capacity(variables.len());
        for (index, &enter) in enters.iter().enumerate() {
            if let Some(invariant) = invariants.get(index) {
                self.check_invariant(enter, invariant)?;
            }
            merges.push(self.add_merge(flow, enter, invariants.get(index))?);
        }
        self.context_mut(flow).pivot = merges[0].node;
        self.open_loops.push(first_node);
        Ok(Loop { flow, first_node, merges, switches: Vec::new(), condition: None })
    }

    /// The `Merge` of a loop variable. Its shape is the invariant, or that of the first value.
    fn add_merge(
        &mut self,
        flow: FlowId,
        enter: Endpoint,
        invariant: Option<&PartialShape>,
    ) -> Result<Endpoint> {
        let merge = self.add_in(NewNode::new("Merge").input_list([enter, enter]).raw(), Some(flow))?;
        let merge = Endpoint::new(merge, 0);
        let shape = match invariant {
            Some(invariant) => invariant.clone(),
            None => self.shape(enter)?.clone(),
        };
        self.overwrite_shape(merge, shape);
        Ok(merge)
    }

    /// The `Switch` of a loop variable: to the body on its output 1, out of the loop on its output 0.
    fn add_loop_switch(&mut self, flow: FlowId, merge: Endpoint, condition: NodeId) -> Result<NodeId> {
        let switch = NewNode::new("Switch").input(merge).input(condition).colocate_with(merge.node).raw();
        self.add_in(switch, Some(flow))
    }

    /// A loop variable as the body sees it.
    fn add_body_value(&mut self, flow: FlowId, switch: NodeId, merge: Endpoint) -> Result<Endpoint> {
        let identity = NewNode::new("Identity").input(Endpoint::new(switch, 1)).raw();
        let identity = Endpoint::new(self.add_in(identity, Some(flow))?, 0);
        let shape = self.shape(merge)?.clone();
        self.overwrite_shape(identity, shape);
        Ok(identity)
    }

    /// The value of a loop variable after the loop.
    pub(super) fn add_exit(&mut self, flow: FlowId, switch: NodeId, merge: Endpoint) -> Result<Endpoint> {
        let parent = self.context(flow).parent;
        let exit = self.add_in(NewNode::new("Exit").input(Endpoint::new(switch, 0)).raw(), parent)?;
        let exit = Endpoint::new(exit, 0);
        let shape = self.shape(merge)?.clone();
        self.overwrite_shape(exit, shape);
        Ok(exit)
    }

    /// Leads `next` back to the start of the next iteration.
    pub(super) fn add_back_edge(&mut self, flow: FlowId, merge: Endpoint, next: Endpoint) -> Result<()> {
        let next = self.add_in(NewNode::new("NextIteration").input(next).raw(), Some(flow))?;
        self.graph.set_back_edge(merge.node, 1, next)
    }

    /// Adds a variable to a loop whose condition is built, from `first`, a value of the context around the loop. Gives
    /// the places where it begins an iteration, goes into the body or out of the loop, and what the body sees.
    pub(super) fn add_loop_variable(
        &mut self,
        flow: FlowId,
        condition: NodeId,
        first: Endpoint,
        invariant: Option<&PartialShape>,
    ) -> Result<(Endpoint, NodeId, Endpoint)> {
        let enter = self.add_enter(flow, first, false)?;
        let merge = self.add_merge(flow, enter, invariant)?;
        let switch = self.add_loop_switch(flow, merge, condition)?;
        Ok((merge, switch, self.add_body_value(flow, switch, merge)?))
    }

    /// Adds a variable to a loop under construction, after its condition; gives what the body sees. The variables for the next
    /// iteration that [`GraphBuilder::end_loop`] gets are then one more.
    pub fn extend_loop(
        &mut self,
        the_loop: &mut Loop,
        first: Endpoint,
        invariant: Option<&PartialShape>,
    ) -> Result<Endpoint> {
        let condition =
            the_loop.condition.ok_or_else(|| Status::internal("the loop has no condition yet"))?;
        let parent = self.context(the_loop.flow).parent;
        let name = self.scopes.prefix().to_string();
        let first = self.bring_into(parent, first, &name)?;
        let (merge, switch, inside) = self.add_loop_variable(the_loop.flow, condition, first, invariant)?;
        the_loop.merges.push(merge);
        the_loop.switches.push(switch);
        Ok(inside)
    }

    fn check_invariant(&self, enter: Endpoint, invariant: &PartialShape) -> Result<()> {
        let shape = self.shape(enter)?;
        ensure!(
            generalises(invariant, shape),
            InvalidArgument,
            "The shape invariant {invariant} of a loop variable does not hold for its first shape {shape}"
        );
        Ok(())
    }

    /// Ends the condition: the loop goes on while `condition` is true. Gives the variables as the body sees them.
    pub fn loop_condition(&mut self, the_loop: &mut Loop, condition: Endpoint) -> Result<Vec<Endpoint>> {
        let facts = self.facts(condition)?;
        ensure!(
            facts.edge.dtype == DType::Bool && facts.shape.rank().is_none_or(|rank| rank == 0),
            InvalidArgument,
            "the condition of a loop must be a bool scalar, got {} of shape {}",
            python_name(facts.edge.dtype),
            facts.shape
        );
        let flow = Some(the_loop.flow);
        let name = self.scopes.prefix().to_string();
        let condition = self.bring_into(flow, condition, &name)?;
        let condition = self.add_in(NewNode::new("LoopCond").input(condition).raw(), flow)?;
        the_loop.condition = Some(condition);
        for &merge in &the_loop.merges {
            the_loop.switches.push(self.add_loop_switch(the_loop.flow, merge, condition)?);
        }
        let mut inside = Vec::with_capacity(the_loop.switches.len());
        for (&switch, &merge) in the_loop.switches.iter().zip(&the_loop.merges) {
            inside.push(self.add_body_value(the_loop.flow, switch, merge)?);
        }
        self.context_mut(the_loop.flow).pivot = inside[0].node;
        Ok(inside)
    }

    /// Ends the body: `next` are the variables for the next iteration. Gives their values after the loop.
    pub fn end_loop(&mut self, the_loop: &Loop, next: &[Endpoint]) -> Result<Vec<Endpoint>> {
        let count = the_loop.merges.len();
        ensure!(
            next.len() == count,
            InvalidArgument,
            "the body of a loop over {count} variables gave {} values",
            next.len()
        );
        let flow = the_loop.flow;
        let mut nexts = Vec::with_capacity(count);
        for (&merge, &value) in the_loop.merges.iter().zip(next) {
            self.check_next(merge, value)?;
            let name = self.scopes.prefix().to_string();
            let value = self.bring_into(Some(flow), value, &name)?;
            self.add_back_edge(flow, merge, value)?;
            nexts.push(value);
        }
        let mut exits = Vec::with_capacity(count);
        for (&switch, &merge) in the_loop.switches.iter().zip(&the_loop.merges) {
            exits.push(self.add_exit(flow, switch, merge)?);
        }
        self.abandon_loop(the_loop);
        if let Some(condition) = the_loop.condition {
            let variables = the_loop.merges.iter().zip(&the_loop.switches).zip(nexts).zip(&exits);
            let variables = variables.map(|(((&merge, &switch), next), &exit)| LoopVariable {
                merge,
                switch,
                next,
                exit,
            });
            self.context_mut(flow).parts = Some(LoopParts { condition, variables: variables.collect() });
        }
        Ok(exits)
    }

    /// Ends a loop whose body could not be built. Its nodes stay, and lead nowhere.
    pub fn abandon_loop(&mut self, the_loop: &Loop) {
        self.open_loops.retain(|&first| first != the_loop.first_node);
    }

    fn check_next(&self, merge: Endpoint, next: Endpoint) -> Result<()> {
        let (before, after) = (self.facts(merge)?, self.facts(next)?);
        let variable = &self.node(self.node(merge.node).inputs[0].node).inputs[0];
        let name = &self.node(variable.node).name;
        ensure!(
            before.edge.dtype == after.edge.dtype,
            InvalidArgument,
            "Input tensor '{name}' enters the loop with type {}, but has type {} after one iteration.",
            python_name(before.edge.dtype),
            python_name(after.edge.dtype)
        );
        ensure!(
            generalises(&before.shape, &after.shape),
            InvalidArgument,
            "Input tensor '{name}' enters the loop with shape {}, but has shape {} after one iteration. \
             Give a shape invariant to allow the shape to vary.",
            before.shape,
            after.shape
        );
        Ok(())
    }

    /// The loop a node was built in, if any; its values exist only there.
    pub fn enclosing_loop(&self, node: NodeId) -> Option<FlowId> {
        self.loop_of(self.flows.get(node.index()).copied().flatten())
    }

    pub(super) fn loop_of(&self, mut flow: Option<FlowId>) -> Option<FlowId> {
        while let Some(id) = flow {
            if matches!(self.context(id).kind, FlowKind::Loop { .. }) {
                return Some(id);
            }
            flow = self.context(id).parent;
        }
        None
    }

    pub(super) fn context(&self, id: FlowId) -> &FlowContext {
        &self.contexts[id.0 as usize]
    }

    pub(super) fn context_mut(&mut self, id: FlowId) -> &mut FlowContext {
        &mut self.contexts[id.0 as usize]
    }

    fn open_context(&mut self, context: FlowContext) -> FlowId {
        self.contexts.push(context);
        FlowId(self.contexts.len() as u32 - 1)
    }

    pub(super) fn bring_all_into(
        &mut self,
        flow: Option<FlowId>,
        inputs: Vec<Endpoint>,
        user: &str,
    ) -> Result<Vec<Endpoint>> {
        if self.contexts.is_empty() {
            return Ok(inputs);
        }
        inputs.into_iter().map(|input| self.bring_into(flow, input, user)).collect()
    }

    /// The value as nodes in `flow` see it. `user` is the node that needs it, after which new nodes are named.
    pub(super) fn bring_into(
        &mut self,
        flow: Option<FlowId>,
        value: Endpoint,
        user: &str,
    ) -> Result<Endpoint> {
        let value = self.recalled(flow, value, user)?;
        let path = self.path_into(flow, value.node, user)?;
        let mut inside = value;
        for context in path {
            if let Some(&captured) = self.context(context).captured.get(&inside) {
                inside = captured;
                continue;
            }
            let depth = self.scopes.depth();
            self.scopes.push(Frame::Name(user.into()));
            let entered = match self.context(context).kind {
                FlowKind::Branch { predicate, slot } => self.add_switch(context, inside, predicate, slot),
                FlowKind::Loop { .. } => self.add_enter(context, inside, true),
            };
            self.scopes.truncate(depth);
            let entered = entered?;
            let state = self.context_mut(context);
            state.captured.insert(inside, entered);
            state.entries.insert(entered.node);
            inside = entered;
        }
        Ok(inside)
    }

    /// The contexts to enter, outermost first, to get from where `producer` was built into `flow`.
    fn path_into(&self, flow: Option<FlowId>, producer: NodeId, user: &str) -> Result<Vec<FlowId>> {
        let mut ancestors = Vec::new();
        let mut cursor = flow;
        while let Some(id) = cursor {
            ancestors.push(id);
            cursor = self.context(id).parent;
        }
        let mut source = self.flows.get(producer.index()).copied().flatten();
        let common = loop {
            match source {
                None => break ancestors.len(),
                Some(id) => match ancestors.iter().position(|&ancestor| ancestor == id) {
                    Some(position) => break position,
                    None if matches!(self.context(id).kind, FlowKind::Loop { .. }) => {
                        let name = &self.node(producer).name;
                        bail!(
                            InvalidArgument,
                            "Cannot use '{name}' as input to '{user}' because '{name}' is in a while loop"
                        )
                    }
                    // A value of a branch may be used outside; it is dead there if the branch was not taken.
                    None => source = self.context(id).parent,
                },
            }
        };
        ancestors.truncate(common);
        ancestors.reverse();
        Ok(ancestors)
    }

    fn add_switch(
        &mut self,
        flow: FlowId,
        value: Endpoint,
        predicate: Endpoint,
        slot: u32,
    ) -> Result<Endpoint> {
        let is_ref = self.edge_type(value)?.is_ref;
        let op = if is_ref { "RefSwitch" } else { "Switch" };
        let switch =
            NewNode::new(op).name("Switch").input(value).input(predicate).colocate_with(value.node).raw();
        Ok(Endpoint::new(self.add_in(switch, Some(flow))?, slot))
    }

    fn add_enter(&mut self, flow: FlowId, value: Endpoint, is_constant: bool) -> Result<Endpoint> {
        let FlowKind::Loop { frame_name, parallel_iterations } = &self.context(flow).kind else {
            bail!(Internal, "only loops have frames")
        };
        let op = if self.edge_type(value)?.is_ref { "RefEnter" } else { "Enter" };
        let mut enter = NewNode::new(op)
            .input(value)
            .attr("frame_name", frame_name.as_str())
            .attr("is_constant", is_constant)
            .attr("parallel_iterations", *parallel_iterations)
            .raw();
        if !is_constant {
            // The loop starts after what the scopes around it wait for.
            for before in self.scopes.control_inputs(&[value.node]) {
                enter = enter.control_input(before);
            }
        }
        Ok(Endpoint::new(self.add_in(enter, Some(flow))?, 0))
    }

    /// Control inputs as nodes in `flow` may have them: none reaches into a loop from outside, and a node that
    /// nothing else ties to its context waits for the pivot.
    pub(super) fn controls_into(
        &mut self,
        flow: Option<FlowId>,
        controls: Vec<NodeId>,
        producers: &[NodeId],
        user: &str,
    ) -> Result<Vec<NodeId>> {
        let inner_loop = self.loop_of(flow);
        let (mut inside, outside): (Vec<NodeId>, Vec<NodeId>) =
            controls.into_iter().partition(|&control| self.enclosing_loop(control) == inner_loop);
        for &control in &outside {
            self.path_into(flow, control, user)?;
        }
        let Some(flow) = flow else { return Ok(inside) };
        let is_loop = matches!(self.context(flow).kind, FlowKind::Loop { .. });
        let is_tied = match is_loop {
            // What is the same in all iterations says nothing about this one.
            true => !inside.is_empty() || producers.iter().any(|&producer| !self.is_loop_constant(producer)),
            false => !producers.is_empty() || inside.iter().any(|&control| self.is_within(control, flow)),
        };
        if !is_tied {
            inside.push(self.context(flow).pivot);
        }
        if is_loop {
            for control in outside {
                if self.num_outputs(control) > 0 {
                    inside.push(self.control_into(flow, control)?);
                }
            }
        }
        Ok(inside)
    }

    /// Whether a node brings a value into a loop that is the same in all iterations.
    fn is_loop_constant(&self, id: NodeId) -> bool {
        let flow = self.flows.get(id.index()).copied().flatten();
        flow.is_some_and(|flow| {
            let context = self.context(flow);
            matches!(context.kind, FlowKind::Loop { .. }) && context.entries.contains(&id)
        })
    }

    /// Whether a node was built in a branch or loop, or in one inside of it.
    fn is_within(&self, id: NodeId, flow: FlowId) -> bool {
        let mut cursor = self.flows.get(id.index()).copied().flatten();
        while let Some(around) = cursor {
            if around == flow {
                return true;
            }
            cursor = self.context(around).parent;
        }
        false
    }

    /// A node of a loop to wait for in place of `control`, which is outside of it.
    fn control_into(&mut self, flow: FlowId, control: NodeId) -> Result<NodeId> {
        let name = self.claim_name("Identity")?;
        let entered = self.bring_into(Some(flow), Endpoint::new(control, 0), &name)?;
        let pivot = self.context(flow).pivot;
        let identity =
            NewNode::new("Identity").name(format!("{name}/")).input(entered).control_input(pivot).raw();
        self.add_in(identity, Some(flow))
    }
}

impl FlowContext {
    fn new(parent: Option<FlowId>, kind: FlowKind, pivot: NodeId) -> FlowContext {
        FlowContext {
            parent,
            kind,
            pivot,
            captured: FxHashMap::default(),
            entries: FxHashSet::default(),
            parts: None,
            backward: None,
        }
    }
}

impl Loop {
    /// The context of condition and body.
    pub fn flow(&self) -> FlowId {
        self.flow
    }

    /// The loop variables as the condition sees them.
    pub fn variables(&self) -> &[Endpoint] {
        &self.merges
    }
}

/// Whether every shape that fits `specific` fits `general`, as far as is known.
fn generalises(general: &PartialShape, specific: &PartialShape) -> bool {
    match (general.dims(), specific.dims()) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(general), Some(specific)) => {
            general.len() == specific.len()
                && general.iter().zip(specific).all(|(a, b)| a.is_none() || a == b)
        }
    }
}
