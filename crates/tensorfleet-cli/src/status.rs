//! `tensorfleet status`: asks all tasks of a cluster and shows what they say, once or again and again.
//!
//! On a terminal `--watch` draws each look over the last one: the cursor goes home, every line is written and cleared to
//! its end, and what is left below is cleared last, all in one write. So nothing flickers and nothing scrolls.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;
use tensorfleet_cluster::{Finding, survey};
use tensorfleet_core::{Result, Status};
use tokio::signal::unix::{SignalKind, signal};

use crate::Failure;
use crate::status_table::{self, Rates};
use crate::table::wrapped;
use crate::terminal::{self, Color, Terminal};

pub(crate) const HELP: &str = "\
Any task of the cluster will do: it knows the others, and all are asked. RUNNING are the steps that run at this moment. With --watch, STEPS/S are the steps that sessions \
on that task run, and MB/S what it sends to and fetches from others; NO_COLOR turns colours off.

Examples:
  tensorfleet status grpc://localhost:2222
  tensorfleet status localhost:2222 --watch
  tensorfleet status localhost:2222 --json | jq '.tasks[].status.steps'";

/// Arguments of `status`.
#[derive(Args, Debug)]
pub(crate) struct StatusArguments {
    /// A task of the cluster: grpc://HOST:PORT, or HOST:PORT.
    pub(crate) target: String,

    /// Everything the tasks say, as JSON.
    #[arg(long)]
    pub(crate) json: bool,

    /// Show it again every two seconds, until Ctrl-C.
    #[arg(long)]
    pub(crate) watch: bool,
}

/// How long each task may take to answer.
const STATUS_TIMEOUT: Duration = Duration::from_secs(2);
/// How often `--watch` asks again.
const WATCH_EVERY: Duration = Duration::from_secs(2);
/// Clears a terminal.
const CLEAR: &str = "\x1b[2J";
const HIDE_CURSOR: &str = "\x1b[?25l";
const SHOW_CURSOR: &str = "\x1b[?25h";
const HOME: &str = "\x1b[H";
const CLEAR_TO_END_OF_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";

pub(crate) fn run(arguments: &StatusArguments) -> Result<(), Failure> {
    tensorfleet_cluster::address::from_target(&arguments.target).map_err(Failure::Usage)?;
    if arguments.watch {
        return Ok(watch(arguments)?);
    }
    let findings = survey(&arguments.target, STATUS_TIMEOUT).map_err(unreachable)?;
    terminal::print(&match arguments.json {
        true => format!("{:#}\n", json!({ "tasks": findings })),
        false => status_table::render(&findings, None, &Terminal::of_stdout()),
    });
    Ok(())
}

/// The error of a server that does not answer, with what to do next.
pub(crate) fn unreachable(status: Status) -> Status {
    // Some texts end with a question of their own.
    let text = status.text().trim_end_matches('.');
    let next = match text.ends_with('?') {
        true => " 'tensorfleet serve --help' tells how to start one",
        false => {
            "; is it running, and is this its address? 'tensorfleet serve --help' tells how to start one"
        }
    };
    Status::new(status.code(), format!("{text}{next}"))
}

fn watch(arguments: &StatusArguments) -> Result<()> {
    let in_place = std::io::stdout().is_terminal() && !arguments.json;
    end_on_interrupt(in_place)?;
    if in_place {
        terminal::print(&format!("{HIDE_CURSOR}{CLEAR}"));
    }
    let mut last: Option<(Instant, Vec<Finding>)> = None;
    loop {
        let looked = Instant::now();
        let terminal = Terminal::of_stdout();
        // A server that restarts must not end the watch.
        let text = match survey(&arguments.target, STATUS_TIMEOUT) {
            Ok(findings) => {
                let text = match arguments.json {
                    // One line for each look, so that a reader knows where it ends.
                    true => format!("{}\n", json!({ "tasks": findings })),
                    false => {
                        let rates = last
                            .as_ref()
                            .map(|(then, before)| Rates::between(before, &findings, looked - *then));
                        status_table::render(&findings, Some(&rates.unwrap_or_default()), &terminal)
                    }
                };
                last = Some((looked, findings));
                text
            }
            Err(status) if arguments.json => format!("{}\n", json!({ "error": unreachable(status).text() })),
            Err(status) => {
                let text = wrapped(unreachable(status).text(), terminal.width(), "");
                text.lines().map(|line| terminal.paint(Color::Bad, line) + "\n").collect()
            }
        };
        let written = terminal::write(&match (in_place, arguments.json) {
            (true, _) => frame(&text, &arguments.target, &terminal),
            (false, true) => text,
            (false, false) => format!("{text}\n"),
        });
        if let Err(error) = written {
            // Nobody reads any more (`| head`), or nobody can.
            return terminal::lost(&error).map_or(Ok(()), Err);
        }
        std::thread::sleep(WATCH_EVERY.saturating_sub(looked.elapsed()));
    }
}

/// Everything that makes a terminal show `text` instead of what it showed. Lines that do not fit are counted, because a
/// terminal that scrolls cannot be drawn over.
fn frame(text: &str, target: &str, terminal: &Terminal) -> String {
    let rows = terminal.size.map_or(usize::MAX, |(_, rows)| rows);
    let foot = format!("{target}, every {} s, Ctrl-C ends it", WATCH_EVERY.as_secs());
    let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
    // The foot has a line and an empty one before it.
    let room = rows.saturating_sub(2).max(1);
    if lines.len() > room {
        let more = lines.len() - (room - 1);
        lines.truncate(room - 1);
        lines.push(format!("… {more} lines more than this terminal has"));
    }
    lines.push(String::new());
    lines.push(crate::table::shortened(&foot, terminal.width().unwrap_or(usize::MAX)));
    let body = lines.join(&format!("{CLEAR_TO_END_OF_LINE}\r\n"));
    format!("{HOME}{body}{CLEAR_TO_END_OF_LINE}{CLEAR_BELOW}")
}

/// Ctrl-C is the normal end of a watch: the terminal gets its cursor back, and the exit code is 0.
fn end_on_interrupt(in_place: bool) -> Result<()> {
    let failed = |error: std::io::Error| Status::internal(format!("cannot catch signals: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let (mut interrupt, mut terminate) = {
        let _in_runtime = runtime.enter();
        (signal(SignalKind::interrupt()).map_err(failed)?, signal(SignalKind::terminate()).map_err(failed)?)
    };
    std::thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        });
        // Holding the lock means that no frame is half written.
        let mut out = std::io::stdout().lock();
        if in_place {
            let _ = out.write_all(format!("{SHOW_CURSOR}\r\n").as_bytes()).and_then(|()| out.flush());
        }
        std::process::exit(0);
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::Colors;

    #[test]
    fn a_frame_clears_what_was_there_and_never_scrolls() {
        let terminal = Terminal { size: Some((40, 5)), colors: Colors::Off };
        let text = frame("a\nb\nc\nd\ne\n", "localhost:1", &terminal);
        assert!(text.starts_with("\x1b[Ha\x1b[K\r\nb\x1b[K\r\n… 3 lines more"), "{text:?}");
        assert!(text.ends_with("\x1b[K\x1b[J"), "{text:?}");
        assert_eq!(text.matches("\r\n").count(), 4, "five rows have four breaks");
    }
}
