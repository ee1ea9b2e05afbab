//! [`DeviceName`]: which device, fully or partly named.
//!
//! The canonical form is `/job:ps/replica:0/task:1/device:CPU:0`. Every component may be missing, which means
//! "any"; a later component overrides an earlier one; the old spellings `/cpu:0` and `/gpu:0` are accepted.
//! Checked against the answers of a TensorFlow 2.21 master to odd specifications.

use std::fmt;
use std::str::FromStr;

use crate::excerpt::excerpt;
use crate::status::{Result, Status};

/// A device specification; unset components match anything.
///
/// ```
/// use tensorfleet_core::DeviceName;
/// let outer: DeviceName = "/job:worker/cpu:0".parse().unwrap();
/// let inner: DeviceName = "/task:1".parse().unwrap();
/// assert_eq!(outer.overridden_by(&inner).to_string(), "/job:worker/task:1/device:CPU:0");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceName {
    /// The job, e.g. `ps`.
    pub job: Option<String>,
    /// The replica; always 0 in practice.
    pub replica: Option<u32>,
    /// The task's index in its job.
    pub task: Option<u32>,
    /// The kind of device, e.g. `CPU`.
    pub device_type: Option<String>,
    /// The device's index among those of its kind.
    pub index: Option<u32>,
}

impl DeviceName {
    /// The full name of a device.
    pub fn full(job: &str, task: u32, device_type: &str, index: u32) -> DeviceName {
        DeviceName {
            job: Some(job.to_string()),
            replica: Some(0),
            task: Some(task),
            device_type: Some(device_type.to_string()),
            index: Some(index),
        }
    }

    /// Whether nothing is specified.
    pub fn is_unconstrained(&self) -> bool {
        *self == DeviceName::default()
    }

    /// Whether every component is set.
    pub fn is_full(&self) -> bool {
        self.job.is_some()
            && self.replica.is_some()
            && self.task.is_some()
            && self.index.is_some()
            && self.device_type.is_some()
    }

    /// Only job, replica and task.
    pub fn task_name(&self) -> DeviceName {
        DeviceName { device_type: None, index: None, ..self.clone() }
    }

    /// Whether `device` has every component that this pattern sets.
    pub fn matches(&self, device: &DeviceName) -> bool {
        fn fits<T: PartialEq>(pattern: &Option<T>, value: &Option<T>) -> bool {
            pattern.is_none() || pattern == value
        }
        fits(&self.job, &device.job)
            && fits(&self.replica, &device.replica)
            && fits(&self.task, &device.task)
            && fits(&self.device_type, &device.device_type)
            && fits(&self.index, &device.index)
    }

    /// Whether some device could satisfy both.
    pub fn is_compatible_with(&self, other: &DeviceName) -> bool {
        fn agree<T: PartialEq>(a: &Option<T>, b: &Option<T>) -> bool {
            a.is_none() || b.is_none() || a == b
        }
        agree(&self.job, &other.job)
            && agree(&self.replica, &other.replica)
            && agree(&self.task, &other.task)
            && agree(&self.device_type, &other.device_type)
            && agree(&self.index, &other.index)
    }

    /// Both specifications at once. A conflict is an error; with `soft` placement a conflict in the device's
    /// type drops type and index, and one in the index drops the index.
    pub fn merged_with(&self, other: &DeviceName, soft: bool) -> Result<DeviceName> {
        fn both<T: PartialEq + Clone>(a: &Option<T>, b: &Option<T>) -> Result<Option<T>, ()> {
            match (a, b) {
                (Some(x), Some(y)) if x != y => Err(()),
                _ => Ok(a.clone().or_else(|| b.clone())),
            }
        }
        let conflict = |what: &'static str| {
            move |()| {
                Status::invalid_argument(format!(
                    "Cannot merge devices with incompatible {what}: '{self}' and '{other}'"
                ))
            }
        };
        let mut merged = DeviceName {
            job: both(&self.job, &other.job).map_err(conflict("jobs"))?,
            replica: both(&self.replica, &other.replica).map_err(conflict("replicas"))?,
            task: both(&self.task, &other.task).map_err(conflict("tasks"))?,
            device_type: None,
            index: None,
        };
        match both(&self.device_type, &other.device_type) {
            Err(()) if soft => return Ok(merged),
            device_type => merged.device_type = device_type.map_err(conflict("types"))?,
        }
        match both(&self.index, &other.index) {
            Err(()) if soft => {}
            index => merged.index = index.map_err(conflict("ids"))?,
        }
        Ok(merged)
    }

    /// Nested device scopes: `inner` wins in what it names, this specification fills the rest.
    pub fn overridden_by(&self, inner: &DeviceName) -> DeviceName {
        DeviceName {
            job: inner.job.clone().or_else(|| self.job.clone()),
            replica: inner.replica.or(self.replica),
            task: inner.task.or(self.task),
            device_type: inner.device_type.clone().or_else(|| self.device_type.clone()),
            index: inner.index.or(self.index),
        }
    }
}

impl FromStr for DeviceName {
    type Err = Status;

    fn from_str(text: &str) -> Result<DeviceName> {
        let mut name = DeviceName::default();
        if text.is_empty() || text == "/" {
            return Ok(name);
        }
        let malformed = || {
            let shown = excerpt(text);
            Status::invalid_argument(format!(
                "Malformed device specification '{shown}'. \
                 Expected parts like /job:NAME/replica:0/task:0/device:CPU:0, each optional"
            ))
        };
        let Some(parts) = text.strip_prefix('/') else { return Err(malformed()) };
        for part in parts.split('/') {
            let (key, value) = part.split_once(':').ok_or_else(malformed)?;
            match key {
                "job" => {
                    name.job = unless_star(value, |value| is_identifier(value).then(|| value.to_string()))
                        .ok_or_else(malformed)?
                }
                "replica" => name.replica = unless_star(value, parse_index).ok_or_else(malformed)?,
                "task" => name.task = unless_star(value, parse_index).ok_or_else(malformed)?,
                "device" => {
                    let (device_type, index) = value.split_once(':').unwrap_or((value, "*"));
                    name.device_type =
                        unless_star(device_type, |value| is_identifier(value).then(|| value.to_string()))
                            .ok_or_else(malformed)?;
                    name.index = unless_star(index, parse_index).ok_or_else(malformed)?;
                }
                "cpu" | "CPU" | "gpu" | "GPU" => {
                    name.device_type = Some(key.to_ascii_uppercase());
                    name.index = unless_star(value, parse_index).ok_or_else(malformed)?;
                }
                _ => return Err(malformed()),
            }
        }
        Ok(name)
    }
}

/// `*` leaves the component unset; `None` means malformed.
fn unless_star<T>(value: &str, parse: impl FnOnce(&str) -> Option<T>) -> Option<Option<T>> {
    if value == "*" { Some(None) } else { parse(value).map(Some) }
}

fn parse_index(value: &str) -> Option<u32> {
    let plain = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    // TensorFlow keeps these in an int.
    plain.then(|| value.parse().ok()).flatten().filter(|&index| index <= i32::MAX as u32)
}

fn is_identifier(value: &str) -> bool {
    let mut bytes = value.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(job) = &self.job {
            write!(f, "/job:{job}")?;
        }
        if let Some(replica) = self.replica {
            write!(f, "/replica:{replica}")?;
        }
        if let Some(task) = self.task {
            write!(f, "/task:{task}")?;
        }
        match (&self.device_type, self.index) {
            (None, None) => Ok(()),
            (Some(device_type), Some(index)) => write!(f, "/device:{device_type}:{index}"),
            (Some(device_type), None) => write!(f, "/device:{device_type}:*"),
            (None, Some(index)) => write!(f, "/device:*:{index}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name(text: &str) -> DeviceName {
        text.parse().unwrap()
    }

    #[test]
    fn every_spelling_a_real_master_accepts_is_understood() {
        let full = DeviceName::full("ps", 0, "CPU", 0);
        for text in [
            "/job:ps/replica:0/task:0/device:CPU:0",
            "/job:ps/replica:0/task:0/cpu:0",
            "/task:0/job:ps/replica:0/CPU:0",
        ] {
            assert_eq!(name(text), full, "{text}");
        }
        assert!(
            name("").is_unconstrained() && name("/").is_unconstrained() && name("/job:*").is_unconstrained()
        );
        assert_eq!(name("/device:CPU"), name("/device:CPU:*"));
        assert_eq!(name("/job:ps/cpu:*").to_string(), "/job:ps/device:CPU:*");
        assert_eq!(name("/gpu:1").to_string(), "/device:GPU:1");
        assert_ne!(name("/device:cpu:0"), name("/cpu:0"), "types are case-sensitive");
    }

    #[test]
    fn what_a_real_master_calls_malformed_is_an_error() {
        for text in [
            "CPU:0",
            "job:ps",
            "/job:ps/",
            "/job:ps/foo:1",
            "/job:",
            "/job:9ps",
            "/task:-1",
            "/task:99999999999",
            "//",
        ] {
            assert!(text.parse::<DeviceName>().is_err(), "{text}");
        }
    }

    #[test]
    fn merging_refuses_conflicts_unless_soft_placement_may_drop_the_device() {
        let (gpu, cpu) = (name("/job:ps/gpu:1"), name("/task:0/cpu:0"));
        assert!(gpu.merged_with(&cpu, false).is_err());
        assert_eq!(gpu.merged_with(&cpu, true).unwrap(), name("/job:ps/task:0"));
        assert!(name("/job:ps").merged_with(&name("/job:worker"), true).is_err());
        assert_eq!(name("/cpu:0").merged_with(&name("/cpu:1"), true).unwrap(), name("/device:CPU"));
    }

    #[test]
    fn patterns_match_devices_they_do_not_contradict() {
        let device = name("/job:worker/replica:0/task:1/device:CPU:0");
        assert!(name("/job:worker").matches(&device) && name("").matches(&device));
        assert!(!name("/job:worker/task:2").matches(&device));
        assert!(name("/task:1").is_compatible_with(&name("/job:ps")));
    }

    proptest! {
        #[test]
        fn printing_and_parsing_are_inverse(
            job in proptest::option::of("[a-zA-Z][a-zA-Z0-9_]{0,8}"),
            replica in proptest::option::of(0..3u32),
            task in proptest::option::of(0..100_000u32),
            device_type in proptest::option::of("[a-zA-Z][a-zA-Z0-9_]{0,8}"),
            index in proptest::option::of(0..20u32),
        ) {
            let original = DeviceName { job, replica, task, device_type, index };
            prop_assert_eq!(original.to_string().parse::<DeviceName>().unwrap(), original);
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "[/a-zA-Z0-9:*]{0,40}|\\PC{0,20}") {
            let _ = text.parse::<DeviceName>();
        }
    }
}
