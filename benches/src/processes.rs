//! Child processes, and what the system says about them: processor time and memory.

use std::process::Child;

/// Ticks of the clock in which Linux counts processor time, per second; the same on all its platforms.
const TICKS_PER_SECOND: f64 = 100.0;

/// A child that is killed and reaped when dropped.
pub(crate) struct Process(pub(crate) Child);

impl Process {
    /// Seconds of processor time, of user and system together, that it has used so far.
    pub(crate) fn processor_seconds(&self) -> f64 {
        processor_seconds(&self.0.id().to_string())
    }

    /// Bytes of a line of the process's status, such as `VmRSS` (resident now) or `VmHWM` (at most so far).
    pub(crate) fn memory_bytes(&self, line: &str) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap_or_default();
        kilobytes(&status, line).map_or(f64::NAN, |kilobytes| kilobytes * 1024.0)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only for a child that has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Seconds of processor time that this process has used so far.
pub(crate) fn own_processor_seconds() -> f64 {
    processor_seconds("self")
}

fn processor_seconds(process: &str) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    ticks(&stat).map_or(f64::NAN, |ticks| ticks / TICKS_PER_SECOND)
}

/// The sum of fields 14 and 15. The second field, the program's name in brackets, may have spaces in it.
fn ticks(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split_whitespace().skip(11);
    let mut number = || fields.next()?.parse::<f64>().ok();
    Some(number()? + number()?)
}

fn kilobytes(status: &str, line: &str) -> Option<f64> {
    let (_, rest) = status.lines().find_map(|text| text.split_once(':').filter(|(name, _)| *name == line))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// The middle one of several measurements.
pub(crate) fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_memory_are_read_where_the_system_writes_them() {
        let stat = "7 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 1";
        assert_eq!(ticks(stat), Some(300.0));
        assert_eq!(kilobytes("Name:\tps\nVmHWM:\t  2048 kB\nVmRSS:\t 1024 kB\n", "VmRSS"), Some(1024.0));
        assert_eq!(kilobytes("Name:\tps\n", "VmRSS"), None);
    }
}
