//! `tensorfleet status`: asks all tasks of a cluster and shows what they say.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use serde_json::json;
use tensorfleet_cluster::survey;
use tensorfleet_core::Result;

use crate::Failure;
use crate::arguments::StatusArguments;
use crate::status_table;

/// How long each task may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often `--watch` asks again.
const WATCH_EVERY: Duration = Duration::from_secs(2);
/// Clears a terminal and goes to its upper left corner.
const CLEAR: &str = "\x1b[2J\x1b[H";

pub(crate) fn run(arguments: &StatusArguments) -> Result<(), Failure> {
    tensorfleet_cluster::address::from_target(&arguments.target).map_err(Failure::Usage)?;
    if !arguments.watch {
        return show(&arguments.target, arguments.json).map_err(Failure::from);
    }
    let clear = std::io::stdout().is_terminal() && !arguments.json;
    loop {
        if clear {
            print!("{CLEAR}");
        }
        // A server that restarts must not end the watch.
        if let Err(status) = show(&arguments.target, arguments.json) {
            eprintln!("error: {}", status.text());
        }
        std::thread::sleep(WATCH_EVERY);
    }
}

fn show(target: &str, as_json: bool) -> Result<()> {
    let findings = survey(target, PATIENCE)?;
    let text = match as_json {
        true => format!("{:#}\n", json!({ "tasks": findings })),
        false => status_table::render(&findings),
    };
    let mut out = std::io::stdout().lock();
    // A reader who has seen enough (`| head`) is no error.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    Ok(())
}
