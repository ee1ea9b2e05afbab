//! [`FeedFnHook`]: feeds every run.

use tensorfleet_core::Result;

use crate::train::session_hook::{RunArgs, RunContext, SessionHook};

/// Feeds what a function gives before each run.
///
/// ```
/// use tensorfleet::train::{ChiefSessionCreator, FeedFnHook, MonitoredSession, RunArgs};
/// use tensorfleet::{DType, Graph};
///
/// let g = Graph::new();
/// let x = g.placeholder(DType::Int32, ());
/// let (mut next, fed) = (0, x.clone());
/// let hook = FeedFnHook::new(move || {
///     next += 10;
///     Ok(RunArgs::new().feed(&fed, next))
/// });
/// let mut session = MonitoredSession::new(ChiefSessionCreator::new(&g), vec![Box::new(hook)])?;
/// let y = &x + 1;
/// assert_eq!(session.run(&y)?.to_scalar::<i32>()?, 11);
/// assert_eq!(session.run(&y)?.to_scalar::<i32>()?, 21);
/// # Ok::<(), tensorfleet::Status>(())
/// ```
pub struct FeedFnHook<F> {
    feed_fn: F,
}

impl<F: FnMut() -> Result<RunArgs> + Send> FeedFnHook<F> {
    /// Calls `feed_fn` before each run.
    pub fn new(feed_fn: F) -> FeedFnHook<F> {
        FeedFnHook { feed_fn }
    }
}

impl<F: FnMut() -> Result<RunArgs> + Send> SessionHook for FeedFnHook<F> {
    fn before_run(&mut self, _: &RunContext) -> Result<RunArgs> {
        (self.feed_fn)()
    }
}
