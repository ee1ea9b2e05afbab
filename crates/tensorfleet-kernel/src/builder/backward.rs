//! The backward pass of a loop: a loop that runs as often as the first one did, and in each iteration sees the values of
//! the matching iteration of the first, last one first.
//!
//! The loop that is gone back through gets a counter, and every value of it that the backward pass asks for gets a stack:
//! pushed in each iteration there, popped in each iteration here. Values that do not change from iteration to iteration
//! need no stack: they are taken from where the loop took them from.
//!
//! Iterations overlap, but a stack must be pushed and popped in their order. So a push waits for its iteration's count,
//! and the count of the next iteration waits for the pushes; likewise for pops. Some of them may be dead, in a branch that is
//! not taken, and would make the count dead with them; therefore the count waits for a `ControlTrigger`, which is alive
//! whatever it waits for.
//!
//! Where loops are nested, an inner loop's stacks and count are themselves values of an iteration of the outer loop, and
//! are recalled through stacks of its own.

use rustc_hash::FxHashMap;
use tensorfleet_core::{Endpoint, NodeId, PartialShape, Result, Status, Tensor};

use super::GraphBuilder;
use super::control_flow::{FlowId, FlowKind, Loop, LoopOptions};
use super::new_node::{Input, NewNode};
use super::scope::Frame;
use crate::op::Flow;

/// The parts of a finished loop.
#[derive(Clone, Debug)]
pub(crate) struct LoopParts {
    /// Its `LoopCond`.
    pub(crate) condition: NodeId,
    /// What it carries from iteration to iteration.
    pub(crate) variables: Vec<LoopVariable>,
}

/// One variable of a loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoopVariable {
    /// Where an iteration begins.
    pub(crate) merge: Endpoint,
    /// To the body on output 1, out of the loop on output 0.
    pub(crate) switch: NodeId,
    /// What the body gives to the next iteration.
    pub(crate) next: Endpoint,
    /// The value after the loop.
    pub(crate) exit: Endpoint,
}

/// What ties a backward loop to the loop it goes back through.
#[derive(Clone, Debug)]
pub(super) struct Backward {
    forward: FlowId,
    /// The counts of the current iteration, there and here.
    forward_count: Endpoint,
    backward_count: Endpoint,
    pushes: Vec<NodeId>,
    pops: Vec<NodeId>,
    /// Values of the forward loop and what they are here.
    recalled: FxHashMap<Endpoint, Endpoint>,
    /// Values of the forward loop and the nodes there that give their shapes.
    shapes: FxHashMap<Endpoint, Endpoint>,
}

/// A backward loop under construction.
#[derive(Debug)]
pub(crate) struct BackwardLoop {
    the_loop: Loop,
    forward: FlowId,
    /// Where the forward counter's iterations begin.
    forward_counter: Endpoint,
}

impl BackwardLoop {
    /// The context of its body.
    pub(crate) fn flow(&self) -> FlowId {
        self.the_loop.flow()
    }
}

/// What is known of finished loops and branches.
impl GraphBuilder {
    /// The parts of a loop that was built here and is finished.
    pub(crate) fn loop_parts(&self, flow: FlowId) -> Option<&LoopParts> {
        self.context(flow).parts.as_ref()
    }

    /// The loop around a loop.
    pub(crate) fn outer_loop(&self, flow: FlowId) -> Option<FlowId> {
        self.loop_of(self.context(flow).parent)
    }

    /// Whether the loop is the backward pass of another.
    pub(crate) fn is_backward(&self, flow: FlowId) -> bool {
        self.context(flow).backward.is_some()
    }

    /// The loop that new nodes are built in.
    pub(crate) fn current_loop(&self) -> Option<FlowId> {
        self.loop_of(self.scopes.flow())
    }

    /// The `Enter` nodes of values that a loop uses unchanged in every iteration, in the order they were brought in.
    pub(crate) fn loop_captures(&self, flow: FlowId) -> Vec<NodeId> {
        let mut captures: Vec<NodeId> = self.context(flow).entries.iter().copied().collect();
        captures.sort_by_key(|node| node.index());
        captures
    }

    /// The name of a loop: the scope it was built in.
    pub(crate) fn loop_name(&self, flow: FlowId) -> String {
        match &self.context(flow).kind {
            FlowKind::Loop { frame_name, .. } => {
                frame_name.strip_suffix("/while_context").unwrap_or("while").to_string()
            }
            FlowKind::Branch { .. } => "cond".to_string(),
        }
    }

    /// The predicate of the branch a node was built in, and the value it has there.
    pub(crate) fn branch_of(&self, node: NodeId) -> Option<(Endpoint, bool)> {
        let flow = self.flows.get(node.index()).copied().flatten()?;
        match self.context(flow).kind {
            FlowKind::Branch { predicate, slot } => Some((predicate, slot == 1)),
            FlowKind::Loop { .. } => None,
        }
    }
}

/// Backward loops.
impl GraphBuilder {
    /// Builds in another context, whatever the one around is. Devices and colocations around are those of other nodes
    /// and do not count either.
    fn within<R>(
        &mut self,
        flow: Option<FlowId>,
        work: impl FnOnce(&mut GraphBuilder) -> Result<R>,
    ) -> Result<R> {
        let depth = self.scopes.depth();
        self.scopes.push(Frame::Anywhere);
        self.scopes.push(Frame::Outside);
        if let Some(flow) = flow {
            self.scopes.push(Frame::Flow(flow));
        }
        let result = work(self);
        self.scopes.truncate(depth);
        result
    }

    /// Starts the backward pass of `forward` in the current context.
    pub(crate) fn begin_backward(&mut self, forward: FlowId) -> Result<BackwardLoop> {
        let (condition, parallel_iterations) = match (self.loop_parts(forward), &self.context(forward).kind) {
            (Some(parts), FlowKind::Loop { parallel_iterations, .. }) => {
                (parts.condition, *parallel_iterations)
            }
            _ => return Err(Status::internal("only a finished loop has a backward pass")),
        };
        let around = self.context(forward).parent;
        let zero = self.within(around, |b| b.constant("f_count", Tensor::scalar(0i32)))?;
        let counter = self.add_loop_variable(forward, condition, zero, None)?;
        let (forward_counter, switch, forward_count) = counter;
        let total = self.add_exit(forward, switch, forward_counter)?;

        let options = LoopOptions { parallel_iterations, ..LoopOptions::default() };
        let mut the_loop = self.begin_loop(&[total], &options)?;
        let flow = the_loop.flow();
        let count = the_loop.variables().first().copied();
        let count = count.ok_or_else(|| Status::internal("a loop without its counter"))?;
        let one = || Input::Tensor(Tensor::scalar(1i32));
        let counted = self.within(Some(flow), |b| {
            let goes_on = b.emit(NewNode::new("GreaterEqual").name("b_count").input(count).input(one()))?;
            b.loop_condition(&mut the_loop, goes_on)
        });
        let backward_count = match counted.as_deref() {
            Ok([count]) => *count,
            Ok(_) => return Err(Status::internal("a loop without its counter")),
            Err(status) => {
                self.abandon_loop(&the_loop);
                return Err(status.clone());
            }
        };
        self.context_mut(flow).backward = Some(Backward {
            forward,
            forward_count,
            backward_count,
            pushes: Vec::new(),
            pops: Vec::new(),
            recalled: FxHashMap::default(),
            shapes: FxHashMap::default(),
        });
        Ok(BackwardLoop { the_loop, forward, forward_counter })
    }

    /// Adds a variable to a backward loop; gives what its body sees. `invariant` is what stays true of its shape.
    pub(crate) fn extend_backward(
        &mut self,
        backward: &mut BackwardLoop,
        first: Endpoint,
        invariant: &PartialShape,
    ) -> Result<Endpoint> {
        self.extend_loop(&mut backward.the_loop, first, Some(invariant))
    }

    /// Ends a backward loop: `next` are its variables for the next iteration, in the order they were added. Gives their
    /// values after the loop.
    pub(crate) fn end_backward(
        &mut self,
        backward: &BackwardLoop,
        next: &[Endpoint],
    ) -> Result<Vec<Endpoint>> {
        let flow = backward.flow();
        let Some(state) = self.context(flow).backward.clone() else {
            return Err(Status::internal("a backward loop lost its forward loop"));
        };
        let one = || Input::Tensor(Tensor::scalar(1i32));
        let forward_next = self.within(Some(backward.forward), |b| {
            let add = NewNode::new("AddV2").name("f_count/add").input(state.forward_count).input(one());
            let add = b.after_all(add, "f_sync", &state.pushes)?;
            b.emit(add)
        })?;
        self.add_back_edge(backward.forward, backward.forward_counter, forward_next)?;
        let backward_next = self.within(Some(flow), |b| {
            let sub = NewNode::new("Sub").name("b_count/sub").input(state.backward_count).input(one());
            let sub = b.after_all(sub, "b_sync", &state.pops)?;
            b.emit(sub)
        })?;
        let all: Vec<Endpoint> = std::iter::once(backward_next).chain(next.iter().copied()).collect();
        let mut exits = self.end_loop(&backward.the_loop, &all)?;
        exits.remove(0);
        Ok(exits)
    }

    /// Gives up a backward loop whose body could not be built.
    pub(crate) fn abandon_backward(&mut self, backward: &BackwardLoop) {
        self.abandon_loop(&backward.the_loop);
    }

    /// Lets `node` wait for all of `before`, dead or alive.
    fn after_all(&mut self, node: NewNode, name: &str, before: &[NodeId]) -> Result<NewNode> {
        if before.is_empty() {
            return Ok(node);
        }
        let trigger = NewNode::new("ControlTrigger").name(name);
        let trigger = self.add(before.iter().fold(trigger, |trigger, &node| trigger.control_input(node)))?;
        Ok(node.control_input(trigger))
    }

    /// `value` itself, or, where a backward loop around `flow` goes back through the loop that has it, what it is there.
    pub(super) fn recalled(&mut self, flow: Option<FlowId>, value: Endpoint, user: &str) -> Result<Endpoint> {
        match self.recalling_loop(flow, value) {
            Some(backward) => self.recall(backward, value, user),
            None => Ok(value),
        }
    }

    /// The backward loop around `flow` that goes back through the loop that has `value`.
    fn recalling_loop(&self, flow: Option<FlowId>, value: Endpoint) -> Option<FlowId> {
        let source = self.enclosing_loop(value.node)?;
        let mut cursor = flow;
        while let Some(id) = cursor.filter(|&id| id != source) {
            let context = self.context(id);
            if context.backward.as_ref().is_some_and(|backward| backward.forward == source) {
                return Some(id);
            }
            cursor = context.parent;
        }
        None
    }

    /// The shape of `value`, for the current context. A backward loop that has not asked for the value itself keeps but the shape:
    /// each iteration's value is free as soon as the forward loop is done with it.
    pub fn shape_node(&mut self, value: Endpoint) -> Result<Endpoint> {
        let shape = |value: Endpoint| NewNode::new("Shape").input(value);
        let Some(flow) = self.recalling_loop(self.scopes.flow(), value) else {
            return self.emit(shape(value));
        };
        let backward = self.backward(flow)?;
        if let Some(&known) = backward.shapes.get(&value) {
            return Ok(known);
        }
        let (forward, is_kept) = (backward.forward, backward.recalled.contains_key(&value));
        let home = self.flows.get(value.node.index()).copied().flatten();
        let is_entry = [Some(forward), home]
            .into_iter()
            .flatten()
            .any(|flow| self.context(flow).entries.contains(&value.node));
        if is_kept || is_entry {
            return self.emit(shape(value));
        }
        let shape = self.within(home, |b| b.emit(shape(value).colocate_with(value.node)))?;
        self.backward(flow)?.shapes.insert(value, shape);
        Ok(shape)
    }

    fn backward(&mut self, flow: FlowId) -> Result<&mut Backward> {
        let backward = self.context_mut(flow).backward.as_mut();
        backward.ok_or_else(|| Status::internal("the loop is no backward pass"))
    }

    /// What `value`, of a loop, is in the backward loop `flow`.
    fn recall(&mut self, flow: FlowId, value: Endpoint, user: &str) -> Result<Endpoint> {
        let backward = self.backward(flow)?;
        if let Some(&known) = backward.recalled.get(&value) {
            return Ok(known);
        }
        let forward = backward.forward;
        let node = self.node(value.node);
        let first_input = node.inputs.first().copied();
        let is_switch = self.find_op(value.node).is_some_and(|op| op.flow == Flow::Switch);
        let constant = self.facts(value)?.value.clone();
        let branch = self.flows.get(value.node.index()).copied().flatten().filter(|&id| id != forward);
        let recalled = match (first_input, branch) {
            (Some(outside), _) if self.context(forward).entries.contains(&value.node) => {
                self.bring_into(Some(flow), outside, user)?
            }
            // What a branch brought in is brought in again, so that it is dead where it was.
            (Some(outside), Some(branch))
                if is_switch && self.context(branch).entries.contains(&value.node) =>
            {
                let outside = self.bring_into(Some(flow), outside, user)?;
                self.switched(flow, branch, outside, user)?
            }
            _ => match constant {
                Some(constant) => self.within(Some(flow), |b| b.constant("Const", constant))?,
                None => self.recall_by_stack(flow, value, user)?,
            },
        };
        self.backward(flow)?.recalled.insert(value, recalled);
        Ok(recalled)
    }

    /// `value`, in the backward loop, dead in iterations in which the forward loop's branch was not taken.
    fn switched(&mut self, flow: FlowId, branch: FlowId, value: Endpoint, user: &str) -> Result<Endpoint> {
        let FlowKind::Branch { predicate, slot } = self.context(branch).kind else { return Ok(value) };
        let predicate = self.bring_into(Some(flow), predicate, user)?;
        let op = if self.edge_type(value)?.is_ref { "RefSwitch" } else { "Switch" };
        let switch = NewNode::new(op).name("Switch").input(value).input(predicate).colocate_with(value.node);
        let switch = self.within(Some(flow), |b| b.add(switch))?;
        Ok(Endpoint::new(switch, slot))
    }

    /// Pushes `value` in each iteration of its loop and pops it here.
    fn recall_by_stack(&mut self, flow: FlowId, value: Endpoint, user: &str) -> Result<Endpoint> {
        let backward = self.backward(flow)?;
        let (forward, forward_count, backward_count) =
            (backward.forward, backward.forward_count, backward.backward_count);
        let source = self.flows.get(value.node.index()).copied().flatten();
        let (dtype, shape) = (self.dtype(value)?, self.shape(value)?.clone());
        let around = self.context(forward).parent;
        let stack = self.within(around, |b| {
            let no_limit = Input::Tensor(Tensor::scalar(-1i32));
            let stack = NewNode::new("StackV2").name("f_acc").input(no_limit).attr("elem_type", dtype);
            b.emit(stack.colocate_with(value.node))
        })?;
        let push = NewNode::new("StackPushV2").input(stack).input(value).control_input(forward_count.node);
        let push = self.within(source, |b| b.add(push.colocate_with(stack.node)))?;
        self.backward(flow)?.pushes.push(push);

        // The branches in the loop that lead to the value, outermost first.
        let mut branches = Vec::new();
        let mut cursor = source;
        while let Some(id) = cursor.filter(|&id| id != forward) {
            branches.push(id);
            cursor = self.context(id).parent;
        }
        let mut handle = self.bring_into(Some(flow), stack, user)?;
        for &branch in branches.iter().rev() {
            handle = self.switched(flow, branch, handle, user)?;
        }
        let pop = NewNode::new("StackPopV2").input(handle).attr("elem_type", dtype);
        let pop = pop.control_input(backward_count.node).colocate_with(stack.node);
        let popped = self.within(Some(flow), |b| b.emit(pop))?;
        self.backward(flow)?.pops.push(popped.node);
        self.overwrite_shape(popped, shape);
        Ok(popped)
    }
}
