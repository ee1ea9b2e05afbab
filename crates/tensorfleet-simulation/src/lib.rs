//! Clusters of Tensorfleet in one process, on a simulated network and clock, with faults drawn from a seed.
//!
//! # The problem
//! What breaks a cluster is the order in which things happen: an answer that is lost after its step was applied, a peer that
//! is given up a moment before it goes on, a session that is closed while another one of the same client is being made. Tests
//! with real processes meet a handful of such orders, by luck, slowly, and never the same one twice. So here the order is
//! drawn from a seed. A thousand seeds are a thousand orders in minutes, and one that went wrong is played again as often as
//! it takes to understand it.
//!
//! # The seam
//! The obvious way is to simulate messages: to hand requests and answers around as values, above the transport. But most of
//! what goes wrong is in the transport and in its relation to the rest: connections that are made and lost, calls that are
//! dropped with them, silence, deadlines, cleanups that travel with other calls. So as much as possible is real, and what is
//! simulated is the **operating system**, of which a cluster uses four things:
//!
//! | what | how a program asks for it | here |
//! | --- | --- | --- |
//! | time | `clock_gettime` | `main.rs` answers it: time stands still unless [`machine`] lets it pass |
//! | randomness | `getrandom` | `main.rs` answers it from the seed |
//! | threads | tokio's runtime, `tensorfleet_threads` | one runtime per process, all on this thread, each in its turn (`process`); `main.rs` refuses any other |
//! | sockets, names of hosts | `tensorfleet_rpc::Network` | pipes in memory with latency, loss, cuts and resets (`network`) |
//!
//! The first two are answered where the C library would, because they are asked for everywhere: by our clocks, by tokio's
//! timers and its choices among branches that are ready, by the keys of hash maps. Every layer above takes them as it always
//! does and none needs a way in. Sockets are a value, `tensorfleet_rpc::Network`; what a server takes from its process is
//! one as well, `tensorfleet_cluster::Environment`. Everything else is what ships: server, master, worker, step table,
//! rendezvous, executor, HTTP/2, gRPC, liveness, sweeps, clients' channels, and the ops of the graphs.
//!
//! tokio's own way to stop time was not taken: it is a feature that would change how everybody's tokio is compiled, and it
//! leaves out the clocks and the randomness that are not tokio's.
//!
//! # How time passes
//! `world` lets everything happen that can happen at a moment: faults that are due, bytes that arrive, and one process
//! after the other until it is idle. Then it sets the clock to the next moment: that of the next arrival or fault, or a few
//! milliseconds later, because timers of processes cannot be seen from outside. So hours of waiting cost nothing.
//!
//! A process that is stopped gets no turns, and finds afterwards that much time has passed and much has arrived: as after
//! `SIGSTOP`. One that is killed is dropped with its runtime, in the middle of whatever it did; its system resets its
//! connections. A machine that loses power says nothing.
//!
//! # What is checked
//! - **No step is lost or applied twice.** Asynchronous clients count, and every sum that a step brings back must be possible
//!   (`counter`): a step that was answered counts once, one that failed at most once, also when its request is sent twice.
//!   Synchronous rounds take 1 from every variable and add 1 to the global step; only a round that was never answered may have
//!   done the former without the latter (`synchronous`).
//! - **No wait without an end.** Everybody makes its steps within a bound after the last fault. Otherwise the report says what
//!   every client and every step waits for.
//! - **No error that ends a training**: a run fails with `Unavailable` or `Aborted` or not at all. If nothing was wrong for
//!   long enough to be taken for death, nobody sees any error: who is slow or stopped for a moment is not given up.
//! - **Nothing is left.** After the longest time that anything is kept for somebody who may come back, no server has a session,
//!   a graph, a step, or anything in a rendezvous.
//! - **No panic**, in anything.
//!
//! # How to use it
//! `cargo xtask simulate --seeds 10000` plays seeds 1 to 10000 on all cores, each in a process of its own: the process is
//! the world, and what a process has once (statics, the counter of its connections) begins anew with it. Some are played twice
//! to see that the same happens. `cargo xtask simulate --seed N` plays one and tells what happened if it went wrong: the
//! schedule, a journal, what everybody waits for; `--verbose` tells it in any case. To make a schedule smaller, comment out
//! faults in `Schedule::draw` and play the seed again: each part of a simulation draws from a generator of its own, so the
//! rest stays as it was.
//!
//! # What is not simulated
//! Threads: a node that waits for another thread's lock, or computes for long, does neither here (`tensorfleet-models` looks at
//! the former). Files: the chief's checkpoint is a note of the onlooker. The front end's sessions, which block: `session`
//! makes their calls. TCP is what programs see of it, not packets.

pub mod machine;

mod asynchronous;
mod counter;
mod journal;
mod network;
mod process;
mod program;
mod schedule;
mod session;
mod synchronous;
mod world;

use std::fmt;
use std::hash::{DefaultHasher, Hasher};
use std::time::Duration;

use journal::Journal;
use schedule::Schedule;
use tensorfleet_core::clock::Clock;
use world::World;

/// How a simulation went.
pub struct Report {
    /// What was played.
    schedule: Schedule,
    /// The first thing that was wrong.
    pub failure: Option<String>,
    /// What happened.
    journal: String,
    /// What everybody waited for at the end of a simulation that failed.
    waits: Vec<String>,
    summary: String,
}

/// Plays the schedule of a seed. May be called once in a process: its clock cannot be set back.
pub fn simulate(seed: u64, is_verbose: bool) -> Report {
    machine::seed(seed);
    let schedule = Schedule::draw(seed);
    let journal = Journal::new(is_verbose);
    if is_verbose {
        print!("{schedule}");
    }
    let before = Clock::system().now();
    machine::pass_until(Duration::from_millis(1));
    if Clock::system().since(before) != Duration::from_millis(1) {
        journal.fail("machine", "the clock is not the simulation's: this program does not answer for it");
    }
    let witness = journal.clone();
    std::panic::set_hook(Box::new(move |panic| witness.fail("a panic", &panic.to_string())));
    let (mut waits, mut summary) = (Vec::new(), String::new());
    match World::new(schedule.clone(), journal.clone()) {
        Err(status) => journal.fail("world", &format!("does not begin: {status}")),
        Ok(mut world) => {
            if let Err(status) = world.run() {
                journal.fail("world", &format!("does not go on: {status}"));
            }
            if journal.failure().is_some() {
                waits = world.waits();
            }
            summary = world.summary();
        }
    }
    Report { schedule, failure: journal.failure(), journal: journal.text(), waits, summary }
}

impl Report {
    /// A number that two runs share only if the same happened in both.
    pub fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        hasher.write(self.journal.as_bytes());
        hasher.finish()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(failure) = &self.failure else {
            return writeln!(
                f,
                "seed {}: ok, {}, digest {:016x}",
                self.schedule.seed,
                self.summary,
                self.digest()
            );
        };
        write!(f, "{}{}", self.schedule, self.journal)?;
        for wait in &self.waits {
            writeln!(f, "  waits: {wait}")?;
        }
        writeln!(f, "seed {}: FAILED, {}, digest {:016x}", self.schedule.seed, self.summary, self.digest())?;
        writeln!(f, "{failure}")
    }
}
