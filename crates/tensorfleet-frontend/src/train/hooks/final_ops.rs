//! [`FinalOpsHook`]: values of the end.

use std::sync::Arc;

use parking_lot::Mutex;
use tensorfleet_core::{Result, Tensor};

use crate::graph::{IntoTensor, Output};
use crate::session::Session;
use crate::train::session_hook::{RunArgs, SessionHook};

/// Computes values when the session ends. A handle: keep a clone, and ask it for the values afterwards.
///
/// ```
/// use tensorfleet::Graph;
/// use tensorfleet::train::{ChiefSessionCreator, FinalOpsHook, MonitoredSession};
///
/// let g = Graph::new();
/// let hook = FinalOpsHook::new(&[(g.constant(20) + 1) * 2]);
/// MonitoredSession::new(ChiefSessionCreator::new(&g), vec![Box::new(hook.clone())])?.close()?;
/// assert_eq!(hook.values().unwrap()[0].to_scalar::<i32>()?, 42);
/// # Ok::<(), tensorfleet::Status>(())
/// ```
#[derive(Clone)]
pub struct FinalOpsHook {
    args: RunArgs,
    values: Arc<Mutex<Option<Vec<Tensor>>>>,
}

impl FinalOpsHook {
    /// Computes these values.
    pub fn new(final_ops: &[Output]) -> FinalOpsHook {
        FinalOpsHook { args: RunArgs::new().fetch_all(final_ops), values: Arc::default() }
    }

    /// Feeds `value` in place of `output`.
    pub fn feed(mut self, output: &Output, value: impl IntoTensor) -> FinalOpsHook {
        self.args = self.args.feed(output, value);
        self
    }

    /// The values, once the session has ended.
    pub fn values(&self) -> Option<Vec<Tensor>> {
        self.values.lock().clone()
    }
}

impl SessionHook for FinalOpsHook {
    fn end(&mut self, session: &Arc<Session>) -> Result<()> {
        let feeds = self.args.feeds.iter();
        let step = feeds.fold(session.step(), |step, (output, value)| step.feed(output, value));
        let values = step.run(&self.args)?;
        *self.values.lock() = Some(values.tensors().to_vec());
        Ok(())
    }
}
