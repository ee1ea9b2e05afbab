//! [`Schedule`]: what a seed draws: a cluster, a network, a training, and what goes wrong when.

use std::fmt;
use std::time::Duration;

use crate::machine::Random;
use crate::network::{HostId, Weather};

/// Everything that differs between two simulations.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    /// The seed it was drawn from.
    pub(crate) seed: u64,
    /// What is trained.
    pub(crate) training: Training,
    /// Parameter servers.
    pub(crate) ps: usize,
    /// Workers, each with a client.
    pub(crate) workers: usize,
    /// Whether clients are processes of their own. Otherwise each is in the process of its worker, and dies with it.
    pub(crate) clients_apart: bool,
    /// How many workers a synchronous round can do without.
    pub(crate) backups: usize,
    /// How many steps each client makes at least; it makes more if faults are still to come.
    pub(crate) steps: u64,
    /// The longest pause of a client between two steps.
    pub(crate) pause: Duration,
    /// How many of a thousand requests are sent twice.
    pub(crate) twice_permille: u64,
    /// The network.
    pub(crate) weather: Weather,
    /// What goes wrong, in order of time.
    pub(crate) faults: Vec<Fault>,
}

/// What is trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Training {
    /// Every client counts for itself.
    Asynchronous,
    /// All clients make rounds together.
    Synchronous,
}

/// Something that goes wrong for a while.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    /// When.
    pub(crate) at: Duration,
    /// For how long.
    pub(crate) lasts: Duration,
    /// What.
    pub(crate) kind: FaultKind,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// A process is killed, and started again at the end.
    Kill(HostId),
    /// A machine loses power; its process is started again at the end.
    PowerOff(HostId),
    /// A process is stopped, and goes on at the end.
    Freeze(HostId),
    /// Nothing gets from one host to the other.
    Cut(HostId, HostId),
    /// Nothing gets from a host to any other.
    CutOff(HostId),
    /// All connections between two hosts are reset, once.
    Reset(HostId, HostId),
    /// A host's network is this many times as slow.
    Slow(HostId, u32),
}

/// A silence that is shorter cannot be mistaken for death: peers are given up after 15 s, and what is lost is sent again
/// within a second.
const BEARABLE: Duration = Duration::from_secs(8);

impl Schedule {
    /// What this seed stands for.
    pub(crate) fn draw(seed: u64) -> Schedule {
        let mut random = Random::new(seed, 1);
        let (ps, workers) = (random.between(1, 2) as usize, random.between(1, 3) as usize);
        let clients_apart = random.permille(300);
        let training = match random.permille(500) {
            true => Training::Synchronous,
            false => Training::Asynchronous,
        };
        let latency = random.one_of(&[(100, 500), (500, 2_000), (1_000, 20_000), (10_000, 80_000)]);
        let weather = Weather {
            latency: (Duration::from_micros(latency.0), Duration::from_micros(latency.1)),
            lost_permille: random.one_of(&[0, 0, 1, 10, 30]),
        };
        let hosts = ps + workers * if clients_apart { 2 } else { 1 };
        let num_faults = random.one_of(&[0, 1, 1, 2, 2, 3, 4, 6]);
        let mut faults: Vec<Fault> = (0..num_faults).map(|_| draw_fault(&mut random, hosts, ps)).collect();
        faults.sort_by_key(|fault| fault.at);
        Schedule {
            seed,
            training,
            ps,
            workers,
            clients_apart,
            backups: random.below(workers as u64).min(1) as usize,
            steps: random.between(20, 60),
            pause: random.millis(50, 800),
            twice_permille: random.one_of(&[0, 0, 50, 200]),
            weather,
            faults,
        }
    }

    /// The names of the hosts, in the order of their numbers; the last one is the auditor's.
    pub(crate) fn host_names(&self) -> Vec<String> {
        let servers = (0..self.ps).map(|index| format!("ps{index}"));
        let workers = (0..self.workers).map(|index| format!("worker{index}"));
        let clients = if self.clients_apart { self.workers } else { 0 };
        let clients = (0..clients).map(|index| format!("client{index}"));
        servers.chain(workers).chain(clients).chain(["auditor".to_string()]).collect()
    }

    /// The host of the client of a worker.
    pub(crate) fn client_host(&self, worker: usize) -> HostId {
        self.ps + worker + if self.clients_apart { self.workers } else { 0 }
    }

    /// When the last fault is over.
    pub(crate) fn calm_from(&self) -> Duration {
        self.faults.iter().map(|fault| fault.at + fault.lasts).max().unwrap_or_default()
    }

    /// Whether nobody may notice anything but that things take longer.
    pub(crate) fn is_bearable(&self) -> bool {
        // Silences that follow each other closely may look like one.
        let silence: Duration = self.faults.iter().map(|fault| fault.lasts).sum();
        let is_bearable = |kind| match kind {
            FaultKind::Freeze(_) | FaultKind::Cut(..) | FaultKind::CutOff(_) => silence < BEARABLE,
            FaultKind::Slow(..) => true,
            FaultKind::Kill(_) | FaultKind::PowerOff(_) | FaultKind::Reset(..) => false,
        };
        self.faults.iter().all(|fault| is_bearable(fault.kind))
    }
}

fn draw_fault(random: &mut Random, hosts: usize, ps: usize) -> Fault {
    let any = |random: &mut Random| random.below(hosts as u64) as HostId;
    let two = |random: &mut Random| {
        let first = any(random);
        (first, (first + 1 + random.below(hosts as u64 - 1) as usize) % hosts)
    };
    // A parameter server has what everybody needs: it gets more than its share.
    let host = if random.permille(400) { random.below(ps as u64) as HostId } else { any(random) };
    let kind = match random.below(10) {
        0..=2 => FaultKind::Kill(host),
        3 => FaultKind::PowerOff(host),
        4..=5 => FaultKind::Freeze(host),
        6 => {
            let (a, b) = two(random);
            FaultKind::Cut(a, b)
        }
        7 => FaultKind::CutOff(host),
        8 => {
            let (a, b) = two(random);
            FaultKind::Reset(a, b)
        }
        _ => FaultKind::Slow(host, random.between(2, 20) as u32),
    };
    let lasts = match (random.below(4), kind) {
        (_, FaultKind::Reset(..)) => Duration::ZERO,
        (0, _) => random.millis(10, 500),
        (1 | 2, _) => random.millis(500, 10_000),
        _ => random.millis(10_000, 45_000),
    };
    Fault { at: random.millis(500, 20_000), lasts, kind }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (names, weather) = (self.host_names(), self.weather);
        writeln!(
            f,
            "seed {}: {:?}, {} ps, {} workers ({} to spare), clients {}, {} steps each, pauses up to {:.2} s, {} ‰ sent twice, latency {:.1} \
             to {:.1} ms, {} ‰ lost and sent again",
            self.seed,
            self.training,
            self.ps,
            self.workers,
            self.backups,
            if self.clients_apart { "apart" } else { "in their workers" },
            self.steps,
            self.pause.as_secs_f64(),
            self.twice_permille,
            weather.latency.0.as_secs_f64() * 1000.0,
            weather.latency.1.as_secs_f64() * 1000.0,
            weather.lost_permille,
        )?;
        for fault in &self.faults {
            let what = fault.kind.describe(&names);
            writeln!(
                f,
                "  {:9.3} s  {what}, for {:.3} s",
                fault.at.as_secs_f64(),
                fault.lasts.as_secs_f64()
            )?;
        }
        Ok(())
    }
}

impl FaultKind {
    /// What happens, in words.
    pub(crate) fn describe(self, names: &[String]) -> String {
        match self {
            FaultKind::Kill(host) => format!("{} is killed", names[host]),
            FaultKind::PowerOff(host) => format!("{} loses power", names[host]),
            FaultKind::Freeze(host) => format!("{} is stopped", names[host]),
            FaultKind::Cut(a, b) => format!("{} and {} are cut off from each other", names[a], names[b]),
            FaultKind::CutOff(host) => format!("{} is cut off from all others", names[host]),
            FaultKind::Reset(a, b) => format!("connections of {} and {} are reset", names[a], names[b]),
            FaultKind::Slow(host, times) => {
                format!("the network of {} is {times} times as slow", names[host])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_stands_for_the_same_and_seeds_differ() {
        let text = |seed| Schedule::draw(seed).to_string();
        assert_eq!(text(5), text(5));
        assert_ne!(text(5), text(6));
    }

    #[test]
    fn seeds_draw_every_kind_of_fault_and_both_trainings() {
        let drawn: Vec<Schedule> = (0..200).map(Schedule::draw).collect();
        let kinds: Vec<FaultKind> =
            drawn.iter().flat_map(|schedule| &schedule.faults).map(|fault| fault.kind).collect();
        let has = |is: fn(&FaultKind) -> bool| kinds.iter().any(is);
        assert!(
            has(|kind| matches!(kind, FaultKind::Kill(_)))
                && has(|kind| matches!(kind, FaultKind::Freeze(_)))
        );
        assert!(
            has(|kind| matches!(kind, FaultKind::PowerOff(_)))
                && has(|kind| matches!(kind, FaultKind::Cut(..)))
        );
        assert!(
            has(|kind| matches!(kind, FaultKind::CutOff(_)))
                && has(|kind| matches!(kind, FaultKind::Reset(..)))
        );
        assert!(has(|kind| matches!(kind, FaultKind::Slow(..))));
        for training in [Training::Asynchronous, Training::Synchronous] {
            assert!(drawn.iter().any(|schedule| schedule.training == training));
        }
        assert!(drawn.iter().any(Schedule::is_bearable) && !drawn.iter().all(Schedule::is_bearable));
        for schedule in &drawn {
            let hosts = schedule.host_names().len();
            assert!(schedule.client_host(schedule.workers - 1) < hosts);
            for fault in &schedule.faults {
                if let FaultKind::Cut(a, b) | FaultKind::Reset(a, b) = fault.kind {
                    assert!(a != b && a < hosts && b < hosts, "{schedule}");
                }
            }
        }
    }
}
