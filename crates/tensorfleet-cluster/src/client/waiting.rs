//! Says what a client waits for, a server or a run: a wait that nobody sees is taken for a hang.

use std::time::Duration;

use bytes::Bytes;
use tensorfleet_core::clock::{self, Stopwatch};
use tensorfleet_core::{Code, Result, Status, notice};
use tensorfleet_rpc::{CallOptions, Channel, Parts};

use crate::status::TaskStatus;
use crate::wire::fleet_messages::STATUS_METHOD;

/// The first report comes after this time, and one more each time it passes again.
const REPORT_EVERY: Duration = Duration::from_secs(5);

/// Waits for `work` and reports every few seconds what it waits for.
pub(super) async fn with_reports<F: Future>(channel: &Channel, what: &str, work: F) -> F::Output {
    let started = Stopwatch::start();
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            result = &mut work => return result,
            () = tokio::time::sleep(REPORT_EVERY) => report(channel, what, started.elapsed()),
        }
    }
}

/// How long a server may take to say for whom a run waits.
const ASK_TIMEOUT: Duration = Duration::from_secs(2);

/// Waits for `run`, a run in the session `handle`, and says every few seconds for whom it waits, if its server knows: one of
/// TensorFlow does not.
pub(super) async fn with_waits<F: Future>(channel: &Channel, handle: &str, run: F) -> F::Output {
    let mut run = std::pin::pin!(run);
    loop {
        tokio::select! {
            biased;
            result = &mut run => return result,
            () = tokio::time::sleep(REPORT_EVERY) => {}
        }
        let asked = async {
            let options = CallOptions { deadline: clock::deadline_in(ASK_TIMEOUT), ..CallOptions::default() };
            let document: Bytes =
                channel.call(STATUS_METHOD, Parts::empty(), options).await?.message.decode()?;
            serde_json::from_slice::<TaskStatus>(&document)
                .map_err(|error| Status::internal(error.to_string()))
        };
        tokio::select! {
            biased;
            result = &mut run => return result,
            answer = asked => waits(channel.address(), handle, answer).iter().for_each(notice::warn),
        }
    }
}

/// What to say about a run after its server was asked.
fn waits(address: &str, handle: &str, answer: Result<TaskStatus>) -> Vec<String> {
    match answer {
        Ok(status) => {
            let session = status.master_sessions.into_iter().find(|session| session.handle == handle);
            session.map_or(Vec::new(), |session| session.waits)
        }
        Err(status) if status.code() == Code::Unimplemented => Vec::new(),
        Err(status) => vec![format!("a run waits for {address}, which does not answer: {}", status.text())],
    }
}

fn report(channel: &Channel, what: &str, waited: Duration) {
    notice::warn(text(channel.address(), what, waited, channel.is_connected(), channel.last_error()));
}

fn text(address: &str, what: &str, waited: Duration, is_connected: bool, error: Option<String>) -> String {
    let reason = match (is_connected, error) {
        (true, _) => "it is there, and waits for the tasks of its cluster".to_string(),
        (false, Some(error)) => error,
        (false, None) => "connecting".to_string(),
    };
    format!("waiting for {what} on {address}, {} s: {reason}", waited.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_says_for_whom_how_long_and_why() {
        let text = |connected, error: Option<&str>| {
            text("host:1", "a session", Duration::from_secs(12), connected, error.map(String::from))
        };
        assert_eq!(
            text(false, Some("connection refused")),
            "waiting for a session on host:1, 12 s: connection refused"
        );
        assert!(text(true, None).ends_with("waits for the tasks of its cluster"));
        assert!(text(false, None).ends_with("connecting"));
    }
}
