//! The status of a cluster as text: tasks, devices, steps that take long.

use std::fmt::Write;

use tensorfleet_cluster::{Finding, TaskState};

/// Steps younger than this are not worth a line.
const LONG_STEP_SECONDS: f64 = 1.0;
/// Lines about what one step waits for.
const MAX_WAITS: usize = 8;

pub(crate) fn render(findings: &[Finding]) -> String {
    let mut text = task_table(findings);
    devices(&mut text, findings);
    long_steps(&mut text, findings);
    troubles(&mut text, findings);
    text
}

fn task_table(findings: &[Finding]) -> String {
    const HEAD: [&str; 8] = ["TASK", "ADDRESS", "STATE", "PID", "UP", "MEMORY", "SESSIONS", "STEPS"];
    let mut rows = vec![HEAD.map(String::from)];
    for finding in findings {
        let status = finding.status.as_ref().filter(|_| finding.state != TaskState::Another);
        let told = |what: Option<String>| what.unwrap_or_else(|| "-".to_string());
        rows.push([
            told(finding.task.as_deref().map(|task| task.replace("/replica:0", ""))),
            finding.address.clone(),
            word(finding.state).to_string(),
            told(status.map(|status| status.pid.to_string())),
            told(status.map(|status| duration(status.uptime_seconds))),
            told(status.map(|status| bytes(status.resident_bytes.max(status.memory_bytes)))),
            told(
                status
                    .map(|status| status.worker_sessions.len().max(status.master_sessions.len()).to_string()),
            ),
            told(status.map(|status| status.steps.len().to_string())),
        ]);
    }
    let mut widths = [0; HEAD.len()];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in &rows {
        let cells: Vec<String> =
            row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

fn devices(text: &mut String, findings: &[Finding]) {
    let devices: Vec<&String> = findings.iter().flat_map(|finding| &finding.devices).collect();
    if !devices.is_empty() {
        text.push_str("\nDEVICES\n");
    }
    for device in devices {
        text.push_str(&format!("{device}\n"));
    }
}

/// A step is shown once for each task it is on: each waits for something else.
fn long_steps(text: &mut String, findings: &[Finding]) {
    let mut is_first = true;
    for status in findings.iter().filter_map(|finding| finding.status.as_ref()) {
        for step in status.steps.iter().filter(|step| step.age_seconds > LONG_STEP_SECONDS) {
            if std::mem::take(&mut is_first) {
                text.push_str("\nSTEPS THAT TAKE LONG\n");
            }
            let task = status.task.replace("/replica:0", "");
            let age = duration(step.age_seconds);
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "step {} on {task}: {}, {age}, session {}",
                step.step_id, step.state, step.session
            );
            for wait in step.waiting_for.iter().take(MAX_WAITS) {
                let _ = writeln!(text, "  waits for {wait}");
            }
            if let Some(more) = step.waiting_for.len().checked_sub(MAX_WAITS).filter(|&more| more > 0) {
                let _ = writeln!(text, "  … and {more} more");
            }
        }
    }
}

fn troubles(text: &mut String, findings: &[Finding]) {
    let mut is_first = true;
    for finding in findings {
        let Some(error) = &finding.error else { continue };
        if std::mem::take(&mut is_first) {
            text.push_str("\nTROUBLE\n");
        }
        let task = finding.task.as_deref().unwrap_or("-").replace("/replica:0", "");
        let _ = writeln!(text, "{task}: {error}");
    }
}

fn word(state: TaskState) -> &'static str {
    match state {
        TaskState::Up => "up",
        TaskState::TensorFlow => "up (TensorFlow)",
        TaskState::Another => "another task",
        TaskState::Differs => "other cluster",
        TaskState::Refused => "refused",
        TaskState::Unresolved => "unresolved",
        TaskState::Silent => "silent",
        TaskState::Failed => "failed",
    }
}

/// A duration with the unit that fits.
fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 10.0 => format!("{s:.1} s"),
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.0} h", s / 3600.0),
        s => format!("{:.0} d", s / 86400.0),
    }
}

/// A number of bytes with the unit that fits.
fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KB", "MB", "GB", "TB"];
    let (mut value, mut unit) = (count as f64, 0);
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 || value >= 10.0 {
        format!("{value:.0} {}", UNITS[unit])
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tensorfleet_cluster::TaskStatus;

    use super::*;

    fn up(task: &str, address: &str) -> Finding {
        let status: TaskStatus = serde_json::from_value(json!({
            "task": task, "address": address, "incarnation": "00ff", "version": "0.1.0", "pid": 4711,
            "uptime_seconds": 75.0, "memory_bytes": 1000, "resident_bytes": 12_345_678,
            "cluster": {"ps": ["a:1"], "worker": ["b:1", "c:1"]}, "devices": [format!("{task}/device:CPU:0")],
            "master_sessions": [],
            "worker_sessions": [{"handle": "s", "graphs": 1, "age_seconds": 1.0, "idle_seconds": 0.0, "master": ""}],
            "steps": [
                {"step_id": 7, "session": "s", "age_seconds": 12.0, "state": "running",
                 "waiting_for": (0..10).map(|n| format!("edge {n} from /job:worker/task:1")).collect::<Vec<_>>()},
                {"step_id": 8, "session": "s", "age_seconds": 0.2, "state": "running", "waiting_for": []},
            ],
            "totals": {"steps": 1, "failed_steps": 0, "bytes_sent": 0, "bytes_received": 0},
        }))
        .unwrap();
        Finding {
            task: Some(task.into()),
            address: address.into(),
            state: TaskState::Up,
            devices: status.devices.clone(),
            status: Some(status),
            error: None,
        }
    }

    fn down(task: &str, address: &str) -> Finding {
        let error = Some(format!("{address}: connection refused"));
        let state = TaskState::Refused;
        Finding {
            task: Some(task.into()),
            address: address.into(),
            state,
            status: None,
            devices: vec![],
            error,
        }
    }

    #[test]
    fn tasks_stand_in_a_table_then_devices_long_steps_and_trouble() {
        let text =
            render(&[up("/job:ps/replica:0/task:0", "a:1"), down("/job:worker/replica:0/task:1", "c:1")]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "TASK                ADDRESS  STATE    PID   UP    MEMORY  SESSIONS  STEPS");
        assert_eq!(lines[1], "/job:ps/task:0      a:1      up       4711  75 s  12 MB   1         2");
        assert_eq!(lines[2], "/job:worker/task:1  c:1      refused  -     -     -       -         -");
        assert!(text.contains("\nDEVICES\n/job:ps/replica:0/task:0/device:CPU:0\n"));
        assert!(text.contains("step 7 on /job:ps/task:0: running, 12 s, session s\n  waits for edge 0 from"));
        assert!(text.contains("  … and 2 more\n"));
        assert!(!text.contains("step 8"), "a young step is not worth a line");
        assert!(text.ends_with("\nTROUBLE\n/job:worker/task:1: c:1: connection refused\n"));
    }

    #[test]
    fn numbers_have_units_that_fit() {
        assert_eq!(
            [0, 999, 1500, 10_000, 2_500_000_000].map(bytes),
            ["0 B", "999 B", "1.5 KB", "10 KB", "2.5 GB"]
        );
        assert_eq!(
            [0.5, 75.0, 600.0, 7200.0, 864_000.0].map(duration),
            ["0.5 s", "75 s", "10 min", "2 h", "10 d"]
        );
    }
}
