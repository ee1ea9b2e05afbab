//! [`LoggingTensorHook`]: prints values while training goes on.

use std::sync::Arc;

use tensorfleet_core::{Result, Tensor, notice};

use super::timer::{Every, Timer};
use crate::graph::Output;
use crate::session::Session;
use crate::train::session_hook::{RunArgs, RunContext, RunValues, SessionHook};

/// Logs values and the time since the last line: `loss = 0.25, accuracy = 0.9 (0.731 sec)`. A step is logged if it is among them.
///
/// ```
/// use tensorfleet::Graph;
/// use tensorfleet::train::{Every, LoggingTensorHook};
///
/// let g = Graph::new();
/// let loss = g.constant(0.5f32);
/// let hook = LoggingTensorHook::new(&[("loss", &loss)], Every::Steps(100))?.at_end();
/// # drop(hook);
/// # Ok::<(), tensorfleet::Status>(())
/// ```
pub struct LoggingTensorHook {
    names: Vec<String>,
    tensors: Vec<Output>,
    timer: Option<Timer>,
    at_end: bool,
    formatter: Option<Formatter>,
    runs: i64,
    is_requested: bool,
}

type Formatter = Box<dyn Fn(&[Tensor]) -> String + Send>;

impl LoggingTensorHook {
    /// Logs these values under their names, every so many runs of this session (not global steps) or seconds.
    pub fn new(tensors: &[(&str, &Output)], every: Every) -> Result<LoggingTensorHook> {
        let timer = Timer::new(every.check("LoggingTensorHook")?);
        Ok(LoggingTensorHook { timer: Some(timer), at_end: false, ..LoggingTensorHook::at_end_only(tensors) })
    }

    /// Logs these values when the session ends, and not before.
    pub fn at_end_only(tensors: &[(&str, &Output)]) -> LoggingTensorHook {
        LoggingTensorHook {
            names: tensors.iter().map(|(name, _)| name.to_string()).collect(),
            tensors: tensors.iter().map(|&(_, tensor)| tensor.clone()).collect(),
            timer: None,
            at_end: true,
            formatter: None,
            runs: 0,
            is_requested: false,
        }
    }

    /// Logs when the session ends as well.
    pub fn at_end(mut self) -> LoggingTensorHook {
        self.at_end = true;
        self
    }

    /// Words the values, which come in the order they were given.
    pub fn formatter(
        mut self,
        formatter: impl Fn(&[Tensor]) -> String + Send + 'static,
    ) -> LoggingTensorHook {
        self.formatter = Some(Box::new(formatter));
        self
    }

    fn log(&mut self, values: &[Tensor]) {
        let since = self.timer.as_mut().and_then(|timer| timer.act(self.runs));
        if let Some(formatter) = &self.formatter {
            return notice::info(formatter(values));
        }
        let values = self.names.iter().zip(values).map(|(name, value)| format!("{name} = {value}"));
        let text = values.collect::<Vec<_>>().join(", ");
        match since {
            Some((time, _)) => notice::info(format!("{text} ({:.3} sec)", time.as_secs_f64())),
            None => notice::info(text),
        }
    }
}

impl SessionHook for LoggingTensorHook {
    fn begin(&mut self, _: &crate::graph::Graph) -> Result<()> {
        self.runs = 0;
        if let Some(timer) = &mut self.timer {
            timer.reset();
        }
        Ok(())
    }

    fn before_run(&mut self, _: &RunContext) -> Result<RunArgs> {
        self.is_requested = self.timer.as_ref().is_some_and(|timer| timer.is_due(self.runs));
        Ok(match self.is_requested {
            true => RunArgs::new().fetch_all(&self.tensors),
            false => RunArgs::new(),
        })
    }

    fn after_run(&mut self, _: &RunContext, values: &RunValues) -> Result<()> {
        if self.is_requested {
            self.log(values.tensors());
        }
        self.runs += 1;
        Ok(())
    }

    fn end(&mut self, session: &Arc<Session>) -> Result<()> {
        if self.at_end {
            let values = session.run(&self.tensors)?;
            self.log(&values);
        }
        Ok(())
    }
}
