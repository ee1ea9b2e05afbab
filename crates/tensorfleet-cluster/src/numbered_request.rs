//! [`NumberedRequest`]: a run that its client repeats with the same number if the answer is lost.
//!
//! A client that replaces its sessions ([`ClientId`]) numbers its runs. The number goes with the run to every task; a task remembers
//! what the latest run of each client has written, also beyond the client's session, so that the run, repeated in a new session,
//! writes what is left and nothing twice. A run with a smaller number than the latest is a straggler of a session that is lost, and is
//! refused.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use tensorfleet_core::{Result, Status, ensure};
use tensorfleet_kernel::applied_updates::AppliedUpdates;

use crate::client_id::ClientId;

/// A run of a client that numbers its runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NumberedRequest {
    client: u64,
    number: u64,
}

impl NumberedRequest {
    pub(crate) fn new(client: ClientId, number: u64) -> NumberedRequest {
        NumberedRequest { client: client.client(), number }
    }
}

/// As it stands in a header.
impl fmt::Display for NumberedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{}", self.client, self.number)
    }
}

impl FromStr for NumberedRequest {
    type Err = Status;

    fn from_str(text: &str) -> Result<NumberedRequest, Status> {
        let parsed = text.split_once('-').and_then(|(client, number)| {
            Some(NumberedRequest {
                client: u64::from_str_radix(client, 16).ok()?,
                number: number.parse().ok()?,
            })
        });
        parsed.ok_or_else(|| Status::invalid_argument(format!("'{text}' is no number of a client's request")))
    }
}

/// Clients that a task remembers; those that came first are forgotten first.
const MAX_CLIENTS: usize = 4096;

/// What the latest request of each client has written on a task.
#[derive(Default)]
pub(crate) struct AppliedRequests {
    clients: Mutex<Clients>,
}

#[derive(Default)]
struct Clients {
    latest: FxHashMap<u64, (u64, Arc<AppliedUpdates>)>,
    in_order: VecDeque<u64>,
}

impl AppliedRequests {
    /// What a request has written so far: nothing if it is new. `Aborted` if the client has sent a later one.
    pub(crate) fn of(&self, request: NumberedRequest) -> Result<Arc<AppliedUpdates>> {
        let NumberedRequest { client, number } = request;
        let mut clients = self.clients.lock();
        if let Some((latest, applied)) = clients.latest.get_mut(&client) {
            ensure!(
                number >= *latest,
                Aborted,
                "request {request} comes after a later one of the same client: it belongs to a session that is lost"
            );
            if number > *latest {
                *latest = number;
                // The latest step still runs if its client has given it up: what it does then is its own affair.
                *applied = Arc::default();
            }
            return Ok(applied.clone());
        }
        let applied: Arc<AppliedUpdates> = Arc::default();
        clients.latest.insert(client, (number, applied.clone()));
        clients.in_order.push_back(client);
        if clients.in_order.len() > MAX_CLIENTS
            && let Some(oldest) = clients.in_order.pop_front()
        {
            clients.latest.remove(&oldest);
        }
        Ok(applied)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensorfleet_core::Code;

    #[test]
    fn a_repeated_request_finds_what_it_has_written_and_a_new_one_finds_nothing() {
        let applied = AppliedRequests::default();
        let client = ClientId::random();
        let request = |number| NumberedRequest::new(client.next(), number);
        assert!(applied.of(request(1)).unwrap().claim(7));
        assert!(
            !applied.of(NumberedRequest::new(client.next().next(), 1)).unwrap().claim(7),
            "in a new session, too"
        );
        assert!(applied.of(request(2)).unwrap().claim(7));
        assert_eq!(applied.of(request(1)).map(drop).unwrap_err().code(), Code::Aborted);
        assert!(applied.of(NumberedRequest::new(ClientId::random(), 2)).unwrap().claim(7));
        assert_eq!(request(3).to_string().parse(), Ok(request(3)));
        assert!("x".parse::<NumberedRequest>().is_err());
    }

    #[test]
    fn so_many_clients_are_remembered_and_no_more() {
        let applied = AppliedRequests::default();
        for client in 0..2 * MAX_CLIENTS as u64 {
            applied.of(NumberedRequest { client, number: 1 }).unwrap();
        }
        let clients = applied.clients.lock();
        assert_eq!((clients.latest.len(), clients.in_order.len()), (MAX_CLIENTS, MAX_CLIENTS));
    }
}
