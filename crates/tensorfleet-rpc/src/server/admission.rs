//! [`Limits`] and [`Admission`]: how much the requests under way may take, all together and each.
//!
//! A request costs memory from its first byte until it is answered, and a request that waits for a tensor may wait for
//! long. Without a bound, a server with too many clients, or one hostile one, grows until the system kills it and
//! everything that it holds is lost. With a bound the request that is too much is refused. So that nobody can shut others
//! out:
//!
//! - What counts is what has arrived, not what was announced: the memory of a message grows with it (`incoming.rs`).
//! - No client takes all. It may have up to [`SHARE`] times what is left, so that there always is something left for the next
//!   one. Clients are told apart by their [`Origin`].
//! - The last part of the room is kept: some for requests of members of the cluster, some for small requests.
//! - Methods that free something, or tell how the server is ([`MethodInfo::is_vital`](super::MethodInfo)), are never
//!   refused. They are small, and answered at once.
//!
//! A refusal is for now: nothing of the request has been looked at, and the client may send it again after a while. It is
//! marked as such ([`Status::busy`]); our channels do so by themselves.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Resource, getrlimit};

use tensorfleet_core::{Result, Status, memory};

use super::Origin;
use crate::frame::MAX_STREAMS;

/// What a call costs besides its message: its stream, its task and what the handler holds. Measured: a server with 8 000
/// calls that wait is 125 MB bigger than without.
const CALL_BYTES: usize = 16 << 10;
/// That much of a message is in it.
const INCLUDED_BYTES: usize = 4 << 10;
/// A connection may have this many calls open however little memory there is: all receives of a small step.
const MIN_STREAMS: u32 = 128;
/// In this time a message gets on, or is given up: longer than a client or a network is frozen that comes back.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);
/// A client that connects has something to say.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// Long enough that a connection in use is never made anew for this; TensorFlow's channels are idle for hours.
const IDLE_TIMEOUT: Duration = Duration::from_secs(600);
/// Descriptors that connections leave for everything else: peers, files, the next connection.
const OTHER_DESCRIPTORS: usize = 64;

/// Longer requests are not small: control calls have a few hundred bytes, small graphs some kilobytes.
const SMALL_BYTES: usize = 64 << 10;
/// One part in so many of the room is kept for members of the cluster, ...
const MEMBER_PART: usize = 8;
/// ... and one in so many for small requests, which never need more than ...
const SMALL_PART: usize = 16;
/// ... this: four thousand of them at a time.
const SMALL_ROOM: usize = 64 << 20;
/// A client may have this many times what is left: three quarters of all, if it is alone.
const SHARE: usize = 3;
/// Whatever is left, each client may have this much.
const LEAST_SHARE: usize = 256 << 10;

/// Bounds of a server.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes that the requests under way may take together.
    pub max_pending_bytes: usize,
    /// In this time a message that is being received must have got on. A client that stops in the middle would otherwise hold
    /// memory for ever.
    pub stall_timeout: Duration,
    /// A connection that has not brought any request by then is closed.
    pub first_request_timeout: Duration,
    /// A connection without a request for this long is closed, unless something is kept for its client.
    pub idle_timeout: Duration,
    /// Beyond this many connections those that have been idle longest are closed.
    pub max_connections: usize,
}

impl Limits {
    /// Requests under way may take this many bytes together.
    pub fn pending_bytes(max_pending_bytes: usize) -> Limits {
        Limits {
            max_pending_bytes,
            stall_timeout: STALL_TIMEOUT,
            first_request_timeout: FIRST_REQUEST_TIMEOUT,
            idle_timeout: IDLE_TIMEOUT,
            max_connections: max_connections(),
        }
    }

    /// How many calls one connection may have open. A call takes memory before it is admitted, so the bound on bytes holds only
    /// with one on calls: as many as are admitted, and as many again on their way to being refused, so that those never wait for
    /// each other.
    pub(super) fn max_streams(self) -> u32 {
        let admitted = self.max_pending_bytes / CALL_BYTES;
        u32::try_from(admitted.saturating_mul(2)).unwrap_or(u32::MAX).clamp(MIN_STREAMS, MAX_STREAMS)
    }
}

impl Default for Limits {
    /// Three quarters of what this process may use: beyond that, refusing is better than being killed.
    fn default() -> Limits {
        Limits::pending_bytes(memory::limit_bytes() / 4 * 3)
    }
}

/// As many as the process may have descriptors for, without those it needs for other things.
fn max_connections() -> usize {
    let descriptors = getrlimit(Resource::Nofile).current.map_or(usize::MAX, |most| most as usize);
    descriptors.saturating_sub(OTHER_DESCRIPTORS).max(descriptors / 2)
}

/// Counts what the requests under way take.
pub(super) struct Admission {
    limits: Limits,
    taken: AtomicUsize,
    shares: Mutex<HashMap<Origin, Weak<Share>>>,
}

/// What the requests of one origin take.
pub(super) struct Share {
    taken: AtomicUsize,
}

/// How far a request may fill the room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Vital,
    Small,
    Large,
}

impl Admission {
    pub(super) fn new(limits: Limits) -> Arc<Admission> {
        Arc::new(Admission { limits, taken: AtomicUsize::new(0), shares: Mutex::default() })
    }

    /// The account of an origin.
    pub(super) fn share(&self, origin: Origin) -> Arc<Share> {
        let mut shares = self.shares.lock();
        if let Some(share) = shares.get(&origin).and_then(Weak::upgrade) {
            return share;
        }
        // Entries of clients that are gone stay until there are as many as of those that are not.
        if shares.len() == shares.capacity() {
            shares.retain(|_, share| share.strong_count() > 0);
        }
        let share = Arc::new(Share { taken: AtomicUsize::new(0) });
        shares.insert(origin, Arc::downgrade(&share));
        share
    }

    /// A call whose message is not known yet.
    pub(super) fn begin<'a>(
        &'a self,
        share: &'a Share,
        is_member: bool,
        is_vital: bool,
    ) -> Result<Admitted<'a>> {
        let level = if is_vital { Level::Vital } else { Level::Small };
        let mut admitted = Admitted { admission: self, share, is_member, level, bytes: 0 };
        admitted.grow(CALL_BYTES)?;
        Ok(admitted)
    }

    /// Up to where requests of a kind may fill the room.
    fn ceiling(&self, level: Level, is_member: bool) -> usize {
        let all = self.limits.max_pending_bytes;
        let for_members = if is_member { 0 } else { all / MEMBER_PART };
        let for_small = if level == Level::Large { (all / SMALL_PART).min(SMALL_ROOM) } else { 0 };
        all - for_members - for_small
    }
}

/// What one request takes; given back when dropped.
pub(super) struct Admitted<'a> {
    admission: &'a Admission,
    share: &'a Share,
    is_member: bool,
    level: Level,
    bytes: usize,
}

impl Admitted<'_> {
    pub(super) fn stall_timeout(&self) -> Duration {
        self.admission.limits.stall_timeout
    }

    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// A message of `len` bytes was announced: refuses it if it would not fit. Takes nothing yet.
    pub(super) fn announce(&mut self, len: usize) -> Result<()> {
        if self.level == Level::Vital {
            return Ok(());
        }
        if len > SMALL_BYTES {
            self.level = Level::Large;
        }
        let ceiling = self.admission.ceiling(self.level, self.is_member);
        let most = (ceiling / (SHARE + 1) * SHARE).max(LEAST_SHARE.min(ceiling));
        if len > most {
            return Err(Status::resource_exhausted(format!(
                "a message of {len} bytes is longer than the {most} bytes that one client may have under way here: send it in \
                 parts, or start the server with a higher limit (--max-pending-mb of `tensorfleet serve`)"
            )));
        }
        self.check(len.saturating_sub(INCLUDED_BYTES), ceiling)
    }

    /// The message takes `bytes` bytes of memory by now.
    pub(super) fn hold(&mut self, bytes: usize) -> Result<()> {
        let needed = CALL_BYTES.saturating_add(bytes.saturating_sub(INCLUDED_BYTES));
        self.grow(needed.saturating_sub(self.bytes))
    }

    /// Whether `bytes` more may be taken now.
    fn check(&self, bytes: usize, ceiling: usize) -> Result<()> {
        let (own, all) = (self.share.taken.load(Relaxed), self.admission.taken.load(Relaxed));
        let wanted = own.saturating_add(bytes);
        let left = ceiling.saturating_sub(all);
        // What it has taken itself is part of all, so that this is the same whether it comes in one piece or in many.
        let fits = bytes <= left && (wanted <= LEAST_SHARE || wanted <= (left - bytes).saturating_mul(SHARE));
        if fits { Ok(()) } else { Err(self.refusal(bytes, own, all)) }
    }

    /// Takes more.
    fn grow(&mut self, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        if self.level != Level::Vital {
            let ceiling = self.admission.ceiling(self.level, self.is_member);
            self.check(bytes, ceiling)?;
        }
        // Two that are checked at the same moment may both fit where one would: by one request per thread.
        self.admission.taken.fetch_add(bytes, Relaxed);
        self.share.taken.fetch_add(bytes, Relaxed);
        self.bytes += bytes;
        Ok(())
    }

    #[cold]
    fn refusal(&self, bytes: usize, own: usize, all: usize) -> Status {
        let limit = self.admission.limits.max_pending_bytes;
        let status = Status::resource_exhausted(format!(
            "the server has no room for {bytes} bytes more of this client: its requests under way take {own} bytes, those of \
             all clients {all} of the {limit} bytes they may; try again later, or start the server with a higher limit \
             (--max-pending-mb of `tensorfleet serve`)"
        ));
        status.busy()
    }
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        self.admission.taken.fetch_sub(self.bytes, Relaxed);
        self.share.taken.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensorfleet_core::Code;

    const MB: usize = 1 << 20;

    fn host(number: u8) -> Origin {
        Origin::Host([10, 0, 0, number].into())
    }

    #[test]
    fn what_is_too_much_is_refused_for_now_until_something_is_given_back() {
        let admission = Admission::new(Limits::pending_bytes(64 * MB));
        let share = admission.share(host(1));
        let mut first = admission.begin(&share, false, false).unwrap();
        first.announce(36 * MB).unwrap();
        first.hold(30 * MB).unwrap();
        let mut second = admission.begin(&share, false, false).unwrap();
        let status = second.announce(30 * MB).unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert!(status.is_busy());
        drop(first);
        second.announce(30 * MB).unwrap();
        second.hold(30 * MB).unwrap();
        second.hold(10 * MB).unwrap();
        drop(second);
        assert_eq!((admission.taken.load(Relaxed), share.taken.load(Relaxed)), (0, 0));
    }

    #[test]
    fn what_can_never_fit_is_not_to_be_tried_again() {
        let admission = Admission::new(Limits::pending_bytes(32 * MB));
        let share = admission.share(host(1));
        let mut call = admission.begin(&share, false, false).unwrap();
        let status = call.announce(33 * MB).unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert!(!status.is_busy() && status.text().contains("--max-pending-mb"), "{status}");
    }

    #[test]
    fn what_is_announced_takes_nothing_from_anybody() {
        let admission = Admission::new(Limits::pending_bytes(64 * MB));
        let shares: Vec<Arc<Share>> = (0..100).map(|number| admission.share(host(number))).collect();
        let mut held = Vec::new();
        for share in &shares {
            let mut call = admission.begin(share, false, false).unwrap();
            call.announce(20 * MB).unwrap();
            call.hold(17 << 10).unwrap();
            held.push(call);
        }
        assert!(admission.taken.load(Relaxed) < 100 * (CALL_BYTES + (17 << 10)));
    }

    #[test]
    fn a_client_that_takes_all_it_can_leaves_room_for_the_next() {
        let admission = Admission::new(Limits::pending_bytes(64 * MB));
        let shares: Vec<Arc<Share>> = (0..3).map(|number| admission.share(host(number))).collect();
        let mut calls = Vec::new();
        for share in &shares {
            let mut taken = 0;
            loop {
                let mut call = admission.begin(share, false, false).unwrap();
                if call.hold(MB / 4).is_err() {
                    break;
                }
                calls.push(call);
                taken += 1;
            }
            assert!(taken > 0);
        }
    }

    #[test]
    fn room_is_kept_for_small_requests_for_members_and_for_vital_ones() {
        let admission = Admission::new(Limits::pending_bytes(64 * MB));
        let shares: Vec<Arc<Share>> = (0..60).map(|number| admission.share(host(number))).collect();
        let fill = |is_member, len| {
            let mut calls = Vec::new();
            for share in &shares {
                while let Ok(mut call) = admission.begin(share, is_member, false)
                    && call.announce(len).and_then(|()| call.hold(len)).is_ok()
                {
                    calls.push(call);
                }
            }
            calls
        };
        let large = fill(false, MB / 8);
        let member = admission.share(host(200));
        let mut call = admission.begin(&member, false, false).unwrap();
        call.announce(SMALL_BYTES).unwrap();
        assert!(call.announce(MB).is_err(), "the large ones of clients are at their end");
        let mut call = admission.begin(&member, true, false).unwrap();
        call.announce(MB).unwrap();
        call.hold(MB).unwrap();
        let more = fill(true, MB / 8);
        let small = fill(true, 1000);
        assert!(large.len() > 100 && !more.is_empty() && small.len() > 100);
        assert!(admission.begin(&member, false, false).is_err());
        let mut vital = admission.begin(&member, false, true).unwrap();
        vital.announce(1000).and_then(|()| vital.hold(1000)).unwrap();
    }

    #[test]
    fn accounts_of_clients_that_are_gone_are_forgotten() {
        let admission = Admission::new(Limits::pending_bytes(MB));
        let kept = admission.share(host(0));
        for number in 0..10_000u32 {
            drop(admission.share(Origin::Process(number as i32)));
        }
        assert!(Arc::ptr_eq(&kept, &admission.share(host(0))));
        assert!(admission.shares.lock().len() < 100);
    }

    #[test]
    fn a_connection_has_room_for_calls_that_are_refused_beside_those_that_are_not() {
        let limits = Limits::pending_bytes(1000 * CALL_BYTES);
        assert_eq!(limits.max_streams(), 2000);
        assert_eq!(Limits::pending_bytes(0).max_streams(), MIN_STREAMS);
        assert_eq!(Limits::pending_bytes(usize::MAX).max_streams(), MAX_STREAMS);
    }

    #[test]
    fn the_default_leaves_room_for_big_tensors() {
        assert!(Limits::default().max_pending_bytes >= 512 << 20);
    }
}
