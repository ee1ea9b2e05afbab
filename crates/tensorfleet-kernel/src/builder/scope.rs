//! Scopes: what a new node gets from where it is built — name prefix, device, control inputs, colocation, and the
//! branch or loop it belongs to.
//!
//! All of them are frames of one stack, so entering is a push and leaving is a truncation, and a scope cannot be
//! left in the wrong order. What a node gets is found by walking the stack, as TensorFlow's Python does:
//! the innermost device wins in what it names, a colocation hides the devices around it, `None` hides all.

use std::fmt;
use std::sync::Arc;

use rustc_hash::FxHashSet;
use tensorfleet_core::{DeviceName, Node, NodeId, Result, Status};

use super::control_flow::FlowId;

/// Chooses the device of a node. `Node::device` holds what the scopes further inside have said; the answer
/// replaces it.
pub type DeviceFn = Arc<dyn Fn(&Node) -> Result<DeviceName> + Send + Sync>;

/// What a device scope says.
#[derive(Clone)]
pub enum DeviceScope {
    /// Fills what the scopes inside leave open.
    Spec(DeviceName),
    /// Asks a function.
    By(DeviceFn),
    /// Forgets the scopes around it.
    Reset,
    /// Could not be understood; every node built inside fails with the reason.
    Invalid(Status),
}

impl DeviceScope {
    /// A scope that asks `choose` for every node.
    pub fn by(choose: impl Fn(&Node) -> Result<DeviceName> + Send + Sync + 'static) -> DeviceScope {
        DeviceScope::By(Arc::new(choose))
    }
}

impl From<&str> for DeviceScope {
    /// A device specification; the leading slash may be missing.
    fn from(text: &str) -> DeviceScope {
        let parsed = match text.starts_with('/') || text.is_empty() {
            true => text.parse(),
            false => format!("/{text}").parse(),
        };
        parsed.map_or_else(DeviceScope::Invalid, DeviceScope::Spec)
    }
}

impl From<&String> for DeviceScope {
    fn from(text: &String) -> DeviceScope {
        DeviceScope::from(text.as_str())
    }
}

impl From<String> for DeviceScope {
    fn from(text: String) -> DeviceScope {
        DeviceScope::from(text.as_str())
    }
}

impl From<DeviceName> for DeviceScope {
    fn from(name: DeviceName) -> DeviceScope {
        DeviceScope::Spec(name)
    }
}

impl From<Option<&str>> for DeviceScope {
    /// `None` forgets the scopes around it.
    fn from(text: Option<&str>) -> DeviceScope {
        text.map_or(DeviceScope::Reset, DeviceScope::from)
    }
}

impl fmt::Debug for DeviceScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceScope::Spec(name) => write!(f, "{name}"),
            DeviceScope::By(_) => f.write_str("(a function)"),
            DeviceScope::Reset => f.write_str("(reset)"),
            DeviceScope::Invalid(status) => write!(f, "(invalid: {status})"),
        }
    }
}

/// A stack of scopes. Each thread that builds has its own.
#[derive(Clone, Debug, Default)]
pub struct Scopes(Vec<Frame>);

#[derive(Clone, Debug)]
pub(super) enum Frame {
    /// The prefix of names, without the slash at its end; empty at the root.
    Name(Arc<str>),
    Device(DeviceScope),
    Control(ControlFrame),
    /// Hides the control inputs and the branches and loops around it.
    Outside,
    Colocate(NodeId),
    /// The colocation group of nodes that no node around gives another: of those that make a variable's first value,
    /// which exist before the variable does.
    Class(Arc<str>),
    /// Hides the devices and colocations around it: nodes go where their inputs are.
    Anywhere,
    /// The scope could not be entered; every node built inside fails with the reason.
    Invalid(Status),
    /// Inside a branch or loop.
    Flow(FlowId),
}

#[derive(Clone, Debug)]
pub(super) struct ControlFrame {
    before: Vec<NodeId>,
    /// Nodes built in this frame. Who takes data from one of them runs after `before` anyway.
    built: FxHashSet<NodeId>,
}

impl Scopes {
    /// How many frames there are; give it to [`Scopes::truncate`] to leave what is entered from now on.
    pub(super) fn depth(&self) -> usize {
        self.0.len()
    }

    pub(super) fn truncate(&mut self, depth: usize) {
        self.0.truncate(depth);
    }

    pub(super) fn push(&mut self, frame: Frame) {
        self.0.push(frame);
    }

    pub(super) fn push_control(&mut self, before: Vec<NodeId>) {
        self.0.push(Frame::Control(ControlFrame { before, built: FxHashSet::default() }));
    }

    /// Whether nothing is entered.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Fails if a scope around could not be entered.
    pub(super) fn check(&self) -> Result<()> {
        let invalid = self.0.iter().find_map(|frame| match frame {
            Frame::Invalid(status) => Some(status.clone()),
            _ => None,
        });
        invalid.map_or(Ok(()), Err)
    }

    /// `name` with the current prefix.
    pub(super) fn qualified(&self, name: &str) -> String {
        match self.prefix() {
            "" => name.to_string(),
            prefix => format!("{prefix}/{name}"),
        }
    }

    pub(super) fn prefix(&self) -> &str {
        let names = self.0.iter().rev().find_map(|frame| match frame {
            Frame::Name(prefix) => Some(&**prefix),
            _ => None,
        });
        names.unwrap_or("")
    }

    /// The innermost branch or loop.
    pub(super) fn flow(&self) -> Option<FlowId> {
        for frame in self.0.iter().rev() {
            match frame {
                Frame::Flow(id) => return Some(*id),
                Frame::Outside => return None,
                _ => {}
            }
        }
        None
    }

    /// Nodes to colocate with, innermost first.
    pub(super) fn colocations(&self) -> impl Iterator<Item = NodeId> {
        let near = self.0.iter().rev().take_while(|frame| !matches!(frame, Frame::Anywhere));
        near.filter_map(|frame| match frame {
            Frame::Colocate(node) => Some(*node),
            _ => None,
        })
    }

    /// The colocation group of nodes that are colocated with no node.
    pub(super) fn class(&self) -> Option<&str> {
        let near = self.0.iter().rev().take_while(|frame| !matches!(frame, Frame::Anywhere));
        near.filter_map(|frame| match frame {
            Frame::Class(group) => Some(&**group),
            _ => None,
        })
        .next()
    }

    /// The device of `node`, whose own device string counts as the innermost scope.
    pub(super) fn device_for(&self, node: &mut Node) -> Result<DeviceName> {
        let mut device: DeviceName = node.device.parse()?;
        for frame in self.0.iter().rev() {
            match frame {
                Frame::Device(DeviceScope::Spec(spec)) => device = spec.overridden_by(&device),
                Frame::Device(DeviceScope::By(choose)) => {
                    node.device = device.to_string().into();
                    device = choose(node)?;
                }
                Frame::Device(DeviceScope::Invalid(status)) => return Err(status.clone()),
                Frame::Device(DeviceScope::Reset) | Frame::Colocate(_) | Frame::Anywhere => break,
                _ => {}
            }
        }
        Ok(device)
    }

    /// Control inputs for a node that takes data from `producers`, outermost scope first.
    pub(super) fn control_inputs(&self, producers: &[NodeId]) -> Vec<NodeId> {
        let mut controls: Vec<NodeId> = Vec::new();
        for frame in self.control_frames() {
            if producers.iter().any(|producer| frame.built.contains(producer)) {
                continue;
            }
            for &before in &frame.before {
                if !producers.contains(&before) && !controls.contains(&before) {
                    controls.push(before);
                }
            }
        }
        controls
    }

    /// Remembers that `node` was built here.
    pub(super) fn record(&mut self, node: NodeId) {
        let start = self.control_start();
        for frame in &mut self.0[start..] {
            if let Frame::Control(control) = frame {
                control.built.insert(node);
            }
        }
    }

    fn control_frames(&self) -> impl Iterator<Item = &ControlFrame> {
        self.0[self.control_start()..].iter().filter_map(|frame| match frame {
            Frame::Control(control) => Some(control),
            _ => None,
        })
    }

    fn control_start(&self) -> usize {
        let barrier = self.0.iter().rposition(|frame| matches!(frame, Frame::Outside));
        barrier.map_or(0, |index| index + 1)
    }
}
