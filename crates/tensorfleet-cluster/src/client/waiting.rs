//! Says what a client waits for: a wait that nobody sees is taken for a hang.

use std::time::Duration;

use tensorfleet_rpc::Channel;

use tensorfleet_core::clock::Stopwatch;
use tensorfleet_core::notice;

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
