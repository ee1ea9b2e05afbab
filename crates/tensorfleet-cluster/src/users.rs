//! [`Users`]: who uses a session, whether they are still there, and how long the session waits for them if not.
//!
//! A client that dies leaves its session behind, and with it a graph, plans, registered partitions, private queues and
//! iterators on many tasks. A client that lost its connection for a moment comes back with the handle it has, and expects
//! all of it. A server cannot tell the two apart, but the way in which a connection ends says a lot:
//!
//! * The client's system closed or reset it. So the client's machine and the network work, and either the process has ended
//!   or it has let go of the connection. One that lives connects anew with its next call, within a second or two of being told.
//! * The client's system fell silent. A cut cable looks like this, and it may be mended: there is longer to come back.
//! * This server closed it. That says nothing about the client, which may be busy elsewhere and not know yet.
//!
//! So each has a [`Patience`] of its own. Whoever comes too late is told `Aborted`, which TensorFlow's
//! `MonitoredSession` and ours answer with a new session.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tensorfleet_core::clock::Clock;
use tensorfleet_rpc::{Connection, ConnectionId, Ending};

/// Connections remembered at most. A session is used through one; a second is there while one takes over from another.
const MAX_CONNECTIONS: usize = 8;

/// How long a session is kept for users that are gone, by how the last connection to them has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// Their system closed it.
    pub(crate) after_closing: Duration,
    /// Their system fell silent.
    pub(crate) after_silence: Duration,
    /// This server closed it.
    pub(crate) after_own_closing: Duration,
}

/// The users of a session.
pub(crate) struct Users {
    clock: Clock,
    patience: Patience,
    state: Mutex<State>,
}

struct State {
    last_use: Instant,
    /// The connections it was used through, the latest last; empty if all users are in this process.
    connections: Vec<Connection>,
    gone: Option<Gone>,
}

#[derive(Clone, Copy)]
struct Gone {
    since: Instant,
    ending: Ending,
}

/// Whether users are there, as of one look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Present,
    /// The look before this one found them present.
    JustGone,
    /// They may still come back.
    Gone,
    /// They have not come back in time.
    Over,
}

impl Users {
    /// One user, who comes by `connection` or is in this process.
    pub(crate) fn new(connection: Option<Connection>, patience: Patience, clock: Clock) -> Users {
        let (last_use, connections) = (clock.now(), connection.into_iter().collect());
        Users { clock, patience, state: Mutex::new(State { last_use, connections, gone: None }) }
    }

    /// The connections it was used through.
    pub(crate) fn connections(&self) -> Vec<ConnectionId> {
        self.state.lock().connections.iter().map(Connection::id).collect()
    }

    /// Notes a use, and by whom.
    pub(crate) fn touch(&self, connection: Option<&Connection>) {
        let mut state = self.state.lock();
        state.last_use = self.clock.now();
        state.gone = None;
        let Some(connection) = connection else { return };
        if state.connections.last().is_some_and(|last| last.id() == connection.id()) {
            return;
        }
        state.connections.retain(|known| known.id() != connection.id() && known.is_open());
        if state.connections.len() == MAX_CONNECTIONS {
            state.connections.remove(0);
        }
        state.connections.push(connection.clone());
    }

    /// Looks whether they are there.
    pub(crate) fn look(&self) -> Presence {
        let mut state = self.state.lock();
        let is_present = state.connections.iter().any(Connection::is_open);
        // The ending that asks for most patience counts.
        let ending = state.connections.iter().filter_map(Connection::ending).max();
        let Some(ending) = ending.filter(|_| !is_present) else {
            state.gone = None;
            return Presence::Present;
        };
        let now = self.clock.now();
        let Some(gone) = state.gone else {
            state.gone = Some(Gone { since: now, ending });
            return Presence::JustGone;
        };
        let patience = match gone.ending {
            Ending::ByPeer => self.patience.after_closing,
            Ending::Lost => self.patience.after_silence,
            Ending::ByServer => self.patience.after_own_closing,
        };
        match now.saturating_duration_since(gone.since) >= patience {
            true => Presence::Over,
            false => Presence::Gone,
        }
    }

    /// How long ago the session was last used.
    pub(crate) fn idle(&self) -> Duration {
        self.clock.since(self.state.lock().last_use)
    }

    /// How long users have been gone, if they are.
    pub(crate) fn gone_for(&self) -> Option<Duration> {
        self.state.lock().gone.map(|gone| self.clock.since(gone.since))
    }

    /// Who used it last, for people.
    pub(crate) fn last(&self) -> String {
        let state = self.state.lock();
        state.connections.last().map_or("this process".to_string(), |last| last.peer().to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensorfleet_core::clock::ManualClock;
    use tensorfleet_rpc::{ConnectionGuard, Peer};

    const SECOND: Duration = Duration::from_secs(1);
    const PATIENCE: Patience = Patience {
        after_closing: SECOND,
        after_silence: Duration::from_secs(10),
        after_own_closing: Duration::from_secs(100),
    };

    fn user() -> (Connection, ConnectionGuard) {
        Connection::new(Peer::Process(None))
    }

    fn used_by(connection: Option<Connection>) -> (ManualClock, Users) {
        let hand = Clock::manual();
        let users = Users::new(connection, PATIENCE, hand.clock());
        (hand, users)
    }

    #[test]
    fn users_that_are_silent_and_users_of_this_process_are_present() {
        let (connection, _guard) = user();
        for connection in [Some(connection), None] {
            let (hand, users) = used_by(connection);
            hand.advance(SECOND * 1_000_000);
            assert_eq!(users.look(), Presence::Present);
            assert_eq!((users.idle(), users.gone_for()), (SECOND * 1_000_000, None));
        }
    }

    #[test]
    fn how_a_connection_has_ended_decides_how_long_its_user_is_waited_for() {
        for (ending, patience) in [
            (Ending::ByPeer, PATIENCE.after_closing),
            (Ending::Lost, PATIENCE.after_silence),
            (Ending::ByServer, PATIENCE.after_own_closing),
        ] {
            let (connection, guard) = user();
            let (hand, users) = used_by(Some(connection));
            hand.advance(SECOND * 1000);
            guard.end(ending);
            assert_eq!(users.look(), Presence::JustGone, "{ending:?}: idle time before does not count");
            hand.advance(patience - Duration::from_millis(1));
            assert_eq!(users.look(), Presence::Gone, "{ending:?}");
            hand.advance(Duration::from_millis(1));
            assert_eq!((users.look(), users.gone_for()), (Presence::Over, Some(patience)), "{ending:?}");
        }
    }

    #[test]
    fn whoever_comes_back_is_present_whatever_connection_it_comes_by() {
        let (first, guard) = user();
        let (hand, users) = used_by(Some(first));
        drop(guard);
        assert_eq!(users.look(), Presence::JustGone);
        let (second, guard) = user();
        users.touch(Some(&second));
        hand.advance(SECOND * 1000);
        assert_eq!(users.look(), Presence::Present);
        drop(guard);
        assert_eq!(users.look(), Presence::JustGone, "and its time begins anew");
        // A client of this process, whose connection was closed because it says nothing there.
        users.touch(None);
        assert_eq!(users.look(), Presence::JustGone);
    }

    #[test]
    fn a_session_with_two_users_is_kept_for_either() {
        let ((first, first_guard), (second, second_guard)) = (user(), user());
        let (hand, users) = used_by(Some(first));
        users.touch(Some(&second));
        drop(second_guard);
        hand.advance(SECOND * 1000);
        assert_eq!(users.look(), Presence::Present, "the first is still there");
        first_guard.end(Ending::Lost);
        assert_eq!(users.look(), Presence::JustGone);
        hand.advance(PATIENCE.after_closing);
        assert_eq!(users.look(), Presence::Gone, "the more patient ending counts");
    }

    #[test]
    fn a_client_that_connects_anew_again_and_again_is_remembered_by_its_last_connections() {
        let (hand, users) = used_by(None);
        let connections: Vec<_> = (0..100).map(|_| user()).collect();
        connections.iter().for_each(|(connection, _)| users.touch(Some(connection)));
        assert_eq!(users.state.lock().connections.len(), MAX_CONNECTIONS);
        drop(connections);
        users.look();
        hand.advance(SECOND);
        assert_eq!(users.look(), Presence::Over);
    }
}
