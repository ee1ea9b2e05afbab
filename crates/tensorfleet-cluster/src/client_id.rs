//! [`ClientId`]: who opens sessions one after the other.
//!
//! A training program that has lost a task closes its session and opens another. The tasks that it could not reach meanwhile
//! still run the steps of the lost one, which would take gradients and tokens that are meant for the new one. So a client that
//! replaces its sessions says who it is, and how often it has: a session of a later turn ends those of earlier ones, on the master
//! and on every task. Sessions of clients that say nothing, such as TensorFlow's, stand side by side.

use std::fmt;
use std::str::FromStr;

use tensorfleet_core::Status;

use crate::random;

/// A client whose sessions replace each other, and the turn of one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientId {
    /// Tells the client, in one life of its process, from all others.
    client: u64,
    turn: u64,
}

impl ClientId {
    /// A client that nobody else is, before its first session.
    pub fn random() -> ClientId {
        ClientId { client: random::random_u64(), turn: 0 }
    }

    /// The same client with its next session.
    pub fn next(self) -> ClientId {
        ClientId { turn: self.turn + 1, ..self }
    }

    /// The client, whichever its session.
    pub(crate) fn client(&self) -> u64 {
        self.client
    }

    /// Whether a session of this turn ends one of `other`.
    pub(crate) fn supersedes(&self, other: &ClientId) -> bool {
        self.client == other.client && self.turn > other.turn
    }
}

/// As it stands in a header.
impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{}", self.client, self.turn)
    }
}

impl FromStr for ClientId {
    type Err = Status;

    fn from_str(text: &str) -> Result<ClientId, Status> {
        let parsed = text.split_once('-').and_then(|(client, turn)| {
            Some(ClientId { client: u64::from_str_radix(client, 16).ok()?, turn: turn.parse().ok()? })
        });
        parsed
            .ok_or_else(|| Status::invalid_argument(format!("'{text}' does not name a client and its turn")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_turn_of_the_same_client_ends_the_earlier_ones() {
        let first = ClientId::random().next();
        let second = first.next();
        assert!(second.supersedes(&first));
        assert!(!first.supersedes(&second) && !first.supersedes(&first));
        assert!(!ClientId::random().next().next().supersedes(&first));
        assert_eq!(second.to_string().parse(), Ok(second));
        for odd in ["", "-", "12", "x-1", "1-x", "1-", "00000000000000001-1"] {
            assert!(odd.parse::<ClientId>().is_err() || odd.len() > 16, "{odd}");
        }
    }
}
