//! What `bench` measures: the same graphs as `benches/src/cluster_workloads.rs`, built with the library.

use tensorfleet::{DType, Graph, Output, Session, Variable};
use tensorfleet_core::{Result, Status};

use super::measure::median;
use super::servers::Servers;

const PS: &str = "/job:ps/task:0";
const WORKER: &str = "/job:worker/task:0";
/// 100 MB of floats.
const BIG: usize = 25_000_000;
/// Rows and columns of the matrices.
const MATRIX: usize = 1024;

/// One measurement.
pub(super) struct Bench {
    pub(super) name: &'static str,
    pub(super) unit: Unit,
    work: Work,
}

enum Work {
    /// In this process.
    Here(fn() -> Result<f64>),
    /// With a ps and a worker.
    Cluster(fn(&Servers) -> Result<f64>),
}

/// What a value is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Unit {
    Seconds,
    BytesPerSecond,
    OperationsPerSecond,
    Bytes,
}

impl Unit {
    pub(super) fn name(self) -> &'static str {
        match self {
            Unit::Seconds => "s",
            Unit::BytesPerSecond => "B/s",
            Unit::OperationsPerSecond => "FLOP/s",
            Unit::Bytes => "B",
        }
    }

    pub(super) fn text(self, value: f64) -> String {
        match self {
            Unit::Seconds if value < 0.000_1 => format!("{:.1} µs", value * 1e6),
            Unit::Seconds if value < 0.001 => format!("{:.0} µs", value * 1e6),
            Unit::Seconds => format!("{:.1} ms", value * 1e3),
            Unit::BytesPerSecond => format!("{:.2} GB/s", value / 1e9),
            Unit::OperationsPerSecond => format!("{:.0} GFLOP/s", value / 1e9),
            Unit::Bytes => format!("{:.1} MB", value / 1e6),
        }
    }
}

pub(super) const ALL: [Bench; 9] = [
    Bench { name: "step of one constant in this process", unit: Unit::Seconds, work: Work::Here(step_here) },
    Bench { name: "matmul 1024 × 1024", unit: Unit::OperationsPerSecond, work: Work::Here(matmul) },
    Bench { name: "process start to first answer", unit: Unit::Seconds, work: Work::Cluster(first_answer) },
    Bench { name: "memory of an idle ps", unit: Unit::Bytes, work: Work::Cluster(idle_memory) },
    Bench { name: "constant over grpc", unit: Unit::Seconds, work: Work::Cluster(constant) },
    Bench {
        name: "scalar variable ps → worker", unit: Unit::Seconds, work: Work::Cluster(scalar_variable)
    },
    Bench {
        name: "20 small variables ps → worker",
        unit: Unit::Seconds,
        work: Work::Cluster(small_variables),
    },
    Bench { name: "pull 100 MB ps → worker", unit: Unit::BytesPerSecond, work: Work::Cluster(pull) },
    Bench { name: "push 100 MB worker → ps", unit: Unit::BytesPerSecond, work: Work::Cluster(push) },
];

impl Bench {
    pub(super) fn needs_servers(&self) -> bool {
        matches!(self.work, Work::Cluster(_))
    }

    pub(super) fn measure(&self, servers: Option<&Servers>) -> Result<f64> {
        match (&self.work, servers) {
            (Work::Here(work), _) => work(),
            (Work::Cluster(work), Some(servers)) => work(servers),
            (Work::Cluster(_), None) => Err(Status::internal("no servers were started")),
        }
    }
}

fn step_here() -> Result<f64> {
    let g = Graph::new();
    let c = g.constant(1.0f32);
    let session = Session::new(&g);
    median(|| session.run(&c).map(drop))
}

fn matmul() -> Result<f64> {
    let g = Graph::new();
    let a = g.variable("a", ones(&g, MATRIX * MATRIX)?.reshape([MATRIX as i32, MATRIX as i32])?);
    let product = a.value().matmul(&a)?.operation();
    let session = Session::new(&g);
    session.run(a.initializer())?;
    let seconds = median(|| session.run(&product))?;
    Ok(2.0 * (MATRIX as f64).powi(3) / seconds)
}

fn first_answer(servers: &Servers) -> Result<f64> {
    Ok(servers.first_answer.as_secs_f64())
}

fn idle_memory(servers: &Servers) -> Result<f64> {
    servers
        .idle_ps_bytes
        .map(|bytes| bytes as f64)
        .ok_or_else(|| Status::unavailable("this system does not tell the memory of a process"))
}

/// The least a step over the network can be.
fn constant(servers: &Servers) -> Result<f64> {
    let g = Graph::new();
    let c = g.device(WORKER, || g.constant(1.0f32));
    let session = Session::connect(&servers.target, &g)?;
    let seconds = median(|| session.run(&c).map(drop))?;
    session.close()?;
    Ok(seconds)
}

fn scalar_variable(servers: &Servers) -> Result<f64> {
    read_variables(servers, 1, 0)
}

fn small_variables(servers: &Servers) -> Result<f64> {
    read_variables(servers, 20, 10)
}

/// Reads variables of the ps on the worker and fetches their sum. `len` 0 means scalars.
fn read_variables(servers: &Servers, count: usize, len: usize) -> Result<f64> {
    let g = Graph::new();
    let mut variables = Vec::new();
    for index in 0..count {
        let initial = g.device(PS, || match len {
            0 => Ok(g.constant(1.0f32)),
            len => ones(&g, len),
        })?;
        let name = format!("small_{count}_{index}");
        variables.push(g.device(PS, || g.new_variable(&name).resource().init(initial)));
    }
    let values: Vec<Output> = variables.iter().map(Variable::value).collect();
    let sum = g.device(WORKER, || g.add_n(&values))?;
    measure_on(servers, &g, &variables, |session| session.run(&sum).map(drop))
}

/// Brings a big variable of the ps to the worker.
fn pull(servers: &Servers) -> Result<f64> {
    let g = Graph::new();
    let v = big(&g, "pulled", PS)?;
    let here = g.device(WORKER, || g.op("Identity").input(&v).output())?.operation();
    let seconds = measure_on(servers, &g, &[v], |session| session.run(&here))?;
    Ok(4.0 * BIG as f64 / seconds)
}

/// Assigns a big variable of the worker to one of the ps.
fn push(servers: &Servers) -> Result<f64> {
    let g = Graph::new();
    let (v, w) = (big(&g, "target", PS)?, big(&g, "source", WORKER)?);
    let value = g.device(WORKER, || w.value());
    let assigned = g.device(PS, || v.assign(&value))?.operation();
    let seconds = measure_on(servers, &g, &[v, w], |session| session.run(&assigned))?;
    Ok(4.0 * BIG as f64 / seconds)
}

fn big(g: &Graph, name: &str, device: &str) -> Result<Variable> {
    g.device(device, || Ok(g.new_variable(name).resource().init(ones(g, BIG)?)))
}

fn ones(g: &Graph, len: usize) -> Result<Output> {
    g.ones(DType::Float, [len as i64])
}

/// Median seconds of a step in a session of its own, whose variables are set before.
fn measure_on(
    servers: &Servers,
    g: &Graph,
    variables: &[Variable],
    step: impl Fn(&Session) -> Result<()>,
) -> Result<f64> {
    let session = Session::connect(&servers.target, g)?;
    for variable in variables {
        session.run(variable.initializer())?;
    }
    let seconds = median(|| step(&session))?;
    session.close()?;
    Ok(seconds)
}
