//! The status of a cluster as text: tasks, devices, steps that take long.

use std::collections::HashMap;
use std::fmt::Write;
use std::time::Duration;

use tensorfleet_cluster::{Finding, TaskState};

use crate::table::{Column, Table, wrapped};
use crate::terminal::{Color, Terminal};
use crate::units::{bytes, duration};

/// Steps younger than this are not worth a line.
const LONG_STEP_SECONDS: f64 = 1.0;
/// Lines about what one step waits for.
const MAX_WAITS: usize = 8;

/// How fast each task's totals grow, by its address.
#[derive(Default)]
pub(crate) struct Rates(HashMap<String, Rate>);

struct Rate {
    steps: f64,
    bytes: f64,
}

impl Rates {
    /// From two looks at a cluster. A task that was restarted in between has no rate.
    pub(crate) fn between(before: &[Finding], after: &[Finding], elapsed: Duration) -> Rates {
        let seconds = elapsed.as_secs_f64();
        let rate = |finding: &Finding| {
            let now = finding.status.as_ref()?;
            let then = before.iter().find(|before| before.address == finding.address)?.status.as_ref()?;
            if now.incarnation != then.incarnation || seconds <= 0.0 {
                return None;
            }
            let traffic = |status: &tensorfleet_cluster::TaskStatus| {
                status.totals.bytes_sent.saturating_add(status.totals.bytes_received)
            };
            Some(Rate {
                steps: now.totals.steps.saturating_sub(then.totals.steps) as f64 / seconds,
                bytes: traffic(now).saturating_sub(traffic(then)) as f64 / seconds,
            })
        };
        Rates(after.iter().filter_map(|finding| Some((finding.address.clone(), rate(finding)?))).collect())
    }
}

/// The status; with rates if it is watched.
pub(crate) fn render(findings: &[Finding], rates: Option<&Rates>, terminal: &Terminal) -> String {
    let mut text = task_table(findings, rates, terminal);
    let mut rest = String::new();
    devices(&mut rest, findings);
    long_steps(&mut rest, findings);
    orphaned_sessions(&mut rest, findings);
    troubles(&mut rest, findings);
    for line in rest.lines() {
        text.push_str(&wrapped(line, terminal.width(), "    "));
    }
    text
}

fn task_table(findings: &[Finding], rates: Option<&Rates>, terminal: &Terminal) -> String {
    let mut columns = vec![
        Column::text("TASK").cut(),
        Column::text("ADDRESS").cut().spare(6),
        Column::text("STATE"),
        Column::text("PID").spare(0),
        Column::text("UP").spare(3),
        Column::text("MEMORY").spare(4),
        Column::text("SESSIONS").spare(1),
        Column::text("RUNNING").spare(2),
    ];
    if rates.is_some() {
        columns.push(Column::number("STEPS/S"));
        columns.push(Column::number("MB/S").spare(5));
    }
    let mut table = Table::new(columns);
    for finding in findings {
        let status = finding.status.as_ref().filter(|_| finding.state != TaskState::Another);
        let told = |what: Option<String>| what.unwrap_or_else(|| "-".to_string());
        let mut row = vec![
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
        ];
        if let Some(Rates(rates)) = rates {
            let rate = rates.get(&finding.address);
            row.push(told(rate.map(|rate| per_second(rate.steps))));
            row.push(told(rate.map(|rate| per_second(rate.bytes / 1e6))));
        }
        table.row(row);
        table.colour(2, colour(finding.state));
    }
    table.render(terminal)
}

/// A rate in few digits.
fn per_second(rate: f64) -> String {
    match rate {
        0.0 => "0".to_string(),
        rate if rate < 10.0 => format!("{rate:.1}"),
        rate => format!("{rate:.0}"),
    }
}

fn colour(state: TaskState) -> Color {
    match state {
        TaskState::Up | TaskState::TensorFlow => Color::Good,
        TaskState::Another | TaskState::Differs => Color::Doubtful,
        TaskState::Refused | TaskState::Unresolved | TaskState::Silent | TaskState::Failed => Color::Bad,
    }
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
            // A step that has not begun here, or is over, is of no session that the task knows.
            let session = match step.session.is_empty() {
                true => String::new(),
                false => format!(", session {}", step.session),
            };
            // Writing to a string cannot fail.
            let _ = writeln!(text, "step {} on {task}: {}, {age}{session}", step.step_id, step.state);
            for wait in step.waiting_for.iter().take(MAX_WAITS) {
                let _ = writeln!(text, "  waits for {wait}");
            }
            if let Some(more) = step.waiting_for.len().checked_sub(MAX_WAITS).filter(|&more| more > 0) {
                let _ = writeln!(text, "  … and {more} more");
            }
        }
    }
}

/// Sessions whose users are gone and that wait for them to come back, with what they hold meanwhile.
fn orphaned_sessions(text: &mut String, findings: &[Finding]) {
    let mut lines = Vec::new();
    for status in findings.iter().filter_map(|finding| finding.status.as_ref()) {
        let task = status.task.replace("/replica:0", "");
        for session in &status.master_sessions {
            let Some(gone) = session.orphaned_seconds else { continue };
            let (gone, constants) = (duration(gone), bytes(session.constant_bytes));
            lines.push(format!(
                "session {} on {task}: its client {} has been gone for {gone}; {} nodes, {constants} of constants, {} plans",
                session.handle, session.client, session.graph_nodes, session.plans
            ));
        }
        for session in &status.worker_sessions {
            let Some(gone) = session.orphaned_seconds else { continue };
            let (gone, constants) = (duration(gone), bytes(session.constant_bytes));
            let master = match session.master.is_empty() {
                true => "its master".to_string(),
                false => format!("its master {}", session.master.replace("/replica:0", "")),
            };
            lines.push(format!(
                "session {} on {task}: {master} has been gone for {gone}; {} graphs, {constants} of constants",
                session.handle, session.graphs
            ));
        }
    }
    if !lines.is_empty() {
        text.push_str("\nSESSIONS WHOSE USERS ARE GONE\n");
    }
    lines.iter().for_each(|line| text.push_str(&format!("{line}\n")));
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

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tensorfleet_cluster::TaskStatus;

    use super::*;
    use crate::terminal::Colors;

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
                {"step_id": 9, "session": "", "age_seconds": 5.0, "state": "over, not yet cleaned up",
                 "waiting_for": []},
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
        let findings = [up("/job:ps/replica:0/task:0", "a:1"), down("/job:worker/replica:0/task:1", "c:1")];
        let text = render(&findings, None, &Terminal::default());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "TASK                ADDRESS  STATE    PID   UP    MEMORY  SESSIONS  RUNNING");
        assert_eq!(lines[1], "/job:ps/task:0      a:1      up       4711  75 s  12 MB   1         3");
        assert_eq!(lines[2], "/job:worker/task:1  c:1      refused  -     -     -       -         -");
        assert!(text.contains("\nDEVICES\n/job:ps/replica:0/task:0/device:CPU:0\n"));
        assert!(text.contains("step 7 on /job:ps/task:0: running, 12 s, session s\n  waits for edge 0 from"));
        assert!(text.contains("  … and 2 more\n"));
        assert!(text.contains("step 9 on /job:ps/task:0: over, not yet cleaned up, 5.0 s\n"), "{text}");
        assert!(!text.contains("step 8"), "a young step is not worth a line");
        assert!(text.ends_with("\nTROUBLE\n/job:worker/task:1: c:1: connection refused\n"));
    }

    #[test]
    fn sessions_whose_users_are_gone_are_listed_with_what_they_hold() {
        let mut findings = [up("/job:ps/replica:0/task:0", "a:1")];
        assert!(!render(&findings, None, &Terminal::default()).contains("GONE"));
        let status = findings[0].status.as_mut().unwrap();
        status.worker_sessions[0].orphaned_seconds = Some(3.0);
        status.worker_sessions[0].master = "/job:worker/replica:0/task:1".to_string();
        status.worker_sessions[0].constant_bytes = 8_000_000;
        let master = json!({
            "handle": "m", "age_seconds": 9.0, "idle_seconds": 4.0, "graph_nodes": 12, "constant_bytes": 4_000_000,
            "plans": 2, "running_steps": 0, "client": "process 77", "orphaned_seconds": 4.0,
        });
        status.master_sessions.push(serde_json::from_value(master).unwrap());
        let text = render(&findings, None, &Terminal::default());
        for line in [
            "\nSESSIONS WHOSE USERS ARE GONE\n",
            "session m on /job:ps/task:0: its client process 77 has been gone for 4.0 s; 12 nodes, 4.0 MB of constants, 2 plans\n",
            "session s on /job:ps/task:0: its master /job:worker/task:1 has been gone for 3.0 s; 1 graphs, 8.0 MB of constants\n",
        ] {
            assert!(text.contains(line), "{line} is not in:\n{text}");
        }
    }

    #[test]
    fn a_watch_shows_rates_of_tasks_that_were_not_restarted() {
        let before = [up("/job:ps/replica:0/task:0", "a:1"), up("/job:worker/replica:0/task:0", "b:1")];
        let mut after = before.clone();
        let [ps, worker] = &mut after;
        ps.status.as_mut().unwrap().totals.steps += 500;
        ps.status.as_mut().unwrap().totals.bytes_received += 3_000_000;
        worker.status.as_mut().unwrap().incarnation = "another".to_string();
        let rates = Rates::between(&before, &after, Duration::from_secs(2));
        let text = render(&after, Some(&rates), &Terminal::default());
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].ends_with("STEPS/S  MB/S"), "{text}");
        assert!(lines[1].ends_with(" 250   1.5"), "{text}");
        assert!(lines[2].ends_with("   -     -"), "{text}");
    }

    #[test]
    fn narrow_terminals_get_lines_that_fit() {
        let findings = [
            up("/job:worker/replica:0/task:10", "a-rather-long-host-name.example.com:2222"),
            down("/job:worker/replica:0/task:1", "c:1"),
        ];
        for width in [30, 40, 60, 80] {
            let terminal = Terminal { size: Some((width, 24)), colors: Colors::Off };
            let text = render(&findings, Some(&Rates::default()), &terminal);
            let table: Vec<&str> = text.lines().take(3).collect();
            assert!(table.iter().all(|line| line.chars().count() <= width), "{width}:\n{text}");
            assert!(table[0].contains("STATE") && table[0].contains("STEPS/S"), "{text}");
        }
    }

    #[test]
    fn states_have_colours_where_there_are_colours() {
        let findings = [up("/job:ps/replica:0/task:0", "a:1"), down("/job:worker/replica:0/task:1", "c:1")];
        let text = render(&findings, None, &Terminal { size: None, colors: Colors::On });
        assert!(text.contains("\x1b[32mup\x1b[0m") && text.contains("\x1b[31mrefused\x1b[0m"), "{text:?}");
        assert!(!render(&findings, None, &Terminal::default()).contains('\x1b'));
    }
}
