//! [`Status`]: the one error type, with TensorFlow's codes, that crosses every layer and the wire.
//!
//! A status says what happened, and, once a node is known, where: the node's name, op and device. It
//! prints the place in the form `[[{{node NAME}}]]`, which TensorFlow's Python client looks for.

use std::fmt;

/// The result of anything that can fail in Tensorfleet.
pub type Result<T, E = Status> = std::result::Result<T, E>;

/// TensorFlow's error codes (`tensorflow.error.Code`), without OK: success is `Ok(_)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum Code {
    /// The operation was cancelled, usually by its caller.
    Cancelled = 1,
    /// An error of unknown kind.
    Unknown = 2,
    /// The caller gave something that can never work.
    InvalidArgument = 3,
    /// The deadline passed before the work was done.
    DeadlineExceeded = 4,
    /// A named thing does not exist.
    NotFound = 5,
    /// A thing that was to be created exists already.
    AlreadyExists = 6,
    /// The caller may not do this.
    PermissionDenied = 7,
    /// Memory, a quota or a bound is used up.
    ResourceExhausted = 8,
    /// The system is not in the state the operation needs, e.g. a variable is not initialised.
    FailedPrecondition = 9,
    /// The operation was given up; state may be lost and the session must be created anew.
    Aborted = 10,
    /// Past the end, e.g. a closed and empty queue.
    OutOfRange = 11,
    /// Not implemented or not supported.
    Unimplemented = 12,
    /// A broken invariant.
    Internal = 13,
    /// A task cannot be reached at the moment.
    Unavailable = 14,
    /// Data is corrupt or lost for good.
    DataLoss = 15,
    /// The caller has not shown who it is.
    Unauthenticated = 16,
}

impl Code {
    /// The code with this number; numbers TensorFlow does not define become `Unknown`.
    pub fn from_i32(number: i32) -> Code {
        use Code::*;
        const ALL: [Code; 16] = [
            Cancelled,
            Unknown,
            InvalidArgument,
            DeadlineExceeded,
            NotFound,
            AlreadyExists,
            PermissionDenied,
            ResourceExhausted,
            FailedPrecondition,
            Aborted,
            OutOfRange,
            Unimplemented,
            Internal,
            Unavailable,
            DataLoss,
            Unauthenticated,
        ];
        ALL.into_iter().find(|&code| code as i32 == number).unwrap_or(Unknown)
    }

    /// The name as protobuf spells it, e.g. `INVALID_ARGUMENT`.
    pub fn proto_name(self) -> &'static str {
        match self {
            Code::Cancelled => "CANCELLED",
            Code::Unknown => "UNKNOWN",
            Code::InvalidArgument => "INVALID_ARGUMENT",
            Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
            Code::NotFound => "NOT_FOUND",
            Code::AlreadyExists => "ALREADY_EXISTS",
            Code::PermissionDenied => "PERMISSION_DENIED",
            Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
            Code::FailedPrecondition => "FAILED_PRECONDITION",
            Code::Aborted => "ABORTED",
            Code::OutOfRange => "OUT_OF_RANGE",
            Code::Unimplemented => "UNIMPLEMENTED",
            Code::Internal => "INTERNAL",
            Code::Unavailable => "UNAVAILABLE",
            Code::DataLoss => "DATA_LOSS",
            Code::Unauthenticated => "UNAUTHENTICATED",
        }
    }
}

/// An error: a [`Code`], a message for people, and the place in the graph where it arose.
///
/// Boxed inside, so that a `Result<_, Status>` stays small on the hot path.
#[derive(Clone)]
pub struct Status(Box<Inner>);

#[derive(Clone)]
struct Inner {
    code: Code,
    text: String,
    place: Option<Place>,
    derived: bool,
    unreachable: Option<Unreachable>,
    busy: bool,
}

/// Why a task could not be reached, as far as this process can tell. Does not travel: to others it is text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// Its machine answers, and nothing listens there.
    Refused,
    /// Its name does not resolve.
    Unresolved,
    /// It accepts connections and says nothing.
    Silent,
}

#[derive(Clone)]
struct Place {
    node: String,
    op: String,
    device: String,
}

macro_rules! constructors {
    ($($(#[$doc:meta])* $name:ident => $code:ident;)*) => {
        $($(#[$doc])*
        #[cold]
        pub fn $name(text: impl Into<String>) -> Status {
            Status::new(Code::$code, text)
        })*
    };
}

impl Status {
    /// A status with this code and message.
    #[cold]
    pub fn new(code: Code, text: impl Into<String>) -> Status {
        Status(Box::new(Inner {
            code,
            text: text.into(),
            place: None,
            derived: false,
            unreachable: None,
            busy: false,
        }))
    }

    constructors! {
        /// The operation was cancelled.
        cancelled => Cancelled;
        /// The caller gave something that can never work.
        invalid_argument => InvalidArgument;
        /// The deadline passed.
        deadline_exceeded => DeadlineExceeded;
        /// A named thing does not exist.
        not_found => NotFound;
        /// The thing exists already.
        already_exists => AlreadyExists;
        /// A bound is used up.
        resource_exhausted => ResourceExhausted;
        /// The system is in the wrong state for this.
        failed_precondition => FailedPrecondition;
        /// Given up; create the session anew.
        aborted => Aborted;
        /// Past the end.
        out_of_range => OutOfRange;
        /// Not supported.
        unimplemented => Unimplemented;
        /// A broken invariant of ours.
        internal => Internal;
        /// A task cannot be reached.
        unavailable => Unavailable;
        /// Corrupt data.
        data_loss => DataLoss;
    }

    /// The error code.
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// The message without the place.
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// The node the error arose in, if it arose in one.
    pub fn node(&self) -> Option<&str> {
        self.0.place.as_ref().map(|place| place.node.as_str())
    }

    /// The message as it crosses the wire: text, then node, op and device where known.
    pub fn message(&self) -> String {
        match &self.0.place {
            None => self.0.text.clone(),
            Some(Place { node, op, device }) => {
                let on = if device.is_empty() { String::new() } else { format!(" on {device}") };
                format!("{}\n\t [[{{{{node {node}}}}} (op {op}{on})]]", self.0.text)
            }
        }
    }

    /// Adds the place where the error arose, unless an inner layer has named one already.
    pub fn at_node(mut self, node: &str, op: &str, device: &str) -> Status {
        self.0.place.get_or_insert_with(|| Place {
            node: node.to_string(),
            op: op.to_string(),
            device: device.to_string(),
        });
        self
    }

    /// Puts `context` before the message, e.g. the file that was being read.
    pub fn context(mut self, context: impl fmt::Display) -> Status {
        self.0.text = format!("{context}: {}", self.0.text);
        self
    }

    /// Marks this error as a mere consequence of another one (say, a receive cancelled because a peer
    /// failed). Such an error is reported only if nothing else went wrong.
    pub fn derived(mut self) -> Status {
        self.0.derived = true;
        self
    }

    /// Whether [`Status::derived`] was called.
    pub fn is_derived(&self) -> bool {
        self.0.derived
    }

    /// Notes why a task could not be reached, for callers of this process that decide by it.
    pub fn with_unreachable(mut self, why: Option<Unreachable>) -> Status {
        self.0.unreachable = why;
        self
    }

    /// Marks a request that was refused for now, before anything of it was looked at: the same request may be sent again
    /// after a while.
    pub fn busy(mut self) -> Status {
        self.0.busy = true;
        self
    }

    /// Takes back [`Status::busy`], for whoever has done something before the request that was refused.
    pub fn not_busy(mut self) -> Status {
        self.0.busy = false;
        self
    }

    /// Whether the request may be sent again as it is.
    pub fn is_busy(&self) -> bool {
        self.0.busy
    }

    /// Why a task could not be reached, if that is what went wrong and this process knows.
    pub fn unreachable(&self) -> Option<Unreachable> {
        self.0.unreachable
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.0.code, self.message())
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Status {}

impl PartialEq for Status {
    /// Equal code and message.
    fn eq(&self, other: &Status) -> bool {
        self.code() == other.code() && self.message() == other.message()
    }
}

/// Returns early with a [`Status`]: `bail!(InvalidArgument, "axis {axis} is out of range")`.
#[macro_export]
macro_rules! bail {
    ($code:ident, $($format:tt)+) => {
        return Err($crate::Status::new($crate::Code::$code, format!($($format)+)))
    };
}

/// Returns early with a [`Status`] unless a condition holds.
#[macro_export]
macro_rules! ensure {
    ($condition:expr, $code:ident, $($format:tt)+) => {
        if !$condition {
            $crate::bail!($code, $($format)+);
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_names_the_innermost_place_once() {
        let status = Status::invalid_argument("bad shape")
            .at_node("layer/MatMul", "MatMul", "/device:CPU:0")
            .at_node("outer", "PartitionedCall", "");
        assert_eq!(status.message(), "bad shape\n\t [[{{node layer/MatMul}} (op MatMul on /device:CPU:0)]]");
    }

    #[test]
    fn codes_survive_their_number() {
        for number in 1..=16 {
            assert_eq!(Code::from_i32(number) as i32, number);
        }
        assert_eq!(Code::from_i32(99), Code::Unknown);
    }
}
