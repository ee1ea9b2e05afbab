//! [`World`]: the hosts, their processes and the network, and the passing of time.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tensorfleet_cluster::{ClusterSpec, ServerOptions, TaskStatus};
use tensorfleet_core::Result;

use crate::asynchronous::{self, Counters};
use crate::journal::Journal;
use crate::machine::{self, Random};
use crate::network::{HostId, Net};
use crate::process::Process;
use crate::program::{Client, Tally};
use crate::schedule::{FaultKind, Schedule, Training};
use crate::synchronous::{self, Rounds};

/// Time goes by in steps of at most this while something is on its way…
const BUSY_TICK: Duration = Duration::from_millis(5);
/// … and of at most this while nothing is.
const QUIET_TICK: Duration = Duration::from_millis(100);
/// The port of every server.
const PORT: u16 = 2222;
/// How long after the last fault everybody must be done: whoever was given up has been noticed (15 s, or 35 s if it is up to
/// the systems), sessions have been tried again, tasks waited for (60 s), and what is left to do done.
const RECOVERY: Duration = Duration::from_secs(300);
/// How long after that nothing may be left of anybody: a master keeps the session of a client that is gone for 300 s.
const FORGETTING: Duration = Duration::from_secs(330);

/// A simulated world.
pub(crate) struct World {
    schedule: Arc<Schedule>,
    names: Vec<String>,
    net: Net,
    processes: Vec<Option<Process>>,
    /// How often each host was stopped and not continued.
    frozen: Vec<u32>,
    journal: Journal,
    tally: Arc<Tally>,
    counters: Arc<Counters>,
    rounds: Arc<Rounds>,
    /// What is still to happen, by time.
    events: Vec<(Duration, Event)>,
    /// How often each process was started.
    lives: Vec<u64>,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Begin(FaultKind),
    End(FaultKind),
}

impl World {
    /// The world of a schedule, at its beginning.
    pub(crate) fn new(schedule: Schedule, journal: Journal) -> Result<World> {
        let schedule = Arc::new(schedule);
        let names = schedule.host_names();
        let net = Net::new(&names, schedule.weather, Random::new(schedule.seed, 2));
        let mut events: Vec<(Duration, Event)> = (schedule.faults.iter())
            .flat_map(|fault| {
                [(fault.at, Event::Begin(fault.kind)), (fault.at + fault.lasts, Event::End(fault.kind))]
            })
            .collect();
        events.sort_by_key(|(at, _)| *at);
        let mut world = World {
            net,
            processes: names.iter().map(|_| None).collect(),
            frozen: vec![0; names.len()],
            lives: vec![0; names.len()],
            names,
            journal,
            tally: Arc::new(Tally::new(schedule.workers)),
            counters: Arc::new(Counters::new(&schedule)),
            rounds: Arc::new(Rounds::new(schedule.clone())),
            events,
            schedule,
        };
        for host in 0..world.names.len() {
            world.start(host)?;
        }
        Ok(world)
    }

    fn cluster(&self) -> Result<ClusterSpec> {
        let addresses = |job: &str, count: usize| -> Vec<String> {
            (0..count).map(|index| format!("{job}{index}:{PORT}")).collect()
        };
        let (ps, workers) = (self.schedule.ps, self.schedule.workers);
        ClusterSpec::new([("ps", addresses("ps", ps)), ("worker", addresses("worker", workers))])
    }

    /// Starts the process of a host: its server, and its client if it has one that is not done.
    fn start(&mut self, host: HostId) -> Result<()> {
        let Schedule { ps, workers, .. } = *self.schedule;
        let server = match host {
            _ if host < ps => Some(("ps", host)),
            _ if host < ps + workers => Some(("worker", host - ps)),
            _ => None,
        };
        let server = match server {
            Some((job, index)) => Some(ServerOptions::new(self.cluster()?, job, index as u32)),
            None => None,
        };
        let network = self.net.seen_from(host);
        let mut process = Process::start(network, server)?;
        self.lives[host] += 1;
        if host < ps && self.lives[host] > 1 {
            self.counters.lost(host);
        }
        let clients = (0..workers).filter(|&index| self.schedule.client_host(index) == host);
        for index in clients.filter(|&index| !self.tally.of(index).is_done) {
            let part = 1000 + 1000 * index as u64 + self.lives[host];
            let client = Client {
                name: format!("client{index}"),
                index,
                address: format!("worker{index}:{PORT}"),
                network: self.net.seen_from(host),
                journal: self.journal.clone(),
                schedule: self.schedule.clone(),
                tally: self.tally.clone(),
                random: Mutex::new(Random::new(self.schedule.seed, part)),
            };
            match self.schedule.training {
                Training::Asynchronous => {
                    process.spawn(asynchronous::train(client, self.counters.clone()));
                }
                Training::Synchronous => process.spawn(synchronous::train(client, self.rounds.clone())),
            }
        }
        self.processes[host] = Some(process);
        Ok(())
    }

    /// Plays everything out; what was wrong is in the journal.
    pub(crate) fn run(&mut self) -> Result<()> {
        let calm_from = self.schedule.calm_from();
        let deadline = calm_from + RECOVERY;
        let is_done = |world: &World| world.tally.total().is_done && world.events.is_empty();
        while !is_done(self) && machine::now() < deadline && self.journal.failure().is_none() {
            self.tick()?;
        }
        if self.journal.failure().is_some() {
            return Ok(());
        }
        if !is_done(self) {
            self.journal
                .fail("everybody", &format!("not done {} s after the last fault", RECOVERY.as_secs()));
            return Ok(());
        }
        self.audit()?;
        let forgotten_by = machine::now() + FORGETTING;
        while machine::now() < forgotten_by && self.journal.failure().is_none() {
            self.tick()?;
        }
        for left in self.left_behind() {
            self.journal.fail("everybody", &left);
        }
        Ok(())
    }

    /// Reads what was trained from a place that no fault has touched.
    fn audit(&mut self) -> Result<()> {
        let auditor = self.names.len() - 1;
        let (network, journal) = (self.net.seen_from(auditor), self.journal.clone());
        let (training, counters, rounds) =
            (self.schedule.training, self.counters.clone(), self.rounds.clone());
        let over = Arc::new(Mutex::new(false));
        let is_over = over.clone();
        if let Some(process) = &mut self.processes[auditor] {
            process.spawn(async move {
                let address = format!("worker0:{PORT}");
                let audited = match training {
                    Training::Asynchronous => counters.audit(&network, &address).await,
                    Training::Synchronous => rounds.audit(&network, &address).await,
                };
                match audited {
                    Ok(()) => journal.note("auditor", "everything is as it should be"),
                    Err(reason) => journal.fail("auditor", &reason),
                }
                *is_over.lock() = true;
            });
        }
        let deadline = machine::now() + RECOVERY;
        while !*over.lock() && machine::now() < deadline {
            self.tick()?;
        }
        if !*over.lock() {
            self.journal.fail("auditor", "never got an answer");
        }
        Ok(())
    }

    /// What is left of sessions and steps.
    fn left_behind(&self) -> Vec<String> {
        let mut left = Vec::new();
        for status in self.statuses() {
            let TaskStatus { task, master_sessions, worker_sessions, steps, .. } = status;
            let graphs: usize = worker_sessions.iter().map(|session| session.graphs).sum();
            if master_sessions.len() + worker_sessions.len() + steps.len() + graphs > 0 {
                left.push(format!(
                    "{task} still has {} sessions of clients, {} sessions of masters with {graphs} graphs, and {} steps",
                    master_sessions.len(),
                    worker_sessions.len(),
                    steps.len()
                ));
            }
        }
        left
    }

    fn statuses(&self) -> Vec<TaskStatus> {
        self.processes.iter().flatten().filter_map(Process::status).collect()
    }

    /// Lets everybody do what can be done now, and then some time pass.
    fn tick(&mut self) -> Result<()> {
        self.happen()?;
        self.net.deliver();
        for (process, &frozen) in self.processes.iter_mut().zip(&self.frozen) {
            if let (Some(process), 0) = (process, frozen) {
                process.take_turn();
            }
        }
        let now = machine::now();
        let is_busy = self.net.was_busy();
        let longest = if is_busy { BUSY_TICK } else { QUIET_TICK };
        let next = [self.net.next_arrival(), self.events.first().map(|(at, _)| *at), Some(now + longest)];
        let next = next.into_iter().flatten().min().unwrap_or(now);
        machine::pass_until(next.max(now + Duration::from_micros(50)));
        Ok(())
    }

    /// Faults that begin or end now.
    fn happen(&mut self) -> Result<()> {
        while let Some(&(_, event)) = self.events.first().filter(|(at, _)| *at <= machine::now()) {
            self.events.remove(0);
            self.happens(event)?;
        }
        Ok(())
    }

    fn happens(&mut self, event: Event) -> Result<()> {
        let (Event::Begin(kind) | Event::End(kind)) = event;
        let begins = matches!(event, Event::Begin(_));
        let when = if begins { "" } else { "no longer: " };
        self.journal.note("world", &format!("{when}{}", kind.describe(&self.names)));
        match kind {
            FaultKind::Kill(host) if begins => {
                self.net.kill(host);
                self.end(host);
            }
            FaultKind::PowerOff(host) if begins => {
                self.net.power_off(host);
                self.end(host);
            }
            FaultKind::Kill(host) | FaultKind::PowerOff(host) => {
                self.net.power_on(host);
                // Another fault may have it started already.
                if self.processes[host].is_none() {
                    self.start(host)?;
                }
            }
            FaultKind::Freeze(host) if begins => self.frozen[host] += 1,
            FaultKind::Freeze(host) => self.frozen[host] = self.frozen[host].saturating_sub(1),
            FaultKind::Cut(a, b) => self.net.set_cut(a, b, begins),
            FaultKind::CutOff(host) => {
                let others = (0..self.names.len()).filter(|&other| other != host);
                others.for_each(|other| self.net.set_cut(host, other, begins));
            }
            FaultKind::Reset(a, b) if begins => self.net.reset_between(a, b),
            FaultKind::Reset(..) => {}
            FaultKind::Slow(host, times) => self.net.set_slowness(host, if begins { times } else { 1 }),
        }
        Ok(())
    }

    fn end(&mut self, host: HostId) {
        self.processes[host] = None;
    }

    /// What everybody waits for.
    pub(crate) fn waits(&self) -> Vec<String> {
        let mut waits = self.journal.waits();
        for status in self.statuses() {
            for step in status.steps {
                waits.push(format!(
                    "{} has had step {} for {:.1} s, {}, waiting for: {}",
                    status.task,
                    step.step_id,
                    step.age_seconds,
                    step.state,
                    step.waiting_for.join("; ")
                ));
            }
            for session in status.master_sessions {
                waits.push(format!(
                    "{} has session {} of {}, idle for {:.1} s, {} steps under way",
                    status.task, session.handle, session.client, session.idle_seconds, session.running_steps
                ));
            }
        }
        waits
    }

    /// A line of figures.
    pub(crate) fn summary(&self) -> String {
        let total = self.tally.total();
        format!(
            "{:.0} s simulated, {} steps answered, {} failed, {} sessions",
            machine::now().as_secs_f64(),
            total.answered,
            total.failed,
            total.sessions
        )
    }
}
