//! What a step's caller may have done wrong, and how a step may fail as a whole: one wording, wherever the step runs.

use std::time::Duration;

use tensorfleet_core::{Code, DType, Result, Status, Tensor, ensure};

/// Checks that a step is fed as many tensors as it takes, each of the dtype the graph has there.
pub fn check_feeds(names: &[String], dtypes: &[DType], feeds: &[Tensor]) -> Result<()> {
    let (expected, found) = (dtypes.len(), feeds.len());
    ensure!(expected == found, InvalidArgument, "the step takes {expected} feeds, got {found}");
    names.iter().zip(dtypes).zip(feeds).try_for_each(|((name, &dtype), feed)| check_feed(name, dtype, feed))
}

/// Checks that a tensor has the dtype of the tensor it is fed for.
pub fn check_feed(name: &str, expected: DType, feed: &Tensor) -> Result<()> {
    let found = feed.dtype();
    ensure!(
        found == expected,
        InvalidArgument,
        "The value fed for '{name}' is a {found} tensor, but the graph expects {expected} there"
    );
    Ok(())
}

/// A step took longer than its caller allows.
#[cold]
pub fn deadline_exceeded(timeout: Duration) -> Status {
    let text = format!("Deadline Exceeded: the step did not finish within {} ms", timeout.as_millis());
    Status::new(Code::DeadlineExceeded, text)
}

/// A fetched tensor has no value.
#[cold]
pub fn dead_fetch(name: &str) -> Status {
    Status::invalid_argument(format!(
        "The tensor returned for {name} was not valid: it is on a branch not taken"
    ))
}

/// A step ran for a session that is over.
#[cold]
pub fn session_closed() -> Status {
    Status::cancelled("Session has been closed.")
}

/// A step was under way when its session was closed.
#[cold]
pub fn cancelled_by_close() -> Status {
    Status::cancelled("Step was cancelled by an explicit call to `Session::Close()`.")
}
