//! [`RendezvousKey`]: the name under which a tensor waits for its receiver.
//!
//! On the wire it is a text of five parts, `SEND_DEVICE;INCARNATION;RECV_DEVICE;EDGE_NAME;FRAME:ITERATION`. It is taken
//! apart once, where it enters: from the attributes of a `_Send` or `_Recv` node, from a plan, from a message. All but
//! the last part is the same in every step and iteration ([`RendezvousEdge`]) and shared by all keys made of it, so
//! that making, cloning and hashing a key neither allocates nor looks at the text.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;

use rustc_hash::FxHasher;

use crate::device_name::DeviceName;
use crate::status::{Result, Status};

/// Names one tensor on its way from a device to a device, in one iteration of one frame.
///
/// ```
/// use tensorfleet_core::RendezvousKey;
///
/// let text = "/job:ps/replica:0/task:1/device:CPU:0;00000000000000ff;/job:worker/replica:0/task:0/device:CPU:0;edge_4_v;0:0";
/// let key: RendezvousKey = text.parse()?;
/// assert_eq!((key.sender().task, key.incarnation(), key.edge_name()), (Some(1), 0xff, "edge_4_v"));
/// assert_eq!(key.to_string(), text);
/// # Ok::<(), tensorfleet_core::Status>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RendezvousKey {
    edge: RendezvousEdge,
    frame_id: u64,
    iteration: u64,
}

/// An edge of a graph from one device to another: a key without its frame and iteration.
#[derive(Clone)]
pub struct RendezvousEdge(Arc<Parts>);

struct Parts {
    /// The first four parts of the key, as they were given.
    text: String,
    /// Of `text`.
    hash: u64,
    sender: DeviceName,
    incarnation: u64,
    sender_end: usize,
    receiver: Range<usize>,
    name: Range<usize>,
}

impl RendezvousEdge {
    /// The edge called `name` from `sender`, in this life of its task, to `receiver`.
    pub fn new(sender: &str, incarnation: u64, receiver: &str, name: &str) -> Result<RendezvousEdge> {
        let text = format!("{sender};{incarnation:016x};{receiver};{name}");
        match RendezvousEdge::parse(&text) {
            Some(edge) => Ok(edge),
            None => Err(malformed(&text)),
        }
    }

    fn parse(text: &str) -> Option<RendezvousEdge> {
        let sender_end = text.find(';')?;
        let incarnation_end = after(text, sender_end)?;
        let receiver_end = after(text, incarnation_end)?;
        let (receiver, name) = (incarnation_end + 1..receiver_end, receiver_end + 1..text.len());
        if receiver.is_empty() || name.is_empty() || text[name.clone()].contains(';') {
            return None;
        }
        let sender = text[..sender_end].parse().ok()?;
        let incarnation = u64::from_str_radix(&text[sender_end + 1..incarnation_end], 16).ok()?;
        let mut hasher = FxHasher::default();
        text.hash(&mut hasher);
        let (text, hash) = (text.to_string(), hasher.finish());
        Some(RendezvousEdge(Arc::new(Parts { text, hash, sender, incarnation, sender_end, receiver, name })))
    }

    /// The key of the edge's tensor in an iteration of a frame; both are 0 outside of loops.
    pub fn key(&self, frame_id: u64, iteration: u64) -> RendezvousKey {
        RendezvousKey { edge: self.clone(), frame_id, iteration }
    }
}

/// The place of the first `;` behind the one at `start`.
fn after(text: &str, start: usize) -> Option<usize> {
    text[start + 1..].find(';').map(|length| start + 1 + length)
}

#[cold]
fn malformed(text: &str) -> Status {
    Status::invalid_argument(format!("Invalid rendezvous key: {text}"))
}

impl PartialEq for RendezvousEdge {
    fn eq(&self, other: &RendezvousEdge) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || (self.0.hash == other.0.hash && self.0.text == other.0.text)
    }
}

impl Eq for RendezvousEdge {}

impl Hash for RendezvousEdge {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.hash);
    }
}

impl RendezvousKey {
    /// The device that sends.
    pub fn sender(&self) -> &DeviceName {
        &self.edge.0.sender
    }

    /// The device that sends, as the key spells it.
    pub fn sender_text(&self) -> &str {
        &self.edge.0.text[..self.edge.0.sender_end]
    }

    /// The life of the sender's task that the key is meant for.
    pub fn incarnation(&self) -> u64 {
        self.edge.0.incarnation
    }

    /// The device that receives, as the key spells it.
    pub fn receiver_text(&self) -> &str {
        &self.edge.0.text[self.edge.0.receiver.clone()]
    }

    /// The tensor.
    pub fn edge_name(&self) -> &str {
        &self.edge.0.text[self.edge.0.name.clone()]
    }

    /// Whether this is the key's text.
    pub fn is_spelled(&self, text: &str) -> bool {
        let last = text.strip_prefix(&*self.edge.0.text).and_then(|rest| rest.strip_prefix(';'));
        let numbers = last.and_then(|last| last.split_once(':'));
        numbers.is_some_and(|(frame_id, iteration)| {
            number(frame_id) == Some(self.frame_id) && number(iteration) == Some(self.iteration)
        })
    }

    /// TensorFlow's hash of the frame and the iterations around it.
    pub fn frame_id(&self) -> u64 {
        self.frame_id
    }

    /// The iteration in that frame.
    pub fn iteration(&self) -> u64 {
        self.iteration
    }
}

impl FromStr for RendezvousKey {
    type Err = Status;

    fn from_str(text: &str) -> Result<RendezvousKey> {
        let parse = || {
            let (edge, last) = text.rsplit_once(';')?;
            let (frame_id, iteration) = last.split_once(':')?;
            Some(RendezvousEdge::parse(edge)?.key(number(frame_id)?, number(iteration)?))
        };
        parse().ok_or_else(|| malformed(text))
    }
}

/// A number as it is printed, so that equal keys have equal texts.
fn number(text: &str) -> Option<u64> {
    let is_plain =
        text.bytes().all(|byte| byte.is_ascii_digit()) && (text.len() == 1 || !text.starts_with('0'));
    is_plain.then(|| text.parse().ok()).flatten()
}

impl fmt::Display for RendezvousKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{};{}:{}", self.edge.0.text, self.frame_id, self.iteration)
    }
}

impl fmt::Debug for RendezvousKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Code;

    #[test]
    fn a_key_keeps_its_text_and_gives_its_parts() {
        let text = "/job:a/task:2;00ff;/job:b/device:CPU:0;edge_1_x:0.1;17293822569102704640:3";
        let key: RendezvousKey = text.parse().unwrap();
        assert_eq!(key.to_string(), text);
        assert!(
            key.is_spelled(text) && !key.is_spelled(&text[1..]) && !key.is_spelled(&text[..text.len() - 1])
        );
        assert_eq!(*key.sender(), "/job:a/task:2".parse().unwrap());
        assert_eq!((key.sender_text(), key.receiver_text()), ("/job:a/task:2", "/job:b/device:CPU:0"));
        assert_eq!((key.incarnation(), key.edge_name()), (0xff, "edge_1_x:0.1"));
        assert_eq!((key.frame_id(), key.iteration()), (17293822569102704640, 3));
    }

    #[test]
    fn malformed_keys_are_refused_as_tensorflow_refuses_them() {
        let bad = [
            "",
            ";;;;",
            "/job:a;ff;/job:b;x",
            "/job:a;ff;;x;0:0",
            "/job:a;ff;/job:b;;0:0",
            "/job:a;ff;/job:b;x;",
            "/job:a;ff;/job:b;x;0",
            "/job:a;ff;/job:b;x;0:",
            "/job:a;ff;/job:b;x;:0",
            "/job:a;ff;/job:b;x;00:0",
            "/job:a;ff;/job:b;x;+1:0",
            "/job:a;ff;/job:b;x;0:99999999999999999999",
            "/job:a;ff;/job:b;x;0:0;more",
            "/job:a;life;/job:b;x;0:0",
            "job;ff;/job:b;x;0:0",
            "\u{1F600};ff;\u{1F600};\u{1F600};0:0",
        ];
        for text in bad {
            let status = text.parse::<RendezvousKey>().unwrap_err();
            assert_eq!(status.code(), Code::InvalidArgument, "{text}");
            assert_eq!(status.text(), format!("Invalid rendezvous key: {text}"));
        }
        assert!(RendezvousEdge::new("/job:a", 1, "/job:b", "x;y").is_err());
        assert!(RendezvousEdge::new("/job:a", 1, "", "x").is_err());
    }

    #[test]
    fn keys_of_one_text_are_equal_wherever_they_come_from() {
        let edge = RendezvousEdge::new("/job:a", u64::MAX, "/job:b", "x").unwrap();
        let parsed: RendezvousKey = edge.key(7, 8).to_string().parse().unwrap();
        let hash = |key: &RendezvousKey| {
            let mut hasher = FxHasher::default();
            key.hash(&mut hasher);
            hasher.finish()
        };
        assert_eq!(parsed, edge.key(7, 8));
        assert_eq!(hash(&parsed), hash(&edge.key(7, 8)));
        assert_ne!(parsed, edge.key(7, 9));
        assert_ne!(parsed, edge.key(8, 8));
        assert_ne!(parsed, RendezvousEdge::new("/job:a", 0, "/job:b", "x").unwrap().key(7, 8));
    }
}
