//! Work that a thread does again and again, until its coordinator stops.

use std::time::{Duration, Instant};

use tensorfleet_core::Result;

use super::coordinator::Coordinator;

impl Coordinator {
    /// Starts a thread that does `work` every `interval`, at once the first time, until the coordinator stops. An error
    /// stops the coordinator. Ticks do not drift; those that `work` was too slow for are left out. With an interval of
    /// zero it works all the time.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tensorfleet::train::Coordinator;
    ///
    /// let (sender, receiver) = std::sync::mpsc::channel();
    /// let coordinator = Coordinator::new();
    /// let mut ticks = 0;
    /// coordinator.loop_every("ticker", Duration::from_millis(1), move || {
    ///     ticks += 1;
    ///     let _ = sender.send(ticks);
    ///     Ok(())
    /// })?;
    /// assert_eq!(receiver.iter().take(3).collect::<Vec<_>>(), [1, 2, 3]);
    /// coordinator.request_stop();
    /// coordinator.join()?;
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn loop_every(
        &self,
        name: &str,
        interval: Duration,
        mut work: impl FnMut() -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let coordinator = self.clone();
        self.spawn(name, move || {
            let mut next = Instant::now();
            while !coordinator.wait_for_stop_within(next.saturating_duration_since(Instant::now())) {
                work()?;
                let Some(then) = next.checked_add(interval) else {
                    coordinator.wait_for_stop();
                    break;
                };
                next = then.max(Instant::now());
            }
            Ok(())
        })
    }
}
