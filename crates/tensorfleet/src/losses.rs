//! Losses: what training makes small.

use tensorfleet_core::{Endpoint, Result};

use crate::graph::Graph;
use crate::output::Output;

impl Graph {
    /// The losses of [`Graph::add_loss`] so far.
    pub fn losses(&self) -> Vec<Output> {
        self.outputs(|collections| &collections.losses)
    }

    /// What keeps variables small; see [`crate::Regularizer`].
    pub fn regularization_losses(&self) -> Vec<Output> {
        self.outputs(|collections| &collections.regularization_losses)
    }

    /// Adds a value to the losses of the graph.
    pub fn add_loss(&self, loss: &Output) -> Result<()> {
        let endpoint = loss.endpoint_in(self)?;
        self.collect(|collections| collections.losses.push(endpoint));
        Ok(())
    }

    /// Adds a value to the losses that keep variables small.
    pub fn add_regularization_loss(&self, loss: &Output) -> Result<()> {
        let endpoint = loss.endpoint_in(self)?;
        self.collect(|collections| collections.regularization_losses.push(endpoint));
        Ok(())
    }

    fn outputs(&self, which: impl FnOnce(&crate::collections::Collections) -> &Vec<Endpoint>) -> Vec<Output> {
        let endpoints = self.collect(|collections| which(collections).clone());
        endpoints.into_iter().map(|endpoint| self.output_at(endpoint)).collect()
    }
}
