//! [`Regularizer`]: a penalty on the size of variables, which is added to the loss.

use std::fmt;
use std::sync::Arc;

use tensorfleet_core::{Endpoint, Result};

use crate::graph::{Graph, Output};

/// A function from a variable's value to a loss, for [`crate::GetVariable::regularizer`].
///
/// ```
/// # use tensorfleet::{Graph, Initializer, Regularizer, Session};
/// let g = Graph::new();
/// let w = g.get_variable("w").shape([2]).initializer(Initializer::constant(2.0));
/// let w = w.regularizer(Regularizer::l2(0.5)).build()?;
/// let session = Session::new(&g);
/// session.run(w.initializer())?;
/// assert_eq!(session.run(&g.regularization_losses()[0])?.to_scalar::<f32>()?, 2.0);
/// # Ok::<(), tensorfleet::Status>(())
/// ```
#[derive(Clone)]
pub struct Regularizer(Arc<Penalty>);

type Penalty = dyn Fn(&Output) -> Result<Output> + Send + Sync;

impl Regularizer {
    /// `scale` times the sum of absolute values.
    pub fn l1(scale: f64) -> Regularizer {
        Regularizer::by(move |weights| {
            scaled(weights, "l1_regularizer", scale, || weights.abs()?.reduce_sum(..))
        })
    }

    /// `scale` times half the sum of squares.
    pub fn l2(scale: f64) -> Regularizer {
        Regularizer::by(move |weights| scaled(weights, "l2_regularizer", scale, || weights.l2_loss()))
    }

    /// What a function builds.
    pub fn by(build: impl Fn(&Output) -> Result<Output> + Send + Sync + 'static) -> Regularizer {
        Regularizer(Arc::new(build))
    }

    /// The loss of `weights`.
    pub fn build(&self, weights: &Output) -> Result<Output> {
        (self.0)(weights)
    }
}

fn scaled(weights: &Output, name: &str, scale: f64, size: impl FnOnce() -> Result<Output>) -> Result<Output> {
    let graph = weights.graph();
    graph.name_scope(name, || {
        let scope = graph.current_name_scope();
        let scale = graph.literal("scale", scale, weights.dtype()?)?;
        scale.op("Mul").input(size()?).name(&format!("{scope}/")).output()
    })
}

impl fmt::Debug for Regularizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Regularizer")
    }
}

/// The penalties that are added to the losses of a graph.
#[derive(Default)]
struct RegularizationLosses(Vec<Endpoint>);

impl Graph {
    /// The penalties of regularized variables; see [`Regularizer`].
    pub fn regularization_losses(&self) -> Vec<Output> {
        let endpoints = self.registry(|RegularizationLosses(losses)| losses.clone());
        endpoints.into_iter().map(|endpoint| self.output_at(endpoint)).collect()
    }

    /// Adds a value to the regularization losses.
    pub fn add_regularization_loss(&self, loss: &Output) -> Result<()> {
        let endpoint = loss.endpoint_in(self)?;
        self.registry(|RegularizationLosses(losses)| losses.push(endpoint));
        Ok(())
    }
}
