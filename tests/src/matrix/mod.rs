//! The recovery matrix: four roles, four faults, two ways to train, two kinds of client; each cell a training of real
//! processes on hosts of their own, with one parameter server and three workers.
//!
//! A [`Cell`] says what is tried and what `docs/fault-tolerance.md` promises of it; [`run`] tries it once; a [`Table`]
//! gathers many runs. Quick cells are tests (`tests/tests/fault_matrix.rs`), all of them are `cargo xtask matrix`.

mod observation;
mod run;
mod table;

use std::fmt;
use std::time::Duration;

pub use observation::Outcome;
pub use run::{Faults, run};
pub use table::Table;

/// Who is hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The parameter server.
    Ps,
    /// Worker 0.
    Chief,
    /// A worker whose gradient every round needs.
    Worker,
    /// A worker that rounds can do without: they aggregate two gradients of three.
    Backup,
}

/// What happens to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Killed, and nobody starts it again.
    StaysDead,
    /// Killed, and started again after two seconds.
    Restarted,
    /// Stopped (SIGSTOP), and continued.
    Frozen,
    /// Its network link is down, and up again.
    CutOff,
}

/// How is trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Every worker updates the model by itself.
    Asynchronous,
    /// Under a `SyncReplicasOptimizer`.
    Synchronous,
}

/// Whose program trains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// Ours, with the server in the process of each worker.
    Rust,
    /// An unmodified TensorFlow 1.15 program for each worker, on `tensorfleet serve`.
    TensorFlow,
}

/// One cell of the matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Whose program trains.
    pub client: Client,
    /// How is trained.
    pub mode: Mode,
    /// Who is hit.
    pub role: Role,
    /// What happens to it.
    pub fault: Fault,
}

/// What is promised of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// The survivors reach the last step.
    ReachesTheEnd {
        /// How many steps they may lose.
        lost_steps: i64,
    },
    /// Training stands still until somebody starts the dead task again, and whoever waits says so.
    WaitsAloud,
}

impl Cell {
    /// All cells of a kind of client, in the order of the table.
    pub fn all(client: Client) -> Vec<Cell> {
        let mut cells = Vec::new();
        for mode in [Mode::Asynchronous, Mode::Synchronous] {
            for role in [Role::Ps, Role::Chief, Role::Worker, Role::Backup] {
                for fault in [Fault::StaysDead, Fault::Restarted, Fault::Frozen, Fault::CutOff] {
                    cells.push(Cell { client, mode, role, fault });
                }
            }
        }
        cells
    }

    /// What the guide promises.
    pub fn promise(self) -> Promise {
        let needed = match self.mode {
            Mode::Asynchronous => self.role == Role::Ps,
            Mode::Synchronous => self.role != Role::Backup,
        };
        match (self.fault, self.role) {
            (Fault::StaysDead, _) if needed => Promise::WaitsAloud,
            // The model was in its memory, or could not be told from one that was: as new as the newest checkpoint, and one
            // more interval for the checkpoint that was being written.
            (_, Role::Ps) => Promise::ReachesTheEnd { lost_steps: 3 * run::SAVE_STEPS },
            // TensorFlow's own chief restores whatever it finds on the disk.
            (Fault::Restarted | Fault::CutOff, Role::Chief) if self.client == Client::TensorFlow => {
                Promise::ReachesTheEnd { lost_steps: i64::MAX }
            }
            // The step that was being made, of each worker.
            _ => Promise::ReachesTheEnd { lost_steps: 5 },
        }
    }

    /// How many gradients make a round, of three workers.
    fn replicas_to_aggregate(self) -> usize {
        match self.role {
            Role::Backup => 2,
            Role::Ps | Role::Chief | Role::Worker => 3,
        }
    }

    /// Why an outcome breaks the promise, if it does.
    pub fn verdict(self, outcome: &Outcome) -> Result<(), String> {
        match self.promise() {
            Promise::ReachesTheEnd { lost_steps } => {
                if let Some(reason) = &outcome.unfinished {
                    return Err(reason.clone());
                }
                if outcome.lost_steps > lost_steps {
                    return Err(format!("{} steps were lost, {lost_steps} may be", outcome.lost_steps));
                }
            }
            Promise::WaitsAloud => {
                if outcome.unfinished.is_none() {
                    return Err("it reached the end without the task".to_string());
                }
            }
        }
        if outcome.silence > LONGEST_SILENCE {
            return Err(format!(
                "{} said nothing for {:.1} s, {LONGEST_SILENCE:?} are allowed",
                outcome.silent_host,
                outcome.silence.as_secs_f64()
            ));
        }
        Ok(())
    }
}

/// How long a process that is alive may say nothing, not even that it made a step.
pub const LONGEST_SILENCE: Duration = Duration::from_secs(10);

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::Ps => "ps",
            Role::Chief => "chief",
            Role::Worker => "worker",
            Role::Backup => "backup",
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fault::StaysDead => "dead",
            Fault::Restarted => "restarted",
            Fault::Frozen => "frozen",
            Fault::CutOff => "cut",
        })
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Asynchronous => "async",
            Mode::Synchronous => "sync",
        })
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Client::Rust => "rust",
            Client::TensorFlow => "tensorflow",
        })
    }
}

/// `rust-sync-ps-frozen`: how a cell is called on the command line.
impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}-{}", self.client, self.mode, self.role, self.fault)
    }
}
