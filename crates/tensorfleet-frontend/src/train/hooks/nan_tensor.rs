//! [`NanTensorHook`]: notices that a model has diverged.

use tensorfleet_core::{DType, Result, Status, Tensor, notice};

use crate::graph::Output;
use crate::train::session_hook::{RunArgs, RunContext, RunValues, SessionHook};

/// Ends training when the loss is not a number.
///
/// ```
/// use tensorfleet::train::{ChiefSessionCreator, MonitoredSession, NanTensorHook};
/// # use tensorfleet::Graph;
///
/// let g = Graph::new();
/// let loss = g.constant(0.0f32).log()? * 0.0;
/// let mut session = MonitoredSession::new(ChiefSessionCreator::new(&g), vec![Box::new(NanTensorHook::new(&loss))])?;
/// let error = session.run(&loss).unwrap_err();
/// assert!(error.message().contains("Model diverged"));
/// # Ok::<(), tensorfleet::Status>(())
/// ```
pub struct NanTensorHook {
    loss: Output,
    fails: bool,
}

impl NanTensorHook {
    /// Watches `loss`; the run in which it is NaN fails.
    pub fn new(loss: &Output) -> NanTensorHook {
        NanTensorHook { loss: loss.clone(), fails: true }
    }

    /// Ends the training loop without an error instead.
    pub fn stop_quietly(mut self) -> NanTensorHook {
        self.fails = false;
        self
    }
}

fn has_nan(tensor: &Tensor) -> Result<bool> {
    Ok(match tensor.dtype() {
        DType::Float => tensor.as_slice::<f32>()?.iter().any(|x| x.is_nan()),
        DType::Double => tensor.as_slice::<f64>()?.iter().any(|x| x.is_nan()),
        DType::Half => tensor.as_slice::<half::f16>()?.iter().any(|x| x.is_nan()),
        DType::BFloat16 => tensor.as_slice::<half::bf16>()?.iter().any(|x| x.is_nan()),
        _ => false,
    })
}

impl SessionHook for NanTensorHook {
    fn before_run(&mut self, _: &RunContext) -> Result<RunArgs> {
        Ok(RunArgs::new().fetch(&self.loss))
    }

    fn after_run(&mut self, context: &RunContext, values: &RunValues) -> Result<()> {
        if !has_nan(values.tensor(0)?)? {
            return Ok(());
        }
        let text = format!("Model diverged with loss = NaN: {} is not a number", self.loss.name());
        if self.fails {
            return Err(Status::invalid_argument(text));
        }
        notice::warn(text);
        context.request_stop();
        Ok(())
    }
}
