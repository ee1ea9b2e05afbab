//! [`OpenConnections`]: which connections are idle, and which of them end when.
//!
//! A connection costs a descriptor and some memory, whether anybody uses it or not. One that never brings a request ends
//! within seconds; one that has been used ends when it has been idle for long and nobody here keeps something for its
//! client; and when descriptors run short, the one that has been idle longest ends first. What ends is told so (HTTP/2's
//! GOAWAY) and may finish what it has begun: its client makes another connection for its next call.
//!
//! The table does no I/O and is given the time. A call costs two counters; whether a connection was idle is found out by
//! comparing counters from sweep to sweep.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::{ConnectionId, Limits};

/// How long a connection that was told to end may take, depending on why: a client that is idle may be busy with something
/// else than its connection, one that never asked for anything has nothing to lose.
const IDLE_GRACE: Duration = Duration::from_secs(20);
const UNUSED_GRACE: Duration = Duration::from_secs(1);
const SHORTAGE_GRACE: Duration = Duration::from_millis(200);

/// What happens on one connection.
pub(super) struct Activity {
    begun: AtomicU64,
    open: AtomicU32,
    /// Within what time it is to end, once it is.
    end: watch::Sender<Option<Duration>>,
}

impl Activity {
    fn new() -> Arc<Activity> {
        Arc::new(Activity {
            begun: AtomicU64::new(0),
            open: AtomicU32::new(0),
            end: watch::Sender::new(None),
        })
    }

    /// Notes a request for as long as its answer is not given.
    pub(super) fn begin(self: &Arc<Self>) -> OpenCall {
        self.begun.fetch_add(1, Relaxed);
        self.open.fetch_add(1, Relaxed);
        OpenCall(self.clone())
    }

    /// Completes when the connection is to end, with the time that it may take.
    pub(super) async fn told_to_end(&self) -> Duration {
        // The sender is borrowed from `self`, so it cannot go away.
        let told = self.end.subscribe().wait_for(Option::is_some).await.map_or(None, |grace| *grace);
        told.unwrap_or_default()
    }

    /// Whether a request is being answered.
    pub(super) fn has_open_calls(&self) -> bool {
        self.open.load(Relaxed) > 0
    }

    fn end(&self, grace: Duration) {
        self.end.send_if_modified(|end| end.replace(grace).is_none());
    }

    /// Whether it was told to end.
    pub(super) fn is_ending(&self) -> bool {
        self.end.borrow().is_some()
    }
}

/// A request that is being answered.
pub(super) struct OpenCall(Arc<Activity>);

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Relaxed);
    }
}

/// The connections of a server.
pub(super) struct OpenConnections {
    limits: Limits,
    entries: BTreeMap<ConnectionId, Entry>,
}

struct Entry {
    activity: Arc<Activity>,
    /// How many requests had begun when this was looked at last.
    seen: u64,
    idle_since: Instant,
}

impl Entry {
    /// Takes note of what has happened since the last look; since when nothing has.
    fn look(&mut self, now: Instant) -> Option<Instant> {
        let begun = self.activity.begun.load(Relaxed);
        if begun != self.seen || self.activity.has_open_calls() {
            (self.seen, self.idle_since) = (begun, now);
            return None;
        }
        Some(self.idle_since)
    }

    fn is_unused(&self) -> bool {
        self.seen == 0
    }
}

impl OpenConnections {
    pub(super) fn new(limits: Limits) -> OpenConnections {
        OpenConnections { limits, entries: BTreeMap::new() }
    }

    /// A connection that was accepted.
    pub(super) fn add(&mut self, id: ConnectionId, now: Instant) -> Arc<Activity> {
        let activity = Activity::new();
        self.entries.insert(id, Entry { activity: activity.clone(), seen: 0, idle_since: now });
        activity
    }

    /// A connection that has closed.
    pub(super) fn remove(&mut self, id: ConnectionId) {
        self.entries.remove(&id);
    }

    /// Ends what has been idle for too long. `in_use` gives the connections of clients for whom something is kept; it is asked
    /// only if that makes a difference.
    pub(super) fn sweep(&mut self, now: Instant, in_use: impl Fn() -> HashSet<ConnectionId>) {
        let mut idle = Vec::new();
        for (&id, entry) in &mut self.entries {
            let Some(since) = entry.look(now) else { continue };
            let silence = now.saturating_duration_since(since);
            if entry.is_unused() {
                if silence >= self.limits.first_request_timeout {
                    entry.activity.end(UNUSED_GRACE);
                }
            } else if silence >= self.limits.idle_timeout && !entry.activity.is_ending() {
                idle.push(id);
            }
        }
        if idle.is_empty() {
            return;
        }
        let in_use = in_use();
        for id in idle.into_iter().filter(|id| !in_use.contains(id)) {
            if let Some(entry) = self.entries.get(&id) {
                entry.activity.end(IDLE_GRACE);
            }
        }
    }

    /// Ends the connections that have been idle longest, those that were never used before all others: as many as there are
    /// too many, and at least `least`.
    pub(super) fn make_room(
        &mut self,
        now: Instant,
        least: usize,
        in_use: impl Fn() -> HashSet<ConnectionId>,
    ) {
        let ending = self.entries.values().filter(|entry| entry.activity.is_ending()).count();
        let most = self.limits.max_connections.saturating_add(ending);
        let excess = self.entries.len().saturating_sub(most).max(least);
        if excess == 0 {
            return;
        }
        let mut idle: Vec<(bool, Instant, ConnectionId)> = Vec::new();
        for (&id, entry) in &mut self.entries {
            if let (Some(since), false) = (entry.look(now), entry.activity.is_ending()) {
                idle.push((!entry.is_unused(), since, id));
            }
        }
        idle.sort_unstable();
        let in_use = in_use();
        for (_, _, id) in idle.into_iter().filter(|(_, _, id)| !in_use.contains(id)).take(excess) {
            if let Some(entry) = self.entries.get(&id) {
                entry.activity.end(SHORTAGE_GRACE);
            }
        }
    }

    /// Those that were told to end.
    #[cfg(test)]
    fn ending(&self) -> Vec<ConnectionId> {
        let ending = self.entries.iter().filter(|(_, entry)| entry.activity.is_ending());
        ending.map(|(&id, _)| id).collect()
    }
}

#[cfg(test)]
mod tests {
    use tensorfleet_core::clock::{Clock, ManualClock};

    use super::super::{Connection, Peer};
    use super::*;

    struct Story {
        hand: ManualClock,
        open: OpenConnections,
        kept: HashSet<ConnectionId>,
    }

    impl Story {
        fn new(max_connections: usize) -> Story {
            let limits = Limits { max_connections, ..Limits::pending_bytes(1 << 30) };
            Story { hand: Clock::manual(), open: OpenConnections::new(limits), kept: HashSet::new() }
        }

        fn accept(&mut self) -> (ConnectionId, Arc<Activity>) {
            let id = Connection::new(Peer::Process(None)).0.id();
            (id, self.open.add(id, self.hand.now()))
        }

        fn sweep_after(&mut self, pause: Duration) -> Vec<ConnectionId> {
            self.hand.advance(pause);
            self.open.sweep(self.hand.now(), || self.kept.clone());
            self.open.ending()
        }
    }

    #[test]
    fn a_connection_without_any_request_ends_within_seconds() {
        let mut story = Story::new(100);
        let timeout = story.open.limits.first_request_timeout;
        let (silent, _) = story.accept();
        let (_, asks) = story.accept();
        drop(asks.begin());
        assert!(story.sweep_after(timeout / 2).is_empty());
        assert_eq!(story.sweep_after(timeout / 2), [silent]);
        assert!(timeout <= Duration::from_secs(20));
    }

    #[test]
    fn a_used_connection_ends_after_long_unless_a_call_is_open_or_something_is_kept_for_it() {
        let mut story = Story::new(100);
        let timeout = story.open.limits.idle_timeout;
        let (idle, activity) = story.accept();
        drop(activity.begin());
        let (_, waiting) = story.accept();
        let _waits = waiting.begin();
        let (owner, activity) = story.accept();
        drop(activity.begin());
        story.kept.insert(owner);
        let (_, busy) = story.accept();
        drop(busy.begin());
        assert!(story.sweep_after(Duration::ZERO).is_empty());
        assert!(story.sweep_after(timeout / 2).is_empty());
        drop(busy.begin());
        assert_eq!(story.sweep_after(timeout / 2), [idle]);
    }

    #[test]
    fn when_descriptors_run_short_the_longest_idle_go_first_and_unused_ones_before_all() {
        let mut story = Story::new(3);
        let (oldest_used, activity) = story.accept();
        drop(activity.begin());
        let (_, waiting) = story.accept();
        let _waits = waiting.begin();
        story.sweep_after(Duration::from_secs(1));
        let (unused, _) = story.accept();
        story.open.make_room(story.hand.now(), 0, HashSet::new);
        assert!(story.open.ending().is_empty());
        story.accept();
        story.open.make_room(story.hand.now(), 0, HashSet::new);
        assert_eq!(story.open.ending(), [unused]);
        story.open.make_room(story.hand.now(), 0, HashSet::new);
        assert_eq!(story.open.ending(), [unused], "one that is ending counts as gone");
        story.open.make_room(story.hand.now(), 2, HashSet::new);
        assert!(story.open.ending().contains(&oldest_used));
    }

    #[tokio::test]
    async fn whoever_serves_a_connection_hears_that_it_is_to_end() {
        let mut story = Story::new(100);
        let (_, activity) = story.accept();
        let timeout = story.open.limits.first_request_timeout;
        story.sweep_after(timeout);
        assert_eq!(activity.told_to_end().await, UNUSED_GRACE);
    }
}
