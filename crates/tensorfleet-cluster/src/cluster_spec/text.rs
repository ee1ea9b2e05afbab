//! Cluster specifications as text: JSON, TOML, and the `TF_CONFIG` variable.
//!
//! All three have the same content, a table from job to a list of addresses or to a table from index to address, so
//! all are read into one small tree first. Unlike a plain map it keeps an entry that occurs twice, which would
//! otherwise vanish without a word.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use tensorfleet_core::{Result, Status, bail, ensure, excerpt};

use super::{ClusterSpec, Draft, TaskId};

/// The largest file that is read as a specification; a thousand tasks take 32 KB.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// What the environment variable `TF_CONFIG` says: the cluster, and which of its tasks this process is.
///
/// ```
/// let config = r#"{"cluster": {"ps": ["a:1"], "worker": ["b:2"]}, "task": {"type": "worker", "index": 0}}"#;
/// let config = tensorfleet_cluster::TfConfig::parse(config)?;
/// assert_eq!(config.task.unwrap().to_string(), "/job:worker/task:0");
/// # Ok::<(), tensorfleet_core::Status>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TfConfig {
    /// The cluster.
    pub cluster: ClusterSpec,
    /// This process's task, if it is one. An `evaluator` need not be part of the cluster.
    pub task: Option<TaskId>,
}

impl TfConfig {
    /// Reads the value of the variable.
    pub fn parse(text: &str) -> Result<TfConfig> {
        let config = Entry::from_json(text).and_then(|entry| TfConfig::from_entry(&entry));
        config.map_err(|status| status.context("TF_CONFIG"))
    }

    fn from_entry(config: &Entry) -> Result<TfConfig> {
        let Entry::Table(fields) = config else {
            bail!(InvalidArgument, "expected an object, found {config}")
        };
        let field = |name: &str| fields.iter().find(|(key, _)| key == name).map(|(_, value)| value);
        let Some(cluster) = field("cluster") else {
            bail!(
                InvalidArgument,
                "it has no 'cluster': expected {{\"cluster\": {{JOB: [ADDRESS, …]}}, \"task\": …}}"
            )
        };
        let cluster = spec_of(cluster)?;
        let task = field("task").map(task_of).transpose()?.flatten();
        if let Some(task) = &task
            && (task.job != "evaluator" || cluster.has_job("evaluator"))
        {
            cluster.address(&task.job, task.index)?;
        }
        Ok(TfConfig { cluster, task })
    }
}

/// The task that `{"type": …, "index": …}` names; none if the table is empty.
fn task_of(task: &Entry) -> Result<Option<TaskId>> {
    let Entry::Table(fields) = task else { bail!(InvalidArgument, "'task' is {task}, expected an object") };
    let field = |name: &str| fields.iter().find(|(key, _)| key == name).map(|(_, value)| value);
    let index = match field("index") {
        None => None,
        Some(Entry::Integer(index)) => u32::try_from(*index).ok(),
        Some(Entry::Text(index)) => index.parse().ok(),
        Some(_) => None,
    };
    match (field("type"), field("index"), index) {
        (None, None, _) => Ok(None),
        (Some(Entry::Text(job)), Some(_), Some(index)) => Ok(Some(TaskId::new(job, index))),
        (Some(Entry::Text(_)), Some(found), None) => {
            bail!(InvalidArgument, "'task' has the index {found}, expected an integer from 0")
        }
        (Some(Entry::Text(_)), None, _) => bail!(InvalidArgument, "'task' has no 'index'"),
        (Some(found), ..) => {
            bail!(InvalidArgument, "'task' has the type {found}, expected the name of a job")
        }
        (None, Some(_), _) => bail!(InvalidArgument, "'task' has an 'index' but no 'type'"),
    }
}

impl ClusterSpec {
    /// A cluster from JSON: an object from job to a list of addresses or to an object from index to address. The
    /// object may also stand under the key `cluster`, as in `TF_CONFIG`.
    pub fn from_json(text: &str) -> Result<ClusterSpec> {
        spec_of(unwrapped(&Entry::from_json(text)?))
    }

    /// A cluster from TOML, in the same form as [`ClusterSpec::from_json`].
    ///
    /// ```
    /// use tensorfleet_cluster::ClusterSpec;
    /// let cluster = ClusterSpec::from_toml("ps = ['a:1']\nworker = ['b:1', 'c:1']")?;
    /// assert_eq!(cluster.to_string(), r#"{"ps":["a:1"],"worker":["b:1","c:1"]}"#);
    /// # Ok::<(), tensorfleet_core::Status>(())
    /// ```
    pub fn from_toml(text: &str) -> Result<ClusterSpec> {
        let entry: Entry = toml::from_str(text).map_err(|error| {
            let reason = error.message().replace('\n', " ");
            Status::invalid_argument(format!("the cluster specification is not valid TOML: {reason}"))
        })?;
        spec_of(unwrapped(&entry))
    }

    /// A cluster from a file: TOML if its name ends in `.toml`, otherwise JSON.
    pub fn from_file(path: impl AsRef<Path>) -> Result<ClusterSpec> {
        let path = path.as_ref();
        let shown = path.display();
        let unreadable =
            |error| Status::not_found(format!("cannot read the cluster specification '{shown}': {error}"));
        let metadata = std::fs::metadata(path).map_err(unreadable)?;
        // Pipes and devices would never end.
        ensure!(metadata.is_file(), InvalidArgument, "'{shown}' is no file: name one with JSON or TOML");
        let bytes = metadata.len();
        ensure!(
            bytes <= MAX_FILE_BYTES,
            InvalidArgument,
            "'{shown}' has {bytes} bytes, too many for a cluster specification"
        );
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        let is_toml = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml"));
        let spec = if is_toml { ClusterSpec::from_toml(&text) } else { ClusterSpec::from_json(&text) };
        spec.map_err(|status| status.context(format!("'{shown}'")))
    }
}

impl FromStr for ClusterSpec {
    type Err = Status;

    /// As [`ClusterSpec::from_json`].
    fn from_str(text: &str) -> Result<ClusterSpec> {
        ClusterSpec::from_json(text)
    }
}

impl<'de> Deserialize<'de> for ClusterSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ClusterSpec, D::Error> {
        let entry = Entry::deserialize(deserializer)?;
        spec_of(&entry).map_err(|status| D::Error::custom(status.text()))
    }
}

/// What stands under `cluster` if that holds jobs and is not a job itself.
fn unwrapped(entry: &Entry) -> &Entry {
    let Entry::Table(fields) = entry else { return entry };
    let holds_jobs = |value: &Entry| match value {
        Entry::Table(jobs) => jobs.iter().all(|(_, job)| matches!(job, Entry::List(_) | Entry::Table(_))),
        _ => false,
    };
    let found = fields.iter().find(|(key, value)| key == "cluster" && holds_jobs(value));
    found.map_or(entry, |(_, value)| value)
}

fn spec_of(entry: &Entry) -> Result<ClusterSpec> {
    let Entry::Table(jobs) = entry else {
        bail!(
            InvalidArgument,
            "the cluster specification is {entry}, expected an object from job to addresses"
        )
    };
    let mut draft = Draft::default();
    for (job, tasks) in jobs {
        let job = draft.add_job(job.clone())?;
        match tasks {
            Entry::List(addresses) => {
                for (index, address) in (0..).zip(addresses) {
                    draft.add_task(&job, index, address_of(&job, &index, address)?)?;
                }
            }
            Entry::Table(tasks) => {
                for (index, address) in tasks {
                    let Ok(number) = index.parse() else {
                        bail!(
                            InvalidArgument,
                            "job '{job}' in the cluster specification has the task index '{index}', expected an integer"
                        )
                    };
                    draft.add_task(&job, number, address_of(&job, index, address)?)?;
                }
            }
            other => bail!(
                InvalidArgument,
                "job '{job}' in the cluster specification is {other}, expected a list of addresses or an object from \
                 index to address"
            ),
        }
    }
    draft.finish()
}

fn address_of(job: &str, index: &dyn fmt::Display, address: &Entry) -> Result<String> {
    match address {
        Entry::Text(address) => Ok(address.trim().to_string()),
        other => bail!(InvalidArgument, "/job:{job}/task:{index} is {other}, expected an address"),
    }
}

/// A value of JSON or TOML, as far as specifications have them.
#[derive(Clone, Debug)]
enum Entry {
    Text(String),
    Integer(i64),
    List(Vec<Entry>),
    /// Entries in the order they came, with repetitions.
    Table(Vec<(String, Entry)>),
    /// Something that has no place in a specification, in words.
    Other(&'static str),
}

impl Entry {
    fn from_json(text: &str) -> Result<Entry> {
        serde_json::from_str(text).map_err(|error| {
            let (line, column, shown) = (error.line(), error.column(), excerpt(text.trim()));
            let why = if error.is_eof() { "it ends too early" } else { "something else is expected there" };
            Status::invalid_argument(format!(
                "the cluster specification is not valid JSON at line {line}, column {column}: {why}; it is '{shown}'"
            ))
        })
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Entry::Text(text) => write!(f, "the text '{}'", excerpt(text)),
            Entry::Integer(value) => write!(f, "the number {value}"),
            Entry::List(_) => f.write_str("a list"),
            Entry::Table(_) => f.write_str("an object"),
            Entry::Other(what) => f.write_str(what),
        }
    }
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Entry, D::Error> {
        deserializer.deserialize_any(EntryVisitor)
    }
}

struct EntryVisitor;

impl<'de> Visitor<'de> for EntryVisitor {
    type Value = Entry;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object from job to addresses")
    }

    fn visit_str<E>(self, text: &str) -> Result<Entry, E> {
        Ok(Entry::Text(text.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Entry, E> {
        Ok(Entry::Integer(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Entry, E> {
        Ok(Entry::Integer(i64::try_from(value).unwrap_or(i64::MAX)))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Entry, E> {
        Ok(Entry::Other("a fraction"))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Entry, E> {
        Ok(Entry::Other("a truth value"))
    }

    fn visit_unit<E>(self) -> Result<Entry, E> {
        Ok(Entry::Other("null"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Entry, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Entry::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Entry, A::Error> {
        let mut table = Vec::new();
        while let Some(key) = entries.next_key::<String>()? {
            if key.starts_with("$__toml_private") {
                // How a TOML date looks from here.
                entries.next_value::<IgnoredAny>()?;
                return Ok(Entry::Other("a date"));
            }
            table.push((key, entries.next_value()?));
        }
        Ok(Entry::Table(table))
    }
}
