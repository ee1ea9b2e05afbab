//! [`Case`]: one conformance case, parsed from the files of its directory.
//!
//! `case.json` is read strictly: a field nobody here knows is an error, so that a case is never half understood
//! and then reported as passed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use tensorfleet_core::{Code, Result, Status, bail, ensure};
use tensorfleet_proto::Message;
use tensorfleet_proto::tensorflow::{ConfigProto, GraphDef};

use crate::records::{Record, parse_records};

/// The files of a case, by name.
pub type CaseFiles = BTreeMap<String, Bytes>;

const GRAPH: &str = "graph.pb";
const FEEDS: &str = "feeds.pb";
const EXPECTED: &str = "expected.pb";
const DESCRIPTION: &str = "case.json";

/// A graph, what to do with it, and what TensorFlow answered.
#[derive(Clone, Debug)]
pub struct Case {
    /// `FAMILY/CASE`.
    pub name: String,
    /// The first part of the name.
    pub family: String,
    /// 1 for what the seed programs need, 2 for the rest.
    pub tier: u32,
    /// The op types in the graph.
    pub ops: BTreeSet<String>,
    /// How the graph is to be sent.
    pub mode: Mode,
    /// The tasks per job that the case needs; `None`: one process.
    pub cluster: Option<BTreeMap<String, u32>>,
    /// The configuration of its sessions.
    pub config: ConfigProto,
    /// How far numbers may be off, by dtype (`DT_FLOAT`); other dtypes are compared exactly.
    pub tolerance: BTreeMap<String, Tolerance>,
    /// Whether the absolute tolerance grows with the largest expected value.
    pub atol_times_max: bool,
    /// What to do, in order.
    pub steps: Vec<Step>,
    /// The graph every session starts with.
    pub graph: GraphDef,
    /// Values that steps feed, by index.
    pub feeds: Vec<Record>,
    /// Values that steps expect, by index.
    pub expected: Vec<Record>,
    /// Everything else in the directory: fixtures that steps read, and extra graphs.
    pub fixtures: CaseFiles,
}

/// Who the graph is meant for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Any session.
    Session,
    /// A master, as it is: clients check too much to let it through.
    Raw,
}

/// Allowed distance of a number from the expected one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tolerance {
    /// Relative to the expected value.
    pub rtol: f64,
    /// Absolute.
    pub atol: f64,
}

/// One action of a case.
#[derive(Clone, Debug)]
pub enum Step {
    /// Run a part of the graph.
    Run(RunStep),
    /// Wait for a background step and check its answer.
    Join(String),
    /// Do nothing for a while.
    Sleep(Duration),
    /// Close one session.
    CloseSession(String),
    /// Close all sessions and clear these containers (none named: all).
    Reset(Vec<String>),
    /// Add the nodes of a fixture to a session's graph.
    Extend(ExtendStep),
    /// Compare the contents of a checkpoint on disk.
    ReadCheckpoint(CheckpointStep),
}

/// One `Session.run`.
#[derive(Clone, Debug)]
pub struct RunStep {
    /// The session's name.
    pub session: String,
    /// The task whose master the session uses, e.g. `worker/1`; empty for the default.
    pub target: String,
    /// Indices into [`Case::feeds`].
    pub feeds: Vec<usize>,
    /// Names of tensors to return.
    pub fetches: Vec<String>,
    /// Names of nodes to run.
    pub targets: Vec<String>,
    /// The deadline, if there is one.
    pub timeout: Option<Duration>,
    /// Present if the step runs on another thread.
    pub background: Option<Background>,
    /// What must come of it.
    pub expect: Expect,
}

/// How a background step is started.
#[derive(Clone, Debug)]
pub struct Background {
    /// The name by which it is joined.
    pub tag: String,
    /// Whether it must still be waiting after a moment.
    pub must_block: bool,
}

/// What must come of a step.
#[derive(Clone, Debug)]
pub enum Expect {
    /// It fails so.
    Error(ExpectedError),
    /// It succeeds with these answers, one for each fetch.
    Values(ExpectedValues),
}

/// The error a step must end with.
#[derive(Clone, Debug)]
pub struct ExpectedError {
    /// Codes that are right, the one TensorFlow gave first.
    pub codes: Vec<Code>,
    /// A part of the message.
    pub contains: String,
}

/// The answers a step must give.
#[derive(Clone, Debug)]
pub struct ExpectedValues {
    /// For each fetch an index into [`Case::expected`], or nothing to compare with.
    pub values: Vec<Option<usize>>,
    /// Properties of a fetch, for answers that are random.
    pub checks: BTreeMap<usize, PropertyCheck>,
    /// The values must not be those of this earlier step.
    pub differs_from: Option<usize>,
    /// Whether strings are serialised `Summary` messages.
    pub parse_summaries: bool,
    /// Multiplies the case's tolerances.
    pub tolerance_factor: f64,
}

/// Properties of an answer whose values are not known.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PropertyCheck {
    /// The dtype, e.g. `DT_FLOAT`.
    pub dtype: Option<String>,
    /// The shape.
    pub shape: Option<Vec<usize>>,
    /// Smallest allowed value.
    pub min: Option<f64>,
    /// Largest allowed value.
    pub max: Option<f64>,
    /// Bounds of the mean.
    pub mean: Option<[f64; 2]>,
    /// Bounds of the standard deviation.
    pub std: Option<[f64; 2]>,
    /// How many different values there are at least.
    pub distinct: Option<usize>,
    /// The values, in any order: numbers or strings.
    pub permutation_of: Option<Vec<serde_json::Value>>,
}

/// One `ExtendSession`.
#[derive(Clone, Debug)]
pub struct ExtendStep {
    /// The session's name.
    pub session: String,
    /// The task whose master the session uses.
    pub target: String,
    /// The fixture with the graph.
    pub file: String,
    /// The graph version the client claims to have seen; `None`: the true one.
    pub version: Option<i64>,
    /// The error it must end with, if any.
    pub error: Option<ExpectedError>,
}

/// A look at a checkpoint.
#[derive(Clone, Debug)]
pub struct CheckpointStep {
    /// The checkpoint's prefix.
    pub prefix: String,
    /// Names of the tensors to read.
    pub tensors: Vec<String>,
    /// What they hold.
    pub expect: ExpectedValues,
}

impl Case {
    /// Reads a case from its directory.
    pub fn load(directory: &Path) -> Result<Case> {
        let context = |error: std::io::Error| Status::not_found(format!("{}: {error}", directory.display()));
        let mut files = CaseFiles::new();
        for entry in directory.read_dir().map_err(context)? {
            let path = entry.map_err(context)?.path();
            if let Some(name) = path.file_name().filter(|_| path.is_file()) {
                let content = std::fs::read(&path).map_err(context)?;
                files.insert(name.to_string_lossy().into_owned(), content.into());
            }
        }
        Case::parse(files).map_err(|status| status.context(directory.display()))
    }

    /// Parses the files of a case.
    pub fn parse(mut files: CaseFiles) -> Result<Case> {
        let mut take = |name: &str| {
            files.remove(name).ok_or_else(|| Status::not_found(format!("the case has no file {name}")))
        };
        let description: Description = serde_json::from_slice(&take(DESCRIPTION)?)
            .map_err(|error| Status::invalid_argument(format!("{DESCRIPTION}: {error}")))?;
        let graph = GraphDef::decode(take(GRAPH)?)
            .map_err(|error| Status::invalid_argument(format!("{GRAPH}: {error}")))?;
        let feeds = parse_records(take(FEEDS)?).map_err(|status| status.context(FEEDS))?;
        let expected = parse_records(take(EXPECTED)?).map_err(|status| status.context(EXPECTED))?;
        let steps = description.steps.into_iter().enumerate().map(|(number, step)| {
            step.into_step(feeds.len(), expected.len())
                .map_err(|status| status.context(format!("{DESCRIPTION}: step {number}")))
        });
        Ok(Case {
            steps: steps.collect::<Result<_>>()?,
            name: description.name,
            family: description.family,
            tier: description.tier,
            ops: description.ops,
            mode: description.mode,
            cluster: description.cluster,
            config: description.config.map(ConfigFields::into_proto).unwrap_or_default(),
            tolerance: description.tolerance,
            atol_times_max: description.atol_times_max,
            graph,
            feeds,
            expected,
            fixtures: files,
        })
    }
}

/// `case.json` as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    name: String,
    family: String,
    tier: u32,
    #[serde(rename = "doc")]
    _doc: Option<String>,
    #[serde(rename = "variables")]
    _variables: String,
    ops: BTreeSet<String>,
    mode: Mode,
    cluster: Option<BTreeMap<String, u32>>,
    config: Option<ConfigFields>,
    tolerance: BTreeMap<String, Tolerance>,
    #[serde(default)]
    atol_times_max: bool,
    steps: Vec<StepFields>,
}

/// The fields of `ConfigProto` that cases set.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfigFields {
    #[serde(default)]
    allow_soft_placement: bool,
    #[serde(default)]
    device_filters: Vec<String>,
    #[serde(default)]
    isolate_session_state: bool,
    #[serde(default)]
    operation_timeout_in_ms: i64,
}

impl ConfigFields {
    fn into_proto(self) -> ConfigProto {
        ConfigProto {
            allow_soft_placement: self.allow_soft_placement,
            device_filters: self.device_filters,
            isolate_session_state: self.isolate_session_state,
            operation_timeout_in_ms: self.operation_timeout_in_ms,
            ..Default::default()
        }
    }
}

/// A step as written: the kinds of steps are told apart by which fields are there.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StepFields {
    session: Option<String>,
    target: Option<String>,
    feeds: Option<Vec<usize>>,
    fetches: Option<Vec<String>>,
    targets: Option<Vec<String>>,
    expected: Option<Vec<Option<usize>>>,
    error: Option<ErrorFields>,
    background: Option<String>,
    must_block: Option<bool>,
    timeout_ms: Option<u64>,
    tolerance_factor: Option<f64>,
    checks: Option<BTreeMap<String, PropertyCheck>>,
    differs_from: Option<usize>,
    parse: Option<String>,
    join: Option<String>,
    sleep_ms: Option<u64>,
    close_session: Option<String>,
    reset: Option<Vec<String>>,
    extend: Option<String>,
    version: Option<i64>,
    read_checkpoint: Option<String>,
    tensors: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ErrorFields {
    code: i32,
    #[serde(default)]
    contains: String,
    #[serde(default)]
    also_accepted: Vec<i32>,
}

impl ErrorFields {
    fn into_expected(self) -> ExpectedError {
        let codes = std::iter::once(self.code).chain(self.also_accepted);
        ExpectedError { codes: codes.map(Code::from_i32).collect(), contains: self.contains }
    }
}

impl StepFields {
    fn into_step(self, feed_count: usize, expected_count: usize) -> Result<Step> {
        if let Some(tag) = self.join {
            return Ok(Step::Join(tag));
        }
        if let Some(milliseconds) = self.sleep_ms {
            return Ok(Step::Sleep(Duration::from_millis(milliseconds)));
        }
        if let Some(session) = self.close_session {
            return Ok(Step::CloseSession(session));
        }
        if let Some(containers) = self.reset {
            return Ok(Step::Reset(containers));
        }
        let session = self.session.clone().unwrap_or_else(|| "s0".to_string());
        let target = self.target.clone().unwrap_or_default();
        if let Some(file) = self.extend {
            let error = self.error.map(ErrorFields::into_expected);
            return Ok(Step::Extend(ExtendStep { session, target, file, version: self.version, error }));
        }
        if let Some(prefix) = self.read_checkpoint.clone() {
            let tensors = self.tensors.clone().unwrap_or_default();
            let expect = self.expected_values(tensors.len(), expected_count)?;
            return Ok(Step::ReadCheckpoint(CheckpointStep { prefix, tensors, expect }));
        }
        let Some(fetches) = self.fetches.clone() else { bail!(InvalidArgument, "a step of unknown kind") };
        let feeds = self.feeds.clone().unwrap_or_default();
        ensure!(feeds.iter().all(|&index| index < feed_count), InvalidArgument, "it feeds a missing record");
        let targets = self.targets.clone().unwrap_or_default();
        let timeout = self.timeout_ms.map(Duration::from_millis);
        let must_block = self.must_block.unwrap_or(true);
        let background = self.background.clone().map(|tag| Background { tag, must_block });
        let expect = match self.error {
            Some(error) => Expect::Error(error.into_expected()),
            None => Expect::Values(self.expected_values(fetches.len(), expected_count)?),
        };
        Ok(Step::Run(RunStep { session, target, feeds, fetches, targets, timeout, background, expect }))
    }

    fn expected_values(self, answers: usize, expected_count: usize) -> Result<ExpectedValues> {
        let values = self.expected.unwrap_or_default();
        ensure!(
            values.len() == answers && values.iter().flatten().all(|&index| index < expected_count),
            InvalidArgument,
            "'expected' must name one record for each of {answers} answers"
        );
        let mut checks = BTreeMap::new();
        for (key, check) in self.checks.unwrap_or_default() {
            let index = key.parse().ok().filter(|&index: &usize| index < answers);
            let Some(index) = index else { bail!(InvalidArgument, "'checks' names fetch '{key}'") };
            checks.insert(index, check);
        }
        let parse_summaries = match self.parse.as_deref() {
            None => false,
            Some("Summary") => true,
            Some(other) => bail!(InvalidArgument, "'parse' names the unknown message '{other}'"),
        };
        Ok(ExpectedValues {
            values,
            checks,
            differs_from: self.differs_from,
            parse_summaries,
            tolerance_factor: self.tolerance_factor.unwrap_or(1.0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = r#"{"name": "f/c", "family": "f", "tier": 1, "doc": null, "variables": "ref", "mode": "session",
        "cluster": null, "config": {"allow_soft_placement": true}, "ops": ["NoOp"], "tolerance": {}, "steps": ["#;

    fn parse(steps: &str) -> Result<Case> {
        let mut files = CaseFiles::new();
        for name in [GRAPH, FEEDS, EXPECTED] {
            files.insert(name.into(), Bytes::new());
        }
        files.insert("extra.txt".into(), Bytes::from_static(b"fixture"));
        files.insert(DESCRIPTION.into(), format!("{HEAD}{steps}]}}").into());
        Case::parse(files)
    }

    #[test]
    fn every_kind_of_step_is_understood() {
        let case = parse(
            r#"{"feeds": [], "fetches": ["x:0"], "targets": ["t"], "session": "a", "background": "b",
                "must_block": false, "timeout_ms": 5, "error": {"code": 4, "contains": "late", "also_accepted": [1]}},
               {"join": "b"}, {"sleep_ms": 7}, {"close_session": "a"}, {"reset": ["c"]},
               {"extend": "extra.txt", "version": 3},
               {"read_checkpoint": "${TMP}/m", "tensors": ["v"], "expected": [null]},
               {"feeds": [], "fetches": ["x:0"], "targets": [], "expected": [null], "differs_from": 0,
                "checks": {"0": {"min": 0, "std": [0.1, 0.2]}}, "tolerance_factor": 4}"#,
        )
        .unwrap();
        assert!(case.config.allow_soft_placement);
        assert_eq!(case.fixtures.keys().collect::<Vec<_>>(), ["extra.txt"]);
        let [
            Step::Run(first),
            Step::Join(_),
            Step::Sleep(_),
            Step::CloseSession(_),
            Step::Reset(_),
            rest @ ..,
        ] = &case.steps[..]
        else {
            panic!("{:?}", case.steps)
        };
        assert!(matches!(&first.background, Some(background) if !background.must_block));
        let Expect::Error(error) = &first.expect else { panic!("{first:?}") };
        assert_eq!(error.codes, [Code::DeadlineExceeded, Code::Cancelled]);
        let [Step::Extend(extend), Step::ReadCheckpoint(_), Step::Run(last)] = rest else {
            panic!("{rest:?}")
        };
        assert_eq!((&*extend.session, extend.version), ("s0", Some(3)));
        let Expect::Values(values) = &last.expect else { panic!("{last:?}") };
        assert_eq!((values.tolerance_factor, values.differs_from), (4.0, Some(0)));
        assert_eq!(values.checks[&0].std, Some([0.1, 0.2]));
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for (steps, fragment) in [
            (r#"{"fetches": [], "expected": [], "frequency": 3}"#, "frequency"),
            (r#"{"session": "a"}"#, "unknown kind"),
            (r#"{"fetches": ["x:0"], "expected": []}"#, "one record for each"),
            (r#"{"fetches": ["x:0"], "expected": [0]}"#, "one record for each"),
            (r#"{"feeds": [0], "fetches": [], "expected": []}"#, "missing record"),
            (r#"{"fetches": [], "expected": [], "parse": "Event"}"#, "Event"),
            (r#"{"fetches": [], "expected": [], "checks": {"0": {}}}"#, "fetch '0'"),
        ] {
            let status = parse(steps).unwrap_err();
            assert!(status.text().contains(fragment), "{status} should contain {fragment}");
        }
    }
}
